// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace mountd::testing {

// Owns a FUSE file system (fuse(4), linux/fuse.h) whose server can stop
// answering, as a dead NFS server or a stuck storage daemon does.
//
//   <path>/file       "content"
//   <path>/dir/inner  two directories
//
// The kernel caches nothing: each lookup of a name asks the server, a child
// process. Only that child has the connection's fd, because any other holder
// would keep the file system hung after the server has died.
class FuseServer {
 public:
  // kWriteback makes the kernel keep what is written to <path>/file. The last
  // close(2) of an open file then waits, unkillably, for the server.
  enum class Writes { kThrough, kWriteback };

  // Mounts the file system at `path`, in this mount namespace, with the
  // propagation that a new mount gets there. On failure valid() is false and
  // errno says why.
  explicit FuseServer(const std::string& path,
                      Writes writes = Writes::kThrough);
  ~FuseServer();  // ends the server as Die does; never unmounts
  FuseServer(const FuseServer&) = delete;
  FuseServer& operator=(const FuseServer&) = delete;

  bool valid() const { return pid_ > 0; }
  // Stops answering requests that come from now on.
  void Hang();
  // Answers again, first the requests that came meanwhile.
  void GoOn();
  // Reads the requests that come from now on, and never answers them. A process
  // that waits for such an answer ends only after the server (Die), even if it
  // is killed, whereas a process that waits for a server that has not read its
  // request ends at once.
  void Swallow();
  // Fails the next read of <path>/file with EIO, and swallows all requests from
  // then on. The kernel then repeats a page fault on that file, and holds the
  // lock of the process's memory while it waits for the second answer.
  void FailReadAndSwallow();
  // Waits until the server has swallowed a request. False if it does not within
  // some seconds.
  bool AwaitSwallowed() const;
  // Ends the server. Requests that wait fail with ECONNABORTED, later ones with
  // ENOTCONN. The mount stays.
  void Die();

 private:
  pid_t pid_ = -1;
  // In memory that the server shares.
  std::atomic<std::uint32_t>* swallowed_ = nullptr;
};

// Forks a child that makes one stat(2) and exits with its errno, or 0.
pid_t StatInChild(const std::string& path);
// Waits until the child waits in the kernel for a FUSE server. False if it does
// not within some seconds.
bool AwaitWaiting(pid_t child);
// Waits until the process or thread waits unkillably in the kernel (state D).
// False if it does not within some seconds.
bool AwaitUnkillable(pid_t process);
// Waits for the child's end. Returns its exit status, or 128 and the signal.
int ExitOf(pid_t child);

}  // namespace mountd::testing
