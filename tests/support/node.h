// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/client.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// A whole mountd, all its processes behind their real sockets, as
// mountd-launcher starts them: in this process's mount and network namespaces,
// which must be its own, with / shared or private as the caller wants it. It
// gets an /etc with the accounts "mountd", "mountd-csi" and "agent", an empty
// /var/lib, and what is on /run.
class Node {
 public:
  // `config` is mountd.toml's text. Returns when the sockets are there; the
  // first call starts mountd. `programs`: the directory with the daemons; "" is
  // that of what is installed.
  static Result<std::unique_ptr<Node>> Start(const std::string& config,
                                             const std::string& programs = "");
  // The same in the world that an earlier one has left.
  static Result<std::unique_ptr<Node>> StartAgain(
      bool with_cni = false, const std::string& programs = "");
  // Ends all processes. Mounts stay: they go with the namespace.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // As the user "agent", without any privilege, whoever calls; or as another
  // one of that group.
  Result<agent::Client> Connect(agent::ClientOptions options = {}) const;
  Result<agent::Client> ConnectAs(uid_t uid,
                                  agent::ClientOptions options = {}) const;

  // Processes of this mount namespace with that name, "mountd" say, as pidfds.
  static std::vector<UniqueFd> Processes(const std::string& name);
  // The process of a pidfd in this pid namespace; -1: it has ended.
  static pid_t PidOf(const UniqueFd& process);
  // SIGKILL, at once; returns when they are gone. The launcher starts anew what
  // is called again.
  static void Kill(const std::vector<UniqueFd>& processes);
  static void KillAll();
  // A soft limit of theirs, while they run: RLIMIT_* of getrlimit(2). False: at
  // least one could not be limited, and has not ended.
  static bool Limit(const std::string& name, int resource, std::uint64_t most);

  // The most that one of them has of what RLIMIT_DATA bounds, in bytes.
  static std::uint64_t DataOf(const std::string& name);

  // What the daemons said until now.
  std::string Log() const;
  // How often they said it.
  std::size_t Told(const std::string& text) const;

 private:
  Node() = default;
  pid_t launcher_ = -1;
};

inline constexpr uid_t kMountdUid = 60000;
inline constexpr uid_t kAgentUid = 60002;

// Mount points of this namespace at or below `path`, each as often as there is
// a mount on it.
std::vector<std::string> MountPointsUnder(const std::string& path);

}  // namespace mountd::testing
