// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/mount_watch.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "mountd/base/current_user.h"
#include "mountd/base/memory_file.h"
#include "mountd/mounts/mount_request.h"
#include "mountd/plan/wire.h"
#include "mountd/service/teardowns.h"

namespace mountd {
namespace {

constexpr char kStrand[] = "mount watch";
constexpr std::chrono::milliseconds kBetweenTries{5000};
constexpr std::chrono::milliseconds kBetweenReads{50};
constexpr std::chrono::milliseconds kBetweenCompares{200};
constexpr std::chrono::milliseconds kBetweenCounts{1000};

// Reads the ids that the executor wrote into a memfd.
Result<std::vector<std::uint64_t>> ReadIds(
    const exec::MountExecutor::MountList& list) {
  std::vector<std::uint64_t> ids(list.reply.count);
  const std::size_t size = ids.size() * sizeof(std::uint64_t);
  MOUNTD_ASSIGN(const std::string bytes, ReadMemory(list.ids.get(), size));
  if (bytes.size() != size) {
    return ErrnoError(EIO, "read", "mount ids", "the list is incomplete");
  }
  bytes.copy(reinterpret_cast<char*>(ids.data()), size);
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

void MountWatch::Arm() {
  parts_.strands.Submit(kStrand, [this] {
    Result<exec::MountExecutor::MountWatch> watch =
        parts_.executor.WatchMounts();
    if (!watch) {
      spdlog::warn("mountd cannot watch the mounts: {}",
                   watch.error().Message());
      parts_.loop.Post(
          [this] { parts_.loop.After(kBetweenTries, [this] { Arm(); }); });
      return;
    }
    auto shared =
        std::make_shared<exec::MountExecutor::MountWatch>(std::move(*watch));
    parts_.loop.Post([this, shared] { Armed(*shared); });
  });
}

void MountWatch::Armed(exec::MountExecutor::MountWatch& watch) {
  source_.reset();
  fd_ = std::move(watch.fd);
  tells_ids_ = watch.reply.tells_ids != 0;
  // Find mounts that were removed before the watch began.
  Compare();
  Watch();
}

void MountWatch::Watch() {
  // mountinfo is always readable. The kernel signals a change of it as
  // EPOLLPRI.
  source_ = parts_.loop.WatchFd(fd_.get(), tells_ids_ ? EPOLLIN : EPOLLPRI,
                                [this](std::uint32_t) { OnReadable(); });
  if (source_ == nullptr) {
    parts_.loop.After(kBetweenTries, [this] { Arm(); });
  }
}

// Waits a little before it reads. Most changes come from mountd, which is
// making more of them, and reading at once would delay mountd.
void MountWatch::OnReadable() {
  source_.reset();
  parts_.loop.After(kBetweenReads, [this] {
    if (Read()) {
      Watch();
    } else {
      parts_.loop.After(kBetweenTries, [this] { Arm(); });
    }
  });
}

bool MountWatch::Read() {
  if (!tells_ids_) {
    Compare();
    return true;
  }
  const Result<MountEvents> events = ReadMountEvents(fd_.get());
  if (!events) {
    spdlog::warn("{}; mountd watches the mounts again",
                 events.error().Message());
    return false;
  }
  Take(*events);
  return true;
}

void MountWatch::Take(const MountEvents& events) {
  std::vector<std::uint64_t> gone;
  for (const MountEvent& event : events.events) {
    Apply(event);
    // A moved mount counts as detached, because it left its place.
    if (event.detached) {
      gone.push_back(event.mount_id);
    }
  }
  if (comparing_) {
    meanwhile_.insert(meanwhile_.end(), events.events.begin(),
                      events.events.end());
  }
  parts_.room.SetCount(ids_.size());
  changes_ += events.events.size();
  if (changes_ > harmless_) {
    CountPlugins();
  }
  if (events.overflowed) {
    Compare();
  }
  if (!gone.empty()) {
    parts_.strands.Submit(kStrand, [this, gone] { LookFor(gone); });
  }
}

// Counts a moved mount as attached, because it still exists.
void MountWatch::Apply(const MountEvent& event) {
  if (event.attached) {
    ids_.insert(event.mount_id);
  } else {
    ids_.erase(event.mount_id);
  }
}

void MountWatch::Compare() {
  // A comparison under way may have begun before the change, so compare again
  // afterwards.
  again_ = std::exchange(comparing_, true);
  if (!again_) {
    meanwhile_.clear();
    parts_.strands.Submit(kStrand, [this] { CompareNow(); });
  }
}

void MountWatch::CompareNow() {
  const auto list_all = [&]() -> Result<void> {
    MOUNTD_ASSIGN(const exec::MountExecutor::MountList list,
                  parts_.executor.ListMounts());
    MOUNTD_ASSIGN(const std::vector<std::uint64_t> ids, ReadIds(list));
    MOUNTD_ASSIGN(const std::vector<MountRecord> records,
                  parts_.store.mounts.ListMounts());
    for (const MountRecord& record : records) {
      if (record.state == MountRecordState::kAttached && IsOnHost(record) &&
          !std::binary_search(ids.begin(), ids.end(), record.mount_id)) {
        Confirm(record);
      }
    }
    parts_.loop.Post(
        [this, ids, most = list.reply.most] { Compared(ids, most); });
    return Ok();
  };
  if (const Result<void> listed = list_all(); !listed) {
    spdlog::warn("mountd cannot compare its records with the mounts: {}",
                 listed.error().Message());
    parts_.loop.Post([this] {
      parts_.loop.After(kBetweenTries, [this] {
        comparing_ = false;
        Compare();
      });
    });
  }
}

// Applies all events since mountd asked for the list, because mountd does not
// know which of them the list includes. Applying an event twice does no harm.
void MountWatch::Compared(const std::vector<std::uint64_t>& ids,
                          std::uint64_t most) {
  ids_ = std::unordered_set<std::uint64_t>(ids.begin(), ids.end());
  for (const MountEvent& event : meanwhile_) {
    Apply(event);
  }
  meanwhile_.clear();
  parts_.room.Set(ids_.size(), most);
  CountPlugins();
  parts_.loop.After(kBetweenCompares, [this] {
    comparing_ = false;
    if (std::exchange(again_, false)) {
      Compare();
    }
  });
}

void MountWatch::CountPlugins() {
  if (!std::exchange(counting_, true)) {
    changes_ = 0;
    parts_.strands.Submit(kStrand, [this] { CountPluginsNow(); });
  }
}

void MountWatch::CountPluginsNow() {
  MountRoom::OfPlugins counts;
  const Result<std::vector<PluginRecord>> plugins =
      parts_.state.plugins.ListPlugins();
  for (const PluginRecord& plugin :
       plugins ? *plugins : std::vector<PluginRecord>()) {
    if (counts.contains(plugin.id)) {
      continue;
    }
    const Result<std::uint64_t> count =
        parts_.executor.CountMounts({exec::ToWire(plugin.id)});
    std::optional<std::uint64_t>& known = counts[plugin.id];
    if (count) {
      known = *count;
    } else if (count.error().code == Code::kNotFound) {
      known = 0;
    } else {
      spdlog::warn("mountd cannot count the mounts of plugin {}: {}", plugin.id,
                   count.error().Message());
    }
  }
  const std::uint64_t left = parts_.room.SetPlugins(std::move(counts));
  parts_.loop.Post([this, left] {
    harmless_ = left;
    parts_.loop.After(kBetweenCounts, [this] {
      counting_ = false;
      if (changes_ > harmless_) {
        CountPlugins();
      }
    });
  });
}

void MountWatch::LookFor(const std::vector<std::uint64_t>& ids) {
  for (const std::uint64_t id : ids) {
    const Result<std::optional<MountRecord>> record =
        parts_.store.mounts.FindMount(id);
    // A mount with an unknown id is not mountd's. In another state mountd
    // itself is removing the mount.
    if (record && *record && (*record)->state == MountRecordState::kAttached) {
      Confirm(**record);
    }
  }
}

void MountWatch::Confirm(const MountRecord& record) {
  parts_.strands.Submit(AllocationStrand(record.allocation), [this, record] {
    const CurrentUser user(record.uid);
    const Result<std::string> reason = parts_.mounts.LookLost(record);
    if (reason && !reason->empty()) {
      on_lost_(record, *reason);
    }
  });
}

}  // namespace mountd
