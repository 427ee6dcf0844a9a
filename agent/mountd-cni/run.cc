// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/run.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/failure.h"
#include "agent/mountd-cni/pass_on.h"
#include "agent/mountd-cni/port_verbs.h"
#include "agent/mountd-cni/verbs.h"

namespace mountd::cni_plugin {
namespace {

using cni::Json;

constexpr std::size_t kMaxInputBytes = 1U << 20U;
constexpr std::size_t kChunkBytes = 65'536;

struct Verbs {
  Outcome<Added> (*add)(const Environment&, const Config&);
  Outcome<void> (*del)(const Environment&, const Config&);
  Outcome<void> (*check)(const Environment&, const Config&);
  Outcome<void> (*gc)(const Config&);
  Outcome<void> (*status)(const Config&);
};

const Verbs& VerbsOf(Personality personality) {
  static constexpr Verbs kInterface = {&Add, &Del, &Check, &Gc, &Status};
  static constexpr Verbs kPorts = {&AddPorts, &DelPorts, &CheckPorts,
                                   &NothingForAll, &Status};
  static constexpr Verbs kPassing = {&PassOn, &Nothing, &Nothing,
                                     &NothingForAll, &NothingForAll};
  static constexpr Verbs kChained = {&PassOnPrevious, &Nothing, &Nothing,
                                     &NothingForAll, &NothingForAll};
  static constexpr Verbs kRefusing = {&RefuseAddress, &Nothing, &RefuseCheck,
                                      &NothingForAll, &RefuseStatus};
  switch (personality) {
    case Personality::kMountd:
    case Personality::kBridge:
      return kInterface;
    case Personality::kPortmap:
      return kPorts;
    case Personality::kFirewall:
      return kChained;
    case Personality::kLoopback:
      return kPassing;
    case Personality::kHostLocal:
      return kRefusing;
  }
  return kInterface;
}

// Returns null if the call succeeded, because then nothing is printed.
Outcome<Added> NoResult(const Outcome<void>& outcome) {
  if (!outcome) {
    return outcome.error();
  }
  return Added{};
}

// Answers without a valid configuration, because the runtime asks before it
// knows a version that both support, and some runtimes send an empty stdin.
Json Versions(const Json& document) {
  return {{"cniVersion", AnswerVersion(document)},
          {"supportedVersions", kVersions}};
}

Outcome<Added> RunVerb(const Environment& environment, const Json& document) {
  const std::string& command = environment.command;
  if (command == "VERSION") {
    return Added{Versions(document), ""};
  }
  MOUNTD_ASSIGN(const Config config, ParseConfig(document, environment));
  const Verbs& verbs = VerbsOf(config.personality);
  if (command == "ADD") {
    return verbs.add(environment, config);
  }
  return NoResult(command == "DEL"     ? verbs.del(environment, config)
                  : command == "CHECK" ? verbs.check(environment, config)
                  : command == "GC"    ? verbs.gc(config)
                                       : verbs.status(config));
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
  const Outcome<Added> made = RunVerb(environment, *document);
  if (!made) {
    const Json told = ToJson(made.error(), AnswerVersion(*document));
    return {cni::ToText(told) + "\n", 1};
  }
  const Json& result = made->result;
  return {result.is_null() ? "" : cni::ToText(result) + "\n", 0, made->warning};
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
