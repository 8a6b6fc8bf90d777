// The functions of OpenMP's runtime that are called. Threads are our own (base/parallel.h); the runtime is that of OpenBLAS and oneDNN, and
// it is told how many threads they may use. It is GCC's whatever compiler builds this: with another one in the process there would be two
// teams on the same cores, and what one is told the other would not hear.
#pragma once

extern "C" {
int omp_get_max_threads() noexcept;
void omp_set_num_threads(int threads) noexcept;
int omp_in_parallel() noexcept;
}
