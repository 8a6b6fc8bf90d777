#define GLUINO_ISA avx512
#include "kernels/blocked_layout_impl.h"
