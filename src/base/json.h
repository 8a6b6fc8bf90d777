// Reading and writing JSON. The library's reader and writer are large templates: compiled in one place, not wherever they are called.
#pragma once
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace gluino {

nlohmann::json parse_json(std::string_view text);  // raises nlohmann::json::parse_error
nlohmann::ordered_json parse_ordered_json(std::string_view text);
// `indent` of -1: in one line. Text that is no UTF-8 is an error of type_error, or each wrong byte becomes U+FFFD.
enum class WrongText : unsigned char { is_error, is_replaced };
std::string json_text(const nlohmann::json& json, int indent = -1, WrongText wrong = WrongText::is_error);
std::string json_text(const nlohmann::ordered_json& json, int indent = -1, WrongText wrong = WrongText::is_error);

}  // namespace gluino
