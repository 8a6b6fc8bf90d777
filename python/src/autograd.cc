// Recording, gradients, functions with gradients of their own, control flow: where C++ calls Python back.
#include "gluino/autograd.h"

#include <pybind11/stl.h>

#include "dispatch/mode.h"
#include "dispatch/recording_as.h"
#include "gluino/control_flow.h"
#include "graph/trace.h"
#include "object.h"
#include "tensor/impl.h"

namespace gluino::python {
namespace {

py::list list_of(const Tensors& tensors, Flavour flavour) {
  py::list all;
  for (const Tensor& t : tensors) all.append(t.defined() ? py::reinterpret_steal<py::object>(wrap(t, flavour)) : py::none());
  return all;
}
Tensors tensors_of(py::handle result) {
  if (is_array(result.ptr()) || is_symbol(result.ptr())) return {unwrap(result.ptr())};
  Tensors out;
  for (py::handle item : result) out.push_back(item.is_none() ? Tensor() : unwrap(item.ptr()));
  return out;
}

class PythonFunction final : public autograd::Function {
 public:
  PythonFunction(py::object forward, py::object backward, Flavour flavour)
      : forward_(keep(std::move(forward))), backward_(keep(std::move(backward))), flavour_(flavour) {}
  Tensors forward(const Tensors& inputs) override { return call(*forward_, inputs); }
  Tensors backward(const Tensors& heads) override { return call(*backward_, heads); }

 private:
  Tensors call(const py::object& f, const Tensors& tensors) const {
    const py::gil_scoped_acquire lock;
    return tensors_of(f(*py::tuple(list_of(tensors, flavour_))));
  }
  std::shared_ptr<py::object> forward_, backward_;
  Flavour flavour_;
};

autograd::BackwardOptions options(bool retain, bool create, bool train) {
  return {.retain_graph = retain, .create_graph = create, .train_mode = train};
}

// Bodies of loops get and give lists; the GIL is held by whoever calls, because bodies run inside operators' calls.
TensorsPair call_body(const std::shared_ptr<py::object>& body, const py::tuple& args) {
  const py::tuple result = py::cast<py::tuple>((*body)(*args));
  return {tensors_of(result[0]), tensors_of(result[1])};
}

}  // namespace

void add_autograd(py::module_& m) {
  m.def("is_recording", [] { return mode().recording; });
  m.def("is_training", &autograd::is_training);
  m.def("set_recording", [](bool on) { return std::exchange(mode().recording, on); });
  m.def("count_pause", [](int change) { pauses_under_way() += change; });
  // Gives what was asked before; `pause`: None where the scope says nothing of it.
  m.def("ask_modes", [](std::optional<bool> pause) {
    const AskedModes before = asked_modes();
    asked_modes() = {.training = true, .pause = pause.value_or(before.pause)};
    return std::pair(before.training, before.pause);
  });
  m.def("put_asked_modes", [](std::pair<bool, bool> before) { asked_modes() = {.training = before.first, .pause = before.second}; });
  m.def("set_training", [](bool on) { return std::exchange(mode().training, on); });
  m.def("is_tracing", &is_tracing);
  m.def("is_recorded", [](const Tensor& t) { return mode().recording && impl_of(t).autograd; });

  m.def("backward", [](const Tensors& heads, const Tensors& head_grads, bool retain, bool train) {
    const ReleaseLock release;
    autograd::backward(heads, head_grads, options(retain, false, train));
  });
  m.def("grad",
        [](const Tensors& heads, const Tensors& variables, const Tensors& head_grads, bool retain, bool create, bool train, bool numpy) {
          Tensors result;
          {
            const ReleaseLock release;
            result = autograd::grad(heads, variables, head_grads, options(retain, create, train));
          }
          return list_of(result, numpy ? kNumpy : kLegacy);
        });
  m.def("has_fresh_grad", &autograd::has_fresh_grad);
  m.def("set_fresh_grad", &autograd::set_fresh_grad);
  m.def("get_symbol", &autograd::get_symbol);
  m.def("call_function", [](py::object forward, py::object backward, const Tensors& inputs, bool numpy) {
    const Flavour flavour = numpy ? kNumpy : kLegacy;
    const auto function = std::make_shared<PythonFunction>(std::move(forward), std::move(backward), flavour);
    return wrap_all(autograd::call(function, inputs), flavour);
  });

  m.def("foreach", [](py::object body, const Tensors& data, const Tensors& states, bool numpy) {
    const Flavour f = numpy ? kNumpy : kLegacy;
    const auto kept = keep(std::move(body));
    const TensorsPair r = gluino::foreach (
        [&](const Tensors& slices, const Tensors& s) { return call_body(kept, py::make_tuple(list_of(slices, f), list_of(s, f))); }, data,
        states);
    return py::make_tuple(list_of(r.first, f), list_of(r.second, f));
  });
  m.def("while_loop", [](py::object condition, py::object body, const Tensors& variables, int64_t max_iterations, bool numpy) {
    const Flavour f = numpy ? kNumpy : kLegacy;
    const auto test = keep(std::move(condition)), step = keep(std::move(body));
    const TensorsPair r =
        gluino::while_loop([&](const Tensors& v) { return tensors_of((*test)(list_of(v, f))).at(0); },
                           [&](const Tensors& v) { return call_body(step, py::make_tuple(list_of(v, f))); }, variables, max_iterations);
    return py::make_tuple(list_of(r.first, f), list_of(r.second, f));
  });
  m.def("cond", [](const Tensor& pred, py::object then_func, py::object else_func, bool numpy) {
    const Flavour f = numpy ? kNumpy : kLegacy;
    const auto then_kept = keep(std::move(then_func)), else_kept = keep(std::move(else_func));
    return list_of(gluino::cond(
                       pred, [&] { return tensors_of((*then_kept)()); }, [&] { return tensors_of((*else_kept)()); }),
                   f);
  });
}

}  // namespace gluino::python
