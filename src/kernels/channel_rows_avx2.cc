#define GLUINO_ISA avx2
#include "kernels/channel_rows_impl.h"
