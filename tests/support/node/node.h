// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// Owns a whole mountd, all its processes behind their real sockets, as
// mountd-launcher starts them. Runs in this process's mount and network
// namespaces, which must be its own; the caller decides whether / is shared or
// private. Has an /etc with the accounts "mountd", "mountd-csi" and "agent", an
// empty /var/lib, and the caller's /run.
class Node {
 public:
  // Starts a node; `config` is mountd.toml's text. Returns when the sockets are
  // there; the first call starts mountd. `programs` is the directory with the
  // daemons; "" is the installation's.
  static Result<std::unique_ptr<Node>> Start(const std::string& config,
                                             const std::string& programs = "");
  // Starts a node in the world that an earlier node has left.
  static Result<std::unique_ptr<Node>> StartAgain(
      bool with_cni = false, const std::string& programs = "");
  // Ends all processes. Mounts stay until the namespace ends.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Connects as the user "agent", without any privilege, whoever the caller is;
  // or as another user of that group.
  Result<agent::Client> Connect(agent::ClientOptions options = {}) const;
  Result<agent::Client> ConnectAs(uid_t uid,
                                  agent::ClientOptions options = {}) const;

  // Returns pidfds of the processes in this mount namespace with that name,
  // such as "mountd".
  static std::vector<UniqueFd> Processes(const std::string& name);
  // Returns the same of several names at once, each with its name.
  static std::vector<std::pair<std::string, UniqueFd>> ProcessesOf(
      const std::set<std::string>& names);
  // Returns the pid of a pidfd in this pid namespace; -1 if the process has
  // ended.
  static pid_t PidOf(const UniqueFd& process);
  // Sends SIGKILL to all at once; returns when they are gone. The launcher
  // starts a service again at its next call.
  static void Kill(const std::vector<UniqueFd>& processes);
  static void KillAll();
  // Sets a soft limit (RLIMIT_* of getrlimit(2)) of running processes. False if
  // one of them could not be limited and has not ended.
  static bool Limit(const std::string& name, int resource, std::uint64_t most);

  // Returns the largest amount that one of the processes has of the memory that
  // RLIMIT_DATA bounds, in bytes.
  static std::uint64_t DataOf(const std::string& name);

  // Returns the daemons' log.
  std::string Log() const;
  // Returns how often the log contains `text`.
  std::size_t Told(const std::string& text) const;

 private:
  Node() = default;
  pid_t launcher_ = -1;
};

inline constexpr uid_t kMountdUid = 60000;
inline constexpr uid_t kAgentUid = 60002;

// Returns the mount points of this namespace at or below `path`, each as often
// as there is a mount on it.
std::vector<std::string> MountPointsUnder(const std::string& path);

}  // namespace mountd::testing
