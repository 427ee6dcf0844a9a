// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/plugin_programs.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "netns/cni/documents/names.h"
#include "netns/cni/network_list.h"
#include "netns/cni/trusted_files.h"

namespace mountd::cni {
namespace {

constexpr char kPath[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";

// Returns the error with this plugin as its cause.
PluginError Blame(const std::string& type, Error error, bool may_retry) {
  PluginError failure(std::move(error));
  failure.plugin = type;
  failure.may_retry = may_retry;
  return failure;
}

std::string WithStderr(const std::string& what, const ChildOutcome& outcome) {
  const std::string words = Scrubbed(outcome.err);
  return words.empty() ? what : what + ": " + words;
}

PluginError PluginFailure(const PluginPrograms::Call& call,
                          const std::string& type, const ChildOutcome& outcome,
                          Code code, std::string why) {
  why += outcome.stuck ? "; its process does not end" : "";
  // mountd-cni-run was asked to end (kStopped), or the process is still there.
  const bool may_retry =
      outcome.end != ChildOutcome::End::kStopped && !outcome.stuck;
  return Blame(type, MakeError(code, call.verb, type, std::move(why)),
               may_retry);
}

// Turns the output and the exit status into the answer or an error.
PluginOutcome<Json> JudgeExit(const PluginPrograms::Call& call,
                              const std::string& type,
                              const ChildOutcome& outcome) {
  const bool silent =
      outcome.out.find_first_not_of(" \t\r\n") == std::string::npos;
  const Result<Json> answer = ParseObject(outcome.out, kOutputBounds, type);
  if (outcome.status == 0 && silent) {
    return Json(nullptr);
  }
  if (outcome.status == 0) {
    return answer ? PluginOutcome<Json>(*answer)
                  : PluginFailure(
                        call, type, outcome, Code::kInternal,
                        WithStderr("its answer is not a JSON object within "
                                   "the size limit",
                                   outcome));
  }
  // An error of the specification has a code or a message.
  if (answer && (!IsAbsent(*answer, "code") || !IsAbsent(*answer, "msg"))) {
    return ReadPluginError(*answer, call.verb, type);
  }
  return PluginFailure(
      call, type, outcome, Code::kInternal,
      WithStderr("exited with status " + std::to_string(outcome.status),
                 outcome));
}

// Turns a plugin's end and output into its answer or an error.
PluginOutcome<Json> Judge(const PluginPrograms::Call& call,
                          const std::string& type,
                          const ChildOutcome& outcome) {
  using End = ChildOutcome::End;
  const auto fail = [&](Code code, std::string why) {
    return PluginFailure(call, type, outcome, code, std::move(why));
  };
  switch (outcome.end) {
    case End::kDeadline:
      return fail(
          Code::kDeadlineExceeded,
          WithStderr("did not end in time, so mountd killed it", outcome));
    case End::kStopped:
      return fail(Code::kAborted, "was killed because mountd-cni-run ends");
    case End::kTooMuchOutput:
      return fail(Code::kInternal, "wrote more output than mountd reads");
    case End::kKilled:
      return fail(
          Code::kInternal,
          WithStderr("was killed by signal " + std::to_string(outcome.status),
                     outcome));
    case End::kExited:
      break;
  }
  return JudgeExit(call, type, outcome);
}

// Returns the first word that looks like a release, as in "CNI bridge plugin
// v1.1.1".
std::string ReleaseIn(const std::string& text) {
  const std::string line = Scrubbed(text.substr(0, text.find('\n')));
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    std::string word = line.substr(at, end - at);
    if (word.starts_with('v')) {
      word.erase(0, 1);
    }
    const bool numbers = !word.empty() && word[0] >= '0' && word[0] <= '9' &&
                         word.find('.') != std::string::npos;
    if (numbers && IsPluginType(word)) {
      return word;
    }
    at = end + 1;
  }
  return "";
}

}  // namespace

PluginPrograms::PluginPrograms(const std::vector<std::string>& directories,
                               const PluginCgroup& cgroup, int stop)
    : cgroup_(cgroup), stop_(stop) {
  for (const std::string& path : directories) {
    Result<UniqueFd> opened =
        path.find(':') == std::string::npos
            ? OpenTrustedDirectory(path)
            : MakeError(Code::kInvalidArgument, "check", path,
                        "must not contain ':', which separates the directories "
                        "of CNI_PATH");
    // Ignore a missing directory, because the others may have the plugins.
    if (opened) {
      directories_.emplace_back(path, std::move(*opened));
    } else if (opened.error().code != Code::kNotFound) {
      refused_.push_back(opened.error());
    }
  }
}

Result<std::string> PluginPrograms::Find(const std::string& type) const {
  if (!IsPluginType(type)) {
    return MakeError(Code::kInvalidArgument, "plugin", Scrubbed(type),
                     "is not a valid name of a plugin");
  }
  for (const auto& [path, directory] : directories_) {
    const Result<void> found = CheckTrustedProgram(directory.get(), type);
    if (found) {
      return std::string(path).append("/").append(type);
    }
    if (found.error().code != Code::kNotFound) {
      return found.error();
    }
  }
  return MakeError(
      Code::kFailedPrecondition, "plugin", type,
      refused_.empty()
          ? "is not in the plugin directories of [cni]; install it there"
          : "is not in the usable plugin directories of [cni]; " +
                refused_.front().Message());
}

PluginOutcome<void> PluginPrograms::CheckInstalled(const Json& config) const {
  for (const std::string& type : {TypeOf(config), IpamTypeOf(config)}) {
    if (type.empty()) {
      continue;
    }
    const Result<std::string> found = Find(type);
    if (!found) {
      return Blame(type, found.error(), false);
    }
  }
  return {};
}

std::vector<std::string> PluginPrograms::Environment(const Call& call) const {
  std::string path;
  for (const auto& [directory, fd] : directories_) {
    path += path.empty() ? "" : ":";
    path += directory;
  }
  std::vector<std::string> environment = {kPath, "CNI_COMMAND=" + call.verb,
                                          "CNI_PATH=" + path};
  if (!call.attachment.container_id.empty()) {
    environment.push_back("CNI_CONTAINERID=" + call.attachment.container_id);
    environment.push_back("CNI_IFNAME=" + call.attachment.ifname);
    environment.push_back("CNI_NETNS=" + call.netns);
    environment.push_back("CNI_ARGS=" + call.args);
  }
  if (!traceparent_.empty()) {
    environment.push_back("TRACEPARENT=" + traceparent_);
  }
  return environment;
}

PluginOutcome<Json> PluginPrograms::Run(const Call& call, const Json& config,
                                        const Deadline& deadline) const {
  const std::string type = TypeOf(config);
  const Result<std::string> program = Find(type);
  if (!program) {
    return Blame(type, program.error(), false);
  }
  const std::string input = ToText(config);
  const Result<ChildOutcome> outcome =
      RunChild({*program, Environment(call), input, kOutputBounds.max_bytes},
               cgroup_, deadline, stop_);
  if (!outcome) {
    return Blame(type, outcome.error(), true);
  }
  return Judge(call, type, *outcome);
}

PluginOutcome<std::vector<std::string>> PluginPrograms::Versions(
    const std::string& type, const Deadline& deadline) const {
  PluginOutcome<Json> answer =
      Run({"VERSION", {}, "", ""}, {{"type", type}, {"cniVersion", "1.0.0"}},
          deadline);
  if (!answer) {
    return answer.error();
  }
  std::vector<std::string> versions;
  const Json* said = FindMember(*answer, "supportedVersions");
  constexpr std::size_t kMaxVersions = 32;
  if (said == nullptr || !said->is_array() || said->size() > kMaxVersions) {
    return Blame(
        type,
        MakeError(Code::kInternal, "VERSION", type,
                  "its answer does not say which CNI versions it supports"),
        false);
  }
  for (const Json& item : *said) {
    const auto* version = item.get_ptr<const std::string*>();
    if (version != nullptr && IsPluginType(*version)) {
      versions.push_back(*version);
    }
  }
  return versions;
}

std::string PluginPrograms::Release(const std::string& type,
                                    const Deadline& deadline) const {
  const Result<std::string> program = Find(type);
  if (!program) {
    return "";
  }
  const Result<ChildOutcome> outcome =
      RunChild({*program, {kPath}, "", kOutputBounds.max_bytes}, cgroup_,
               deadline, stop_);
  return outcome ? ReleaseIn(outcome->err) : "";
}

bool PluginPrograms::Sleep(std::chrono::milliseconds time) const {
  const Deadline end = Deadline::After(time);
  while (!end.Passed()) {
    pollfd stop = {stop_, POLLIN, 0};
    if (::poll(&stop, 1, static_cast<int>(end.Left().count())) > 0) {
      return false;
    }
  }
  return true;
}

}  // namespace mountd::cni
