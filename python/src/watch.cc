#include "watch.h"

#include <algorithm>

namespace gluino::python {
namespace {

constexpr size_t kMaxVariants = 1024;
uint64_t structure_counter = 1, attribute_counter = 1;  // under the interpreter's lock

// Python numbers the states of all dictionaries, never using a number twice. 0: it does not (any more).
uint64_t version_of(PyObject* dict) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#else
  (void)dict;
  return 0;
#endif
}
bool holds_only_plain_values(PyObject* dict) {
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &name, &value);) {
    std::string ignored;
    KeyWriter writer(ignored);
    writer.add(value);
    if (writer.saw_mutable() || !writer.saw_consumable().empty()) return false;
  }
  return true;
}

unsigned version_of_class(PyObject* type) {
  auto* t = reinterpret_cast<PyTypeObject*>(type);
  if (!(t->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) {  // looking something up gives it one
    static PyObject* const anything = PyUnicode_InternFromString("__call__");
    _PyType_Lookup(t, anything);
  }
  return t->tp_version_tag;
}

// Code may be reached through anything but numbers, texts and arrays. 0: nothing to follow.
uint64_t followed_object(PyObject* value) {
  if (!value || value == Py_None || PyLong_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value) || is_array(value)) return 0;
  return identity_of(value);
}

}  // namespace

void note_structure_change() { ++structure_counter; }
void note_attribute_change() { ++attribute_counter; }

py::object Place::get() const {
  if (PyDict_CheckExact(owner.ptr())) return py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(owner.ptr(), name.ptr()));
  if (PyCell_Check(owner.ptr())) return py::reinterpret_steal<py::object>(PyCell_Get(owner.ptr()));
  PyObject* found = PyObject_GetAttr(owner.ptr(), name.ptr());
  if (!found) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found);
}
void Place::set(py::handle value) const {
  if (PyDict_CheckExact(owner.ptr())) {
    if (value ? PyDict_SetItem(owner.ptr(), name.ptr(), value.ptr()) : PyDict_DelItem(owner.ptr(), name.ptr())) PyErr_Clear();
  } else if (PyCell_Check(owner.ptr())) {
    PyCell_Set(owner.ptr(), value.ptr());
  } else if (PyObject_SetAttr(owner.ptr(), name.ptr(), value.ptr()) < 0) {
    PyErr_Clear();
  }
}

int Watch::find_state(PyObject* owner, PyObject* name) const {
  for (int number : states_)
    if (state(number).place.is(owner, name)) return number;
  return -1;
}

void Watch::collect() {
  const uint64_t now = structure_counter;
  const auto found = py::cast<py::tuple>(collect_());
  const auto places = [](py::handle pairs) {
    std::vector<Place> all;
    for (py::handle pair : pairs) {
      const auto p = py::reinterpret_borrow<py::tuple>(pair);
      all.push_back({p[0], p[1]});
    }
    return all;
  };
  blocks_.clear();
  for (py::handle block : found[0]) {
    const uint64_t number = identity_of(block.ptr());
    blocks_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  attributes_ = places(found[1]);
  variables_.clear();
  for (Place& p : places(found[2])) {
    const uint64_t followed = followed_object(p.get().ptr());
    variables_.push_back({std::move(p), followed});
  }
  states_.clear();
  for (py::handle item : found[3]) {
    const auto t = py::reinterpret_borrow<py::tuple>(item);
    WatchedState state{{t[0], t[1]}, py::cast<bool>(t[2])};
    size_t number = 0;
    while (number < all_states_.size() && !all_states_[number].place.is(state.place.owner.ptr(), state.place.name.ptr())) ++number;
    if (number == all_states_.size()) all_states_.push_back(state);
    all_states_[number].is_read = state.is_read;
    states_.push_back(static_cast<int>(number));
  }
  has_hooks_ = py::cast<bool>(found[4]);
  why_not_ = py::cast<std::string>(found[5]);
  asks_types_ = py::cast<bool>(found[6]);
  classes_.clear();
  for (py::handle type : found[7]) classes_.push_back({py::reinterpret_borrow<py::object>(type), version_of_class(type.ptr())});
  functions_.clear();
  for (py::handle function : found[8]) {
    const Function& f = functions_.emplace_back(py::reinterpret_borrow<py::object>(function));
    for (const py::object& part : {f.code, f.defaults}) {
      const uint64_t number = part ? identity_of(part.ptr()) : 0;
      blocks_.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
  }
  structure_seen_ = now;
  attributes_seen_ = 0;
}

Watch::Function::Function(py::object f)
    : function(std::move(f)),
      code(py::reinterpret_borrow<py::object>(PyFunction_GET_CODE(function.ptr()))),
      defaults(py::reinterpret_borrow<py::object>(PyFunction_GET_DEFAULTS(function.ptr()))) {}
bool Watch::Function::is_as_it_was() const {
  return PyFunction_GET_CODE(function.ptr()) == code.ptr() && PyFunction_GET_DEFAULTS(function.ptr()) == defaults.ptr();
}

// Attributes with plain values need no more looks until the counter moves.
void Watch::sort_attributes() {
  const uint64_t now = attribute_counter;
  std::string plain = blocks_;
  for (int number : states_) {
    plain.append(reinterpret_cast<const char*>(&number), sizeof number);
    plain += state(number).is_read ? 'r' : 'w';
  }
  mutable_attributes_.clear();
  for (const Place& p : attributes_) {
    const py::object value = p.get();
    const size_t before = plain.size();
    KeyWriter writer(plain);
    if (value)
      writer.add(value.ptr());
    else
      plain += '-';
    if (!writer.saw_mutable() && writer.saw_consumable().empty()) continue;
    plain.resize(before);
    plain += '~';
    mutable_attributes_.push_back({p, 0});
  }
  if (variants_.size() >= kMaxVariants) variants_.clear();
  static uint32_t next = 0;  // never used twice, so that old programs are not found again after a clear
  const auto [it, is_new] = variants_.emplace(std::move(plain), next + 1);
  if (is_new) ++next;
  variant_ = it->second;
  attributes_seen_ = now;
}

bool Watch::leads_elsewhere() const {
  return std::any_of(variables_.begin(), variables_.end(),
                     [](const Unseen& u) { return followed_object(u.place.get().ptr()) != u.followed; });
}

bool Watch::has_changed_code() const {
  return std::any_of(classes_.begin(), classes_.end(), [](const Class& c) { return version_of_class(c.type.ptr()) != c.version; }) ||
         !std::all_of(functions_.begin(), functions_.end(), [](const Function& f) { return f.is_as_it_was(); });
}

void Watch::refresh() {
  if (structure_seen_ != structure_counter || leads_elsewhere() || has_changed_code()) collect();
  if (attributes_seen_ != attribute_counter) sort_attributes();
}

void Watch::write(const Unseen& u, std::string& key) const {
  const py::object value = u.place.get();
  if (!value) return key += '-', void();
  const auto add = [&](std::string& to) {
    KeyWriter writer(to);
    writer.add(value.ptr());
    if (saw_consumable_.empty()) saw_consumable_ = writer.saw_consumable();
  };
  if (!PyDict_CheckExact(value.ptr())) return add(key);
  const uint64_t version = version_of(value.ptr());
  if (version && version == u.version) return key += u.known, void();
  std::string written;
  add(written);
  u.version = holds_only_plain_values(value.ptr()) ? version : 0;
  key += written;
  u.known = std::move(written);
}
void Watch::write_unseen(std::string& key) const {
  for (const Unseen& u : variables_) write(u, key);
  for (const Unseen& u : mutable_attributes_) write(u, key);
}
void Watch::write(std::string& key) const {
  key.append(reinterpret_cast<const char*>(&variant_), sizeof variant_);
  saw_consumable_.clear();
  write_unseen(key);
}

py::list Watch::unseen() const {
  py::list all;
  for (const auto* places : {&variables_, &mutable_attributes_})
    for (const Unseen& u : *places) all.append(py::make_tuple(u.place.owner, u.place.name));
  return all;
}

int Watch::traverse(visitproc visit, void* arg) const {
  Py_VISIT(collect_.ptr());
  for (const Place& p : attributes_) Py_VISIT(p.owner.ptr());
  for (const Class& c : classes_) Py_VISIT(c.type.ptr());
  for (const Function& f : functions_)
    for (const py::object* part : {&f.function, &f.code, &f.defaults}) Py_VISIT(part->ptr());
  for (const WatchedState& s : all_states_) Py_VISIT(s.place.owner.ptr());
  for (const auto* places : {&variables_, &mutable_attributes_})
    for (const Unseen& u : *places) Py_VISIT(u.place.owner.ptr());
  return 0;
}

}  // namespace gluino::python
