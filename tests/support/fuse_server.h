// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

namespace mountd::testing {

// A FUSE file system (fuse(4), linux/fuse.h) whose server can stop answering:
// what a dead NFS server or a stuck storage daemon does to whoever asks.
//
//   <path>/file       "content"
//   <path>/dir/inner  two directories
//
// Nothing is cached in the kernel: each lookup of a name asks the server, a
// child process of its own. Only that child has the connection's fd: whoever
// else held it would keep a dead server's file system hung.
class FuseServer {
 public:
  // kWriteback: the kernel keeps what is written to <path>/file, and the last
  // close(2) of an open file waits, unkillably, until the server has it.
  enum class Writes { kThrough, kWriteback };

  // Mounts it at `path`, in this mount namespace, with the propagation that a
  // new mount gets there. On failure valid() is false and errno says why.
  explicit FuseServer(const std::string& path,
                      Writes writes = Writes::kThrough);
  ~FuseServer();  // as Die; unmounting is the test's
  FuseServer(const FuseServer&) = delete;
  FuseServer& operator=(const FuseServer&) = delete;

  bool valid() const { return pid_ > 0; }
  // From now on no request is answered; those of before are.
  void Hang();
  // Answers again, first what it was asked meanwhile.
  void GoOn();
  // Who waits for it gets ECONNABORTED, who asks from now on ENOTCONN. The
  // mount stays.
  void Die();

 private:
  pid_t pid_ = -1;
};

// A child that makes one stat(2) and exits with its errno, 0 if it worked.
pid_t StatInChild(const std::string& path);
// Until the child waits in the kernel for a server of FUSE; false if it does
// not in some seconds.
bool AwaitWaiting(pid_t child);
// Until the process waits in the kernel as nobody can end (state D); false if
// it does not in some seconds.
bool AwaitUnkillable(pid_t process);
// Waits for it: its exit status, or 128 and the signal.
int ExitOf(pid_t child);

}  // namespace mountd::testing
