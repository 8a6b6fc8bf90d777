#define GLUINO_ISA avx512
#include "kernels/weight_grad_tiles_impl.h"
