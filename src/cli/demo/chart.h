// Line charts as SVG.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace gluino::cli {

using Series = std::pair<std::string, std::vector<double>>;
// Values over 1, 2, 3, ...; from 0 up. Later series are drawn thinner, so that equal ones show.
std::string line_chart(const std::string& title, const std::vector<Series>& series);

}  // namespace gluino::cli
