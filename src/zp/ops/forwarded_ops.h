// Operations that are another object's: what paces, counts or times them overrides those that it cares for.
#pragma once

#include <memory>
#include <utility>

#include "zp/ops/ops.h"

namespace zp {

/// Passes everything on to `inner`.
class ForwardedOps : public Ops {
 public:
  explicit ForwardedOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] DType activation_dtype() const noexcept override { return inner_->activation_dtype(); }
  [[nodiscard]] std::string_view description() const noexcept override { return inner_->description(); }

  [[nodiscard]] PackedMatrix pack_matrix(std::span<const ConstTensorView> parts) override {
    return inner_->pack_matrix(parts);
  }
  [[nodiscard]] size_t expert_blob_bytes(const ExpertSize& size) const override {
    return inner_->expert_blob_bytes(size);
  }
  void pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                   std::span<std::byte> blob) const override {
    inner_->pack_expert(gate, up, down, blob);
  }
  [[nodiscard]] PackedMatrix draw_matrix(std::span<const DrawnMatrix> parts) override {
    return inner_->draw_matrix(parts);
  }

  void draw(Stream& stream, const DrawArgs& args) override { inner_->draw(stream, args); }
  void draw_expert(Stream& stream, const DrawnExpert& expert, std::byte* blob) override {
    inner_->draw_expert(stream, expert, blob);
  }
  void embed(Stream& stream, const EmbedArgs& args) override { inner_->embed(stream, args); }
  void residual_norm(Stream& stream, const ResidualNormArgs& args) override { inner_->residual_norm(stream, args); }
  void linear(Stream& stream, const LinearArgs& args) override { inner_->linear(stream, args); }
  void rope(Stream& stream, const RopeArgs& args) override { inner_->rope(stream, args); }
  void attention(Stream& stream, const AttentionArgs& args) override { inner_->attention(stream, args); }
  void store_kv(Stream& stream, const StoreKvArgs& args) override { inner_->store_kv(stream, args); }
  void route(Stream& stream, const RouteArgs& args) override { inner_->route(stream, args); }
  void moe(Stream& stream, const MoeArgs& args) override { inner_->moe(stream, args); }
  void swiglu(Stream& stream, const SwigluArgs& args) override { inner_->swiglu(stream, args); }
  void gather_rows(Stream& stream, const GatherRowsArgs& args) override { inner_->gather_rows(stream, args); }
  void convert(Stream& stream, const ConvertArgs& args) override { inner_->convert(stream, args); }
  void combine(Stream& stream, const CombineArgs& args) override { inner_->combine(stream, args); }
  void head(Stream& stream, const HeadArgs& args) override { inner_->head(stream, args); }

 protected:
  [[nodiscard]] Ops& inner() const noexcept { return *inner_; }

 private:
  std::unique_ptr<Ops> inner_;
};

}  // namespace zp
