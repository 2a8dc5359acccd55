// How much memory the replicated weights take once packed, padding included.
#pragma once

#include <cstdint>

#include "zp/device/device.h"
#include "zp/model/weight_source.h"
#include "zp/ops/factory.h"
#include "zp/shape/model_shape.h"

namespace zp {

/// Everything but the experts, as load_weights() makes it. Tied embeddings count twice: they lie in memory as a table
/// to look up and as a packed matrix to multiply by.
[[nodiscard]] uint64_t replicated_weight_bytes(const ModelShape& shape, const Device& device, const OpsSpec& ops);
/// The tables of routes of a model that draws them, for the layers of a part of it.
[[nodiscard]] uint64_t route_table_bytes(const WeightSource& source, const ModelShape& part);

}  // namespace zp
