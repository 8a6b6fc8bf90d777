// The page's files, made part of the library by cmake/embed.cmake.
#pragma once
#include <string_view>

namespace gluino::page {
extern const std::string_view kHtml, kStyle, kScript;
}
