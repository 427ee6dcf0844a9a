// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/servers/nfs_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace mountd::testing {
namespace {

// Reads function names, one a line; answers "ok" if the function succeeds.
constexpr char kScript[] = R"(
serve() {
  mount --make-rprivate / &&
  ip link set lo up && ip address add 192.0.2.2/24 dev eth0 &&
  ip link set eth0 up &&
  mount -t nfsd nfsd /proc/fs/nfsd &&
  mount -t tmpfs state /var/lib/nfs && mkdir /var/lib/nfs/v4recovery &&
  touch /var/lib/nfs/etab /var/lib/nfs/rmtab &&
  mount -t tmpfs -o mode=0755 export /srv && mkdir /srv/dir &&
  touch /srv/mark &&
  exportfs -o rw,no_root_squash,no_subtree_check,fsid=0 192.0.2.0/24:/srv &&
  rpc.mountd --no-nfs-version 3 &&
  # The least there is to wait for clients of before, of which it has none.
  rpc.nfsd --no-nfs-version 3 --grace-time 10 --lease-time 10 4
}
cut() {
  nft 'add table inet cut
       add chain inet cut in { type filter hook input priority 0; policy drop; }
       add chain inet cut out { type filter hook output priority 0; policy drop; }'
}
restore() { nft 'add table inet cut; delete table inet cut'; }
end() { restore; rpc.nfsd 0; pkill --ns $$ --nslist mnt -x rpc.mountd; }
echo ok
while read -r command; do
  if $command >&2 </dev/null; then echo ok; else echo failed; fi
done
)";

bool Run(const std::string& command) {
  return std::system((command + " >&2 </dev/null").c_str()) == 0;
}

[[noreturn]] void BeServer(int socket) {
  ::dup2(socket, STDIN_FILENO);
  ::dup2(socket, STDOUT_FILENO);
  ::execlp("unshare", "unshare", "--mount", "--net", "bash", "-c", kScript,
           nullptr);
  ::_exit(127);
}

}  // namespace

std::string NfsServer::Missing() {
  for (const char* program : {"rpc.nfsd", "rpc.mountd", "exportfs", "nft",
                              "mount.nfs4", "pkill", "unshare"}) {
    if (!Run("test -n \"$(command -v " + std::string(program) + ")\"")) {
      return std::string(program) + " is not installed";
    }
  }
  for (const char* type : {"nfsd", "nfs4"}) {
    const std::string name = type;
    if (!Run("grep -qw " + name + " /proc/filesystems || modprobe -q " +
             (name == "nfs4" ? "nfsv4" : name))) {
      return "this kernel has no " + name;
    }
  }
  return "";
}

NfsServer::NfsServer() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return;
  }
  commands_.reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    BeServer(theirs.get());
  }
  // The script's first word says that it has its namespaces.
  std::array<char, 16> answer{};
  valid_ = ::read(commands_.get(), answer.data(), answer.size()) == 3 &&
           Run("ip link add nfs0 type veth peer name eth0 netns " +
               std::to_string(pid_)) &&
           Run("ip address add 192.0.2.1/24 dev nfs0") &&
           Run("ip link set nfs0 up") && Do("serve");
}

NfsServer::~NfsServer() {
  if (pid_ > 0) {
    Do("end");
    commands_.reset();
    ::waitpid(pid_, nullptr, 0);
  }
}

bool NfsServer::Do(const std::string& command) {
  const std::string line = command + "\n";
  std::array<char, 16> answer{};
  return ::write(commands_.get(), line.data(), line.size()) ==
             static_cast<ssize_t>(line.size()) &&
         ::read(commands_.get(), answer.data(), answer.size()) == 3;
}

}  // namespace mountd::testing
