// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "netns/cni/cgroup.h"
#include "netns/cni/child.h"
#include "netns/cni/deadline.h"
#include "netns/cni/documents/json.h"
#include "netns/cni/documents/plugin_error.h"
#include "netns/cni/documents/request.h"

namespace mountd::cni {

// Finds and runs the plugins' programs (CNI 1.1, section 2).
//
// Searches the directories in order for a program of the plugin's type. Trusts
// a program only if root alone can write it and its directory. A program's
// environment is CNI_*, PATH and perhaps TRACEPARENT. CNI_PATH has only trusted
// directories, because plugins start IPAM plugins from there themselves.
class PluginPrograms {
 public:
  // A readable `stop` ends a running plugin. Plugins run in `cgroup`, which
  // outlives this.
  PluginPrograms(const std::vector<std::string>& directories,
                 const PluginCgroup& cgroup, int stop);

  // Gives the plugins that run from now on this TRACEPARENT; "": none.
  void JoinTrace(const std::string& traceparent) { traceparent_ = traceparent; }

  // Returns the program's path. FailedPrecondition if there is none.
  // PermissionDenied if others than root can write it.
  Result<std::string> Find(const std::string& type) const;

  // Checks that all programs that a plugin's configuration names are installed,
  // including its IPAM plugin.
  PluginOutcome<void> CheckInstalled(const Json& config) const;

  struct Call {
    std::string verb;
    // `attachment` and `netns` are empty for verbs without an attachment.
    Attachment attachment;
    std::string netns;
    std::string args;
  };
  // Runs the plugin that `config` names. Returns its answer; null if it gave
  // none.
  PluginOutcome<Json> Run(const Call& call, const Json& config,
                          const Deadline& deadline) const;

  // Returns the versions of the specification that the plugin speaks (VERSION).
  PluginOutcome<std::vector<std::string>> Versions(
      const std::string& type, const Deadline& deadline) const;

  // Returns the plugin's own version, such as "1.1.1", from its output when it
  // runs without a command; "" if the output has none.
  std::string Release(const std::string& type, const Deadline& deadline) const;

  // Waits. Returns false at once when this process must end.
  bool Sleep(std::chrono::milliseconds time) const;

 private:
  std::vector<std::string> Environment(const Call& call) const;

  std::vector<std::pair<std::string, UniqueFd>> directories_;
  std::vector<Error> refused_;
  const PluginCgroup& cgroup_;
  std::string traceparent_;
  int stop_;
};

}  // namespace mountd::cni
