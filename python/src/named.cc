// Losses, initialisers, metrics and schedules for Python: the library's own, by their names, which the package's classes are made of.
#include <pybind11/stl.h>

#include "gluino/init.h"
#include "gluino/loss.h"
#include "gluino/lr_scheduler.h"
#include "gluino/metric.h"
#include "gluino/model_zoo.h"
#include "gluino/optimizer.h"
#include "object.h"

namespace gluino::python {

NamedOptions to_named_options(const py::dict& options) {
  NamedOptions values;
  for (const auto& [key, value] : options) {
    const auto option = py::cast<std::string>(key);
    values.emplace_back(option, to_attr(value.ptr(), option));
  }
  return values;
}

namespace {

Tensor tensor_or_none(py::handle o) { return o.is_none() ? Tensor() : unwrap(o.ptr()); }

// A loss of (prediction, label, ...) with None for what is not given; arrays or symbols, as the first of them is.
py::object run_loss(loss::Loss& self, const py::tuple& inputs) {
  Tensors tensors;
  for (py::handle o : inputs) tensors.push_back(tensor_or_none(o));
  while (!tensors.empty() && !tensors.back().defined()) tensors.pop_back();
  const Flavour flavour = flavour_of(py::object(inputs[0]).ptr());
  const std::string name = is_profiling() ? self.kind() : "";
  const ProfileScope profile(name);
  const Tensors results = [&] {
    const ReleaseLock release(!is_tracing());
    return self.forward(tensors);
  }();
  return wrap_all(results, flavour);
}

loss::LossPtr make_loss(const std::string& name, const py::dict& options) {
  loss::LossPtr made = loss::create(name, to_named_options(options));
  made->set_label_rule(loss::LabelRule::mxnet);
  return made;
}

Tensor values_of(const py::object& o) { return is_array(o.ptr()) ? unwrap(o.ptr()) : from_numpy(o, cpu()); }

// (sum, count) of one batch
std::pair<double, double> counts_of(const std::string& name, const py::dict& options, py::object label, py::object prediction) {
  const metric::MetricPtr m = metric::create(name, to_named_options(options));
  const Tensor wanted = label.is_none() ? Tensor() : values_of(label), given = values_of(prediction);
  const ReleaseLock release;
  m->update(wanted, given);
  return {m->sum(), m->count()};
}

template <class F>
py::list list_options(F options_of, const std::string& name) {
  py::list all;
  for (const Option& o : options_of(name)) all.append(py::make_tuple(o.name, o.default_text, o.doc));
  return all;
}

}  // namespace

void add_named(py::module_& m) {
  py::class_<loss::Loss, loss::LossPtr>(m, "Loss", "A loss of the library, with MXNet's rule for labels.")
      .def(py::init(&make_loss))
      .def("__call__", &run_loss);
  m.def("fill", [](const std::string& initializer, const py::dict& options, const std::string& name, Tensor value) {
    init::create(initializer, to_named_options(options))->fill(name, value);
  });
  m.def("metric_counts", &counts_of, "(sum, count) of one batch.");
  m.def("binary_counts", [](const py::object& label, const py::object& prediction) {
    const auto c = metric::F1().count_batch(values_of(label), values_of(prediction));
    return py::make_tuple(c.true_positive, c.false_positive, c.false_negative, c.true_negative);
  });
  m.def("binary_score", [](const std::string& name, double tp, double fp, double fn, double tn) {
    const metric::MetricPtr made = metric::create(name);
    return dynamic_cast<const metric::BinaryMetric&>(*made).score({tp, fp, tn, fn});
  });
  m.def("confusion_counts", [](const py::object& label, const py::object& prediction) {
    return metric::PCC::count_batch(values_of(label), values_of(prediction));
  });
  m.def("confusion_score", &metric::PCC::score);
  m.def("lr_warm_up", [](double begin, double end, int64_t steps, const std::string& mode, int64_t n) {
    return lr_scheduler::warm_up({begin, end, steps, mode}, n);
  });
  const auto pair_of = [](const lr_scheduler::Place& p) { return std::pair(p.lr, p.count); };
  m.def("lr_after_factors", [pair_of](double lr, int64_t count, int64_t n, int64_t step, double factor, double stop) {
    return pair_of(lr_scheduler::after_factors({lr, count}, n, step, factor, stop));
  });
  m.def("lr_after_steps", [pair_of](double lr, int64_t count, int64_t n, const std::vector<int64_t>& steps, double factor) {
    return pair_of(lr_scheduler::after_steps({lr, count}, n, steps, factor));
  });
  m.def("lr_poly_descent", &lr_scheduler::poly_descent);
  m.def("lr_cosine_descent", &lr_scheduler::cosine_descent);
  // Whole schedules, as C++ makes them: kind, the number or numbers that they need, and the options' values in their order.
  m.def("lr_schedule", [](const std::string& kind, const std::vector<int64_t>& at, const std::vector<double>& own, double base_lr,
                          int64_t warmup_steps, double warmup_begin_lr, const std::string& warmup_mode, int64_t n) {
    using namespace lr_scheduler;
    const LRSchedulerPtr made =
        kind == "factor"         ? factor(at.at(0), {own.at(0), own.at(1), base_lr, warmup_steps, warmup_begin_lr, warmup_mode})
        : kind == "multi_factor" ? multi_factor(at, {own.at(0), base_lr, warmup_steps, warmup_begin_lr, warmup_mode})
        : kind == "poly"         ? poly(at.at(0), {own.at(0), own.at(1), base_lr, warmup_steps, warmup_begin_lr, warmup_mode})
                                 : cosine(at.at(0), {own.at(0), base_lr, warmup_steps, warmup_begin_lr, warmup_mode});
    return (*made)(n);
  });
  // A network of the zoo: its prefix, and the program.
  m.def("zoo_program", [](const std::string& name) {
    const model_zoo::ClassifierPtr net = model_zoo::get_model(name);
    net->initialize(init::zero());
    return std::pair(net->prefix(), (*net)(sym::var("data")));
  });
  m.def("zoo_table", &model_zoo::table);
  // kind: what is made; name: which one
  m.def("names_of", [](const std::string& kind) {
    return kind == "optimizer" ? optimizer::names()
           : kind == "loss"    ? loss::names()
           : kind == "metric"  ? metric::names()
           : kind == "model"   ? model_zoo::names()
                               : init::names();
  });
  m.def("options_of", [](const std::string& kind, const std::string& name) {
    return kind == "optimizer" ? list_options(optimizer::options_of, name)
           : kind == "loss"    ? list_options(loss::options_of, name)
           : kind == "metric"  ? list_options(metric::options_of, name)
                               : list_options(init::options_of, name);
  });
}

}  // namespace gluino::python
