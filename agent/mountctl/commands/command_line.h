// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "agent/mountctl/commands/commands.h"

namespace mountd::agent {

// Reads the arguments without the program's name. The words after "--" of a
// command that runs a command, such as `exec`, go to `context.command` as they
// are. A word such as "[a,b]" stays one word everywhere. Throws
// CLI::ParseError.
void ReadCommandLine(CLI::App& app, Context& context,
                     std::vector<std::string> arguments);

// Returns the whole command: the words that CLI11 has read, and those after
// "--".
std::vector<std::string> WholeCommand(const Context& context,
                                      std::vector<std::string> words);

}  // namespace mountd::agent
