// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::bench {

struct Program {
  std::vector<std::string> command;        // the first: its path
  std::vector<std::string> environment{};  // beside PATH
  std::string input{};
};

// Runs it in the calling thread's namespaces; what it printed. An error, with
// that text, if it fails.
Result<std::string> RunProgram(const Program& program);

bool IsProgram(const std::string& path);

}  // namespace mountd::bench
