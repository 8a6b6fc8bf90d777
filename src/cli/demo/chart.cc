#include "cli/demo/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gluino::cli {
namespace {

// 1, 2 or 5 times a power of ten, so that about five steps reach `span`.
double nice_step(double span) {
  const double raw = span / 5, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

}  // namespace

std::string line_chart(const std::string& title, const std::vector<Series>& series) {
  constexpr double kLeft = 60, kTop = 40, kWidth = 520, kHeight = 280;
  double top = 1e-12;
  size_t length = 2;
  for (const auto& [name, values] : series) {
    length = std::max(length, values.size());
    for (const double v : values)
      if (std::isfinite(v)) top = std::max(top, v);
  }
  const double step_y = nice_step(top), step_x = std::max(1.0, nice_step(static_cast<double>(length)));
  top = std::ceil(top / step_y) * step_y;
  auto x_of = [&](double n) { return kLeft + kWidth * (n - 1) / static_cast<double>(length - 1); };
  auto y_of = [&](double v) { return kTop + kHeight * (1 - v / top); };

  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='620' height='370' font-family='sans-serif' font-size='12'>\n"
      "<rect width='620' height='370' fill='white'/>\n<text x='{}' y='22' font-size='15'>{}</text>\n",
      kLeft, title);
  for (double v = 0; v <= top + step_y / 2; v += step_y)
    svg += fmt::format("<path d='M{} {:.1f} h{}' stroke='#ddd'/><text x='{}' y='{:.1f}' text-anchor='end'>{:.3g}</text>\n", kLeft, y_of(v),
                       kWidth, kLeft - 6, y_of(v) + 4, v);
  for (double n = step_x; n <= static_cast<double>(length); n += step_x)
    svg += fmt::format("<path d='M{:.1f} {} v5' stroke='#444'/><text x='{:.1f}' y='{}' text-anchor='middle'>{:.0f}</text>\n", x_of(n),
                       kTop + kHeight, x_of(n), kTop + kHeight + 20, n);
  svg += fmt::format("<path d='M{} {} V{} H{}' stroke='#444' fill='none'/>\n", kLeft, kTop, kTop + kHeight, kLeft + kWidth);
  const char* colours[] = {"#e0a080", "#2050a0", "#208040", "#802080"};
  for (size_t k = 0; k < series.size(); ++k) {
    const double width = std::max(1.5, 5.0 - 3.5 * static_cast<double>(k));
    svg += fmt::format("<polyline fill='none' stroke='{}' stroke-width='{}' points='", colours[k % 4], width);
    for (size_t i = 0; i < series[k].second.size(); ++i)
      if (std::isfinite(series[k].second[i]))
        svg += fmt::format("{:.1f},{:.1f} ", x_of(static_cast<double>(i + 1)), y_of(series[k].second[i]));
    const double y = kTop + 16 + 20 * static_cast<double>(k);
    svg += fmt::format("'/>\n<path d='M440 {0:.1f} h30' stroke='{1}' stroke-width='{2}'/><text x='478' y='{3:.1f}'>{4}</text>\n", y,
                       colours[k % 4], width, y + 4, series[k].first);
  }
  return svg + "</svg>\n";
}

}  // namespace gluino::cli
