// A kernel that does what no kernel may.
#pragma once

namespace zp::test {

/// Writes where there is no memory, on the current device, and waits: from then on every call of CUDA in this process
/// fails.
void write_to_an_illegal_address();

}  // namespace zp::test
