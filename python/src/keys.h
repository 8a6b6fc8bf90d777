// What a call depends on besides tensors, as bytes: equal keys mean equal values, types included. Nothing is keyed by how it prints.
#pragma once
#include "object.h"

namespace gluino::python {

class KeyWriter {
 public:
  // With `inputs`, arrays are inputs of the call: they are collected there, and the key says only that one stands here. Nesting must end,
  // or ValueError is raised. Without, arrays are keyed by identity, and what is nested too deep by identity too.
  explicit KeyWriter(std::string& key, Tensors* inputs = nullptr) : key_(key), inputs_(inputs), is_watching_(!inputs) {}

  void add(PyObject* o);
  // Something was met that can change without being replaced: a list, an object with attributes.
  bool saw_mutable() const { return saw_mutable_; }
  // Something was met that a call uses up (an iterator, a generator of random numbers), so that no two calls are the same: what it was.
  const std::string& saw_consumable() const { return saw_consumable_; }

 private:
  template <class T>
  void raw(const T& value) {
    key_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void tag(char c) { key_ += c; }
  void bytes(const char* data, size_t size);
  void identity(PyObject* o);
  void type_of(PyObject* o) { identity(reinterpret_cast<PyObject*>(Py_TYPE(o))); }
  bool add_plain(PyObject* o);
  void add_long(PyObject* o);
  void add_float(PyObject* o);
  void add_text(PyObject* o);
  void add_sequence(char kind, PyObject* o);
  void add_held(PyObject* borrowed);
  void note_container(PyObject* o);
  void add_dict(PyObject* o);
  void add_set(PyObject* o);
  bool add_numpy(PyObject* o);
  bool add_value_type(PyObject* o);
  bool add_state_of_builtin(PyObject* o);
  void add_slots(PyObject* o);
  void add_apart(PyObject* o);
  void add_object(PyObject* o);
  void add_attributes(PyObject* o);

  std::string& key_;
  Tensors* inputs_;
  const bool is_watching_;             // what blocks hold is watched by itself then
  std::vector<PyObject*> containers_;  // that were met
  int depth_ = 0, objects_ = 0;
  bool saw_mutable_ = false;
  std::string saw_consumable_;
};

// A number for an object that no other object gets, even when its address is used again.
uint64_t identity_of(PyObject* o);
bool is_dataclass(PyObject* o);

}  // namespace gluino::python
