// A table of things that are made by name: the options of each are the fields of a struct.
#pragma once
#include <functional>
#include <map>

#include "base/format.h"
#include "gluino/named_options.h"

namespace gluino {

// Sets the fields of `options` by name; `who` starts error messages.
void set_fields(const std::string& who, const std::vector<AttrField>& fields, void* options, const NamedOptions& values);
std::vector<Option> options_of_fields(const std::vector<AttrField>& fields);

template <class Made>
class Named {
 public:
  explicit Named(std::string what) : what_(std::move(what)) {}  // "optimizer", for messages

  // make(O) makes one of these options.
  template <class O, class Make>
  Named& add(const std::string& name, const std::function<void(AttrFields<O>&)>& fields, Make make) {
    AttrFields<O> f;
    fields(f);
    Entry& entry = entries_[name];
    entry.fields = f.take();
    entry.make = [who = what_ + " " + name, &known = entry.fields, make = std::move(make)](const NamedOptions& values) -> Made {
      O options;
      set_fields(who, known, &options, values);
      return make(std::move(options));
    };
    return *this;
  }
  Made create(const std::string& name, const NamedOptions& options) const { return find(name).make(options); }
  std::vector<Option> options_of(const std::string& name) const { return options_of_fields(find(name).fields); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, entry] : entries_) out.push_back(name);
    return out;
  }

 private:
  struct Entry {
    std::vector<AttrField> fields;
    std::function<Made(const NamedOptions&)> make;
  };
  const Entry& find(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) raise<UserError>("no {} is named '{}'{}", what_, name, did_you_mean(name, names()));
    return found->second;
  }
  std::string what_;
  std::map<std::string, Entry> entries_;
};

}  // namespace gluino
