#define GLUINO_ISA baseline
#include "kernels/gemm_tiles_impl.h"
