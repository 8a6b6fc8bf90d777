// hybridize() for Python: the engine's HybridCache with a Python callable as the function that is traced.
#include <pybind11/stl.h>

#include "dispatch/mode.h"
#include "dispatch/untraceable.h"
#include "graph/trace.h"
#include "hybrid_options.h"
#include "nesting.h"
#include "numbers.h"
#include "object.h"
#include "tensor/impl.h"
#include "traced_writes.h"
#include "watch.h"

namespace gluino::python {
namespace {

// One call: its arguments, and all that decides which program answers it.
struct Call {
  PyObject* const* args;
  Py_ssize_t count;          // of positional ones
  PyObject* keywords;        // a tuple of names, or null
  Tensors inputs;            // arrays among the arguments, then those of attributes
  size_t num_arguments = 0;  // of the former
  std::string key;
  std::vector<int> states;
  std::vector<py::object> state_values;
  py::object eager_result;          // of a call that was made operator by operator
  std::vector<Py_ssize_t> numbers;  // arguments that are inputs, after all arrays

  PyObject* keyword(Py_ssize_t i) const { return i < count ? nullptr : PyTuple_GET_ITEM(keywords, i - count); }
  Py_ssize_t total() const { return count + (keywords ? PyTuple_GET_SIZE(keywords) : 0); }
};

class PythonCache {
 public:
  // function(*args, **keywords) is what gets traced; name_of(handle) names a parameter by the identity of its array, or gives ""; for
  // `collect` see Watch; snapshot(places, objects) gives a function that puts containers back as they are; title names it in warnings.
  PythonCache(py::object function, py::object name_of, py::object collect, py::object snapshot, std::string title, const py::dict& flags)
      : function_(std::move(function)),
        name_of_(std::move(name_of)),
        snapshot_(std::move(snapshot)),
        title_(std::move(title)),
        watch_(std::move(collect)),
        cache_(to_options(flags), [this](const Tensor& t) {
          const py::gil_scoped_acquire lock;
          return py::cast<std::string>(name_of_(py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(t.impl().get()))));
        }) {}

  PyObject* call(PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
    watch_.refresh();
    Call c{args, count, keywords};
    if (mode().comparing) return run_plainly(c).release().ptr();
    c.inputs.reserve(static_cast<size_t>(count));
    if (!watch_.why_not().empty()) warn(watch_.why_not());
    if (!why_not_.empty() || !watch_.why_not().empty() || watch_.has_hooks() || !write_key(c)) return run_plainly(c).release().ptr();
    HybridCache::Result result;
    {
      const ReleaseLock release;
      result = cache_.call([&](const Tensors& traced) { return run_python(c, traced); }, c.inputs, c.key);
    }
    if (!result.rest) return c.eager_result.release().ptr();
    const auto& made = *static_cast<const Made*>(result.rest.get());
    size_t at = 0;
    std::optional<SameObjects> same;
    if (made.same_matters) same.emplace().given = objects_of(c, {c.args, c.args + c.total()}, c.state_values);
    py::object returned = made.returned.make(result.tensors, at, same ? &*same : nullptr);
    arity_ = {c.num_arguments, at};
    num_inputs_ = c.inputs.size();
    given_numbers_.assign(c.inputs.end() - static_cast<ptrdiff_t>(c.numbers.size()), c.inputs.end());
    for (const auto& [state, value] : made.states) {
      watch_.state(state).place.set(value ? value->make(result.tensors, at, same ? &*same : nullptr) : py::object());
      note_attribute_change();
    }
    return returned.release().ptr();
  }

  void clear() {
    const ReleaseLock release;
    cache_.clear();
  }
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function_.ptr());
    Py_VISIT(name_of_.ptr());
    return watch_.traverse(visit, arg);
  }
  HybridCache& cache() { return cache_; }
  // How many arrays the last call was given and has returned; its program may have more, for attributes that it reads and writes.
  std::pair<size_t, size_t> arity() const { return arity_; }
  // The numbers that were inputs of the last call's program, by the names of these.
  py::dict given_numbers() const {
    py::dict numbers;
    size_t input = num_inputs_ - given_numbers_.size();
    for (const Tensor& t : given_numbers_)
      numbers[py::str(num_inputs_ == 1 ? "data" : "data" + std::to_string(input++))] = t.item<double>();
    return numbers;
  }

 private:
  // What a trace gives at each call besides tensors.
  struct Made {
    Nesting returned;
    std::vector<std::pair<int, std::optional<Nesting>>> states;  // attributes that it leaves with another value; none: it deletes it
    bool same_matters = false;                                   // some object is the caller's, or stands there twice
  };
  static constexpr int kMaxChanges = 3;  // of an attribute that is no array, from trace to trace: it is a counter

  // False when calls like this one cannot be told apart.
  bool write_key(Call& c) {
    KeyWriter writer(c.key, &c.inputs);
    c.key += numpy_mode_key();
    for (Py_ssize_t i = 0; i < c.total(); ++i) {
      if (!watch_.asks_types() && numbers_.is_input(c.args[i], i, c.keyword(i))) {
        c.key += PyFloat_CheckExact(c.args[i]) ? "#f" : "#i";
        c.numbers.push_back(i);
      } else {
        writer.add(c.args[i]);
      }
    }
    if (c.keywords) writer.add(c.keywords);
    c.num_arguments = c.inputs.size();
    if (!watch_.states().empty()) {
      c.states = watch_.states();
      for (int number : c.states) {
        c.state_values.push_back(watch_.state(number).place.get());
        if (!watch_.state(number).is_read) continue;
        if (c.state_values.back())
          writer.add(c.state_values.back().ptr());
        else
          c.key += '-';
      }
    }
    const Device device = c.inputs.empty() || !c.inputs[0].defined() ? current_device() : c.inputs[0].device();  // of the program
    for (Py_ssize_t i : c.numbers) c.inputs.push_back(NumberArguments::value_of(c.args[i], device));
    if (!writer.saw_consumable().empty()) return false;
    watch_.write(c.key);
    if (watch_.saw_consumable().empty()) return true;
    warn("it reads " + watch_.saw_consumable() + ", which a call uses up");
    return false;
  }

  py::object run_plainly(const Call& c) const {
    PyObject* result = PyObject_Vectorcall(function_.ptr(), c.args, static_cast<size_t>(c.count), c.keywords);
    if (!result) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(result);
  }

  HybridCache::Result run_python(Call& c, const Tensors& traced) {
    const py::gil_scoped_acquire lock;
    if (Tracer::current()) return trace_python(c, traced);
    if (mode().comparing) return run_comparably(c, traced);
    c.eager_result = run_plainly(c);
    return {};
  }

  // An eager call that gives the same tensors as a trace, attributes included.
  HybridCache::Result run_comparably(Call& c, const Tensors& inputs) {
    size_t at = 0;
    for (Py_ssize_t i = 0; i < c.total(); ++i) restore(c.args[i], inputs, at);
    SameObjects same;
    const States at_start = put_states(c, inputs, at, nullptr);
    const TracedWrites writes(watch_);
    py::object returned = run_plainly(c);
    HybridCache::Result out;
    try {
      auto made = std::make_shared<Made>(Made{Nesting(returned.ptr(), out.tensors, same), {}});
      add_states(c, at_start, writes, *made, out.tensors, same);
      out.rest = std::move(made);
    } catch (const Unrepeatable&) {  // such a call has no program to compare with
      c.eager_result = std::move(returned);
      return {};
    }
    take_states_back(c);
    return out;
  }

  HybridCache::Result trace_python(Call& c, const Tensors& traced) {
    size_t at = 0;
    py::list arguments;
    SameObjects same_arguments, same;
    for (Py_ssize_t i = 0; i < c.total(); ++i) arguments.append(restore(c.args[i], traced, at, &same_arguments));
    const States at_start = put_states(c, traced, at, &same_arguments);
    std::vector<PyObject*> given;
    for (py::handle a : arguments) given.push_back(a.ptr());
    know_arguments(objects_of(c, given, at_start.values), same);
    py::list changeable;
    for (py::handle a : arguments) changeable.append(a);
    const py::list watched(changeable.attr("copy")());
    put_numbers(c, traced, at, arguments);
    for (const py::object& value : at_start.values)
      if (value) changeable.append(value);
    const py::object put_back = snapshot_(watch_.unseen(), changeable);
    same.found = put_back.attr("found");
    const std::string before = key_of_what_may_change(watched);
    TracedWrites writes(watch_);
    HybridCache::Result out;
    std::string why;
    bool has_failed = false;
    refusal().clear();
    try {
      std::vector<PyObject*> raw;
      for (py::handle a : arguments) raw.push_back(a.ptr());
      const auto returned =
          py::reinterpret_steal<py::object>(PyObject_Vectorcall(function_.ptr(), raw.data(), static_cast<size_t>(c.count), c.keywords));
      if (!returned) throw py::error_already_set();
      auto made = std::make_shared<Made>(Made{Nesting(returned.ptr(), out.tensors, same), {}});
      add_states(c, at_start, writes, *made, out.tensors, same);
      made->same_matters = same.matters;
      out.rest = std::move(made);
      why = writes.why();
      if (why.empty() && key_of_what_may_change(watched) != before)
        why = "it changes a list, a dictionary, an object or a variable from outside";
      if (why.empty()) why = Tracer::current()->why_not_a_program(out.tensors);
    } catch (const Unrepeatable& e) {
      why = e.why;
    } catch (...) {
      if (is_interrupt() || (refusal().empty() && c.numbers.empty() && Tracer::current()->has_run_updates())) {
        undo(c, writes, put_back);
        throw;
      }
      // Eager code fails by itself, after what it has done before; unless calls have run already, which would be made twice.
      has_failed = refusal().empty();
      why = "it fails";
    }
    if (!refusal().empty()) why = std::exchange(refusal(), "");  // also when user code has caught the error
    if (why.empty()) return take_states_back(c), out;
    undo(c, writes, put_back);
    writes.forget_parameters();
    out = {};
    for (Py_ssize_t i : c.numbers) numbers_.give_up(i, c.keyword(i));  // the next trace shows whether they were to blame
    if (c.numbers.empty() && !has_failed) warn(why);
    throw Untraceable(why, has_failed ? Untraceable::Lasts::no : Untraceable::Lasts::yes, Untraceable::Undone::yes);
  }

  // In a handler: what was raised is no error (KeyboardInterrupt, SystemExit).
  static bool is_interrupt() {
    try {
      throw;
    } catch (const py::error_already_set& e) {
      return !e.matches(PyExc_Exception);
    } catch (...) {
      return false;
    }
  }
  // A number that is an input is replaced by what stands for it; any other number decides which program serves.
  void put_numbers(const Call& c, const Tensors& traced, size_t first, py::list& arguments) {
    for (Py_ssize_t i = 0; i < c.total(); ++i) numbers_.note(c.args[i], i, c.keyword(i));
    for (Py_ssize_t i : c.numbers) arguments[static_cast<size_t>(i)] = numbers_.traced(c.args[i], traced[first++], i, c.keyword(i));
  }

  // Attributes as they were before the trace.
  void undo(const Call& c, const TracedWrites& writes, const py::object& put_back) const {
    writes.undo();
    take_states_back(c);
    const py::error_scope keep_error;
    put_back();
  }

  // Arrays and containers among arguments and in attributes that are read: as many for all calls of a program.
  std::vector<PyObject*> objects_of(const Call& c, const std::vector<PyObject*>& arguments, const std::vector<py::object>& states) const {
    std::vector<PyObject*> all;
    for (PyObject* a : arguments) list_objects(a, all);
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i] && watch_.state(c.states[i]).is_read) list_objects(states[i].ptr(), all);
    return all;
  }

  // Attributes that the code reads and writes, with the tensors of a call in them.
  struct States {
    std::vector<py::object> values;
    std::vector<std::string> keys;
  };
  States put_states(const Call& c, const Tensors& tensors, size_t& at, SameObjects* same) const {
    States states;
    for (size_t i = 0; i < c.states.size(); ++i) {
      const WatchedState& state = watch_.state(c.states[i]);
      states.values.push_back(state.is_read && c.state_values[i] ? restore(c.state_values[i].ptr(), tensors, at, same) : c.state_values[i]);
      states.keys.push_back(states.values[i] ? key_of(states.values[i]) : "");
      if (states.values[i] && state.is_read) state.place.set(states.values[i]);
    }
    return states;
  }
  void take_states_back(const Call& c) const {
    for (size_t i = 0; i < c.states.size(); ++i) watch_.state(c.states[i]).place.set(c.state_values[i]);
  }

  void add_states(const Call& c, const States& at_start, const TracedWrites& writes, Made& made, Tensors& tensors, SameObjects& same) {
    for (size_t i = 0; i < c.states.size(); ++i) {
      const py::object now = watch_.state(c.states[i]).place.get();
      const bool is_read = watch_.state(c.states[i]).is_read;
      if (at_start.values[i] && key_of(at_start.values[i]) != at_start.keys[i])
        throw Unrepeatable{"it changes what its attribute '" + name_of_state(c.states[i]) + "' holds"};
      // What it was is part of the key when it is read, and then it is enough to see that it has not changed.
      if (is_read ? now.is(at_start.values[i]) || (now && at_start.values[i] && key_of(now) == at_start.keys[i])
                  : !writes.has_written(c.states[i]))
        continue;
      const size_t before = tensors.size();
      made.states.emplace_back(c.states[i], now ? std::make_optional<Nesting>(now.ptr(), tensors, same) : std::nullopt);
      if (tensors.size() > before || !is_read || !Tracer::current()) continue;
      if (changes_.size() <= static_cast<size_t>(c.states[i])) changes_.resize(static_cast<size_t>(c.states[i]) + 1);
      if (++changes_[static_cast<size_t>(c.states[i])] <= kMaxChanges) continue;
      why_not_ = "its attribute '" + name_of_state(c.states[i]) + "' gets another value at every call";
      throw Unrepeatable{why_not_};
    }
  }
  std::string name_of_state(int number) const { return py::cast<std::string>(watch_.state(number).place.name); }
  static std::string key_of(const py::object& o) {
    std::string key;
    KeyWriter(key).add(o.ptr());
    return key;
  }
  std::string key_of_what_may_change(const py::list& arguments) const {
    std::string key = key_of(arguments);
    watch_.write_unseen(key);
    return key;
  }

  void warn(const std::string& why) {
    if (std::exchange(has_warned_, true)) return;
    const std::string text = title_ + " is hybridized but runs operator by operator, because " + why;
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw py::error_already_set();
  }

  py::object function_, name_of_, snapshot_;
  std::string title_;
  std::string why_not_;  // once it is known that no program will ever serve
  bool has_warned_ = false;
  std::vector<int> changes_;  // per state, over all traces
  std::pair<size_t, size_t> arity_;
  NumberArguments numbers_;
  Tensors given_numbers_;
  size_t num_inputs_ = 0;
  Watch watch_;
  HybridCache cache_;
};

// A raw type, because its call is on the hot path and its Python references take part in garbage collection.
struct CacheObject {
  PyObject_HEAD;
  vectorcallfunc call;
  PythonCache* cache;
};
PythonCache& cache_of(PyObject* o) { return *reinterpret_cast<CacheObject*>(o)->cache; }

PyObject* call_cache(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    if (!reinterpret_cast<CacheObject*>(self)->cache)
      throw py::value_error("the compiled function has been taken apart by the garbage collector");
    return cache_of(self).call(args, PyVectorcall_NARGS(nargsf), keywords && PyTuple_GET_SIZE(keywords) ? keywords : nullptr);
  });
}
PyObject* new_cache(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject *function, *name_of, *collect, *snapshot, *flags;
    const char* title;
    if (!PyArg_ParseTuple(args, "OOOOsO!", &function, &name_of, &collect, &snapshot, &title, &PyDict_Type, &flags)) return nullptr;
    const auto object = [](PyObject* p) { return py::reinterpret_borrow<py::object>(p); };
    auto made = std::make_unique<PythonCache>(object(function), object(name_of), object(collect), object(snapshot), title,
                                              py::reinterpret_borrow<py::dict>(flags));
    auto* o = reinterpret_cast<CacheObject*>(type->tp_alloc(type, 0));
    if (!o) return nullptr;
    o->call = call_cache;
    o->cache = made.release();
    return reinterpret_cast<PyObject*>(o);
  });
}
void delete_cache(PyObject* o) {
  PyObject_GC_UnTrack(o);
  delete reinterpret_cast<CacheObject*>(o)->cache;
  Py_TYPE(o)->tp_free(o);
}
int traverse_cache(PyObject* o, visitproc visit, void* arg) {
  return reinterpret_cast<CacheObject*>(o)->cache ? cache_of(o).traverse(visit, arg) : 0;
}
int clear_cache(PyObject* o) {
  delete std::exchange(reinterpret_cast<CacheObject*>(o)->cache, nullptr);
  return 0;
}
PyTypeObject cache_type = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "gluino._core.HybridCache";
  t.tp_basicsize = sizeof(CacheObject);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  t.tp_vectorcall_offset = offsetof(CacheObject, call);
  t.tp_call = PyVectorcall_Call;
  t.tp_new = new_cache;
  t.tp_dealloc = delete_cache;
  t.tp_traverse = traverse_cache;
  t.tp_clear = clear_cache;
  return t;
}();

PythonCache& checked_cache(py::handle o) {
  if (!PyObject_TypeCheck(o.ptr(), &cache_type)) throw py::type_error("a HybridCache is needed");
  if (!reinterpret_cast<CacheObject*>(o.ptr())->cache) throw py::value_error("this HybridCache has been collected");
  return cache_of(o.ptr());
}

// with pause_tracing(): operators run for real, and what is made is the network's. The trace around it still learns of parameters that are
// initialised.
struct PauseContext {
  std::optional<PauseTracing> pause;
  std::optional<MakesForOthers> makes_for_the_network;
  Tracer* paused = nullptr;
  PauseContext* outer = nullptr;
  static inline thread_local PauseContext* current = nullptr;

  void enter() {
    paused = Tracer::current() ? Tracer::current() : current ? current->paused : nullptr;
    outer = std::exchange(current, this);
    pause.emplace();
    makes_for_the_network.emplace();
  }
  void exit() {
    makes_for_the_network.reset();
    pause.reset();
    current = outer;
  }
  static Tracer* tracer() { return Tracer::current() ? Tracer::current() : current ? current->paused : nullptr; }
};

}  // namespace

void add_hybrid(py::module_& m) {
  if (PyType_Ready(&cache_type) < 0) throw py::error_already_set();
  m.attr("HybridCache") = py::handle(reinterpret_cast<PyObject*>(&cache_type));
  // A thread that traces holds the cache and wants the interpreter: whoever waits for the cache must not hold the latter.
  auto with = [](py::handle o, auto f) {
    HybridCache& cache = checked_cache(o).cache();
    const ReleaseLock release;
    return f(cache);
  };
  m.def("cache_clear", [](py::handle o) { checked_cache(o).clear(); });
  m.def("cache_symbol", [with](py::handle o) { return with(o, [](HybridCache& c) { return c.symbol(); }); });
  m.def("cache_arity", [](py::handle o) { return checked_cache(o).arity(); });
  m.def("cache_numbers", [](py::handle o) { return checked_cache(o).given_numbers(); });
  m.def("cache_captured",
        [with](py::handle o, const std::string& name) { return with(o, [&](HybridCache& c) { return c.captured(name); }); });
  m.def("cache_explain", [with](py::handle o, const std::string& html, const std::string& title) {
    return with(o, [&](HybridCache& c) { return c.explain(html, title); });
  });
  m.def("cache_memory_plan", [with](py::handle o) { return with(o, [](HybridCache& c) { return c.memory_plan(); }); });
  m.def("cache_to_dot", [with](py::handle o, bool before) {
    return with(o, [&](HybridCache& c) { return (before ? c.graph_before() : c.graph_after()).to_dot(); });
  });
  m.def("cache_to_svg",
        [with](py::handle o, bool before) { return with(o, [&](HybridCache& c) { return before ? c.svg_before() : c.svg_after(); }); });
  m.def("cache_stats", [with](py::handle o) {
    const HybridStats s = with(o, [](HybridCache& c) { return c.stats(); });
    return py::dict(py::arg("calls") = s.calls, py::arg("traces") = s.traces, py::arg("plans") = s.plans, py::arg("segments") = s.segments);
  });
  py::class_<PauseContext>(m, "pause_tracing")
      .def(py::init<>())
      .def("__enter__", &PauseContext::enter)
      .def("__exit__", [](PauseContext& c, const py::args&) { c.exit(); });
  m.def(
      "on_initialised",
      [](py::object again, py::object forget) {
        if (TracedWrites* writes = TracedWrites::current()) writes->on_initialised(std::move(forget));
        if (Tracer* tracer = PauseContext::tracer())
          tracer->outermost().on_initialised(cpu(0), [kept = keep(std::move(again))] {
            const py::gil_scoped_acquire lock;
            (*kept)();
          });
      },
      "again() is called where a trace that is under way must draw its first random numbers in the order of eager code, forget() when the "
      "trace is given up.");
  m.def(
      "refuse_trace", [](const std::string& why) { throw Untraceable(why); }, "Makes the call that is being traced run as it is.");
  m.def(
      "is_tracing_body",
      [] {
        Tracer* tracer = Tracer::current();
        return tracer && tracer != &tracer->outermost();
      },
      "Whether it is a loop or branch that is traced, inside of a program.");
  m.attr("hybrid_options") = hybrid_option_names();
  m.def("structure_changed", &note_structure_change);
  m.def("attribute_changed", &note_attribute_change);
  m.def("attribute_written", [](py::handle block, const py::object& name, py::handle value) {
    if (TracedWrites* writes = TracedWrites::current()) writes->note(block, name, value);
  });
}

}  // namespace gluino::python
