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
#include "netns/cni/json.h"
#include "netns/cni/plugin_error.h"
#include "netns/cni/request.h"

namespace mountd::cni {

// The plugins' programs, and how they are run (CNI 1.1, section 2).
//
// A program is found by its type in the directories in order, and believed if
// it and the directory can be written by root alone. Its environment is CNI_*
// and PATH; CNI_PATH has the directories that are believed and no other, as
// plugins start IPAM plugins from there by themselves.
class Plugins {
 public:
  // A readable `stop` ends a plugin that runs. Each runs in the cgroup, which
  // outlives this.
  Plugins(const std::vector<std::string>& directories,
          const PluginCgroup& cgroup, int stop);

  // The program's path. FailedPrecondition if there is none, PermissionDenied
  // if it is not root's alone.
  Result<std::string> Find(const std::string& type) const;

  // That all that a plugin's configuration names can be found, its IPAM plugin
  // too.
  PluginOutcome<void> CheckInstalled(const Json& config) const;

  struct Call {
    std::string verb;
    // Both empty for the verbs that are about none.
    Attachment attachment;
    std::string netns;
    std::string args;
  };
  // Runs the plugin that `config` names; answers what it said, null for
  // nothing.
  PluginOutcome<Json> Run(const Call& call, const Json& config,
                          const Deadline& deadline) const;

  // The versions of the specification that it speaks (VERSION).
  PluginOutcome<std::vector<std::string>> Versions(
      const std::string& type, const Deadline& deadline) const;

  // The plugin's own version, as "1.1.1", from what it says when it is run
  // without a command; "" where it does not tell.
  std::string Release(const std::string& type, const Deadline& deadline) const;

  // Waits, unless this is to end. False if it is.
  bool Sleep(std::chrono::milliseconds time) const;

 private:
  PluginOutcome<Json> Judge(const Call& call, const std::string& type,
                            const ChildOutcome& outcome) const;
  std::vector<std::string> Environment(const Call& call) const;

  std::vector<std::pair<std::string, UniqueFd>> directories_;
  std::vector<Error> refused_;
  const PluginCgroup& cgroup_;
  int stop_;
};

}  // namespace mountd::cni
