// Loading over lanes gives the bytes that packing on the host gives, whatever the pieces, and names what it cannot
// read.
#include "zp/model/load_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "zp/device/cpu/cpu_device.h"
#include "zp/expert/packing.h"
#include "zp/ops/reference/reference_ops.h"
#include "zp/parallel/sharded_experts.h"
#include "zp/tensor/convert.h"

namespace zp::test {
namespace {

// Packs as ReferenceOps does, on a stream of the CPU: what a GPU does with kernels.
class ReferencePacking final : public DevicePacking {
 public:
  ReferencePacking(Device& device, DType type) : device_(device), type_(type) {}

  [[nodiscard]] PackedMatrix make_matrix(int64_t n, int64_t k) override {
    return {device_.allocate(static_cast<size_t>(n * k) * size_of(type_), MemoryKind::kDevice), n, k};
  }
  void pack_rows(Stream& stream, const StoredRows& rows, const MatrixRowsArgs& args) override {
    ASSERT_EQ(rows.columns, args.k);
    ASSERT_LE(args.first + rows.rows, args.n);
    convert(stream, rows, type_, args.matrix + static_cast<size_t>(args.first * args.k) * size_of(type_));
  }
  void convert_rows(Stream& stream, const StoredRows& rows, const TensorView& out) override {
    ASSERT_EQ(out.elements(), rows.rows * rows.columns);
    convert(stream, rows, out.dtype(), out.data());
  }
  void begin_expert(Stream& stream, const ExpertSize& size, std::byte* blob) override {
    stream.fill(blob, std::byte{0}, reference::expert_bytes(type_, size));
  }
  void pack_expert_rows(Stream& stream, const StoredRows& rows, const ExpertRowsArgs& args) override {
    const int64_t matrix = args.size.hidden * args.size.intermediate;
    const int64_t begin = matrix * static_cast<int64_t>(args.matrix) + args.first * rows.columns;
    convert(stream, rows, type_, args.blob + static_cast<size_t>(begin) * size_of(type_));
  }

 private:
  static void convert(Stream& stream, const StoredRows& rows, DType type, std::byte* out) {
    dynamic_cast<cpu::CpuStream&>(stream).enqueue([rows, type, out] {
      const size_t row_bytes = static_cast<size_t>(rows.columns) * size_of(type);
      for (int64_t r = 0; r < rows.rows; ++r)
        convert_elements(
            {rows.data + static_cast<size_t>(r * rows.stride) * size_of(rows.dtype), rows.dtype, {rows.columns}}, type,
            {out + static_cast<size_t>(r) * row_bytes, row_bytes});
    });
  }

  Device& device_;
  DType type_;
};

struct Machine {
  cpu::CpuDevice device{0, 2};
  reference::ReferenceOps ops{device, DType::kF32};
  ReferencePacking packing{device, DType::kF32};
};

// Pieces of a few rows, so that every matrix takes several.
constexpr size_t kSmallPiece = 1024;

std::filesystem::path model(const std::string& name) {
  return std::filesystem::path(ZP_SOURCE_DIR) / "tests/data/models" / name;
}

std::vector<std::byte> bytes_of(const std::byte* data, size_t size) { return {data, data + size}; }

void expect_equal(const Tensor& found, const Tensor& expected, const char* what) {
  ASSERT_EQ(found.view().size_bytes(), expected.view().size_bytes()) << what;
  if (expected.view().size_bytes() == 0) return;
  EXPECT_EQ(std::memcmp(found.view().data(), expected.view().data(), expected.view().size_bytes()), 0) << what;
}

void expect_equal(const PackedMatrix& found, const PackedMatrix& expected, const char* what) {
  ASSERT_EQ(found.n, expected.n) << what;
  ASSERT_EQ(found.k, expected.k) << what;
  ASSERT_EQ(found.buffer.size_bytes(), expected.buffer.size_bytes()) << what;
  if (expected.buffer.size_bytes() == 0) return;
  EXPECT_EQ(std::memcmp(found.buffer.data(), expected.buffer.data(), expected.buffer.size_bytes()), 0) << what;
}

void expect_equal(const ModelWeights& found, const ModelWeights& expected) {
  expect_equal(found.embedding, expected.embedding, "embedding");
  expect_equal(found.final_norm, expected.final_norm, "final norm");
  expect_equal(found.head, expected.head, "head");
  ASSERT_EQ(found.layers.size(), expected.layers.size());
  for (size_t l = 0; l < found.layers.size(); ++l) {
    SCOPED_TRACE(l);
    const LayerWeights& a = found.layers[l];
    const LayerWeights& b = expected.layers[l];
    expect_equal(a.input_norm, b.input_norm, "input norm");
    expect_equal(a.qkv, b.qkv, "qkv");
    expect_equal(a.q_norm, b.q_norm, "q norm");
    expect_equal(a.k_norm, b.k_norm, "k norm");
    expect_equal(a.attention_out, b.attention_out, "attention out");
    expect_equal(a.post_attention_norm, b.post_attention_norm, "post attention norm");
    expect_equal(a.router, b.router, "router");
    expect_equal(a.gate_up, b.gate_up, "gate up");
    expect_equal(a.down, b.down, "down");
  }
}

// Every other feature range of a rank of two.
ModelShard half(const ModelShape& shape) {
  ModelShard shard = whole_model(shape);
  shard.query_heads = part_of(shape.query_heads, 1, 2);
  shard.kv_heads = part_of(shape.kv_heads, 1, 2);
  shard.expert_intermediate = part_of(shape.expert_intermediate, 1, 2);
  shard.dense_intermediate = part_of(shape.dense_intermediate, 1, 2);
  return shard;
}

class LoadLanesOf : public ::testing::TestWithParam<const char*> {};

TEST_P(LoadLanesOf, GivesTheWeightsThatTheHostPacks) {
  Machine machine;
  const ModelFiles files(model(GetParam()));
  for (const int32_t threads : {1, 3})
    for (const size_t piece : {kSmallPiece, size_t{1} << 20}) {
      LoadLanes lanes(machine.device, machine.packing, {.threads = threads, .blob_bytes = 0, .piece_bytes = piece});
      expect_equal(load_weights(files, machine.device, machine.ops, &lanes),
                   load_weights(files, machine.device, machine.ops));
      const ModelShard shard = half(files.shape());
      expect_equal(load_weights(files, shard, machine.device, machine.ops, &lanes),
                   load_weights(files, shard, machine.device, machine.ops));
      EXPECT_GT(lanes.read_bytes(), 0U);
    }
}

TEST_P(LoadLanesOf, GivesTheExpertsThatTheHostPacks) {
  Machine machine;
  const ModelFiles files(model(GetParam()));
  for (const ModelShard& shard : {whole_model(files.shape()), half(files.shape())}) {
    const ExpertReader reader(files, machine.ops, shard);
    std::vector<ExpertId> experts;
    for (int32_t l = 0; l < files.shape().layers; ++l)
      for (int32_t e = 0; e < files.shape().experts; ++e)
        if (files.shape().feed_forward[static_cast<size_t>(l)] == FeedForward::kMoe) experts.push_back({l, e});
    LoadLanes lanes(machine.device, machine.packing,
                    {.threads = 3, .blob_bytes = reader.blob_bytes(), .piece_bytes = kSmallPiece});
    for (const MemoryKind memory : {MemoryKind::kDevice, MemoryKind::kPinnedHost}) {
      const ExpertStore found(machine.device, memory, experts, packing_of(reader, lanes));
      const ExpertStore expected(machine.device, memory, experts, packing_of(reader, 2));
      EXPECT_EQ(found.size_bytes(), expected.size_bytes());
      for (const ExpertId id : experts)
        EXPECT_TRUE(bytes_of(found.address(id), reader.blob_bytes()) ==
                    bytes_of(expected.address(id), reader.blob_bytes()))
            << "layer " << id.layer << ", expert " << id.expert;
    }
  }
}

TEST_P(LoadLanesOf, GivesAGroupsRankTheExpertsThatTheHostPacks) {
  Machine machine;
  const ModelFiles files(model(GetParam()));
  ModelShard shard = half(files.shape());
  shard.experts = part_of(files.shape().experts, 1, 2);
  const ModelShape shape = shape_of(files.shape(), shard);
  const ExpertReader reader(files, machine.ops, shard);
  LoadLanes lanes(machine.device, machine.packing, {.threads = 3, .blob_bytes = 0, .piece_bytes = kSmallPiece});
  ShardedExperts::Parts parts{.shape = shape, .shard = shard, .reader = reader, .device = machine.device};
  ShardedExperts expected(parts);
  EXPECT_EQ(lanes.read_bytes(), 0U);
  parts.lanes = &lanes;
  ShardedExperts found(parts);
  EXPECT_GT(lanes.read_bytes(), 0U);
  const std::unique_ptr<Stream> stream = machine.device.create_stream("test");
  for (int32_t l = 0; l < shape.layers; ++l) {
    if (shape.feed_forward[static_cast<size_t>(l)] != FeedForward::kMoe) continue;
    const auto a = found.acquire(l, *stream);
    const auto b = expected.acquire(l, *stream);
    for (int32_t e = 0; e < shape.experts; ++e) {
      const auto i = static_cast<size_t>(e);
      ASSERT_EQ(a[i] != nullptr, shard.experts.contains(e));
      if (a[i] == nullptr) continue;
      EXPECT_TRUE(bytes_of(a[i], reader.blob_bytes()) == bytes_of(b[i], reader.blob_bytes())) << l << ", " << e;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LoadLanesOf, ::testing::Values("mixed_layers_bf16", "moe_f32", "tied_sharded_f16"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(LoadLanes, TakeWhatThePlanCounts) {
  Machine machine;
  const LoadLanesSpec spec{.threads = 99, .blob_bytes = 1000, .piece_bytes = 5000};
  const size_t before = machine.device.allocated_bytes(MemoryKind::kDevice);
  const LoadLanes lanes(machine.device, machine.packing, spec);
  EXPECT_EQ(machine.device.allocated_bytes(MemoryKind::kDevice) - before, LoadLanes::device_bytes(spec));
  EXPECT_EQ(machine.device.allocated_bytes(MemoryKind::kPinnedHost), LoadLanes::pinned_bytes(spec));
  EXPECT_LE(LoadLanes::pinned_bytes(spec), size_t{LoadLanes::kMaxLanes} * 2 * 5120);
}

// A checkpoint of its own, to be spoilt.
class SpoiltCheckpoint : public ::testing::Test {
 protected:
  SpoiltCheckpoint() {
    std::filesystem::copy(model("moe_f32"), folder_.path(), std::filesystem::copy_options::recursive);
  }
  [[nodiscard]] std::filesystem::path file() const { return folder_.path() / "model.safetensors"; }

  TemporaryFolder folder_;
  Machine machine_;
};

TEST_F(SpoiltCheckpoint, AFileCutShortAfterItWasOpenedIsNamedWithTheTensor) {
  const ModelFiles files(folder_.path());
  const ExpertReader reader(files, machine_.ops);
  LoadLanes lanes(machine_.device, machine_.packing, {.threads = 2, .blob_bytes = 0, .piece_bytes = kSmallPiece});
  std::filesystem::resize_file(file(), 8192);
  const auto expect_named = [&](auto&& load) {
    expect_error(load, ErrorCode::kCorrupt, {"tensor 'model.", file().string()});
  };
  expect_named([&] { (void)load_weights(files, machine_.device, machine_.ops, &lanes); });
  expect_named([&] { (void)load_weights(files, machine_.device, machine_.ops); });
  const std::vector<ExpertId> experts = {{0, 0}, {0, 1}, {1, 0}};
  expect_named(
      [&] { const ExpertStore store(machine_.device, MemoryKind::kDevice, experts, packing_of(reader, lanes)); });
  expect_named([&] { const ExpertStore store(machine_.device, MemoryKind::kDevice, experts, packing_of(reader, 2)); });
}

TEST_F(SpoiltCheckpoint, AReadThatTheSystemRefusesIsNamedWithTheTensor) {
  const ModelFiles files(folder_.path());
  // Memory that is not there, as a stand-in for a disk that fails.
  const std::span<std::byte> nowhere(reinterpret_cast<std::byte*>(uintptr_t{64}), 16);
  expect_error([&] { files.checkpoint().read("lm_head.weight", 0, nowhere); }, ErrorCode::kIo,
               {"tensor 'lm_head.weight'", file().string(), "cannot read"});
}

TEST(ExpertMemory, ThatIsRefusedEndsTheLoading) {
  Machine machine;
  std::vector<ExpertId> experts;
  for (int32_t layer = 0; layer < 4; ++layer) experts.push_back({layer, 0});
  const ExpertPacking packing{.blob_bytes = size_t{1} << 46,
                              .read = [](ExpertId, std::span<std::byte>) { FAIL() << "there is no memory for it"; },
                              .threads = 2};
  expect_error([&] { const ExpertStore store(machine.device, MemoryKind::kDevice, experts, packing); },
               ErrorCode::kOutOfMemory, {std::to_string(packing.blob_bytes)});
}

TEST_F(SpoiltCheckpoint, LanesServeAgainAfterAFailure) {
  const ModelFiles whole(model("moe_f32"));
  const ModelFiles cut(folder_.path());
  LoadLanes lanes(machine_.device, machine_.packing, {.threads = 2, .blob_bytes = 0, .piece_bytes = kSmallPiece});
  std::filesystem::resize_file(file(), 8192);
  EXPECT_TRUE(thrown_by([&] { (void)load_weights(cut, machine_.device, machine_.ops, &lanes); }).has_value());
  expect_equal(load_weights(whole, machine_.device, machine_.ops, &lanes),
               load_weights(whole, machine_.device, machine_.ops));
}

TEST_F(SpoiltCheckpoint, ATypeThatCannotBeComputedWithIsNamedWithFileAndTensor) {
  std::string bytes;
  {
    std::ifstream in(file(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  // The same size, another meaning.
  const std::string expert = R"("model.layers.0.mlp.experts.0.up_proj.weight":{"dtype":"F32")";
  const size_t at = bytes.find(expert);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at + expert.size() - 4, 3, "I32");
  folder_.write("model.safetensors", bytes);
  const ModelFiles files(folder_.path());
  LoadLanes lanes(machine_.device, machine_.packing, {.threads = 2, .blob_bytes = 0, .piece_bytes = kSmallPiece});
  const std::vector<ExpertId> experts = {{0, 0}, {0, 1}};
  const ExpertReader reader(files, machine_.ops);
  for (const ExpertPacking& packing : {packing_of(reader, lanes), packing_of(reader, 2)})
    expect_error([&] { const ExpertStore store(machine_.device, MemoryKind::kDevice, experts, packing); },
                 ErrorCode::kUnsupported, {"model.layers.0.mlp.experts.0.up_proj.weight", "I32", file().string()});
}

TEST(LoadLanes, RefuseRowsLongerThanAPiece) {
  Machine machine;
  const ModelFiles files(std::filesystem::path(ZP_SOURCE_DIR) / "models/demo-moe");
  ASSERT_GT(files.shape().hidden * 2, 256);  // the smallest piece
  LoadLanes lanes(machine.device, machine.packing, {.threads = 1, .blob_bytes = 0, .piece_bytes = 1});
  expect_error([&] { (void)load_weights(files, machine.device, machine.ops, &lanes); }, ErrorCode::kUnsupported,
               {"tensor '", "rows of", "256"});
}

}  // namespace
}  // namespace zp::test
