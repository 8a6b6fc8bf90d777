#define GLUINO_ISA avx2
#include "kernels/weight_grad_tiles_impl.h"
