// How much work something is, counted and not timed: parts of the code that were run, and allocations.
#pragma once
#include <cstdint>

namespace gluino::test {

struct Work {
  int64_t blocks = 0;       // basic blocks of the code that is compiled to count them, each time it runs
  int64_t allocations = 0;  // of the whole program
};
Work work_so_far();  // of this thread

template <class F>
Work work_of(F&& f) {
  const Work before = work_so_far();
  f();
  const Work after = work_so_far();
  return {after.blocks - before.blocks, after.allocations - before.allocations};
}

}  // namespace gluino::test
