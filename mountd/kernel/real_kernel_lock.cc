// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Clones of mounts with locked flags. The kernel locks the flags of every mount
// that it copies into the mount namespace of a less privileged user namespace
// (mount_namespaces(7), "Restrictions on mount namespaces"). A clone of such a
// mount keeps its locks, wherever somebody attaches the clone.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "mountd/base/fd_message.h"
#include "mountd/base/paths.h"
#include "mountd/kernel/real_kernel.h"

namespace mountd::exec {
namespace {

// A tree is attached at one of these places. The kernel attaches a directory
// only to a directory, and a file only to a file.
constexpr const char* kDirectory = "/directory";
constexpr const char* kFile = "/file";

// Runs in the child. Sends the fd, or an errno.
int TellParent(int socket, const Sys<UniqueFd>& made) {
  const int err = made ? 0 : made.error();
  const int fd = made ? made->get() : -1;
  return SendWithFds(socket, std::as_bytes(std::span(&err, 1)),
                     std::span(&fd, made ? 1U : 0U))
             ? EXIT_SUCCESS
             : EXIT_FAILURE;
}

Sys<UniqueFd> ToldByChild(int socket) {
  int err = 0;
  Sys<Received> received =
      ReceiveWithFds(socket, std::as_writable_bytes(std::span(&err, 1)), 1);
  if (!received) {
    return received.error();
  }
  if (received->fds.empty()) {
    return received->size == sizeof(err) && err != 0 ? err : ECHILD;
  }
  return std::move(received->fds.front());
}

// Returns the fd that `make` returns in a child with the fds of `kept`.
Sys<UniqueFd> MadeByChild(RealKernel* kernel,
                          const std::function<Sys<UniqueFd>()>& make,
                          std::vector<int> kept,
                          std::chrono::milliseconds limit) {
  std::array<int, 2> ends{};
  // SOCK_SEQPACKET keeps the answer in one piece, and the end of a child that
  // sent none reads as an empty message.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) <
      0) {
    return errno;
  }
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  kept.push_back(theirs.get());
  MOUNTD_TRY(kernel->RunChild([&] { return TellParent(theirs.get(), make()); },
                              kept, limit));
  // Close the child's end, so that the read ends if the child sent nothing.
  theirs.reset();
  return ToldByChild(ours.get());
}

Sys<void> MakePlaces(RealKernel* kernel, int root) {
  MOUNTD_TRY(kernel->MakeDirectory(root, kDirectory + 1, 0700));
  return kernel->MakeFile(root, kFile + 1, 0600);
}

// Runs in a child. Moves the child into a mount namespace with nothing but an
// empty tmpfs, and returns the namespace.
Sys<UniqueFd> EnterBareNamespace(RealKernel* kernel) {
  MOUNTD_TRY(Done(::unshare(CLONE_NEWNS)));
  const UniqueFd old(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  // Make the copies of the host's mounts slaves. So each copy ends when
  // somebody unmounts its original, and unmounting a copy unmounts no original.
  MOUNTD_TRY(kernel->SetMount(old.get(), true, {.propagation = MS_SLAVE}));
  UniqueFd made(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  // AppArmor's profile lets the executor make files below this directory only.
  const UniqueFd place(
      ::open(paths::kRunDir, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!made.valid() || !place.valid()) {
    return errno;
  }
  MOUNTD_ASSIGN(const UniqueFd fs, kernel->OpenFilesystem("tmpfs"));
  MOUNTD_TRY(kernel->CreateFilesystem(fs.get()));
  MOUNTD_ASSIGN(
      const UniqueFd root,
      kernel->MountFilesystem(
          fs.get(), MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  MOUNTD_TRY(kernel->AttachTree(root.get(), place.get()));
  MOUNTD_TRY(MakePlaces(kernel, root.get()));
  // pivot_root(2), "pivot_root(".", ".")": the old root is now mounted on the
  // new root. Unmounting it removes all copies of the host's mounts.
  MOUNTD_TRY(Done(::fchdir(root.get())));
  MOUNTD_TRY(Done(static_cast<int>(::syscall(SYS_pivot_root, ".", "."))));
  MOUNTD_TRY(Done(::umount2(".", MNT_DETACH)));
  return made;
}

// Runs in a child, in a bare namespace of its own. Attaches the tree and
// returns where.
Sys<const char*> AttachSomewhere(RealKernel* kernel, int tree) {
  Sys<void> attached;
  for (const char* place : {kDirectory, kFile}) {
    const UniqueFd target(::open(place, O_PATH | O_CLOEXEC));
    if (!target.valid()) {
      return errno;
    }
    attached = kernel->AttachTree(tree, target.get());
    if (attached) {
      return place;
    }
  }
  return attached.error();
}

// Runs in a child. Returns a user namespace in which nobody has an id.
Sys<UniqueFd> MakeUserNamespace() {
  if (::unshare(CLONE_NEWUSER) < 0) {
    // EINVAL: a kernel without user namespaces (unshare(2)).
    return errno == EINVAL ? ENOSYS : errno;
  }
  UniqueFd made(::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC));
  if (!made.valid()) {
    return errno;
  }
  return made;
}

// Runs in a child. `users` is the user namespace that owns the clone's mounts.
Sys<UniqueFd> CloneInUserNamespace(RealKernel* kernel, int bare, int users,
                                   int tree) {
  MOUNTD_TRY(kernel->EnterMountNamespace(bare));
  // Copy the bare namespace, so that the copy and the attached tree end with
  // the child.
  MOUNTD_TRY(Done(::unshare(CLONE_NEWNS)));
  MOUNTD_ASSIGN(const char* const place, AttachSomewhere(kernel, tree));
  MOUNTD_TRY(Done(::setns(users, CLONE_NEWUSER)));
  MOUNTD_TRY(Done(::unshare(CLONE_NEWNS)));
  const UniqueFd copy(::open(place, O_PATH | O_CLOEXEC));
  if (!copy.valid()) {
    return errno;
  }
  // The kernel clones a tree of locked mounts only as a whole.
  return kernel->CloneTree(copy.get(), true);
}

}  // namespace

Sys<UniqueFd> RealKernel::LockTree(int tree, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto make = [&](const std::function<Sys<UniqueFd>()>& body,
                        std::vector<int> kept) {
    return MadeByChild(this, body, std::move(kept),
                       std::chrono::ceil<std::chrono::milliseconds>(
                           deadline - std::chrono::steady_clock::now()));
  };
  // All trees share one user namespace. A handed-out tree keeps its user
  // namespace alive, and the kernel limits how many namespaces root may have.
  if (!tree_owner_.valid()) {
    MOUNTD_ASSIGN(tree_owner_, make(MakeUserNamespace, {}));
  }
  // Copying a mount namespace costs time for each of its mounts. So the
  // executor makes a bare namespace once, and copies the bare namespace.
  if (!bare_mounts_.valid()) {
    MOUNTD_ASSIGN(bare_mounts_,
                  make([this] { return EnterBareNamespace(this); }, {}));
  }
  const int bare = bare_mounts_.get();
  const int users = tree_owner_.get();
  return make([&] { return CloneInUserNamespace(this, bare, users, tree); },
              {bare, users, tree});
}

}  // namespace mountd::exec
