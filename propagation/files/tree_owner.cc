// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/files/tree_owner.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <algorithm>
#include <span>

#include "propagation/files/caller_directory.h"

namespace mountd::propagation {
namespace {

using exec::FailedWith;
using exec::FileFacts;
using exec::OrderedName;
using exec::Sys;
using exec::TreePlan;
using exec::TreeReply;

constexpr char kChown[] = "chown";
constexpr std::size_t kListedAtOnce = 4096;

struct Walk {
  const Context& context;
  const TreePlan& plan;
  std::uint64_t mount_id = 0;
  TreeTrail trail;
  TreeBudget budget;
  TreeReply reply;
};

std::span<const std::uint32_t> Groups(const exec::CallerPlan& caller) {
  return std::span(caller.gids).first(caller.gid_count);
}

// Returns whether a rule lets the caller have files of this owner.
bool InIds(const Context& context, const exec::CallerPlan& caller,
           std::uint32_t id) {
  return std::any_of(context.config.rules.begin(), context.config.rules.end(),
                     [&](const RuleConfig& rule) {
                       return Applies(rule, caller.uid, Groups(caller)) &&
                              Contains(rule.ids, id);
                     });
}

Result<void> CheckOwner(const Context& context, const TreePlan& plan,
                        const std::string& object) {
  const std::span<const std::uint32_t> groups = Groups(plan.caller);
  const bool uid_allowed =
      plan.uid == plan.caller.uid || InIds(context, plan.caller, plan.uid);
  const bool gid_allowed =
      std::find(groups.begin(), groups.end(), plan.gid) != groups.end() ||
      InIds(context, plan.caller, plan.gid);
  if (uid_allowed && gid_allowed) {
    return Ok();
  }
  return MakeError(
      Code::kPermissionDenied, kChown, object,
      (uid_allowed ? "gid " + std::to_string(plan.gid)
                   : "uid " + std::to_string(plan.uid)) +
          " is neither the caller's own nor granted by ids in mountd.toml");
}

// An entry of a directory and an O_PATH fd of it. No fd: the entry is gone.
struct Entry {
  UniqueFd fd;
  FileFacts file;
};

Result<Entry> OpenEntry(const Walk& walk, int dir, const std::string& name) {
  // O_PATH with O_NOFOLLOW opens a link itself at the last component, which
  // RESOLVE_NO_SYMLINKS permits (openat2(2)). The walk has to change links,
  // too.
  Sys<UniqueFd> fd =
      walk.context.kernel.Open(dir, name, O_PATH | O_NOFOLLOW,
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                   RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
  if (FailedWith(fd, ENOENT)) {
    return Entry{};
  }
  // EXDEV: a mount lies at the name (RESOLVE_NO_XDEV).
  if (FailedWith(fd, EXDEV)) {
    return walk.trail.AtMount(kChown, name);
  }
  if (!fd) {
    return walk.trail.Failed(fd.error(), "openat2", name);
  }
  const Sys<FileFacts> file = walk.context.kernel.Stat(fd->get(), "");
  if (!file) {
    return walk.trail.Failed(file.error(), "statx", name);
  }
  if (file->mount_id != walk.mount_id) {
    return walk.trail.AtMount(kChown, name);
  }
  return Entry{std::move(fd).value(), *file};
}

Result<void> Change(Walk* walk, const Entry& entry, const std::string& name) {
  const TreePlan& plan = walk->plan;
  if (entry.file.uid != plan.caller.uid &&
      !InIds(walk->context, plan.caller, entry.file.uid)) {
    ++walk->reply.left;
    return Ok();
  }
  if (entry.file.uid != plan.uid || entry.file.gid != plan.gid) {
    // Change the descriptor's file, because a task can exchange the name for a
    // hard link between the check and the change.
    const Sys<void> changed =
        walk->context.kernel.SetOwner(entry.fd.get(), plan.uid, plan.gid);
    if (!changed) {
      return walk->trail.Failed(changed.error(), "fchownat", name);
    }
  }
  ++walk->reply.done;
  return Ok();
}

Result<bool> Visit(Walk* walk, int dir, std::size_t level, bool going_on);

// Visits one name of a directory at `level`. If an earlier plan had `entered`
// the directory, its owner is already set and the visit continues below it.
// Returns false if the budget is used up.
Result<bool> VisitEntry(Walk* walk, int dir, const OrderedName& name,
                        std::size_t level, bool entered) {
  if (!entered && !walk->budget.Take()) {
    walk->reply.depth = static_cast<std::uint32_t>(level + 1);
    return false;
  }
  MOUNTD_ASSIGN(const Entry entry, OpenEntry(*walk, dir, name.name));
  if (!entry.fd.valid()) {
    return true;
  }
  if (!entered) {
    MOUNTD_TRY(Change(walk, entry, name.name));
  }
  if (!S_ISDIR(entry.file.mode)) {
    return true;
  }
  if (level + 1 == walk->plan.after.size()) {
    return walk->trail.Refused(Code::kResourceExhausted, kChown, name.name,
                               "the tree is nested too deep");
  }
  walk->trail.Enter(name.name);
  const Result<bool> whole = Visit(walk, entry.fd.get(), level + 1, entered);
  walk->trail.Leave();
  if (whole && !*whole) {
    walk->reply.after.at(level) = name.order;
  }
  return whole;
}

// Visits all names of a directory in their order. With `going_on`, continues
// where an earlier plan stopped: after plan.after[level], or within the
// directory that has exactly this order if the plan names a deeper level.
Result<bool> Visit(Walk* walk, int dir, std::size_t level, bool going_on) {
  const TreePlan& plan = walk->plan;
  const bool known = going_on && level < plan.depth;
  std::uint64_t last = known ? plan.after.at(level) : 0;
  bool enter = known && level + 1 < plan.depth;
  for (;;) {
    // To enter the directory of order `last` again, list from just before it.
    const Sys<std::vector<OrderedName>> names = walk->context.kernel.ListAfter(
        dir, enter ? last - 1 : last, kListedAtOnce);
    if (!names) {
      return walk->trail.Failed(names.error(), "getdents64");
    }
    for (const OrderedName& name : *names) {
      const bool entered = enter && name.order == last;
      MOUNTD_ASSIGN(const bool whole,
                    VisitEntry(walk, dir, name, level, entered));
      if (!whole) {
        // VisitEntry has recorded the position if a deeper level stopped.
        if (walk->reply.depth == level + 1) {
          walk->reply.after.at(level) = last;
        }
        return false;
      }
      last = name.order;
      enter = false;
    }
    if (names->size() < kListedAtOnce) {
      return true;
    }
  }
}

}  // namespace

Result<TreeReply> ChownSome(const Context& context, int fd,
                            const TreePlan& plan, const TreeBound& bound) {
  const std::string object = "directory";
  MOUNTD_TRY(CheckOwner(context, plan, object));
  MOUNTD_ASSIGN(const CallerDirectory directory,
                OpenCallerDirectory(context, fd, plan.caller, object));
  Walk walk{context,           plan, directory.file.mount_id, TreeTrail(object),
            TreeBudget(bound), {}};
  MOUNTD_ASSIGN(const bool whole, Visit(&walk, directory.fd.get(), 0, true));
  walk.reply.finished = whole ? 1 : 0;
  return walk.reply;
}

}  // namespace mountd::propagation
