#include "keys.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace gluino::python {
namespace {

constexpr int kMaxDepth = 200;       // of arguments
constexpr int kMaxWatchedDepth = 8;  // of what is watched: deeper down by identity
constexpr int kMaxObjects = 4000;    // with attributes, in one key
constexpr size_t kMaxIdentities = 1 << 16;
constexpr size_t kMaxInlineBytes = 4096;  // of an array's values in a key; more are compared once and numbered
constexpr size_t kMaxNumberedBytes = size_t{1} << 28;

// Numbers are never given twice, so entries may be dropped at any time: the object then gets another number and calls another trace.
struct Identities {
  struct Entry {
    uint64_t number;
    py::object reference;  // weak, or the object itself where it has no weak references
    bool is_weak;
    bool is_of(PyObject* o) const { return !is_weak || PyWeakref_GetObject(reference.ptr()) == o; }
    bool is_dead() const { return is_weak && PyWeakref_GetObject(reference.ptr()) == Py_None; }
  };
  std::unordered_map<PyObject*, Entry> entries;
  uint64_t next = 1;

  uint64_t of(PyObject* o) {
    if (const auto it = entries.find(o); it != entries.end() && it->second.is_of(o)) return it->second.number;
    if (entries.size() >= kMaxIdentities) sweep();
    Entry e{next++, {}, PyType_SUPPORTS_WEAKREFS(Py_TYPE(o)) != 0};
    e.reference = py::reinterpret_steal<py::object>(e.is_weak ? PyWeakref_NewRef(o, nullptr) : Py_NewRef(o));
    if (!e.reference) throw py::error_already_set();
    const uint64_t number = e.number;
    entries.insert_or_assign(o, std::move(e));
    return number;
  }
  void sweep() {
    std::erase_if(entries, [](const auto& entry) { return entry.second.is_dead(); });
    if (entries.size() >= kMaxIdentities / 2) entries.clear();
  }
};
Identities& identities() {
  static auto* all = new Identities;  // outlives the interpreter
  return *all;
}

// Large contents by a number: equal ones get the same, others never.
uint64_t number_of_bytes(std::string content) {
  struct Table {
    std::unordered_map<std::string, uint64_t> numbers;
    size_t bytes = 0;
    uint64_t next = 1;
  };
  static auto* t = new Table;
  if (const auto it = t->numbers.find(content); it != t->numbers.end()) return it->second;
  if (t->bytes + content.size() > kMaxNumberedBytes) t->numbers.clear(), t->bytes = 0;
  t->bytes += content.size();
  return t->numbers.emplace(std::move(content), t->next++).first->second;
}

py::object* imported(const char* module, const char* name) {
  return new py::object(py::module_::import(module).attr(name));  // for ever
}
bool is_instance(PyObject* o, const py::object& type) {
  const int yes = PyObject_IsInstance(o, type.ptr());
  if (yes < 0) throw py::error_already_set();
  return yes == 1;
}
// Names of attributes that say nothing about what a block computes; null for what is no block.
PyObject* unwatched_names(PyObject* o) {
  static PyObject* const name = PyUnicode_InternFromString("_unwatched");
  return _PyType_Lookup(Py_TYPE(o), name);
}
bool is_block(PyObject* o) { return unwatched_names(o) != nullptr; }
std::string module_of_type(PyObject* o) {
  const auto type = py::type::of(o);
  const py::object name = py::getattr(type, "__module__", py::none());
  return py::isinstance<py::str>(name) ? py::cast<std::string>(name) : "";
}

// The first class of an object above those that are written in Python.
py::object builtin_base(PyObject* o) {
  static const destructor of_python = reinterpret_cast<PyTypeObject*>(imported("enum", "Enum")->ptr())->tp_dealloc;
  PyTypeObject* type = Py_TYPE(o);
  while (type->tp_base && type->tp_dealloc == of_python) type = type->tp_base;
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type));
}
// An object of C code that has a state, of which nothing is seen: a queue, a hash, a weak reference, a file to read from.
bool is_opaque(PyObject* o) {
  static const std::set<std::string, std::less<>> harmless{"builtins", "types",       "typing",           "functools",   "operator",
                                                           "re",       "_thread",     "_struct",          "collections", "enum",
                                                           "_abc",     "contextvars", "pybind11_builtins"};
  const py::object base = builtin_base(o);
  if (base.ptr() == reinterpret_cast<PyObject*>(&PyBaseObject_Type)) return false;
  const auto module = py::cast<std::string>(py::str(base.attr("__module__")));
  if (module == "_io") {
    if (!py::hasattr(py::handle(o), "getvalue")) {
      const auto can = [&](const char* what) { return py::cast<bool>(py::handle(o).attr(what)()); };
      return !py::cast<bool>(py::handle(o).attr("closed")) && can("readable") && !can("writable");
    }
    return true;
  }
  const std::string name = reinterpret_cast<PyTypeObject*>(base.ptr())->tp_name;
  return !harmless.contains(module) && !module.starts_with("gluino") && !module.starts_with("numpy") &&
         name.find("function") == std::string::npos;
}

}  // namespace

uint64_t identity_of(PyObject* o) { return identities().of(o); }
bool is_dataclass(PyObject* o) {
  static PyObject* const fields = PyUnicode_InternFromString("__dataclass_fields__");
  return !PyType_Check(o) && _PyType_Lookup(Py_TYPE(o), fields);
}

void KeyWriter::bytes(const char* data, size_t size) {
  raw(size);
  key_.append(data, size);
}
void KeyWriter::identity(PyObject* o) { raw(identity_of(o)); }

void KeyWriter::add_long(PyObject* o) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return tag('i'), raw(value);
  const auto digits = py::reinterpret_steal<py::object>(_PyLong_Format(o, 16));
  tag('I');
  add_text(digits.ptr());
}
// What is not a number equals nothing but the very object: `x in (nan,)` asks for that.
void KeyWriter::add_float(PyObject* o) {
  const double value = PyFloat_AS_DOUBLE(o);
  if (value != value) return tag('N'), identity(o);
  tag('d');
  raw(value);
}
void KeyWriter::add_text(PyObject* o) {
  tag('s');
  raw(static_cast<uint8_t>(PyUnicode_KIND(o)));
  bytes(static_cast<const char*>(PyUnicode_DATA(o)), static_cast<size_t>(PyUnicode_GET_LENGTH(o)) * PyUnicode_KIND(o));
}

bool KeyWriter::add_plain(PyObject* o) {
  if (o == Py_None) return tag('n'), true;
  if (o == Py_True) return tag('T'), true;
  if (o == Py_False) return tag('F'), true;
  PyTypeObject* type = Py_TYPE(o);
  if (type == &PyLong_Type) return add_long(o), true;
  if (type == &PyFloat_Type) return add_float(o), true;
  if (type == &PyUnicode_Type) return add_text(o), true;
  if (type == &PyTuple_Type) return add_sequence('(', o), true;
  if (type == &PyList_Type) return add_sequence('[', o), true;
  if (type == &PyDict_Type) return tag('{'), add_dict(o), true;
  if (type == &PyBytes_Type) return tag('b'), bytes(PyBytes_AS_STRING(o), static_cast<size_t>(PyBytes_GET_SIZE(o))), true;
  if (type == &PyComplex_Type) return tag('c'), raw(PyComplex_AsCComplex(o)), true;
  if (type == &PySet_Type || type == &PyFrozenSet_Type) return add_set(o), true;
  if (type == &PyByteArray_Type) {
    saw_mutable_ = true;
    return tag('B'), bytes(PyByteArray_AS_STRING(o), static_cast<size_t>(PyByteArray_GET_SIZE(o))), true;
  }
  if (type == &PySlice_Type || type == &PyRange_Type) {
    tag(type == &PySlice_Type ? 'S' : 'R');
    for (const char* part : {"start", "stop", "step"}) add(py::object(py::handle(o).attr(part)).ptr());
    return true;
  }
  return false;
}

// Whether two arguments are one list or dictionary.
void KeyWriter::note_container(PyObject* o) {
  if (!inputs_) return;
  const auto known = std::find(containers_.begin(), containers_.end(), o);
  if (known != containers_.end()) tag('='), raw(known - containers_.begin());
  containers_.push_back(o);
}
void KeyWriter::add_sequence(char kind, PyObject* o) {
  saw_mutable_ |= kind == '[';
  if (kind == '[') note_container(o);
  tag(kind);
  raw(PySequence_Fast_GET_SIZE(o));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) add_held(PySequence_Fast_GET_ITEM(o, i));
}
// Looking at an object may run code of its class, which may change the container that it stands in.
void KeyWriter::add_held(PyObject* borrowed) {
  const auto held = py::reinterpret_borrow<py::object>(borrowed);
  add(borrowed);
}
void KeyWriter::add_dict(PyObject* o) {
  saw_mutable_ = true;
  note_container(o);
  raw(PyDict_GET_SIZE(o));
  const auto add_item = [this](PyObject* name, PyObject* value) {
    const auto held = py::reinterpret_borrow<py::object>(value);
    Tensors* const inputs = std::exchange(inputs_, nullptr);
    add_held(name);
    inputs_ = inputs;
    add(value);
  };
  PyObject *name, *value;
  if (PyODict_Check(o)) {  // has an order of its own
    for (py::handle key : py::list(py::reinterpret_borrow<py::object>(o)))
      if ((value = PyDict_GetItemWithError(o, key.ptr()))) add_item(key.ptr(), value);
    return;
  }
  for (Py_ssize_t at = 0; PyDict_Next(o, &at, &name, &value);) add_item(name, value);
}
// In whatever order: two sets that are equal have one key.
void KeyWriter::add_set(PyObject* o) {
  saw_mutable_ |= !PyFrozenSet_Check(o);
  tag(PyFrozenSet_Check(o) ? 'z' : 'Z');
  std::vector<std::string> items;
  for (py::handle item : py::handle(o)) {
    KeyWriter writer(items.emplace_back());
    writer.depth_ = depth_;
    writer.objects_ = objects_;
    writer.add(item.ptr());
    objects_ = writer.objects_;
    saw_mutable_ |= writer.saw_mutable_;
    if (saw_consumable_.empty()) saw_consumable_ = writer.saw_consumable_;
  }
  std::sort(items.begin(), items.end());
  raw(items.size());
  for (const std::string& s : items) bytes(s.data(), s.size());
}

bool KeyWriter::add_numpy(PyObject* o) {
  static const py::object *dtype = imported("numpy", "dtype"), *generic = imported("numpy", "generic");
  if (is_instance(o, *dtype)) {
    if (!py::handle(o).attr("fields").is_none()) return tag('f'), identity(o), true;
    return tag('D'), add_text(py::object(py::handle(o).attr("str")).ptr()), true;
  }
  const bool is_scalar = is_instance(o, *generic);
  if (!is_scalar && !py::isinstance<py::array>(py::handle(o))) return false;
  saw_mutable_ |= !is_scalar;
  const py::object type = py::handle(o).attr("dtype");
  if (py::cast<bool>(type.attr("hasobject"))) {
    tag('f');
    identity(o);
    if (!is_scalar) add_apart(py::object(py::handle(o).attr("tolist")()).ptr());
    return true;
  }
  tag(is_scalar ? 'g' : 'A');
  type_of(o);
  add(type.ptr());
  if (!is_scalar) add(py::object(py::handle(o).attr("shape")).ptr());
  auto content = py::cast<std::string>(py::bytes(py::handle(o).attr("tobytes")()));
  if (content.size() <= kMaxInlineBytes) return bytes(content.data(), content.size()), true;
  tag('#');
  return raw(number_of_bytes(std::move(content))), true;
}

// Immutable values of the standard library that equal others made at another time.
bool KeyWriter::add_value_type(PyObject* o) {
  static const py::object *enumeration = imported("enum", "Enum"), *context = imported("gluino.context", "Context"),
                          *partial = imported("functools", "partial"), *dumps = imported("pickle", "dumps");
  if (is_instance(o, *enumeration)) return tag('e'), identity(o), true;
  if (is_instance(o, *context)) {
    tag('x');
    for (const char* part : {"device_typeid", "device_id"}) add(py::object(py::handle(o).attr(part)).ptr());
    return true;
  }
  if (PyMethod_Check(o) || is_instance(o, *partial)) {
    Tensors* const inputs = std::exchange(inputs_, nullptr);  // arrays in them stay where they are
    tag(PyMethod_Check(o) ? 'm' : 'q');
    if (PyMethod_Check(o))
      add(PyMethod_GET_SELF(o)), add(PyMethod_GET_FUNCTION(o));
    else
      for (const char* part : {"func", "args", "keywords"}) add(py::object(py::handle(o).attr(part)).ptr());
    inputs_ = inputs;
    return true;
  }
  const std::string module = module_of_type(o);
  if (module == "decimal" || module == "fractions" || module == "datetime" || module == "uuid" || module == "pathlib") {
    const auto text = py::cast<std::string>(py::bytes((*dumps)(py::handle(o))));
    return tag('P'), bytes(text.data(), text.size()), true;
  }
  if (add_state_of_builtin(o)) return true;
  if ((PyIter_Check(o) && module != "_io") || module == "random" || module.starts_with("numpy.random") || is_opaque(o))
    saw_consumable_ = std::string("an object of type ") + Py_TYPE(o)->tp_name;
  return false;
}

// Arrays in it stay where they are: they are no inputs.
void KeyWriter::add_apart(PyObject* o) {
  Tensors* const inputs = std::exchange(inputs_, nullptr);
  add_held(o);
  inputs_ = inputs;
}

// Objects of built-in types that hold other things without having attributes.
bool KeyWriter::add_state_of_builtin(PyObject* o) {
  static const py::object *deque = imported("collections", "deque"), *array = imported("array", "array"),
                          *local = imported("threading", "local"), *variable = imported("contextvars", "ContextVar"),
                          *list = imported("builtins", "list");
  const auto of = [&](const py::object& content) {
    saw_mutable_ = true;
    tag('Q');
    type_of(o);
    add_apart(content.ptr());
    return true;
  };
  if (is_instance(o, *deque)) return of(py::make_tuple((*list)(py::handle(o)), py::handle(o).attr("maxlen")));
  if (is_instance(o, *array)) return of(py::make_tuple(py::handle(o).attr("typecode"), py::handle(o).attr("tobytes")()));
  if (is_instance(o, *local)) return of(py::handle(o).attr("__dict__"));
  if (is_instance(o, *variable)) return of(py::handle(o).attr("get")(py::none()));
  if (Py_TYPE(o) == &PyDictProxy_Type) return of(py::handle(o).attr("copy")());
  if (PyDictViewSet_Check(o) || PyDictValues_Check(o)) return of((*list)(py::handle(o)));
  if (PyObject_CheckBuffer(o) && !PyBytes_Check(o)) return of(py::reinterpret_steal<py::object>(PyBytes_FromObject(o)));
  PyObject* self = PyCFunction_Check(o) ? PyCFunction_GET_SELF(o) : nullptr;  // the method of a list, for example
  if (self && !PyModule_Check(self) && !PyType_Check(self)) return of(py::make_tuple(py::handle(self), py::handle(o).attr("__name__")));
  return false;
}

void KeyWriter::add_slots(PyObject* o) {
  PyObject* const bases = Py_TYPE(o)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i));
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE)) continue;
    PyObject *name, *member;
    for (Py_ssize_t at = 0; PyDict_Next(base->tp_dict, &at, &name, &member);) {
      if (Py_TYPE(member) != &PyMemberDescr_Type) continue;
      saw_mutable_ = true;
      const auto value = py::reinterpret_steal<py::object>(PyObject_GetAttr(o, name));
      if (value)
        add(value.ptr());
      else
        PyErr_Clear(), tag('-');
    }
  }
}

void KeyWriter::add_attributes(PyObject* o) {
  PyObject* const unwatched = unwatched_names(o);
  const py::object attributes = py::handle(o).attr("__dict__");
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &name, &value);) {
    if (unwatched && PySet_Contains(unwatched, name) == 1) continue;
    const auto held = py::reinterpret_borrow<py::object>(value);
    add_held(name);
    add(value);
  }
  tag('.');
}

void KeyWriter::add_object(PyObject* o) {
  static const py::object* parameter = imported("gluino.gluon.parameter", "Parameter");
  Tensors* const inputs = inputs_;
  if (is_dataclass(o)) {  // by type and content, as a tuple
    saw_mutable_ = true;
    tag('C');
    type_of(o);
    const py::dict fields = py::handle(o).attr("__dataclass_fields__");
    for (const auto& field : fields) {
      const py::object value = py::getattr(py::handle(o), field.first, py::none());
      add(value.ptr());
    }
    return;
  }
  // Classes derived from built-in ones: their type, their attributes, and what they hold as these.
  const auto derived = [&](char kind) {
    tag(kind);
    type_of(o);
    if (Py_TYPE(o)->tp_dictoffset == 0 || depth_ > kMaxWatchedDepth) return;
    saw_mutable_ = true;
    Tensors* const given = std::exchange(inputs_, nullptr);
    add_attributes(o);
    inputs_ = given;
  };
  if (PyTuple_Check(o)) return derived('u'), add_sequence('(', o);
  if (PyList_Check(o)) return derived('u'), add_sequence('[', o);
  if (PyDict_Check(o)) return derived('u'), add_dict(o);
  if (PyLong_Check(o)) return derived('u'), add_long(o);
  if (PyFloat_Check(o)) return derived('u'), raw(PyFloat_AS_DOUBLE(o));
  if (PyUnicode_Check(o)) return derived('u'), add_text(o);
  tag('o');
  identity(o);
  if (PyFunction_Check(o))
    if (PyObject* own = reinterpret_cast<PyFunctionObject*>(o)->func_dict; own && PyDict_GET_SIZE(own) > 0) return add_apart(own);
  if (PyFunction_Check(o) || PyCFunction_Check(o) || PyType_Check(o) || PyModule_Check(o) || is_instance(o, *parameter)) return;
  if (is_watching_ && is_block(o)) return;
  if (++objects_ > kMaxObjects || depth_ > kMaxWatchedDepth) return;
  inputs_ = nullptr;  // arrays in objects stay where they are
  add_slots(o);
  if (Py_TYPE(o)->tp_dictoffset != 0) {
    saw_mutable_ = true;
    add_attributes(o);
  }
  inputs_ = inputs;
}

void KeyWriter::add(PyObject* o) {
  if (is_array(o) || is_symbol(o)) {
    const bool numpy = flavour_of(o) == kNumpy;
    if (!inputs_) return tag(numpy ? 'v' : 'a'), identity(o);
    if (is_sparse(o)) return saw_consumable_ = "a sparse array", void();
    tag(numpy ? 'p' : 't');
    return inputs_->push_back(unwrap(o));
  }
  struct Level {
    int& depth;
    ~Level() { --depth; }
  } level{++depth_};
  if (inputs_ && depth_ > kMaxDepth)
    throw py::value_error("an argument of a compiled call is nested deeper than " + std::to_string(kMaxDepth) +
                          " levels, or contains itself; pass the arrays in it flat");
  if (!inputs_ && depth_ > kMaxWatchedDepth && (PyList_Check(o) || PyDict_Check(o) || PyTuple_Check(o) || PyAnySet_Check(o)))
    return tag('o'), identity(o);
  if (!add_plain(o) && !add_numpy(o) && !add_value_type(o)) add_object(o);
}

}  // namespace gluino::python
