// Draws weights and routes.
#include "zp/model/random_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "zp/base/error.h"
#include "zp/base/folder.h"
#include "zp/model/checkpoint.h"
#include "zp/ops/drawn_host.h"
#include "zp/shape/known_models.h"

namespace zp {
namespace {

constexpr double kStandardDeviation = 0.02;

// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/), then mixed with the seed by the generator itself.
uint64_t key_of(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  const PhiloxWords words = philox4x32({{static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32U), 0, 0}}, seed);
  return uint64_t{words.word[1]} << 32U | words.word[0];
}

// Random whole numbers below a limit, from a key.
class Draws final {
 public:
  explicit Draws(uint64_t key) : key_(key) {}
  // The product's high half: off by at most limit / 2^32 of uniform.
  [[nodiscard]] int64_t below(int64_t limit) {
    if (used_ == 4) {
      words_ = philox4x32({{static_cast<uint32_t>(count_), static_cast<uint32_t>(count_ >> 32U), 0, 0}}, key_);
      ++count_;
      used_ = 0;
    }
    return static_cast<int64_t>(uint64_t{words_.word[used_++]} * static_cast<uint64_t>(limit) >> 32U);
  }

 private:
  uint64_t key_;
  uint64_t count_ = 0;
  PhiloxWords words_{};
  int32_t used_ = 4;
};

bool has(std::span<const int32_t> row, int32_t expert) { return std::ranges::find(row, expert) != row.end(); }

}  // namespace

ModelShape random_model_shape(const std::string& name, int32_t layers) {
  ModelShape shape;
  if (const KnownModel* known = known_by_name(name); known != nullptr) {
    if (find_family(known->shape.family) == nullptr || !known->planned_only.empty())
      fail(ErrorCode::kUnsupported, "the engine does not run {}: it lacks {}", known->name, known->planned_only);
    shape = known->shape;
  } else if (has_entry(name, "config.json")) {
    shape = read_model_config(name).shape;
  } else {
    fail(ErrorCode::kNotFound, "'{}' is neither a known model ({}) nor a folder with a config.json", name,
         known_model_names());
  }
  if (layers == 0) return shape;
  if (layers < 0 || layers > shape.layers)
    fail(ErrorCode::kInvalidArgument, "{} has {} layers; it cannot be cut to {}", name, shape.layers, layers);
  shape.layers = layers;
  shape.feed_forward.resize(static_cast<size_t>(layers));
  return shape;
}

std::vector<int64_t> expert_quotas(int32_t experts, int64_t rows, int32_t chosen, double skew) {
  const auto total = static_cast<double>(rows * chosen);
  std::vector<double> shares;
  for (int32_t e = 0; e < experts; ++e)
    shares.push_back(experts == 1 ? 1.0 : std::pow(skew, -static_cast<double>(e) / (experts - 1)));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  // Rounding the running sum keeps the total.
  std::vector<int64_t> quotas;
  double before = 0;
  for (const double share : shares) {
    const double after = before + share / sum * total;
    quotas.push_back(std::llround(after) - std::llround(before));
    before = after;
  }
  return quotas;
}

RandomModel::RandomModel(ModelShape shape, const RandomModelSpec& spec)
    : shape_(std::move(shape)), family_(find_family(shape_.family)), spec_(spec) {
  ZP_CHECK(family_ != nullptr, "family '{}' is not supported", shape_.family);
  if (!(spec.expert_skew >= 1 && spec.expert_skew <= 1e6))
    fail(ErrorCode::kInvalidArgument, "expert_skew is {}; it must lie in [1, 1e6]", spec.expert_skew);
  if (shape_.moe_layers() == 0) return;
  const auto quotas = expert_quotas(shape_.experts, kRouteTableRows, shape_.experts_per_token, spec.expert_skew);
  if (quotas.front() > kRouteTableRows || quotas.back() < 1)
    fail(ErrorCode::kInvalidArgument,
         "expert_skew {} cannot be had with {} of {} experts a token: {} of {} tokens would take the commonest, {} the "
         "rarest",
         spec.expert_skew, shape_.experts_per_token, shape_.experts, quotas.front(), kRouteTableRows, quotas.back());
}

DrawnMatrix RandomModel::drawn(const MatrixPart& part) const {
  return {.key = key_of(spec_.seed, part.name),
          .unit = drawn_unit(kStandardDeviation),
          .rows = part.rows.count,
          .columns = part.columns.count,
          .row = part.rows.begin,
          .column = part.columns.begin};
}

Tensor RandomModel::norm(const WeightTarget& target, const std::string& /*name*/, int64_t length) const {
  const std::vector<float> ones(static_cast<size_t>(length), 1.0F);
  Tensor tensor(target.device, DType::kF32, {length});
  target.stream.copy(tensor.view().data(), ones.data(), ones.size() * sizeof(float));
  target.stream.synchronize();
  return tensor;
}

Tensor RandomModel::table(const WeightTarget& target, const std::string& name, const Shape& shape) const {
  Tensor tensor(target.device, target.ops.activation_dtype(), shape);
  const DrawnMatrix matrix =
      drawn({name, shape, {0, static_cast<int32_t>(shape[0])}, {0, static_cast<int32_t>(shape[1])}});
  target.ops.draw(target.stream, {.matrix = matrix, .out = tensor.view()});
  target.stream.synchronize();
  return tensor;
}

PackedMatrix RandomModel::matrix(const WeightTarget& target, std::span<const MatrixPart> parts) const {
  std::vector<DrawnMatrix> matrices;
  for (const MatrixPart& part : parts) matrices.push_back(drawn(part));
  return target.ops.draw_matrix(matrices);
}

std::optional<DrawnExpert> RandomModel::drawn_expert(const ExpertParts& parts) const {
  return DrawnExpert{.gate = drawn(parts.gate), .up = drawn(parts.up), .down = drawn(parts.down)};
}

void RandomModel::expert(const Ops& ops, const ExpertParts& parts, std::span<std::byte> blob) const {
  pack_drawn_expert(ops, *drawn_expert(parts), blob);
}

// Deals the experts out by their quotas, so that equal ones lie in different rows, then exchanges entries of random
// rows as long as no row gets an expert twice: what remains of the dealing's order after four exchanges an entry is
// little.
std::vector<int32_t> RandomModel::route_table(int32_t layer) const {
  const int64_t rows = kRouteTableRows;
  const int32_t chosen = shape_.experts_per_token;
  Draws draws(key_of(spec_.seed, fmt::format("routes {}", layer)));
  std::vector<int32_t> order(static_cast<size_t>(shape_.experts));
  std::iota(order.begin(), order.end(), 0);
  for (auto i = static_cast<int64_t>(order.size()) - 1; i > 0; --i)
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(draws.below(i + 1))]);

  std::vector<int32_t> table(static_cast<size_t>(rows * chosen));
  const std::vector<int64_t> quotas = expert_quotas(shape_.experts, rows, chosen, spec_.expert_skew);
  int64_t dealt = 0;
  for (size_t e = 0; e < quotas.size(); ++e)
    for (int64_t i = 0; i < quotas[e]; ++i, ++dealt)
      table[static_cast<size_t>(dealt % rows * chosen + dealt / rows)] = order[e];

  const auto row_of = [&](int64_t row) {
    return std::span(table).subspan(static_cast<size_t>(row * chosen), static_cast<size_t>(chosen));
  };
  for (int64_t exchange = 0; exchange < 4 * rows * chosen; ++exchange) {
    const auto a = row_of(draws.below(rows));
    const auto b = row_of(draws.below(rows));
    int32_t& in_a = a[static_cast<size_t>(draws.below(chosen))];
    int32_t& in_b = b[static_cast<size_t>(draws.below(chosen))];
    const bool same_row = a.data() == b.data();  // then its order changes
    if (same_row || (!has(a, in_b) && !has(b, in_a))) std::swap(in_a, in_b);
  }
  return table;
}

}  // namespace zp
