// Attributes of blocks that are written while a call is traced.
#pragma once
#include <set>

#include "watch.h"

namespace gluino::python {

// What user code writes into attributes while it is traced.
class TracedWrites {
 public:
  explicit TracedWrites(const Watch& watch) : watch_(watch), previous_(std::exchange(current_, this)) {}
  ~TracedWrites() { current_ = previous_; }
  TracedWrites(const TracedWrites&) = delete;
  TracedWrites& operator=(const TracedWrites&) = delete;
  static TracedWrites* current() { return current_; }

  void note(py::handle block, const py::object& name, py::handle value) {
    const Place place{block.attr("__dict__"), name};
    const py::object old = place.get();
    if (py::object(py::type::of(block).attr("_unwatched")).contains(name)) return;
    if (const int state = watch_.find_state(place.owner.ptr(), name.ptr()); state >= 0) return states_.insert(state), void();
    if (old.is(value)) return;
    old_.emplace_back(place, old);
    if (why_.empty()) why_ = "'" + py::cast<std::string>(name) + "' of " + Py_TYPE(block.ptr())->tp_name + " is written at " + user_line();
  }
  const std::string& why() const { return why_; }
  bool has_written(int state) const { return states_.contains(state); }
  void on_initialised(py::object forget) { initialised_.push_back(std::move(forget)); }
  // Parameters that the trace has initialised wait again: an eager call does so in its own order.
  void forget_parameters() const {
    for (auto it = initialised_.rbegin(); it != initialised_.rend(); ++it) (*it)();
  }
  void undo() const {
    for (auto it = old_.rbegin(); it != old_.rend(); ++it) it->first.set(it->second);
  }

 private:
  static inline thread_local TracedWrites* current_ = nullptr;
  const Watch& watch_;
  TracedWrites* previous_;
  std::vector<std::pair<Place, py::object>> old_;
  std::set<int> states_;
  std::vector<py::object> initialised_;
  std::string why_;
};

}  // namespace gluino::python
