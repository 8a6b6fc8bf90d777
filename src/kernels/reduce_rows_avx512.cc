#define GLUINO_ISA avx512
#include "kernels/reduce_rows_impl.h"
