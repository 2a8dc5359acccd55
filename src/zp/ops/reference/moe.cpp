// Routing and the mixture of experts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "zp/ops/reference/elements.h"
#include "zp/ops/reference/kernels.h"

namespace zp::reference {
namespace {

// Expert ids, most probable first. A logit that is NaN ranks last, so ids are valid whatever the logits.
std::vector<int32_t> ranked(const float* logits, int64_t experts) {
  std::vector<int32_t> order(static_cast<size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int32_t e) {
    return std::isnan(logits[e]) ? -std::numeric_limits<float>::infinity() : logits[e];
  };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) > key(b); });
  return order;
}

std::vector<double> softmax(const float* logits, int64_t experts) {
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t e = 0; e < experts; ++e) top = std::max(top, static_cast<double>(logits[e]));
  std::vector<double> weights(static_cast<size_t>(experts));
  double sum = 0;
  for (size_t e = 0; e < weights.size(); ++e) {
    weights[e] = std::exp(static_cast<double>(logits[e]) - top);
    sum += weights[e];
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// down(silu(gate(x)) * up(x)) of one expert for one token.
std::vector<double> run_expert(const std::vector<float>& x, const std::byte* blob, const ExpertSize& size,
                               DType dtype) {
  const int64_t h_count = size.hidden;
  const int64_t i_count = size.intermediate;
  const ConstTensorView weights(blob, dtype, {3 * i_count * h_count});
  std::vector<float> inner(static_cast<size_t>(i_count));
  for (int64_t i = 0; i < i_count; ++i) {
    const double gate = dot(x, load_span(weights, i * h_count, h_count));
    const double up = dot(x, load_span(weights, (i_count + i) * h_count, h_count));
    inner[static_cast<size_t>(i)] = round_to(dtype, silu(gate) * up);
  }
  std::vector<double> out(static_cast<size_t>(h_count));
  for (int64_t h = 0; h < h_count; ++h)
    out[static_cast<size_t>(h)] = dot(inner, load_span(weights, 2 * i_count * h_count + h * i_count, i_count));
  return out;
}

// The experts that the table has for a token.
std::vector<int32_t> drawn(const RouteArgs& args, int64_t t) {
  const int64_t chosen = args.table.dim(1);
  const auto at = static_cast<size_t>(t);
  const int64_t row = drawn_route(args.tokens[at], args.positions[at], args.table.dim(0));
  const int32_t* ids = args.table.as<int32_t>() + row * chosen;
  return {ids, ids + chosen};
}

}  // namespace

void route(const RouteArgs& args) {
  const int64_t tokens = args.logits.dim(0);
  const int64_t experts = args.logits.dim(1);
  const int64_t chosen = args.ids.dim(1);
  for (int64_t t = 0; t < tokens; ++t) {
    const float* logits = args.logits.as<float>() + t * experts;
    const std::vector<int32_t> order = args.table.empty() ? ranked(logits, experts) : drawn(args, t);
    const std::vector<double> weights = softmax(logits, experts);
    double sum = 0;
    for (int64_t j = 0; j < chosen; ++j) sum += weights[static_cast<size_t>(order[static_cast<size_t>(j)])];
    for (int64_t j = 0; j < chosen; ++j) {
      const int32_t expert = order[static_cast<size_t>(j)];
      args.ids.as<int32_t>()[t * chosen + j] = expert;
      store(args.weights, t * chosen + j, weights[static_cast<size_t>(expert)] / (args.normalize ? sum : 1.0));
    }
  }
}

void moe(const MoeArgs& args) {
  const int64_t tokens = args.ids.dim(0);
  const int64_t chosen = args.ids.dim(1);
  const int64_t hidden = args.size.hidden;
  for (int64_t t = 0; t < tokens; ++t) {
    const std::vector<float> x = load_span(args.x, t * hidden, hidden);
    std::vector<double> sum(static_cast<size_t>(hidden), 0.0);
    for (int64_t j = 0; j < chosen; ++j) {
      const int32_t expert = args.ids.as<int32_t>()[t * chosen + j];
      ZP_CHECK(expert >= 0 && expert < std::ssize(args.experts) && args.experts[static_cast<size_t>(expert)] != nullptr,
               "token {} is routed to expert {} of {}, which is not there", t, expert, args.experts.size());
      const auto weight = static_cast<double>(args.weights.as<float>()[t * chosen + j]);
      const std::vector<double> y = run_expert(x, args.experts[static_cast<size_t>(expert)], args.size, args.x.dtype());
      for (size_t h = 0; h < sum.size(); ++h) sum[h] += weight * y[h];
    }
    for (int64_t h = 0; h < hidden; ++h) store(args.out, t * hidden + h, sum[static_cast<size_t>(h)]);
  }
}

void combine(const CombineArgs& args) {
  const int64_t tokens = args.weights.dim(0);
  const int64_t chosen = args.weights.dim(1);
  const int64_t hidden = args.x.dim(1);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < hidden; ++h) {
      double sum = 0;
      for (int64_t j = 0; j < chosen; ++j) {
        const int64_t row = args.rows[static_cast<size_t>(t * chosen + j)];
        sum += static_cast<double>(args.weights.as<float>()[t * chosen + j]) *
               static_cast<double>(load(args.x, row * hidden + h));
      }
      store(args.out, t * hidden + h, sum);
    }
  }
}

}  // namespace zp::reference
