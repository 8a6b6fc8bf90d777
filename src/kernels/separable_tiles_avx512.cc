#define GLUINO_ISA avx512
#include "kernels/separable_tiles_impl.h"
