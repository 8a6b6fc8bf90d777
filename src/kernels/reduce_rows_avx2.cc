#define GLUINO_ISA avx2
#include "kernels/reduce_rows_impl.h"
