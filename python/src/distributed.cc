// Ranks: what mx.distributed, kvstore 'dist_sync' and Trainer are made of. The operators are called as any others.
#include "gluino/distributed.h"

#include <pybind11/stl.h>

#include "distributed/gradient_exchange.h"
#include "distributed/timeline.h"
#include "object.h"

namespace gluino::python {

void add_distributed(py::module_& python) {
  namespace dist = gluino::distributed;
  py::module_ m = python.def_submodule("distributed");
  const auto unlocked = [](auto f) {
    return [f] {
      const ReleaseLock release;
      return f();
    };
  };
  m.def("init", unlocked([] { dist::init(); }));
  m.def("is_initialized", &dist::is_initialized);
  m.def("rank", unlocked([] { return dist::rank(); }));
  m.def("size", unlocked([] { return dist::size(); }));
  m.def("local_rank", unlocked([] { return dist::local_rank(); }));
  m.def("local_size", unlocked([] { return dist::local_size(); }));
  m.def("timeout", unlocked([] { return dist::timeout(); }));
  m.def("set_timeout", [](double seconds) { dist::set_timeout(seconds); });
  m.def("barrier", unlocked([] { dist::barrier(); }));
  m.def("finish", unlocked([] { dist::finish(); }));
  m.def("abort", [](const std::string& why) {
    const ReleaseLock release;
    dist::abort(why);
  });
  m.def("all_gather_rows", [](const Tensor& x, bool numpy) {
    Tensor all;
    {
      const ReleaseLock release;
      all = dist::all_gather_rows(x);
    }
    return wrap_all({all}, numpy ? kNumpy : kLegacy);
  });
  m.def("broadcast_from_first", [](const Tensors& tensors) {
    const ReleaseLock release;
    dist::broadcast_from_first(tensors);
  });
  m.def("start_timeline", [] { dist::start_timeline(); });
  py::class_<dist::TimelineScope>(m, "TimelineScope").def(py::init([](std::string what) {
    return std::make_unique<dist::TimelineScope>(std::move(what));
  }));
  m.def("write_timeline", [](const std::string& path) { dist::write_timeline(path); });

  py::class_<dist::GradientExchange, std::shared_ptr<dist::GradientExchange>>(m, "GradientExchange")
      .def(py::init([](const std::string& compression, double threshold, double bucket_megabytes, bool overlap) {
        return std::make_shared<dist::GradientExchange>(dist::ExchangeOptions{compression, threshold, bucket_megabytes, overlap});
      }))
      .def("sum_over_ranks",
           [](dist::GradientExchange& exchange, const Tensors& weights) {
             const ReleaseLock release;
             exchange.sum_over_ranks(weights);
           })
      .def_property_readonly("bytes_sent", &dist::GradientExchange::bytes_sent)
      .def_property_readonly("early_buckets", &dist::GradientExchange::early_buckets);
}

}  // namespace gluino::python
