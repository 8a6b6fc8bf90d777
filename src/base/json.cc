#include "base/json.h"

namespace gluino {
namespace {

template <class J>
std::string text_of(const J& json, int indent, WrongText wrong) {
  using Handler = typename J::error_handler_t;
  return json.dump(indent, ' ', false, wrong == WrongText::is_error ? Handler::strict : Handler::replace);
}

}  // namespace

nlohmann::json parse_json(std::string_view text) { return nlohmann::json::parse(text); }
nlohmann::ordered_json parse_ordered_json(std::string_view text) { return nlohmann::ordered_json::parse(text); }
std::string json_text(const nlohmann::json& json, int indent, WrongText wrong) { return text_of(json, indent, wrong); }
std::string json_text(const nlohmann::ordered_json& json, int indent, WrongText wrong) { return text_of(json, indent, wrong); }

}  // namespace gluino
