// What the traced code of a cache reads outside its arguments: attributes of blocks, variables of closures and modules.
#pragma once
#include <unordered_map>

#include "keys.h"

namespace gluino::python {

// Where a value stands: an entry of a dictionary (of a block, of a module), a closure's cell, or an attribute of anything else.
struct Place {
  py::object owner, name;

  py::object get() const;            // null when there is nothing
  void set(py::handle value) const;  // null takes it away
  bool is(PyObject* o, PyObject* n) const { return owner.ptr() == o && PyObject_RichCompareBool(name.ptr(), n, Py_EQ) == 1; }
};

// An attribute that the code writes.
struct WatchedState {
  Place place;
  bool is_read;  // too
};

class Watch {
 public:
  // collect() looks through the code: (blocks, attributes, variables, states, has_hooks, why, asks_types,
  // classes, functions). `blocks`: with the methods that are called. `attributes` are entries of
  // blocks' dictionaries, which only change together with a counter (Block.__setattr__ bumps it); `variables` may change unseen; `states`
  // are attributes that the code writes, each with whether it reads it too; `has_hooks`: of blocks below, which must run at each call;
  // `why` is empty, or says why the code cannot be repeated by a program; `asks_types`: it calls type(), and sees more than what a number
  // does.
  explicit Watch(py::object collect) : collect_(std::move(collect)) {}

  void refresh();                             // after changes of the blocks' structure, and of attributes
  void write(std::string& key) const;         // all values
  void write_unseen(std::string& key) const;  // of what may change unseen
  const std::vector<int>& states() const { return states_; }
  const WatchedState& state(int number) const { return all_states_[static_cast<size_t>(number)]; }
  int find_state(PyObject* owner, PyObject* name) const;  // -1: none
  bool has_hooks() const { return has_hooks_; }
  const std::string& why_not() const { return why_not_; }
  bool asks_types() const { return asks_types_; }
  // Something that a call uses up, met by the last write().
  const std::string& saw_consumable() const { return saw_consumable_; }
  py::list unseen() const;  // (owner, name) pairs
  int traverse(visitproc visit, void* arg) const;

 private:
  // A value that may change without being replaced. What a dictionary held is remembered by the number Python gives to each of its states.
  struct Unseen {
    Place place;
    uint64_t followed = 0;  // the object in which collect() found more code to look through
    mutable uint64_t version = 0;
    mutable std::string known;
  };
  void write(const Unseen& u, std::string& key) const;
  void collect();
  bool leads_elsewhere() const;  // a variable names another function or block than the one that collect() followed
  bool has_changed_code() const;
  void sort_attributes();

  py::object collect_;
  uint64_t structure_seen_ = 0, attributes_seen_ = 0;
  std::vector<Place> attributes_;
  std::vector<Unseen> variables_, mutable_attributes_;
  std::string blocks_;                    // by identity
  std::vector<WatchedState> all_states_;  // of all times: programs name them by number
  std::vector<int> states_;
  bool has_hooks_ = false, asks_types_ = false;
  std::string why_not_;
  mutable std::string saw_consumable_;
  struct Class {
    py::object type;
    unsigned version;  // Python gives a class another number when it is changed
  };
  std::vector<Class> classes_;
  // Who edits a file while it runs may put the new code into the old function.
  struct Function {
    py::object function, code, defaults;
    explicit Function(py::object f);
    bool is_as_it_was() const;
  };
  std::vector<Function> functions_;
  std::unordered_map<std::string, uint32_t> variants_;  // of all that changes only together with the counter
  uint32_t variant_ = 0;
};

// Counters of what blocks go through, in the whole process.
void note_structure_change();
void note_attribute_change();

}  // namespace gluino::python
