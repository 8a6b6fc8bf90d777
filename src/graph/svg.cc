// A picture of a graph: operators in rows by their distance from the inputs, so that one sees what hybridize did.
#include <map>

#include "base/format.h"
#include "graph/graph.h"

namespace gluino {
namespace {

constexpr double kBoxWidth = 170, kBoxHeight = 40, kGapX = 24, kGapY = 44, kMargin = 20;

struct Place {
  int row = 0, column = 0;
};

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

// Only operators and the variables that feed data in; parameters would hide the structure.
std::map<int, Place> place_nodes(const Graph& g) {
  std::map<int, Place> places;
  std::map<int, int> used;  // columns taken per row
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const auto& n = g.node(i);
    if (n.is_constant() || (n.is_variable() && n.name.find('_') != std::string::npos)) continue;
    Place p;
    for (ValueId v : n.inputs)
      if (const auto it = places.find(v.node); it != places.end()) p.row = std::max(p.row, it->second.row + 1);
    p.column = used[p.row]++;
    places[static_cast<int>(i)] = p;
  }
  return places;
}

double x_of(const Place& p) { return kMargin + p.column * (kBoxWidth + kGapX); }
double y_of(const Place& p) { return kMargin + p.row * (kBoxHeight + kGapY); }

}  // namespace

std::string to_svg(const Graph& g) {
  const std::map<int, Place> places = place_nodes(g);
  int rows = 0, columns = 0;
  for (const auto& [node, p] : places) {
    rows = std::max(rows, p.row + 1);
    columns = std::max(columns, p.column + 1);
  }
  std::string lines, boxes;
  for (const auto& [node, p] : places) {
    const auto& n = g.node(node);
    for (ValueId v : n.inputs)
      if (const auto it = places.find(v.node); it != places.end())
        lines += fmt::format("<path d='M{} {} L{} {}' stroke='#888' fill='none' marker-end='url(#tip)'/>\n",
                             x_of(it->second) + kBoxWidth / 2, y_of(it->second) + kBoxHeight, x_of(p) + kBoxWidth / 2, y_of(p));
    const auto& shape = n.outputs[0].shape;
    boxes += fmt::format(
        "<rect x='{0}' y='{1}' width='{2}' height='{3}' rx='6' fill='{4}' stroke='#456'/>"
        "<text x='{5}' y='{6}' text-anchor='middle'>{7}</text><text x='{5}' y='{8}' text-anchor='middle' fill='#667' "
        "font-size='10'>{9}</text>\n",
        x_of(p), y_of(p), kBoxWidth, kBoxHeight, n.op ? "#dbe9f6" : "#eeeeee", x_of(p) + kBoxWidth / 2, y_of(p) + 17,
        escaped(n.op ? n.op->name : n.name), y_of(p) + 32, shape ? shape->str() : escaped(n.name));
  }
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' font-family='sans-serif' font-size='12'>\n"
      "<defs><marker id='tip' markerWidth='8' markerHeight='8' refX='7' refY='3' orient='auto'><path d='M0 0 L7 3 L0 6 z' "
      "fill='#888'/></marker></defs>\n"
      "<rect width='{0}' height='{1}' fill='white'/>\n{2}{3}</svg>\n",
      2 * kMargin + columns * (kBoxWidth + kGapX) - kGapX, 2 * kMargin + rows * (kBoxHeight + kGapY) - kGapY, lines, boxes);
}

}  // namespace gluino
