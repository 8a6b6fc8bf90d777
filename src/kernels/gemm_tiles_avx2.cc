#define GLUINO_ISA avx2
#include "kernels/gemm_tiles_impl.h"
