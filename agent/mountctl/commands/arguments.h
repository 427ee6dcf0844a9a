// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "agent/types.h"

// Options that several commands have. The variable that an option fills must
// outlive the parsing.
namespace mountd::agent {

// Replaces 1048576, 512MiB or 10GiB by the number of bytes; K, KB and KiB all
// mean 1024. Refuses negative numbers and numbers that an int64_t cannot hold.
CLI::Validator IsSize();

template <std::integral Bytes>
CLI::Option* AddSize(CLI::App& command, const std::string& name, Bytes& bytes,
                     const std::string& help) {
  static_assert(sizeof(Bytes) == sizeof(std::int64_t));
  return command.add_option(name, bytes, help)
      ->transform(IsSize())
      ->type_name("SIZE");
}

// Adds an option KEY=VALUE that may be repeated, once for each entry of the
// map.
void AddPairs(CLI::App& command, const std::string& name,
              std::map<std::string, std::string>& pairs,
              const std::string& help);

// Adds --secrets FILE, a JSON object of texts. No option takes a secret itself,
// because every process of the node can read the command line.
void AddSecretsFile(CLI::App& command,
                    std::map<std::string, std::string>& secrets);

// Adds --tasks wait|ignore; kRefuse if it is not given. The value is set once
// the command line is parsed.
std::shared_ptr<OnTasks> AddOnTasks(CLI::App& command);
std::shared_ptr<OnlyIf> AddOnlyIf(CLI::App& command);

}  // namespace mountd::agent
