// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/look/mount_namespaces.h"

#include <cerrno>
#include <utility>

namespace mountd::propagation {
namespace {

using exec::FailedWith;
using exec::FileFacts;
using exec::Sys;

constexpr char kLink[] = "ns/mnt";
constexpr std::size_t kMostText = 64U << 20U;

template <typename T>
bool IsGone(const Sys<T>& outcome) {
  // ESRCH if the process ends after one of its files in /proc was opened.
  return FailedWith(outcome, ENOENT) || FailedWith(outcome, ESRCH);
}

}  // namespace

Sys<void> MountNamespaces::ReadOwn() {
  MOUNTD_ASSIGN(
      const FileFacts file,
      context_.kernel.StatLinked(exec::kFromRoot, "/proc/self/ns/mnt"));
  own_inode_ = file.inode;
  MOUNTD_ASSIGN(const std::string text,
                context_.kernel.ReadFile(exec::kFromRoot,
                                         "/proc/self/mountinfo", kMostText));
  Result<MountinfoExcerpt> excerpt = ExcerptOf(text, devices_);
  if (!excerpt) {
    // No errno says that a text cannot be parsed.
    return EIO;
  }
  own_.seen = std::move(excerpt).value();
  return {};
}

Sys<MountNamespace*> MountNamespaces::Of(int process) {
  const Sys<FileFacts> file = context_.kernel.StatLinked(process, kLink);
  if (IsGone(file)) {
    return nullptr;
  }
  if (!file) {
    return file.error();
  }
  if (file->inode == own_inode_) {
    return &own_;
  }
  const Sys<std::uint64_t> id = context_.kernel.MountNamespaceOf(process);
  if (IsGone(id)) {
    return nullptr;
  }
  // EPERM: mountinfo may be readable all the same.
  if (!id && !FailedWith(id, ENOTTY) && !FailedWith(id, EPERM)) {
    return id.error();
  }
  if (!id) {
    return Widened(process, file->inode);
  }
  const auto known = others_.find({.id = *id});
  if (known != others_.end()) {
    return &known->second;
  }
  MountinfoExcerpt seen;
  MOUNTD_ASSIGN(const bool is_there, ReadById(*id, &seen));
  if (!is_there) {
    return Widened(process, file->inode);
  }
  MountNamespace& made = others_[{.id = *id}];
  made.seen = std::move(seen);
  return &made;
}

// Returns whether the namespace exists and the kernel lists its mounts.
Sys<bool> MountNamespaces::ReadById(std::uint64_t id,
                                    MountinfoExcerpt* seen) const {
  const Sys<std::vector<MountFacts>> mounts =
      context_.kernel.MountsOfNamespace(id);
  // ENOSYS and EPERM come from a filter of system calls, as in
  // AreUniqueIdsKnown.
  if (FailedWith(mounts, ENOENT) || FailedWith(mounts, ENOSYS) ||
      FailedWith(mounts, EPERM)) {
    return false;
  }
  if (!mounts) {
    return mounts.error();
  }
  *seen = ExcerptOf(*mounts, devices_);
  return true;
}

Sys<bool> MountNamespaces::ReadMountinfo(int process,
                                         MountinfoExcerpt* seen) const {
  const Sys<std::string> text =
      context_.kernel.ReadFile(process, "mountinfo", kMostText);
  // The kernel answers EINVAL for a process that has ended and that its parent
  // has not waited for yet.
  if (IsGone(text) || FailedWith(text, EINVAL)) {
    return false;
  }
  if (!text) {
    return text.error();
  }
  Result<MountinfoExcerpt> excerpt = ExcerptOf(*text, devices_);
  if (!excerpt) {
    return EIO;
  }
  *seen = std::move(excerpt).value();
  return true;
}

// Returns the widest view that one of the namespace's processes has. A process
// with a root directory of its own (chroot(2)) sees only a part of the mounts.
Sys<MountNamespace*> MountNamespaces::Widened(int process,
                                              std::uint64_t inode) {
  const Sys<FileFacts> root = context_.kernel.StatLinked(process, "root");
  if (IsGone(root)) {
    return nullptr;
  }
  if (!root) {
    return root.error();
  }
  std::set<View>& views = views_[inode];
  if (!views.contains({root->mount_id, root->inode})) {
    MountinfoExcerpt seen;
    MOUNTD_ASSIGN(const bool is_there, ReadMountinfo(process, &seen));
    if (!is_there) {
      return nullptr;
    }
    views.insert({root->mount_id, root->inode});
    MountNamespace& made = others_[{.inode = inode}];
    if (seen.ids.size() > made.seen.ids.size()) {
      made.seen = std::move(seen);
    }
  }
  return &others_[{.inode = inode}];
}

// Returns whether the kernel's list had a namespace that was not read before.
// Such a namespace may be the copy of another one that was listed and is gone.
Sys<bool> MountNamespaces::ReadListed(const std::function<bool()>& is_over) {
  MOUNTD_ASSIGN(const std::vector<exec::MountNamespaceName> all,
                context_.kernel.MountNamespaces());
  bool has_new = false;
  for (const exec::MountNamespaceName& name : all) {
    if (is_over()) {
      return false;
    }
    if (name.inode == own_inode_ || others_.contains({.id = name.id})) {
      continue;
    }
    MountinfoExcerpt seen;
    MOUNTD_ASSIGN(const bool is_there, ReadById(name.id, &seen));
    if (is_there) {
      others_[{.id = name.id}].seen = std::move(seen);
    }
    has_new = true;
  }
  return has_new;
}

// A task can move its copy from one namespace to the next while this function
// reads, so that each namespace is gone when its turn comes. Therefore the
// function reads until lists have nothing new. One such list is not enough. The
// kernel lists namespaces by their numbers, and a namespace that is made on
// another CPU may get a number that the list has passed (Linux 6.18).
Sys<void> MountNamespaces::ReadOthers(const std::function<bool()>& is_over) {
  constexpr int kMostRounds = 16;
  constexpr int kEnoughWithoutNew = 3;
  int without_new = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    const Sys<bool> has_new = ReadListed(is_over);
    // ENOTTY: a kernel that cannot list namespaces. EPERM: it does not let us.
    if (FailedWith(has_new, ENOTTY) || FailedWith(has_new, EPERM)) {
      return {};
    }
    if (!has_new) {
      return has_new.error();
    }
    without_new = *has_new ? 0 : without_new + 1;
    if (without_new == kEnoughWithoutNew) {
      return {};
    }
  }
  return EAGAIN;
}

}  // namespace mountd::propagation
