// Any bytes as config.json: only zp::Error may come out, and what is accepted has no contradictions.
#include <cstdlib>

#include "scratch_folder.h"
#include "zp/base/error.h"
#include "zp/model/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const zp::fuzz::ScratchFolder folder;
  (void)folder.write("config.json", data, size);
  try {
    if (!zp::validate(zp::read_model_config(folder.path()).shape).empty()) std::abort();
  } catch (const zp::Error&) {
    // A named refusal is what bad files are owed.
  }
  return 0;
}
