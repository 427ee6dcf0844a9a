// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/fakes/fake_executor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "mountd/base/paths.h"
#include "netns/address/address.h"

namespace mountd::exec {
namespace {

std::string TextOf(const TargetPlan& plan) {
  return Text(plan.allocation) + "/" + Text(plan.task) + "/" + Text(plan.name);
}

// Returns the source as one text: a host volume's name, or the directory of a
// published volume.
std::string TextOf(const SourcePlan& plan, const std::string& allocation) {
  if (plan.kind == SourceKind::kHostVolume) {
    return Text(plan.host_volume);
  }
  if (plan.kind == SourceKind::kFilesystem) {
    return "file system " + Text(plan.filesystem);
  }
  if (plan.kind == SourceKind::kTmpfs) {
    return "tmpfs";
  }
  if (plan.kind == SourceKind::kDirectory) {
    return "directory";
  }
  return Text(plan.plugin) + "/" + paths::kPublish + "/" + allocation + "/" +
         std::string(plan.volume.data(), plan.volume.size());
}

PlanBody NoBody() { return {}; }

}  // namespace

void FakeExecutor::FailNext(const std::string& method, Code code, FailWhen when,
                            std::size_t times) {
  script_.FailNext(method, MakeError(code, method, "fake", "as the test wants"),
                   when, times);
}

void FakeExecutor::FailNth(std::size_t n, Code code, FailWhen when) {
  script_.FailNth(n, MakeError(code, "plan", "fake", "as the test wants"),
                  when);
}

MountState FakeExecutor::NewMountLocked() {
  MountState state;
  state.mount_id = ++last_id_;
  state.exists = 1;
  state.is_directory = 1;
  TellLocked(state.mount_id, true);
  return state;
}

Result<HelloReply> FakeExecutor::Hello() {
  return Run<Result<HelloReply>>(PlanKind::kHello, "Hello", "", NoBody(), [&] {
    HelloReply hello;
    hello.pid = static_cast<std::uint32_t>(getpid());
    hello.effective_capabilities = 0x200000;
    hello.mount_namespace = 4026531840;
    hello.has_unique_mount_ids = has_unique_ids_ ? 1 : 0;
    hello.has_mount_beneath = 1;
    return hello;
  });
}

Result<MountState> FakeExecutor::PrepareBase() {
  return Run<Result<MountState>>(PlanKind::kPrepareBase, "PrepareBase", "",
                                 NoBody(), [] {
                                   MountState base;
                                   base.mount_id = 1;
                                   base.peer_group = 1;
                                   base.exists = 1;
                                   base.is_directory = 1;
                                   return base;
                                 });
}

Result<void> FakeExecutor::PrepareAllocation(const AllocationPlan& plan) {
  PlanBody body;
  body.allocation = plan;
  const std::string id = Text(plan.allocation);
  return Run<Result<void>>(PlanKind::kPrepareAllocation, "PrepareAllocation",
                           id, body, [&]() -> Result<void> {
                             std::uint32_t& uid = allocations_[id];
                             if (uid == 0) {
                               uid = plan.uid;
                             }
                             if (uid != plan.uid) {
                               return MakeError(Code::kFailedPrecondition,
                                                "mkdirat", id,
                                                "is there for another user");
                             }
                             if (plan.group != 0) {
                               groups_[id] = plan.group;
                             }
                             return Ok();
                           });
}

void FakeExecutor::ForgetWhoPasses() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, uid] : allocations_) {
    uid = 0;
  }
}

// Detaches the mounts beneath the allocation, because mountd has no record of
// them by then.
Result<void> FakeExecutor::SweepLocked(const std::string& id) {
  const auto is_below = [&](const auto& entry) {
    return entry.first.starts_with(id + "/");
  };
  const bool used =
      std::any_of(mounts_.begin(), mounts_.end(), [&](const auto& entry) {
        return is_below(entry) && busy_.contains(entry.first);
      });
  if (used || busy_.contains(id)) {
    return MakeError(Code::kBusy, "rmdir", id, "a mount beneath it is used");
  }
  for (const auto& entry : mounts_) {
    if (is_below(entry)) {
      TellLocked(entry.second.state.mount_id, false);
    }
  }
  std::erase_if(mounts_, is_below);
  return Ok();
}

Result<void> FakeExecutor::RemoveAllocation(const AllocationPlan& plan) {
  PlanBody body;
  body.allocation = plan;
  const std::string id = Text(plan.allocation);
  return Run<Result<void>>(PlanKind::kRemoveAllocation, "RemoveAllocation", id,
                           body, [&]() -> Result<void> {
                             MOUNTD_TRY(SweepLocked(id));
                             allocations_.erase(id);
                             groups_.erase(id);
                             std::erase_if(inboxes_,
                                           [&](const std::string& inbox) {
                                             return inbox.starts_with(id + "/");
                                           });
                             return Ok();
                           });
}

// Returns the clone as it would be mounted, and anchors its source.
Result<FakeExecutor::Mount> FakeExecutor::CloneLocked(const AttachPlan& plan) {
  Mount mount;
  mount.plan = plan;
  mount.source = TextOf(plan.source, Text(plan.target.allocation));
  MountState source;
  if (plan.source.kind == SourceKind::kTmpfs ||
      plan.source.kind == SourceKind::kDirectory) {
    mount.state = NewMountLocked();
    return mount;
  }
  if (plan.source.kind == SourceKind::kPublishedVolume) {
    const auto published = directories_.find(mount.source);
    if (published == directories_.end()) {
      return MakeError(Code::kNotFound, "openat2", mount.source,
                       "is not published");
    }
    source = published->second;
    source.peer_group = source.mount_id;
  } else if (const auto own = own_mounts_.find(mount.source);
             own != own_mounts_.end()) {
    source = own->second;
  } else {
    if (const auto health = health_.find(mount.source);
        plan.source.kind == SourceKind::kFilesystem &&
        health != health_.end() && health->second == MountHealth::kDead) {
      anchors_.erase(mount.source);
      health_.erase(health);
    }
    auto anchor = anchors_.find(mount.source);
    if (anchor == anchors_.end()) {
      anchor = anchors_.emplace(mount.source, NewMountLocked()).first;
      anchor->second.peer_group = ++last_id_;
    }
    source = anchor->second;
    mount.state.anchor_id = source.mount_id;
  }
  const std::uint64_t anchor_id = mount.state.anchor_id;
  mount.state = NewMountLocked();
  mount.state.device = std::hash<std::string>()(mount.source);
  mount.state.anchor_id = anchor_id;
  mount.state.source_peer_group = source.peer_group;
  if (plan.propagation == Propagation::kHostToTask) {
    mount.state.master = source.peer_group;
  } else if (plan.propagation == Propagation::kBidirectional) {
    mount.state.peer_group = source.peer_group;
  }
  return mount;
}

Result<MountState> FakeExecutor::AttachLocked(const AttachPlan& plan) {
  const std::string target = TextOf(plan.target);
  const std::string source = TextOf(plan.source, Text(plan.target.allocation));
  if (!allocations_.contains(Text(plan.target.allocation))) {
    return ErrnoError(ENOENT, "openat2", Text(plan.target.allocation));
  }
  const auto found = mounts_.find(target);
  if (found == mounts_.end() && plan.replaces != 0) {
    return MakeError(
        Code::kNotFound, "mount", target,
        "the mount to replace is not there; mount it without replace");
  }
  if (found != mounts_.end() && found->second.state.mount_id != plan.replaces) {
    const Mount& there = found->second;
    const bool same = plan.source.kind != SourceKind::kTmpfs &&
                      there.source == source &&
                      there.plan.propagation == plan.propagation &&
                      there.plan.attributes == plan.attributes;
    return same ? Result<MountState>(there.state)
                : MakeError(
                      Code::kAlreadyExists, "mount", target,
                      "read back: another source is mounted at the target");
  }
  MOUNTD_ASSIGN(Mount mount, CloneLocked(plan));
  return mounts_.insert_or_assign(target, std::move(mount)).first->second.state;
}

Result<MountState> FakeExecutor::Attach(const AttachPlan& plan, int /*fd*/) {
  PlanBody body;
  body.attach = plan;
  return Run<Result<MountState>>(PlanKind::kAttach, "Attach",
                                 TextOf(plan.target), body,
                                 [&] { return AttachLocked(plan); });
}

HandedOutMount FakeExecutor::HandedOutLocked() {
  last_handed_out_ = has_unique_ids_ ? ++last_id_ : 0;
  return {last_handed_out_, last_handed_out_, 1};
}

std::uint64_t FakeExecutor::last_handed_out() const {
  const std::lock_guard lock(mutex_);
  return last_handed_out_;
}

void FakeExecutor::TakeUniqueIds() {
  const std::lock_guard lock(mutex_);
  has_unique_ids_ = false;
}

// A memfd stands for the tree, because only the kernel looks at an fd's kind.
Result<HandedOutFd> FakeExecutor::OpenTree(const OpenTreePlan& plan) {
  PlanBody body;
  body.open_tree = plan;
  return Run<Result<HandedOutFd>>(
      PlanKind::kOpenTree, "OpenTree", Text(plan.allocation), body,
      [&]() -> Result<HandedOutFd> {
        return HandedOutFd{UniqueFd(memfd_create("tree", MFD_CLOEXEC)),
                           HandedOutLocked()};
      });
}

Result<void> FakeExecutor::Detach(const DetachPlan& plan) {
  PlanBody body;
  body.detach = plan;
  const std::string target = TextOf(plan.target);
  return Run<Result<void>>(
      PlanKind::kDetach, "Detach", target, body, [&]() -> Result<void> {
        const auto found = mounts_.find(target);
        if (found == mounts_.end()) {
          return Ok();
        }
        if (found->second.state.mount_id != plan.mount_id) {
          return MakeError(Code::kFailedPrecondition, "umount2", target,
                           "another mount is at its place");
        }
        if (busy_.contains(target)) {
          return ErrnoError(EBUSY, "umount2", target,
                            "processes use the mount; ListHolders names them");
        }
        TellLocked(found->second.state.mount_id, false);
        mounts_.erase(found);
        return Ok();
      });
}

Result<MountState> FakeExecutor::InspectTarget(const TargetPlan& plan) {
  PlanBody body;
  body.target = plan;
  const std::string target = TextOf(plan);
  return Run<Result<MountState>>(
      PlanKind::kInspectTarget, "InspectTarget", target, body, [&] {
        const auto found = mounts_.find(target);
        return found == mounts_.end() ? MountState{} : found->second.state;
      });
}

Result<void> FakeExecutor::ReleaseAnchor(const AnchorPlan& plan) {
  PlanBody body;
  body.anchor = plan;
  const std::string volume =
      (plan.kind == SourceKind::kFilesystem ? "file system " : "") +
      Text(plan.source);
  return Run<Result<void>>(
      PlanKind::kReleaseAnchor, "ReleaseAnchor", volume, body,
      [&]() -> Result<void> {
        const auto found = anchors_.find(volume);
        if (found == anchors_.end()) {
          return Ok();
        }
        // 0 stands for any anchor that mountd put there. If this anchor has
        // another id, the plan's anchor is gone already.
        if (plan.anchor_id != 0 && found->second.mount_id != plan.anchor_id) {
          return Ok();
        }
        if (busy_.contains(volume)) {
          return ErrnoError(EBUSY, "umount2", volume);
        }
        anchors_.erase(found);
        return Ok();
      });
}

Result<void> FakeExecutor::PrepareInbox(const TaskPlan& plan) {
  PlanBody body;
  body.task = plan;
  const std::string inbox = Text(plan.allocation) + "/" + Text(plan.task);
  return Run<Result<void>>(
      PlanKind::kPrepareInbox, "PrepareInbox", inbox, body,
      [&]() -> Result<void> {
        if (!allocations_.contains(Text(plan.allocation))) {
          return ErrnoError(ENOENT, "openat2", Text(plan.allocation));
        }
        inboxes_.insert(inbox);
        return Ok();
      });
}

Result<void> FakeExecutor::RemoveInbox(const TaskPlan& plan) {
  PlanBody body;
  body.task = plan;
  const std::string inbox = Text(plan.allocation) + "/" + Text(plan.task);
  return Run<Result<void>>(
      PlanKind::kRemoveInbox, "RemoveInbox", inbox, body,
      [&]() -> Result<void> {
        const auto below = mounts_.lower_bound(inbox + "/");
        if (below != mounts_.end() && below->first.starts_with(inbox + "/")) {
          return MakeError(Code::kBusy, "rmdir", inbox,
                           "a mount is still in it; unmount it first");
        }
        inboxes_.erase(inbox);
        return Ok();
      });
}

Result<HandedOutFd> FakeExecutor::OpenInbox(const TaskPlan& plan) {
  PlanBody body;
  body.task = plan;
  const std::string inbox = Text(plan.allocation) + "/" + Text(plan.task);
  return Run<Result<HandedOutFd>>(
      PlanKind::kOpenInbox, "OpenInbox", inbox, body,
      [&]() -> Result<HandedOutFd> {
        if (!inboxes_.contains(inbox)) {
          // The directory is there while a mount is in it.
          const auto below = mounts_.lower_bound(inbox + "/");
          const bool is_there =
              below != mounts_.end() && below->first.starts_with(inbox + "/");
          return is_there ? MakeError(Code::kFailedPrecondition, "open_tree",
                                      inbox, "the task has no inbox")
                          : ErrnoError(ENOENT, "openat2", inbox);
        }
        return HandedOutFd{UniqueFd(memfd_create("inbox", MFD_CLOEXEC)),
                           HandedOutLocked()};
      });
}

Result<TreeReply> FakeExecutor::RemoveTree(const TreePlan& plan,
                                           int /*directory*/) {
  PlanBody body;
  body.tree = plan;
  // A pause, so that a tree that never gets empty does not make endless plans.
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return Run<Result<TreeReply>>(PlanKind::kRemoveTree, "RemoveTree", "tree",
                                body, [&] {
                                  TreeReply reply;
                                  reply.done = tree_ > 0 ? 1 : 0;
                                  tree_ -= reply.done;
                                  reply.finished = tree_ == 0 ? 1 : 0;
                                  return reply;
                                });
}

Result<TreeReply> FakeExecutor::ChownTree(const TreePlan& plan,
                                          int /*directory*/) {
  PlanBody body;
  body.tree = plan;
  return Run<Result<TreeReply>>(
      PlanKind::kChownTree, "ChownTree", "tree", body, [&] {
        TreeReply reply;
        const std::uint64_t at = plan.depth == 0 ? 0 : plan.after[0];
        reply.done = at < tree_ ? 1 : 0;
        reply.depth = 1;
        reply.after[0] = at + reply.done;
        reply.finished = reply.after[0] == tree_ ? 1 : 0;
        return reply;
      });
}

}  // namespace mountd::exec
