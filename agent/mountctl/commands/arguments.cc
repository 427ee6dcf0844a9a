// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/arguments.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "mountd/base/number.h"

namespace mountd::agent {
namespace {

using Pairs = std::map<std::string, std::string>;

std::optional<Pairs> ReadSecrets(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file),
                         std::istreambuf_iterator<char>()};
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return std::nullopt;
  }
  Pairs secrets;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return std::nullopt;
    }
    secrets.emplace(key, value.get<std::string>());
  }
  return secrets;
}

// Replaces the text by the number. CLI11's own check would turn a negative
// number, or one that an int64_t cannot hold, into another number.
std::string ToBytes(std::string& text) {
  if (text.find('-') != std::string::npos) {
    return "must not be negative";
  }
  std::string error = CLI::AsSizeValue(false)(text);
  if (error.empty() && !ParseNumber<std::int64_t>(text)) {
    error = "is too large";
  }
  return error;
}

}  // namespace

CLI::Validator IsSize() { return CLI::Validator(&ToBytes, ""); }

void AddPairs(CLI::App& command, const std::string& name, Pairs& pairs,
              const std::string& help) {
  command
      .add_option_function<std::vector<std::string>>(
          name,
          [&pairs](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              const std::size_t equals = text.find('=');
              pairs[text.substr(0, equals)] = text.substr(equals + 1);
            }
          },
          help)
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE")
      ->check([](const std::string& text) -> std::string {
        const std::size_t equals = text.find('=');
        return equals == 0 || equals == std::string::npos ? "must be KEY=VALUE"
                                                          : "";
      });
}

void AddSecretsFile(CLI::App& command, Pairs& secrets) {
  command
      .add_option_function<std::string>(
          "--secrets",
          [&secrets](const std::string& path) {
            std::optional<Pairs> read = ReadSecrets(path);
            if (!read) {
              throw CLI::ValidationError(
                  "--secrets",
                  path +
                      " must contain a JSON object whose values are strings");
            }
            secrets = *std::move(read);
          },
          "Read the plugin's secrets from this file, a JSON object of strings")
      ->type_name("FILE");
}

std::shared_ptr<OnTasks> AddOnTasks(CLI::App& command) {
  auto on_tasks = std::make_shared<OnTasks>(OnTasks::kRefuse);
  const std::map<std::string, OnTasks> names = {{"wait", OnTasks::kWait},
                                                {"ignore", OnTasks::kIgnore}};
  command
      .add_option(
          "--tasks", *on_tasks,
          "If processes hold copies of a mount (Busy by default): wait for "
          "their end, or ignore them and detach the volumes afterwards")
      ->transform(CLI::CheckedTransformer(names))
      ->option_text("HOW");
  return on_tasks;
}

std::shared_ptr<OnlyIf> AddOnlyIf(CLI::App& command) {
  auto only_if = std::make_shared<OnlyIf>(OnlyIf::kAny);
  const std::map<std::string, OnlyIf> names = {{"unused", OnlyIf::kUnused},
                                               {"empty", OnlyIf::kEmpty}};
  command
      .add_option("--only-if", *only_if,
                  "Release only an allocation that is unused (has no volume, "
                  "mount or plugin) or empty (nor a network); end no task")
      ->transform(CLI::CheckedTransformer(names))
      ->option_text("WHAT");
  return only_if;
}

}  // namespace mountd::agent
