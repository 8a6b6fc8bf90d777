#define GLUINO_ISA avx2
#include "kernels/blocked_layout_impl.h"
