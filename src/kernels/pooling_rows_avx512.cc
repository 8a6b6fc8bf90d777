#define GLUINO_ISA avx512
#include "kernels/pooling_rows_impl.h"
