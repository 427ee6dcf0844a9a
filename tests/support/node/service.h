// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/capability.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// One service and its socket, as the units in systemd/ describe them.
// mountd-launcher starts it where no systemd runs.
namespace mountd::launcher {

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
};

struct Service {
  std::string name;     // "mountd"; the program's file name, too
  std::string fd_name;  // FileDescriptorName=
  std::string socket_path;
  int socket_type = SOCK_STREAM;  // ListenStream=, ListenSequentialPacket=
  mode_t socket_mode = 0600;
  Account socket_owner;
  Account account;  // User=
  // All capabilities that it ever has, also as its bounding set.
  std::vector<cap_value_t> capabilities;
  bool accept = false;   // Accept=yes: an instance for each connection
  bool restart = false;  // Restart=on-failure
};

// Returns the user `name` of /etc/passwd with its own group.
Result<Account> FindAccount(const std::string& name);

// Binds and listens at the service's socket path, replacing an older socket.
// Owner and mode are right before anybody can connect. Non-blocking.
Result<UniqueFd> Listen(const Service& service);

// Forks and executes `directory`/<name> with `socket` as file descriptor 3,
// LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES set, an environment of its own, the
// service's account and capabilities, and no_new_privs. `output` becomes its
// stdout and stderr. Returns its pid. After a failure in the child the exit
// status is 126, with a line on `output`.
Result<pid_t> Start(const Service& service, const std::string& directory,
                    const UniqueFd& socket, const UniqueFd& output);

}  // namespace mountd::launcher
