// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {

// A message to an executor, as its peer could send it.
struct PlanOfInput {
  std::vector<std::byte> message;
  std::vector<std::uint8_t> fds;  // kinds of ExecKernel::Passed
  std::uint8_t others = 0;    // the argument of ExecKernel::Others before it
  bool peer_is_gone = false;  // when the answer is sent
};

// Takes up to eight plans from the front of the input. Each is a valid plan
// with names, sources and addresses that its configuration declares, or nearly
// so, with bytes written over it.
std::vector<PlanOfInput> PlansOf(Input* input);

}  // namespace mountd::fuzz
