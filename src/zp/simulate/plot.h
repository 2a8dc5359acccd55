// A picture of a simulation.
#pragma once

#include <string>
#include <string_view>

#include "zp/simulate/simulator.h"

namespace zp {

/// An SVG: computed tokens a second over time, and what each rank does when. Bounded, however long the simulation was.
[[nodiscard]] std::string plot_svg(const SimulationReport& report, std::string_view title);

}  // namespace zp
