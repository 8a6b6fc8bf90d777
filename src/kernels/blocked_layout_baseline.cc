#define GLUINO_ISA baseline
#include "kernels/blocked_layout_impl.h"
