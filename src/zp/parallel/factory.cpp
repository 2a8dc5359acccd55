// Chooses the backend of collectives.
#include "zp/base/error.h"
#include "zp/parallel/collectives.h"
#include "zp/parallel/cpu/virtual_collectives.h"

namespace zp {

std::vector<std::unique_ptr<Collectives>> make_collectives(const CollectivesSpec& spec) {
  if (spec.ranks < 1) fail(ErrorCode::kInvalidArgument, "a group has {} ranks; it must have at least 1", spec.ranks);
  if (spec.kind != DeviceKind::kCpu)
    fail(ErrorCode::kUnsupported, "collectives between CUDA devices are not implemented yet; use device cpu");
  return cpu::make_virtual_collectives(spec);
}

}  // namespace zp
