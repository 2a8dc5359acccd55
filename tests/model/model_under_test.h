// A tiny checkpoint with everything needed to run it, and a driver that lays sequences out as steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "zp/device/factory.h"
#include "zp/expert/resident.h"
#include "zp/model/forward.h"
#include "zp/ops/factory.h"

namespace zp::test {

inline constexpr int32_t kTestBlockTokens = 16;

struct ModelOptions {
  std::optional<DType> activation = DType::kF32;
  bool reference = false;
  int32_t threads = 1;
  int64_t chunk_tokens = 64;
  int64_t pool_blocks = 64;
  std::function<std::unique_ptr<Ops>(std::unique_ptr<Ops>)> wrap{};  ///< put around the operations, if given
};

/// Logits of the whole vocabulary, and the log-sum-exp, at a sequence's last position.
struct LastLogits {
  std::vector<float> logits;
  float log_sum_exp = 0;
};

class ModelUnderTest final {
 public:
  ModelUnderTest(const std::filesystem::path& folder, const ModelOptions& options)
      : files_(folder),
        device_(make_device({.kind = DeviceKind::kCpu, .index = 0, .threads = options.threads})),
        limits_{.tokens = 2048,
                .chunk_tokens = options.chunk_tokens,
                .head_rows = 8,
                .candidates = int64_t{3} * files_.shape().vocabulary},
        ops_(wrapped(
            options,
            make_ops(*device_, {.activation = options.activation,
                                .reference = options.reference,
                                .limits = {.moe_tokens = limits_.chunk_tokens,
                                           .experts_per_token = files_.shape().experts_per_token,
                                           .experts = files_.shape().experts,
                                           .expert = {files_.shape().hidden, files_.shape().expert_intermediate},
                                           .head_rows = limits_.head_rows,
                                           .vocabulary = files_.shape().vocabulary}}))),
        weights_(load_weights(files_, *device_, *ops_)),
        experts_(files_.shape(), ExpertReader(files_, *ops_), *device_, options.threads),
        moe_(*ops_, experts_, {files_.shape().hidden, files_.shape().expert_intermediate}),
        pool_(*device_, files_.shape(), ops_->activation_dtype(), kTestBlockTokens, options.pool_blocks),
        forward_({*device_, *ops_, files_.shape(), weights_, moe_, pool_}, limits_),
        stream_(device_->create_stream("test")) {}

  [[nodiscard]] const ModelShape& shape() const { return files_.shape(); }
  [[nodiscard]] Ops& ops() { return *ops_; }

  /// A part of a sequence to compute: tokens [begin, ids.size()), the earlier ones taken from `prefix`.
  struct Part {
    std::span<const int32_t> ids;
    int32_t begin = 0;
    std::vector<KvRun> prefix;
  };

  /// Runs the parts as one step, in this order; `keep` as in ForwardStep.
  std::vector<LastLogits> run(std::span<const Part> parts, std::vector<KeepRun> keep = {}) {
    ForwardStep step;
    step.keep = std::move(keep);
    step.candidate_offsets.push_back(0);
    for (const Part& part : parts) {
      const auto length = static_cast<int32_t>(part.ids.size());
      step.sequences.push_back({static_cast<int64_t>(step.ids.size()), length - part.begin, part.prefix});
      for (int32_t p = part.begin; p < length; ++p) {
        step.ids.push_back(part.ids[static_cast<size_t>(p)]);
        step.positions.push_back(p);
      }
      step.head_rows.push_back(static_cast<int64_t>(step.ids.size()) - 1);
      for (int32_t c = 0; c < shape().vocabulary; ++c) step.candidates.push_back(c);
      step.candidate_offsets.push_back(static_cast<int64_t>(step.candidates.size()));
    }
    const ForwardResult result = forward_.run(*stream_, step);
    std::vector<LastLogits> out;
    const auto vocabulary = static_cast<std::ptrdiff_t>(shape().vocabulary);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto first = result.logits.begin() + static_cast<std::ptrdiff_t>(i) * vocabulary;
      out.push_back({{first, first + vocabulary}, result.log_sum_exp[i]});
    }
    return out;
  }

  /// One sequence, alone and cold.
  LastLogits run_alone(std::span<const int32_t> ids) {
    const Part part{ids, 0, {}};
    return run(std::span(&part, 1)).front();
  }

 private:
  static std::unique_ptr<Ops> wrapped(const ModelOptions& options, std::unique_ptr<Ops> ops) {
    return options.wrap ? options.wrap(std::move(ops)) : std::move(ops);
  }

  ModelFiles files_;
  std::unique_ptr<Device> device_;
  ForwardLimits limits_;
  std::unique_ptr<Ops> ops_;
  ModelWeights weights_;
  ResidentExperts experts_;
  SourceMoe moe_;
  KvPool pool_;
  Forward forward_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace zp::test
