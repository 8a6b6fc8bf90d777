#define GLUINO_ISA avx512
#include "kernels/gemm_tiles_impl.h"
