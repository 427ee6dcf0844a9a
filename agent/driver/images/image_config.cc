// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/image_config.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>

#include "agent/driver/images/json_document.h"
#include "mountd/base/number.h"
#include "mountd/base/one_line.h"
#include "mountd/base/paths.h"

namespace mountd::driver {
namespace {

Error BadConfig(const std::string& object, const char* key,
                std::string_view value, const char* why) {
  return MakeError(Code::kInvalidArgument, "parse", object + ", member " + key,
                   "\"" + OnOneLine(value.substr(0, 200)) + "\" " + why);
}

// "RTMIN+3" or "RTMAX-1".
std::optional<int> RealTimeSignal(std::string_view name) {
  const bool from_first = name.starts_with("RTMIN");
  if (!from_first && !name.starts_with("RTMAX")) {
    return std::nullopt;
  }
  const int base = from_first ? SIGRTMIN : SIGRTMAX;
  name.remove_prefix(5);
  if (name.empty()) {
    return base;
  }
  if (name.front() != (from_first ? '+' : '-')) {
    return std::nullopt;
  }
  const auto offset = ParseNumber<unsigned char>(name.substr(1));
  if (!offset) {
    return std::nullopt;
  }
  const int number = from_first ? base + *offset : base - *offset;
  return number >= SIGRTMIN && number <= SIGRTMAX ? std::optional(number)
                                                  : std::nullopt;
}

std::optional<int> NamedSignal(std::string_view name) {
  for (int number = 1; number < SIGRTMIN; ++number) {
    const char* known = sigabbrev_np(number);
    if (known != nullptr && name == known) {
      return number;
    }
  }
  return RealTimeSignal(name);
}

Result<void> CheckEnvironment(const std::vector<std::string>& environment,
                              const std::string& object) {
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) {
      return BadConfig(object, "Env", variable, "must be NAME=value");
    }
  }
  return Ok();
}

Result<void> ReadRun(const Json& run, const std::string& object,
                     ImageConfig& config) {
  MOUNTD_ASSIGN(config.entrypoint, TextsMember(run, "Entrypoint", object));
  MOUNTD_ASSIGN(config.command, TextsMember(run, "Cmd", object));
  MOUNTD_ASSIGN(config.environment, TextsMember(run, "Env", object));
  MOUNTD_TRY(CheckEnvironment(config.environment, object));
  MOUNTD_ASSIGN(config.user, TextMember(run, "User", object));
  MOUNTD_ASSIGN(config.working_directory,
                TextMember(run, "WorkingDir", object));
  if (!config.working_directory.empty() &&
      !config.working_directory.starts_with('/')) {
    return BadConfig(object, "WorkingDir", config.working_directory,
                     "must be an absolute path");
  }
  MOUNTD_ASSIGN(const std::string signal,
                TextMember(run, "StopSignal", object));
  if (!signal.empty()) {
    MOUNTD_ASSIGN(config.stop_signal, ParseSignal(signal));
  }
  return Ok();
}

}  // namespace

Result<int> ParseSignal(std::string_view text) {
  std::optional<int> number = ParseNumber<int>(text);
  if (!number) {
    std::string_view name = text;
    if (name.starts_with("SIG")) {
      name.remove_prefix(3);
    }
    number = NamedSignal(name);
  }
  if (!number || *number < 1 || *number > SIGRTMAX) {
    return MakeError(Code::kInvalidArgument, "parse signal",
                     OnOneLine(text.substr(0, 200)),
                     "must be a name such as SIGTERM or a number from 1 to 64");
  }
  return *number;
}

Result<ImageConfig> ParseImageConfig(std::string_view text,
                                     const std::string& object) {
  MOUNTD_ASSIGN(const Json document, ParseJsonObject(text, object));
  MOUNTD_ASSIGN(const std::string system, TextMember(document, "os", object));
  if (!system.empty() && system != "linux") {
    return MakeError(Code::kNotSupported, "parse", object,
                     "is of the operating system \"" +
                         OnOneLine(system.substr(0, 200)) +
                         "\"; give an image of linux");
  }
  ImageConfig config;
  const Json* run = FindMember(document, "config");
  if (run == nullptr) {
    return config;
  }
  if (!run->is_object()) {
    return MakeError(Code::kInvalidArgument, "parse",
                     object + ", member config", "must be an object");
  }
  MOUNTD_TRY(ReadRun(*run, object, config));
  return config;
}

}  // namespace mountd::driver
