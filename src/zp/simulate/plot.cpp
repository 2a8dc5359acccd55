// Steps are summed up in columns of time, so that a picture has a fixed size.
#include "zp/simulate/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace zp {
namespace {

constexpr int kColumns = 240;
constexpr int kColumnWidth = 4;
constexpr int kLeft = 70;
constexpr int kCurveTop = 50;
constexpr int kCurveHeight = 120;
constexpr int kLaneTop = kCurveTop + kCurveHeight + 50;
constexpr int kLanesMax = 64;  // more ranks than this share lanes
constexpr int kWidth = kLeft + kColumns * kColumnWidth + 20;

/// What a lane, or all ranks, did in a column.
struct Cell {
  double compute = 0;  ///< shares of the column's time
  double exposed = 0;
  double tokens = 0;
};

/// Adds a step's parts to the columns that it covers.
void spread(const StepRecord& step, double column_ns, std::vector<Cell>& cells) {
  const auto start = static_cast<double>(step.start_ns);
  const auto end = static_cast<double>(step.end_ns);
  const double exposed = static_cast<double>(step.exposed_ns) / (end - start);
  const auto first = static_cast<size_t>(start / column_ns);
  for (size_t c = first; c < cells.size() && static_cast<double>(c) * column_ns < end; ++c) {
    const double from = std::max(start, static_cast<double>(c) * column_ns);
    const double to = std::min(end, static_cast<double>(c + 1) * column_ns);
    const double part = std::max(0.0, to - from);
    cells[c].compute += part / column_ns * (1 - exposed);
    cells[c].exposed += part / column_ns * exposed;
    cells[c].tokens += part / (end - start) * static_cast<double>(step.tokens);
  }
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string curve(const std::vector<Cell>& all, double column_seconds) {
  double top = 0;
  for (const Cell& cell : all) top = std::max(top, cell.tokens / column_seconds);
  if (top <= 0) top = 1;
  std::string points;
  for (size_t c = 0; c < all.size(); ++c)
    points += fmt::format("{},{:.1f} ", kLeft + static_cast<int>(c) * kColumnWidth + kColumnWidth / 2,
                          kCurveTop + kCurveHeight * (1 - all[c].tokens / column_seconds / top));
  return fmt::format(
      "<text x=\"{0}\" y=\"{1}\" text-anchor=\"end\">{2:.0f}</text><text x=\"{0}\" y=\"{3}\" "
      "text-anchor=\"end\">0</text>\n"
      "<text x=\"{4}\" y=\"{5}\">computed tokens/s, all ranks</text>\n"
      "<polyline points=\"{6}\" fill=\"none\" stroke=\"#1f6feb\" stroke-width=\"1.5\"/>\n",
      kLeft - 6, kCurveTop + 8, top, kCurveTop + kCurveHeight, kLeft, kCurveTop - 8, points);
}

// One lane: compute from below, exposed time on top of it; what is left white is idle.
std::string lane(const std::vector<Cell>& cells, int top, int height) {
  std::string out;
  const auto bar = [&](size_t c, double from, double share, const char* colour) {
    if (share * height < 0.05) return;
    out += fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" fill=\"{}\"/>",
                       kLeft + static_cast<int>(c) * kColumnWidth, top + height * (1 - from - share), kColumnWidth,
                       height * share, colour);
  };
  for (size_t c = 0; c < cells.size(); ++c) {
    bar(c, 0, std::min(1.0, cells[c].compute), "#2da44e");
    bar(c, cells[c].compute, std::min(1.0, cells[c].exposed), "#cf222e");
  }
  return out + "\n";
}

}  // namespace

std::string plot_svg(const SimulationReport& report, std::string_view title) {
  const auto ranks = static_cast<int>(report.ranks.size());
  const int lanes = std::min(ranks, kLanesMax);
  const int lane_height = std::clamp(320 / std::max(lanes, 1), 6, 40);
  const double column_ns = std::max(1.0, report.makespan_seconds * 1e9 / kColumns);
  std::vector<std::vector<Cell>> cells(static_cast<size_t>(lanes), std::vector<Cell>(kColumns));
  std::vector<Cell> all(kColumns);
  std::vector<int> ranks_of(static_cast<size_t>(lanes), 0);
  for (int r = 0; r < ranks; ++r) ++ranks_of[static_cast<size_t>(r * lanes / ranks)];
  for (const StepRecord& step : report.steps) {
    spread(step, column_ns, all);
    spread(step, column_ns, cells[static_cast<size_t>(step.rank * lanes / ranks)]);
  }
  const int height = kLaneTop + lanes * (lane_height + 2) + 40;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<text x=\"{2}\" y=\"20\" font-size=\"13\">{3}</text>\n",
      kWidth, height, kLeft, escaped(title));
  svg += curve(all, column_ns * 1e-9);
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\">what ranks do: compute (green), waiting for experts (red), idle (white)</text>\n", kLeft,
      kLaneTop - 8);
  for (int i = 0; i < lanes; ++i) {
    for (Cell& cell : cells[static_cast<size_t>(i)]) {
      cell.compute /= ranks_of[static_cast<size_t>(i)];
      cell.exposed /= ranks_of[static_cast<size_t>(i)];
    }
    const int top = kLaneTop + i * (lane_height + 2);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kLeft - 6, top + lane_height - 1,
                       i * ranks / lanes);
    svg += lane(cells[static_cast<size_t>(i)], top, lane_height);
  }
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\">0 s</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.1f} s</text>\n</svg>\n", kLeft,
      height - 15, kLeft + kColumns * kColumnWidth, height - 15, report.makespan_seconds);
  return svg;
}

}  // namespace zp
