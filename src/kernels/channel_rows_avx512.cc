#define GLUINO_ISA avx512
#include "kernels/channel_rows_impl.h"
