// Optimizers for Python: the library's own, whose steps and states the classes of gluino/optimizer are made of.
#include "gluon/optimizers/optimizer.h"

#include <pybind11/stl.h>

#include "gluon/optimizers/touched_rows.h"
#include "object.h"

namespace gluino::python {

NamedOptions to_named_options(const py::dict& options);  // named.cc

namespace {

using optimizer::Optimizer;
using optimizer::OptimizerPtr;
using optimizer::Update;

// (name of the parameter, weight, grad, states, lr, wd, number of the step[, rows that the gradient has]); a state that is one number
// may be given as one.
Update to_update(const py::tuple& t, Tensors& states, double rescale_grad) {
  for (py::handle state : py::cast<py::tuple>(t[3]))
    states.push_back(PyFloat_Check(state.ptr()) ? from_vector(std::vector<double>{PyFloat_AS_DOUBLE(state.ptr())}) : unwrap(state.ptr()));
  return {py::cast<std::string>(t[0]), unwrap(t[1].ptr()).detach(), unwrap(t[2].ptr()), states,
          py::cast<double>(t[4]),      py::cast<double>(t[5]),      rescale_grad,       py::cast<int64_t>(t[6])};
}

// Operators of the step that this thread is making, for the profile.
thread_local std::vector<Timed> steps_made;
void note_step(const OpDef& op, int64_t begin) { steps_made.push_back({op.name, begin, clock_now()}); }

// Gives the last state of the last weight where that is a number.
py::object update(const Optimizer& self, const py::list& updates, double rescale_grad) {
  std::vector<Tensors> states(updates.size());
  std::vector<Update> all;
  all.reserve(updates.size());
  for (size_t i = 0; i < updates.size(); ++i)
    all.push_back(
        to_update(py::reinterpret_borrow<py::tuple>(PyList_GET_ITEM(updates.ptr(), static_cast<Py_ssize_t>(i))), states[i], rescale_grad));
  std::vector<optimizer::TouchedRows> lazy;
  for (size_t i = 0; i < updates.size(); ++i)
    if (const auto given = py::reinterpret_borrow<py::tuple>(updates[i]); given.size() > 7)
      lazy.emplace_back(all[i], states[i], unwrap(given[7].ptr()));
  optimizer::detail::set_step_observer(is_profiling() ? note_step : nullptr);
  {
    const ReleaseLock release;
    self.update(all);
  }
  for (const optimizer::TouchedRows& rows : lazy) rows.write_back();
  add_to_profile(std::exchange(steps_made, {}));
  const bool gives_number =
      !states.empty() && !states.back().empty() && states.back().back().dtype() == DType::float64 && states.back().back().size() == 1;
  return gives_number ? py::object(py::float_(states.back().back().item<double>())) : py::none();
}

}  // namespace

void add_optimizers(py::module_& m) {
  m.def("write_rows", &optimizer::write_rows);
  py::class_<Optimizer, OptimizerPtr>(m, "Optimizer", "An optimizer of the library: how states begin, and one step of many weights.")
      .def(py::init([](const std::string& name, const py::dict& options) { return optimizer::create(name, to_named_options(options)); }))
      .def("create_state",
           [](const Optimizer& self, const Tensor& weight) {
             py::list states;
             for (const Tensor& state : self.create_state(weight.detach())) states.append(state);
             return states;
           })
      .def("update", &update);
}

}  // namespace gluino::python
