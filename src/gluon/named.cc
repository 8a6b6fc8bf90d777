#include "gluon/named.h"

#include <algorithm>

namespace gluino {

void set_fields(const std::string& who, const std::vector<AttrField>& fields, void* options, const NamedOptions& values) {
  std::vector<std::string> known;
  for (const AttrField& f : fields) known.push_back(f.name);
  for (const auto& [name, value] : values) {
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) raise<UserError>("{} has no option '{}'{}", who, name, did_you_mean(name, known));
    fields[at - known.begin()].set(options, fmt::format("{}: option '{}'", who, name), value);
  }
}

std::vector<Option> options_of_fields(const std::vector<AttrField>& fields) {
  std::vector<Option> out;
  for (const AttrField& f : fields) out.push_back({f.name, f.doc, f.default_text, f.choices});
  return out;
}

}  // namespace gluino
