// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/run.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/failure.h"
#include "agent/mountd-cni/verbs.h"

namespace mountd::cni_plugin {
namespace {

using cni::Json;

constexpr std::size_t kMaxInputBytes = 1U << 20U;
constexpr std::size_t kChunkBytes = 65'536;

// Returns null if the call succeeded, because then nothing is printed.
Outcome<Json> Nothing(const Outcome<void>& outcome) {
  Json nothing;
  if (!outcome) {
    return outcome.error();
  }
  return nothing;
}

// Answers without a valid configuration, because the runtime asks before it
// knows a version that both support, and some runtimes send an empty stdin.
Json Versions(const Json& document) {
  return {{"cniVersion", AnswerVersion(document)},
          {"supportedVersions", kVersions}};
}

Outcome<Json> RunVerb(const Environment& environment, const Json& document) {
  const std::string& command = environment.command;
  if (command == "VERSION") {
    return Versions(document);
  }
  MOUNTD_ASSIGN(const Config config, ParseConfig(document, environment));
  if (command == "ADD") {
    return Add(environment, config);
  }
  return Nothing(command == "DEL"     ? Del(environment, config)
                 : command == "CHECK" ? Check(environment, config)
                 : command == "GC"    ? Gc(config)
                                      : Status(config));
}

Outcome<Json> ParseInput(const Environment& environment,
                         const Result<std::string>& input) {
  MOUNTD_TRY(CheckEnvironment(environment));
  if (!input) {
    return Failure{cni::kIoFailure, input.error().Message()};
  }
  Json empty = Json::object();
  if (environment.command == "VERSION" && input->empty()) {
    return empty;
  }
  return ParseDocument(*input);
}

}  // namespace

Answer RunPlugin(const Environment& environment,
                 const Result<std::string>& input) {
  const Outcome<Json> document = ParseInput(environment, input);
  if (!document) {
    return {cni::ToText(ToJson(document.error(), kLatestVersion)) + "\n", 1};
  }
  const Outcome<Json> result = RunVerb(environment, *document);
  if (!result) {
    const Json told = ToJson(result.error(), AnswerVersion(*document));
    return {cni::ToText(told) + "\n", 1};
  }
  return {result->is_null() ? "" : cni::ToText(*result) + "\n", 0};
}

Result<std::string> ReadInput(int fd) {
  std::string text;
  std::array<char, kChunkBytes> chunk{};
  while (text.size() <= kMaxInputBytes) {
    const ssize_t count = ::read(fd, chunk.data(), chunk.size());
    if (count == 0) {
      return text;
    }
    if (count < 0 && errno != EINTR) {
      return ErrnoError(errno, "read", "stdin");
    }
    text.append(chunk.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
  }
  return MakeError(Code::kInvalidArgument, "read", "stdin", "is too long");
}

}  // namespace mountd::cni_plugin
