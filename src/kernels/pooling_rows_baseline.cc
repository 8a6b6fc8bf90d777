#define GLUINO_ISA baseline
#include "kernels/pooling_rows_impl.h"
