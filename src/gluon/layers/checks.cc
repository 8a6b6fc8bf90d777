#include <algorithm>

#include "base/format.h"
#include "gluon/layers/layers.h"

namespace gluino {

void check_choice(const std::string& what, const std::string& value, std::string_view op, std::string_view attribute) {
  const std::vector<AttrField>& fields = OpRegistry::global().get(op).fields;
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const AttrField& f) { return f.name == attribute; });
  const std::vector<std::string>& choices = field->choices;
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    raise<UserError>("{} is '{}'{}; it must be one of {}", what, value, did_you_mean(value, choices), fmt::join(choices, ", "));
}

void check_rate(const std::string& what, double rate) {
  if (!(rate >= 0 && rate <= 1)) raise<UserError>("{} is {}, but a share between 0 and 1 is needed", what, rate);
}
void check_positive(const std::string& what, double value) {
  if (!(value > 0)) raise<UserError>("{} is {}, but a positive number is needed", what, value);
}
void check_not_negative(const std::string& what, double value) {
  if (!(value >= 0)) raise<UserError>("{} is {}, but it must not be negative", what, value);
}

}  // namespace gluino
