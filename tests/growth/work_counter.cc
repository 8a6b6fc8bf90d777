#include "growth/work_counter.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local int64_t blocks = 0, allocations = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  // A multiple of the alignment, as aligned_alloc wants it.
  void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!p) throw std::bad_alloc();
  return p;
}
}  // namespace

// What -fsanitize-coverage=trace-pc calls at every basic block.
extern "C" void __sanitizer_cov_trace_pc() { ++blocks; }

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, static_cast<std::size_t>(alignment)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

gluino::test::Work gluino::test::work_so_far() { return {blocks, allocations}; }
