#define GLUINO_ISA avx2
#include "kernels/pooling_rows_impl.h"
