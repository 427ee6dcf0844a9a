// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "agent/types.h"

// Options that several commands have. What they fill in outlives the parsing.
namespace mountd::agent {

// Puts a number of bytes in the place of 1048576, 512MiB or 10GiB; K, KB and
// KiB are 1024 all the same. Refuses what an int64_t does not hold, and the
// negative.
CLI::Validator IsSize();

template <std::integral Bytes>
CLI::Option* AddSize(CLI::App& command, const std::string& name, Bytes& bytes,
                     const std::string& help) {
  static_assert(sizeof(Bytes) == sizeof(std::int64_t));
  return command.add_option(name, bytes, help)
      ->transform(IsSize())
      ->type_name("SIZE");
}

// KEY=VALUE, once for each of the map.
void AddPairs(CLI::App& command, const std::string& name,
              std::map<std::string, std::string>& pairs,
              const std::string& help);

// --secrets FILE: a JSON object of texts. Never on the command line itself,
// which every process of the node can read.
void AddSecretsFile(CLI::App& command,
                    std::map<std::string, std::string>& secrets);

// --tasks wait|ignore; kRefuse without. The value is there once it is parsed.
std::shared_ptr<OnTasks> AddOnTasks(CLI::App& command);

}  // namespace mountd::agent
