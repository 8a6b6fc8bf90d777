#include "gluino/distributed.h"

#include "base/format.h"
#include "dispatch/untraceable.h"
#include "dispatch/mode.h"
#include "distributed/collectives.h"
#include "gluino/op.h"
#include "tensor/impl.h"

namespace gluino::distributed {

void init() { Engine::get(); }
bool is_initialized() { return Engine::is_started(); }
int rank() { return Engine::get().rank(); }
int size() { return Engine::get().size(); }
int local_rank() { return Engine::get().transport().local_rank; }
int local_size() { return Engine::get().transport().local_size; }
void set_timeout(double seconds) { Engine::get().set_timeout(seconds); }
double timeout() { return Engine::get().timeout(); }

static const char* name_of(Reduce how) {
  switch (how) {
    case Reduce::sum: return "sum";
    case Reduce::mean: return "mean";
    case Reduce::max: return "max";
    case Reduce::min: break;
  }
  return "min";
}

Tensor all_reduce(const Tensor& x, Reduce how) { return call("_distributed_all_reduce", {x}, {{"how", name_of(how)}}); }
Tensor all_gather(const Tensor& x) { return call("_distributed_all_gather", {x}); }
Tensor reduce_scatter(const Tensor& x) { return call("_distributed_reduce_scatter", {x}); }
Tensor broadcast(const Tensor& x, int root) { return call("_distributed_broadcast", {x}, {{"root", int64_t{root}}}); }
Tensor reduce(const Tensor& x, int root) { return call("_distributed_reduce", {x}, {{"root", int64_t{root}}}); }

void barrier() {
  if (mode().tracing) throw NotInATrace("barrier: a function that is being traced cannot wait for other ranks; call it outside");
  if (Engine& engine = Engine::get(); engine.size() > 1) engine.run("barrier", [] {});
}

Tensor all_gather_rows(const Tensor& x) {
  if (x.is_symbolic() || mode().tracing)
    throw NotInATrace("all_gather_rows: its result's shape is not known while tracing; call it outside");
  if (x.ndim() == 0) throw ShapeError("all_gather_rows: the input is a single number; at least one axis is needed");
  Engine& engine = Engine::get();
  if (engine.size() == 1) return x.copy();
  // Rows may differ among the ranks, nothing else.
  Shape row = x.shape();
  row[0] = 1;
  const int64_t own_rows = x.extent(0), bytes = row.elements() * dtype_bytes(x.dtype());
  std::vector<int64_t> rows(static_cast<size_t>(engine.size()));
  Tensor out;
  const char* own = bytes_of(x);
  engine.run(fmt::format("all_gather_rows of {}, each {}", x.dtype(), row), [&] {
    all_gather_now(engine, reinterpret_cast<const char*>(&own_rows), reinterpret_cast<char*>(rows.data()), sizeof own_rows);
    std::vector<int64_t> offsets{0};
    for (const int64_t n : rows) offsets.push_back(offsets.back() + n * bytes);
    Shape all = row;
    all[0] = bytes == 0 ? 0 : offsets.back() / bytes;
    out = make_tensor(all, x.dtype(), x.device());
    all_gather_pieces_now(engine, own, bytes_of(out), offsets);
  });
  return out;
}

void finish() {
  if (is_initialized()) Engine::get().finish();
}
void abort(const std::string& why) {
  fmt::print(stderr, "gluino: rank {} ends the job: {}\n", rank(), why);
  Engine::get().abort(1);
}

}  // namespace gluino::distributed
