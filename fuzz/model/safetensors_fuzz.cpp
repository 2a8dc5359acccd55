// Any bytes as a safetensors file: only zp::Error may come out, and whatever is accepted lies inside the file.
#include <cstdlib>

#include "scratch_folder.h"
#include "zp/base/error.h"
#include "zp/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const zp::fuzz::ScratchFolder folder;
  const auto path = folder.write("model.safetensors", data, size);
  try {
    const zp::SafetensorsFile file(path);
    for (const auto& [name, tensor] : file.tensors()) {
      const auto all = tensor.file->bytes();
      const bool inside =
          tensor.bytes.empty() ||
          (tensor.bytes.data() >= all.data() && tensor.bytes.data() + tensor.bytes.size() <= all.data() + all.size());
      if (!inside) std::abort();
    }
  } catch (const zp::Error&) {
    // A named refusal is what bad files are owed.
  }
  return 0;
}
