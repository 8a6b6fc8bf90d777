#define GLUINO_ISA baseline
#include "kernels/channel_rows_impl.h"
