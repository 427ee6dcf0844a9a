// SPDX-License-Identifier: LGPL-2.1-or-later
//
// FakeExecutor's plans that look for mounts, or ask whether they answer.
#include <fcntl.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "mountd/plan/wire.h"
#include "tests/support/fakes/fake_executor.h"

namespace mountd::exec {
namespace {

constexpr std::uint64_t kAttach = 0x01000000;  // FAN_MNT_ATTACH
constexpr std::uint64_t kDetach = 0x02000000;  // FAN_MNT_DETACH
constexpr std::uint8_t kInfoMount = 7;         // FAN_EVENT_INFO_TYPE_MNT

// The layout is the kernel's.
struct Event {
  fanotify_event_metadata metadata{};
  fanotify_event_info_header header{};
  std::uint32_t padding = 0;
  std::uint64_t mount_id = 0;
};
static_assert(sizeof(Event) == 40);

}  // namespace

void FakeExecutor::TellLocked(std::uint64_t mount_id, bool attached) {
  if (!watch_tells_ids_) {
    (void)!send(watch_.get(), "!", 1, MSG_OOB | MSG_NOSIGNAL);
    return;
  }
  Event event;
  event.metadata.event_len = sizeof(event);
  event.metadata.vers = FANOTIFY_METADATA_VERSION;
  event.metadata.metadata_len = sizeof(event.metadata);
  event.metadata.mask = attached ? kAttach : kDetach;
  event.metadata.fd = FAN_NOFD;
  event.header.info_type = kInfoMount;
  event.header.len = sizeof(event) - sizeof(event.metadata);
  event.mount_id = mount_id;
  if (watch_.valid() && !watch_overflows_ &&
      write(watch_.get(), &event, sizeof(event)) != sizeof(event)) {
    watch_.reset();
  }
}

void FakeExecutor::OverflowWatch(bool overflows) {
  const std::lock_guard lock(mutex_);
  watch_overflows_ = overflows;
  fanotify_event_metadata event{};
  event.event_len = event.metadata_len = sizeof(event);
  event.vers = FANOTIFY_METADATA_VERSION;
  event.mask = FAN_Q_OVERFLOW;
  event.fd = FAN_NOFD;
  if (!overflows && write(watch_.get(), &event, sizeof(event)) < 0) {
    watch_.reset();
  }
}

void FakeExecutor::BreakWatch() {
  const std::lock_guard lock(mutex_);
  watch_.reset();
}

void FakeExecutor::SetTellsIds(bool tells) {
  const std::lock_guard lock(mutex_);
  watch_tells_ids_ = tells;
  watch_.reset();
}

void FakeExecutor::CutOffNextList() {
  const std::lock_guard lock(mutex_);
  next_list_is_cut_off_ = true;
}

void FakeExecutor::SetMostMounts(std::uint64_t most) {
  const std::lock_guard lock(mutex_);
  most_mounts_ = most;
}

void FakeExecutor::SetPluginMounts(const std::string& plugin,
                                   std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  plugin_mounts_[plugin] = count;
  (void)NewMountLocked();
}

void FakeExecutor::SetHealth(const std::string& source, MountHealth health) {
  const std::lock_guard lock(mutex_);
  health_[source] = health;
}

Result<MountExecutor::MountWatch> FakeExecutor::WatchMounts() {
  return Run<Result<MountWatch>>(
      PlanKind::kWatchMounts, "WatchMounts", "", PlanBody(),
      [&]() -> Result<MountWatch> {
        std::array<int, 2> ends{};
        if (watch_tells_ids_) {
          if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
            return ErrnoError(errno, "pipe2", "fake");
          }
          watch_.reset(ends[1]);
          return MountWatch{UniqueFd(ends[0]), {1}};
        }
        // Like mountinfo this socket can always be read, and EPOLLPRI reports a
        // change.
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                       ends.data()) != 0) {
          return ErrnoError(errno, "socketpair", "fake");
        }
        watch_.reset(ends[1]);
        told_.reset(fcntl(ends[0], F_DUPFD_CLOEXEC, 0));
        (void)!send(watch_.get(), "/", 1, MSG_NOSIGNAL);
        return MountWatch{UniqueFd(ends[0]), {0}};
      });
}

Result<MountExecutor::MountList> FakeExecutor::ListMounts() {
  return Run<Result<MountList>>(
      PlanKind::kListMounts, "ListMounts", "", PlanBody(),
      [&]() -> Result<MountList> {
        MountList list;
        list.ids.reset(memfd_create("fake", MFD_CLOEXEC));
        list.reply.most = most_mounts_;
        if (char change = 0; told_.valid()) {
          (void)!recv(told_.get(), &change, 1, MSG_OOB);
        }
        const auto add = [&](const MountState& state) {
          if (state.mount_id != 0 && write(list.ids.get(), &state.mount_id,
                                           sizeof(state.mount_id)) > 0) {
            ++list.reply.count;
          }
        };
        for (const auto& [target, mount] : mounts_) {
          add(mount.state);
        }
        for (const auto* states :
             {&anchors_, &own_mounts_, &plugins_, &directories_}) {
          for (const auto& [name, state] : *states) {
            add(state);
          }
        }
        if (std::exchange(next_list_is_cut_off_, false)) {
          ++list.reply.count;
        }
        return list;
      });
}

Result<std::vector<FoundTarget>> FakeExecutor::ListTargets() {
  return Run<Result<std::vector<FoundTarget>>>(
      PlanKind::kListTargets, "ListTargets", "", PlanBody(),
      [&]() -> Result<std::vector<FoundTarget>> {
        std::vector<FoundTarget> all;
        for (const auto& [id, uid] : allocations_) {
          all.push_back({{ToWire(id), {}, {}}, uid, groups_[id], {}});
        }
        for (const auto& [name, mount] : mounts_) {
          const TargetPlan& target = mount.plan.target;
          const std::string id = Text(target.allocation);
          all.push_back({target, allocations_[id], groups_[id], mount.state});
        }
        return all;
      });
}

Result<std::uint64_t> FakeExecutor::CountMounts(const PluginPlan& plan) {
  PlanBody body;
  body.plugin = plan;
  const std::string plugin(plan.plugin.view());
  return Run<Result<std::uint64_t>>(
      PlanKind::kCountMounts, "CountMounts", plugin, body,
      [&]() -> Result<std::uint64_t> { return plugin_mounts_[plugin]; });
}

Result<ProbeReply> FakeExecutor::ProbeMount(const ProbePlan& plan) {
  PlanBody body;
  body.probe = plan;
  const std::string target = std::string(plan.target.allocation.view()) + "/" +
                             std::string(plan.target.task.view()) + "/" +
                             std::string(plan.target.name.view());
  return Run<Result<ProbeReply>>(
      PlanKind::kProbeMount, "ProbeMount", target, body,
      [&]() -> Result<ProbeReply> {
        const auto found = mounts_.find(target);
        if (found == mounts_.end() ||
            found->second.state.mount_id != plan.mount_id) {
          return MakeError(Code::kNotFound, "probe", target);
        }
        ProbeReply reply;
        const auto health = health_.find(found->second.source);
        reply.health =
            health == health_.end() ? MountHealth::kHealthy : health->second;
        reply.sys_errno = reply.health == MountHealth::kDead ? ENOTCONN : 0;
        return reply;
      });
}

}  // namespace mountd::exec
