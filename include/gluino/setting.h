// Setting<T>: a member of a block whose changes compiled programs notice: a number, a flag, a text, a tensor, containers and optionals of
// these. A plain member is read while a function is traced and then fixed in the program; what is read from a Setting is part of the
// signature: after a change the function is traced again. Plain Tensor members are read at every run, and bound to another tensor with =
// they are seen, too. What is not seen: which of several tensors a plain pointer, container or optional leads to, and a tensor that is
// moved or swapped away while somebody else keeps it. Those belong into a Setting.
//   struct Net : nn::HybridBlock { Setting<double> temperature{1.0}; Tensor forward(const Tensor& x) override { return x / temperature; }
//   };
#pragma once
#include <memory>

#include "gluino/detail/lock.h"
#include "gluino/detail/structure.h"

namespace gluino {

namespace detail {
class SettingState {
 public:
  virtual ~SettingState() = default;
  virtual std::string key() const = 0;  // equal exactly for equal values
};
void note_setting_read(const std::shared_ptr<const SettingState>& setting);
void note_setting_write();
}  // namespace detail

template <class T>
class Setting {
 public:
  Setting(T value = {}) : state_(std::make_shared<State>()) { state_->value = std::move(value); }
  // A copy of a block has settings of its own.
  Setting(const Setting& o) : Setting(o.get()) {}
  Setting& operator=(const Setting& o) { return *this = o.get(); }
  Setting& operator=(T value) {
    detail::note_setting_write();
    const std::lock_guard lock(state_->mutex);
    state_->value = std::move(value);
    return *this;
  }
  T get() const {
    detail::note_setting_read(state_);
    const std::lock_guard lock(state_->mutex);
    return state_->value;
  }
  operator T() const { return get(); }

 private:
  struct State final : detail::SettingState {
    std::string key() const override {
      const std::lock_guard lock(mutex);
      Tensors tensors;
      std::string text;
      detail::Structure<T>::flatten(value, tensors, text);
      for (const Tensor& t : tensors)
        text += std::to_string(reinterpret_cast<uintptr_t>(t.impl().get())) + ' ';  // which, not what it holds
      return text;
    }
    mutable NoForkMutex mutex;
    T value{};
  };
  std::shared_ptr<State> state_;
};

}  // namespace gluino
