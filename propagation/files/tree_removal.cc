// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/files/tree_removal.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <random>

#include "propagation/files/caller_directory.h"

namespace mountd::propagation {
namespace {

using exec::FailedWith;
using exec::FileFacts;
using exec::Named;
using exec::Sys;

constexpr char kRemove[] = "remove";
constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kRemovedAtOnce = 1024;
constexpr TreeBound kOneDirectory{4096, std::chrono::seconds(60)};

struct Removal {
  const Context& context;
  std::uint64_t mount_id = 0;
  TreeTrail trail;
  TreeBudget budget;
  std::uint64_t done = 0;
  int top = -1;         // the directory to be emptied
  bool lifted = false;  // Lift moved a directory to the top
};

// Opens a directory to be emptied and makes it root's, because without
// CAP_DAC_OVERRIDE the executor cannot remove from, or rename in, another
// user's directory.
Result<UniqueFd> OpenOwn(const Context& context, int parent,
                         const std::string& name, const std::string& object) {
  // NO_XDEV, because files below a mount are not the tree's.
  MOUNTD_ASSIGN(
      UniqueFd dir,
      Named(context.kernel.Open(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW,
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                    RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV),
            "openat2", object));
  MOUNTD_TRY(TakeBack(context, dir.get(), object));
  return dir;
}

// Moves the directory `name` to the top, under a random name, which whoever
// filled the tree could not have taken.
Result<void> Lift(Removal* removal, int parent, const std::string& name) {
  std::random_device random;
  removal->lifted = true;
  const Sys<void> moved = removal->context.kernel.Rename(
      parent, name, removal->top,
      "lifted-" + std::to_string(random()) + "-" + std::to_string(random()));
  return moved ? Ok()
               : Result<void>(
                     removal->trail.Failed(moved.error(), "renameat2", name));
}

Result<bool> Empty(Removal* removal, int dir, std::size_t depth);

// Removes the directory `name` with everything in it. Returns false if
// something is left.
Result<bool> RemoveDirectory(Removal* removal, int parent,
                             const std::string& name, std::size_t depth) {
  exec::Kernel& kernel = removal->context.kernel;
  // Own the directory before lifting it, because a rename to another parent
  // changes its "..", which needs the right to write to it (rename(2)).
  MOUNTD_ASSIGN(const UniqueFd dir, OpenOwn(removal->context, parent, name,
                                            removal->trail.Described(name)));
  if (depth == kMaxDepth) {
    MOUNTD_TRY(Lift(removal, parent, name));
    return true;
  }
  removal->trail.Enter(name);
  const Result<bool> emptied = Empty(removal, dir.get(), depth);
  removal->trail.Leave();
  if (!emptied || !*emptied) {
    return emptied;
  }
  const Sys<void> removed = kernel.RemoveDirectory(parent, name);
  // ENOENT: somebody else has removed it meanwhile.
  if (!removed && removed.error() != ENOENT) {
    return removal->trail.Failed(removed.error(), "rmdir", name);
  }
  return true;
}

// Removes one entry. Returns false if the budget is used up.
Result<bool> RemoveEntry(Removal* removal, int dir, const std::string& name,
                         std::size_t depth) {
  exec::Kernel& kernel = removal->context.kernel;
  if (!removal->budget.Take()) {
    return false;
  }
  const Sys<FileFacts> file = kernel.Stat(dir, name);
  if (FailedWith(file, ENOENT)) {
    return true;
  }
  if (!file) {
    return removal->trail.Failed(file.error(), "statx", name);
  }
  if (file->mount_root || file->mount_id != removal->mount_id) {
    return removal->trail.AtMount(kRemove, name);
  }
  if (S_ISDIR(file->mode)) {
    MOUNTD_ASSIGN(const bool whole,
                  RemoveDirectory(removal, dir, name, depth + 1));
    removal->done += whole ? 1 : 0;
    return whole;
  }
  const Sys<void> removed = kernel.RemoveFile(dir, name);
  // ENOENT: somebody else has removed it meanwhile.
  if (!removed && removed.error() != ENOENT) {
    return removal->trail.Failed(removed.error(), "unlinkat", name);
  }
  ++removal->done;
  return true;
}

// Empties a directory. Moves directories deeper than kMaxDepth to the top,
// because this bounds the recursion.
Result<bool> Empty(Removal* removal, int dir, std::size_t depth) {
  for (;;) {
    const Sys<std::vector<std::string>> names =
        removal->context.kernel.List(dir, kRemovedAtOnce);
    if (!names) {
      return removal->trail.Failed(names.error(), "getdents64");
    }
    for (const std::string& name : *names) {
      MOUNTD_ASSIGN(const bool gone, RemoveEntry(removal, dir, name, depth));
      if (!gone) {
        return false;
      }
    }
    if (names->size() < kRemovedAtOnce) {
      return true;
    }
  }
}

Result<bool> EmptyTop(Removal* removal) {
  bool emptied = false;
  // Lifted directories lie at the top now, so go through the top again.
  do {
    removal->lifted = false;
    MOUNTD_ASSIGN(emptied, Empty(removal, removal->top, 0));
  } while (emptied && removal->lifted);
  return emptied;
}

// Gives the directory back: with the owner and mode it had if it was the
// caller's, else as the caller would have made it.
Result<void> GiveBack(const Context& context, const CallerDirectory& directory,
                      const exec::CallerPlan& caller,
                      const std::string& object) {
  const FileFacts& was = directory.file;
  const bool callers = was.uid == caller.uid;
  const int fd = directory.fd.get();
  // Set the mode first, because without CAP_FOWNER only the owner may set it.
  if (callers && was.mode != (S_IFDIR | 0700)) {
    MOUNTD_TRY(
        Named(context.kernel.SetMode(fd, was.mode & 07777U), "chmod", object));
  }
  return Named(context.kernel.SetOwner(fd, caller.uid,
                                       callers ? was.gid : caller.gids[0]),
               "fchownat", object);
}

}  // namespace

Result<void> EmptyDirectory(const Context& context, int parent,
                            const std::string& name, std::uint64_t mount_id) {
  Removal removal{context, mount_id, TreeTrail(name),
                  TreeBudget(kOneDirectory)};
  MOUNTD_ASSIGN(const UniqueFd dir, OpenOwn(context, parent, name, name));
  removal.top = dir.get();
  MOUNTD_ASSIGN(const bool emptied, EmptyTop(&removal));
  return emptied ? Ok()
                 : Result<void>(MakeError(
                       Code::kResourceExhausted, kRemove, name,
                       "too many files are left in the directory; call again"));
}

Result<exec::TreeReply> RemoveSome(const Context& context, int fd,
                                   const exec::TreePlan& plan,
                                   const TreeBound& bound) {
  const std::string object = "directory";
  MOUNTD_ASSIGN(const CallerDirectory directory,
                OpenCallerDirectory(context, fd, plan.caller, object,
                                    Ownership::kCallersOrTaken));
  Removal removal{context, directory.file.mount_id, TreeTrail(object),
                  TreeBudget(bound)};
  removal.top = directory.fd.get();
  const auto remove = [&]() -> Result<bool> {
    MOUNTD_TRY(TakeBack(context, removal.top, object));
    return EmptyTop(&removal);
  };
  const Result<bool> emptied = remove();
  // Give the directory back even if the removal failed.
  const Result<void> given = GiveBack(context, directory, plan.caller, object);
  if (!emptied) {
    return emptied.error();
  }
  MOUNTD_TRY(given);
  exec::TreeReply reply;
  reply.done = removal.done;
  reply.finished = *emptied ? 1 : 0;
  return reply;
}

}  // namespace mountd::propagation
