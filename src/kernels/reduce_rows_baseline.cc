#define GLUINO_ISA baseline
#include "kernels/reduce_rows_impl.h"
