// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/look/copies.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "mountd/base/number.h"
#include "mountd/base/paths.h"
#include "propagation/ground/base.h"
#include "propagation/ground/cgroup.h"
#include "propagation/look/memory_maps.h"
#include "propagation/look/mount_namespaces.h"
#include "propagation/plugin_directory.h"

namespace mountd::propagation {
namespace {

using Clock = std::chrono::steady_clock;
using exec::FileFacts;
using exec::FileSystemPlan;
using exec::Holder;
using exec::HolderKind;
using exec::HolderScope;
using exec::MountState;
using exec::Named;
using exec::Sys;

constexpr std::size_t kMostLinks = 1U << 16U;  // of one process and kind
// Processes or threads that start others without end must not keep the search
// going until its deadline.
constexpr int kMostListings = 16;

// Returns whether the thread has ended; `dir` is its directory in /proc.
bool HasThreadEnded(const Context& context, int dir) {
  const Sys<FileFacts> left = context.kernel.Stat(dir, "ns");
  return exec::FailedWith(left, ENOENT) || exec::FailedWith(left, ESRCH);
}

bool IsWithin(const std::string& path, const std::string& top) {
  return top == "/" || paths::IsAtOrBelow(path, top);
}

// Returns whether mounts with these sources may be copies of each other. The
// device number alone does not tell, because the kernel reuses the number of a
// file system without a device (NFS, tmpfs) as soon as it is free. Compares
// only the part of an NFS source before ":/", because the path after that
// differs for a mount of a subdirectory and may change.
bool MayBeOf(const std::string& copy, const std::string& source) {
  const auto fixed_part = [](const std::string& text) {
    return std::string_view(text).substr(0, text.find(":/"));
  };
  return copy.empty() || source.empty() ||
         fixed_part(copy) == fixed_part(source);
}

// A file system whose copies the search looks for.
struct Wanted {
  std::uint64_t device = 0;
  std::uint64_t node = 0;
  std::string type;
  std::string source;
  std::string root;
  bool is_volume = false;
  // mountd has other mounts of this file system, so processes of other
  // allocations may have legitimate copies. Only the cgroup's processes are
  // reported.
  bool is_shared = false;
  // Not a volume, and some task has another mount of this file system from
  // mountd. A copy of that mount looks the same, so nobody is reported.
  bool is_ambiguous = false;

  bool Matches(const MountFacts& mount) const {
    return (mount.device == device && mount.type == type &&
            MayBeOf(mount.source, source) && IsWithin(mount.root, root)) ||
           (node != 0 && mount.device == node);
  }
  bool is_whole() const { return root == "/"; }
};

// An open file of a file system or device that the search looks for.
struct Opened {
  std::uint64_t mount_id;  // the kernel may reuse this id
  const Wanted* wanted;
  Holder holder;
};

const MountFacts* ParentOf(const MountNamespace& space,
                           const MountFacts& mount) {
  const auto parent = space.seen.places.find(mount.parent_id);
  return parent == space.seen.places.end() ||
                 space.seen.mounts[parent->second].id != mount.parent_id
             ? nullptr
             : &space.seen.mounts[parent->second];
}

// Returns the path, within the parent's file system, of the directory that
// `mount` is attached to. Empty if that path is not known.
std::string PlaceOf(const MountFacts& mount, const MountFacts& parent) {
  const std::string top = parent.point == "/" ? "" : parent.point;
  const std::string root = parent.root == "/" ? "" : parent.root;
  return mount.point.starts_with(top + "/")
             ? root + mount.point.substr(top.size())
             : "";
}

class CopySearch {
 public:
  CopySearch(const Context& context, const exec::CopiesPlan& plan,
             Clock::time_point deadline)
      : context_(context), plan_(plan), deadline_(deadline) {}

  Result<exec::CopiesState> Run();

 private:
  // ---- What is looked for ----
  Result<void> WantMounts();
  Result<void> WantVolume();
  Result<std::optional<MountFacts>> MountedAt(exec::VolumeDirPlan plan,
                                              std::uint64_t* node);
  Result<std::optional<MountFacts>> Unmounted();
  void Want(const MountFacts& mount, std::uint64_t node, bool is_volume);
  bool IsPlans(const MountFacts& mount) const;
  void FindShared();

  // ---- Processes ----
  Result<std::set<std::uint32_t>> ProcessesInScope();
  Result<void> LookAtAll(std::set<std::uint32_t> pids);
  void Miss(int error);
  bool IsOver();
  template <typename T>
  bool Got(const Sys<T>& outcome);
  void LookAtOthers();
  void Forgive(const std::function<void()>& look,
               const std::function<bool()>& holds_nothing);
  void LookAt(std::uint32_t pid);
  void LookAtProcess(std::uint32_t pid);
  void LookAtThreads(std::uint32_t pid, int process);
  bool LookAtNewThreads(std::uint32_t pid, int tasks,
                        std::set<std::string>* seen);
  void LookAtThread(std::uint32_t pid, int dir, bool files_too);
  MountNamespace* NamespaceOf(int dir);
  void LookAtFiles(std::uint32_t pid, int dir);
  void LookAtLinks(std::uint32_t pid, int dir, const char* name,
                   HolderKind kind);
  void LookAtFile(int dir, const std::string& link, Holder holder);
  void Compare(std::uint64_t device, std::uint64_t node,
               const std::function<Sys<std::uint64_t>()>& mount_id,
               Holder holder);
  void LookAtMaps(const Process& process);
  bool MapsAny(const std::string& maps) const;
  bool MayHaveFiles() const;

  // ---- What was found ----
  bool Goes(const MountNamespace& space, const MountFacts& copy);
  const std::set<std::uint64_t>& FollowersOf(std::uint64_t group);
  static std::string KeyOf(const MountFacts& mount, const MountFacts& parent);
  void IndexOwn();
  void Tell(const Wanted& wanted, Holder holder);
  void TellMounts(const MountNamespace& space);
  void TellOwnMounts();
  void TellFiles();

  const Context& context_;
  const exec::CopiesPlan& plan_;
  const Clock::time_point deadline_;
  std::vector<Wanted> wanted_;
  std::set<std::uint64_t> devices_;
  std::set<std::string> plans_points_;
  // Places where the host mounts the same files. A namespace that was made as a
  // copy of the host's has a mount at these places as well.
  std::set<std::string> hosts_points_;
  Members members_;
  // Empty until the search knows which devices it looks for.
  std::optional<MountNamespaces> namespaces_;
  std::vector<Opened> opened_;
  std::map<std::string, std::set<std::uint64_t>> groups_;  // by KeyOf
  std::map<std::uint64_t, std::set<std::uint64_t>> followers_;
  std::set<std::uint32_t> told_;
  std::uint32_t looked_at_ = 0;  // pid
  exec::CopiesState state_;
};

// ---- What is looked for ----

void CopySearch::Want(const MountFacts& mount, std::uint64_t node,
                      bool is_volume) {
  wanted_.push_back({mount.device, node, mount.type, mount.source, mount.root,
                     is_volume, false, false});
  devices_.insert(mount.device);
  if (node != 0) {
    devices_.insert(node);
  }
}

// Collects the plan's mounts. Skips a mount that is gone, because the search
// cannot recognise copies without its facts.
Result<void> CopySearch::WantMounts() {
  const std::string plugins = std::string(paths::kBase) + "/" + paths::kPlugins;
  for (std::uint32_t i = 0; i < plan_.count; ++i) {
    Result<MountFacts> mount = context_.inspector.Facts(plan_.mount_ids.at(i));
    if (!mount && mount.error().code == Code::kNotFound) {
      continue;
    }
    if (!mount) {
      return std::move(mount).error();
    }
    const bool is_volume = paths::IsAtOrBelow(mount->point, plugins);
    if (is_volume) {
      // <base>/p/<plugin>/publish/<allocation>/<key>
      const std::size_t key = mount->point.rfind('/');
      const std::size_t area = mount->point.find('/', plugins.size() + 1);
      plans_points_.insert(mount->point);
      plans_points_.insert(mount->point.substr(0, area + 1) + paths::kStaging +
                           mount->point.substr(key));
    }
    Want(*mount, 0, is_volume);
    plans_points_.insert(mount->point);
  }
  return Ok();
}

Result<std::optional<MountFacts>> CopySearch::MountedAt(
    exec::VolumeDirPlan plan, std::uint64_t* node) {
  const std::string plugin = std::string(paths::kBase) + "/" + paths::kPlugins +
                             "/" + Text(plan.plugin) + "/";
  plans_points_.insert(plugin +
                       (plan.area == exec::VolumeArea::kStaging
                            ? paths::kStaging + ("/" + Text(plan.volume))
                            : paths::kPublish + ("/" + Text(plan.allocation)) +
                                  "/" + Text(plan.volume)));
  const Result<MountState> there = InspectVolumeDir(context_, plan);
  if (!there) {
    return there.error();
  }
  *node = there->block_device;
  if (there->mount_id == 0) {
    return std::optional<MountFacts>();
  }
  MOUNTD_ASSIGN(MountFacts mount, context_.inspector.Facts(there->mount_id));
  return std::optional(std::move(mount));
}

// Describes a volume that has no mount: the plugin published a directory of the
// base itself, or made a device node there.
Result<std::optional<MountFacts>> CopySearch::Unmounted() {
  MOUNTD_ASSIGN(const MountState there,
                InspectVolumeDir(context_, plan_.volume));
  if (there.is_directory == 0 && there.block_device == 0) {
    return std::optional<MountFacts>();
  }
  MOUNTD_ASSIGN(const Base base, OpenBase(context_));
  MOUNTD_ASSIGN(MountFacts mount,
                context_.inspector.Facts(base.facts.mount_id));
  mount.root = (mount.root == "/" ? "" : mount.root) + "/" + paths::kPlugins +
               "/" + Text(plan_.volume.plugin) + "/" + paths::kPublish + "/" +
               Text(plan_.volume.allocation) + "/" + Text(plan_.volume.volume);
  return std::optional(std::move(mount));
}

// Describes the volume by the mount at its publish directory, else by the mount
// at its staging directory, else by the facts that mountd recorded before.
Result<void> CopySearch::WantVolume() {
  std::uint64_t node = 0;
  std::uint64_t none = 0;
  exec::VolumeDirPlan staging = plan_.volume;
  staging.area = exec::VolumeArea::kStaging;
  staging.allocation = {};
  MOUNTD_ASSIGN(std::optional<MountFacts> mount,
                MountedAt(plan_.volume, &node));
  MOUNTD_ASSIGN(std::optional<MountFacts> staged, MountedAt(staging, &none));
  if (!mount) {
    mount = std::move(staged);
  }
  if (!mount && plan_.before.device != 0) {
    mount.emplace();
    mount->device = plan_.before.device;
    mount->type = plan_.before.type.data();
    mount->source = plan_.before.source.data();
    mount->root = plan_.before.root.data();
  }
  if (!mount) {
    MOUNTD_ASSIGN(mount, Unmounted());
  }
  if (!mount) {
    return Ok();
  }
  FileSystemPlan& found = state_.found;
  found.device = mount->device;
  found.node = node != 0 ? node : plan_.before.node;
  std::copy_n(mount->type.begin(),
              std::min(mount->type.size(), found.type.size() - 1),
              found.type.begin());
  if (mount->source.size() < found.source.size()) {
    std::copy(mount->source.begin(), mount->source.end(), found.source.begin());
  }
  // Shorten a root that does not fit to a directory above it. The search then
  // takes more mounts for copies, never fewer.
  std::string root = mount->root;
  while (root.size() >= found.root.size()) {
    root.resize(std::max<std::size_t>(root.rfind('/'), 1));
  }
  std::copy(root.begin(), root.end(), found.root.begin());
  Want(*mount, found.node, /*is_volume=*/true);
  return Ok();
}

bool CopySearch::IsPlans(const MountFacts& mount) const {
  return plans_points_.contains(mount.point);
}

void CopySearch::FindShared() {
  const std::string allocations =
      std::string(paths::kBase) + "/" + paths::kAllocations;
  for (const MountFacts& mount : namespaces_->own().seen.mounts) {
    const bool is_bases = paths::IsAtOrBelow(mount.point, paths::kBase);
    for (Wanted& wanted : wanted_) {
      if (!wanted.Matches(mount) || IsPlans(mount)) {
        continue;
      }
      wanted.is_shared = wanted.is_shared || !wanted.is_volume || is_bases;
      if (!wanted.is_volume && !is_bases) {
        hosts_points_.insert(mount.point);
      }
      wanted.is_ambiguous =
          wanted.is_ambiguous ||
          (!wanted.is_volume && paths::IsAtOrBelow(mount.point, allocations));
    }
  }
}

// ---- Processes ----

Result<std::set<std::uint32_t>> CopySearch::ProcessesInScope() {
  if (plan_.cgroup != 0) {
    const Result<Cgroup> cgroup = OpenCgroup(context_, plan_.cgroup);
    if (cgroup) {
      MOUNTD_ASSIGN(members_, MembersOf(context_, *cgroup));
    } else if (cgroup.error().code != Code::kNotFound) {
      return cgroup.error();
    }
  }
  Members looked_at = members_;
  if (plan_.scope == HolderScope::kNode) {
    MOUNTD_ASSIGN(looked_at, AllProcesses(context_));
  }
  if (!members_.all_seen || !looked_at.all_seen) {
    Miss(0);
  }
  looked_at.pids.erase(static_cast<std::uint32_t>(::getpid()));
  return std::move(looked_at.pids);
}

void CopySearch::Miss(int error) {
  exec::HoldersState& holders = state_.holders;
  if (holders.incomplete == 0) {
    holders.unseen_error = static_cast<std::uint32_t>(error);
    // ETIME stands for the deadline, at which no single process is to blame.
    holders.unseen_pid = error == ETIME ? 0 : looked_at_;
  }
  holders.incomplete = 1;
}

bool CopySearch::IsOver() {
  if (Clock::now() < deadline_) {
    return false;
  }
  Miss(ETIME);
  return true;
}

// Returns whether the look succeeded. ENOENT and ESRCH mean that the process
// has ended; any other error makes the answer incomplete.
template <typename T>
bool CopySearch::Got(const Sys<T>& outcome) {
  if (!outcome && outcome.error() != ENOENT && outcome.error() != ESRCH) {
    Miss(outcome.error());
  }
  return outcome.has_value();
}

// Forgets what `look` missed if `holds_nothing` returns true after it. The
// kernel answers EACCES for a process or thread that ends during a call.
void CopySearch::Forgive(const std::function<void()>& look,
                         const std::function<bool()>& holds_nothing) {
  exec::HoldersState& holders = state_.holders;
  const bool before = holders.incomplete != 0;
  look();
  if (holders.incomplete != 0 && !before && holds_nothing()) {
    holders.incomplete = 0;  // IsOver notices a passed deadline again
  }
}

void CopySearch::LookAt(std::uint32_t pid) {
  looked_at_ = pid;
  Forgive([&] { LookAtProcess(pid); },
          [&] {
            // A sandbox may hide init, which the answer says by itself.
            state_.holders.init_unseen |= pid == kInit ? 1U : 0U;
            return pid == kInit || HasGone(context_, pid);
          });
  looked_at_ = 0;
}

// Looks at each thread of the process. A thread may have a mount namespace of
// its own and may outlive the main thread, while the process's own directory in
// /proc shows only the main thread.
void CopySearch::LookAtProcess(std::uint32_t pid) {
  const Result<Process> process = OpenProcess(context_, pid);
  if (!process) {
    if (process.error().sys_errno != ENOENT) {
      Miss(process.error().sys_errno);
    }
    return;
  }
  // The kernel counts each thread as a link of this directory
  // (proc_task_getattr). Most processes have one thread, whose own directory
  // tells nothing more than the process's.
  constexpr std::uint32_t kLinksWithOneThread = 3;
  const Sys<FileFacts> threads =
      context_.kernel.Stat(process->dir.get(), "task");
  if (!Got(threads)) {
    return;
  }
  const auto has_one = [](const Sys<FileFacts>& facts) {
    return facts && facts->links == kLinksWithOneThread;
  };
  if (has_one(threads)) {
    LookAtThread(pid, process->dir.get(), /*files_too=*/true);
  }
  // The only thread may have started another one and ended before the look.
  if (!has_one(threads) ||
      (members_.pids.contains(pid) &&
       !has_one(context_.kernel.Stat(process->dir.get(), "task")))) {
    LookAtThreads(pid, process->dir.get());
  }
  LookAtMaps(*process);
}

void CopySearch::LookAtThreads(std::uint32_t pid, int process) {
  const Sys<UniqueFd> tasks =
      context_.kernel.Open(process, "task", O_PATH | O_DIRECTORY,
                           RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  if (!Got(tasks)) {
    return;
  }
  // A thread may pass its mount namespace and its files to a new thread, and
  // end before its turn. So the search lists the threads of the cgroup's
  // processes until there is no new one.
  std::set<std::string> seen;
  for (int round = 0; LookAtNewThreads(pid, tasks->get(), &seen); ++round) {
    if (!members_.pids.contains(pid)) {
      return;
    }
    if (round == kMostListings) {
      Miss(EAGAIN);
      return;
    }
  }
}

// Looks at the threads that are not in `seen`, and adds them to `seen`. Returns
// whether there were any.
bool CopySearch::LookAtNewThreads(std::uint32_t pid, int tasks,
                                  std::set<std::string>* seen) {
  const Sys<std::vector<std::string>> names =
      context_.kernel.List(tasks, kMostLinks);
  if (!Got(names)) {
    return false;
  }
  if (names->size() == kMostLinks) {
    // EFBIG stands for a list that was cut at the limit.
    Miss(EFBIG);
  }
  bool has_new = false;
  for (const std::string& name : *names) {
    if (IsOver()) {
      return false;
    }
    if (!seen->insert(name).second) {
      continue;
    }
    has_new = true;
    const Sys<UniqueFd> thread =
        context_.kernel.Open(tasks, name, O_PATH | O_DIRECTORY,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (Got(thread)) {
      // Look at the files of every thread for the cgroup's processes only: a
      // thread with a file table of its own is rare, and looking costs a call
      // for each file and thread.
      const bool files_too = name == names->front() ||
                             name == std::to_string(pid) ||
                             members_.pids.contains(pid);
      Forgive([&] { LookAtThread(pid, thread->get(), files_too); },
              [&] { return HasThreadEnded(context_, thread->get()); });
    }
  }
  return has_new;
}

void CopySearch::LookAtThread(std::uint32_t pid, int dir, bool files_too) {
  MountNamespace* space = NamespaceOf(dir);
  if (space == nullptr) {
    return;
  }
  space->pids.insert(pid);
  if (files_too && MayHaveFiles()) {
    LookAtFiles(pid, dir);
  }
}

// Returns nullptr if the thread is ending.
MountNamespace* CopySearch::NamespaceOf(int dir) {
  const Sys<MountNamespace*> found = namespaces_->Of(dir);
  return Got(found) ? *found : nullptr;
}

void CopySearch::LookAtFiles(std::uint32_t pid, int dir) {
  Holder holder;
  holder.pid = pid;
  for (const auto& [link, kind] : {std::pair("cwd", HolderKind::kCwd),
                                   std::pair("root", HolderKind::kRoot),
                                   std::pair("exe", HolderKind::kExe)}) {
    holder.kind = kind;
    LookAtFile(dir, link, holder);
  }
  LookAtLinks(pid, dir, "fd", HolderKind::kFd);
}

// Looks at the memory maps of the cgroup's processes only, because each look
// needs a child (MappedFilesOf).
void CopySearch::LookAtMaps(const Process& process) {
  if (!members_.pids.contains(process.pid) || !MayHaveFiles() || IsOver()) {
    return;
  }
  const MappedFiles mapped = MappedFilesOf(
      context_, process,
      [this](const std::string& maps) { return MapsAny(maps); },
      LimitOfMaps(deadline_));
  if (mapped.error != 0) {
    Miss(mapped.error);
  }
  Holder holder;
  holder.pid = process.pid;
  holder.kind = HolderKind::kMap;
  for (const MappedFile& file : mapped.files) {
    const auto id = [&file] { return Sys<std::uint64_t>(file.reusable_id); };
    Compare(file.device, file.node, id, holder);
  }
}

// Returns whether a process with these maps maps a file that the search looks
// for. Saves a look at map_files, which has an entry for each mapping, few of
// them wanted.
bool CopySearch::MapsAny(const std::string& maps) const {
  return std::any_of(wanted_.begin(), wanted_.end(), [&](const Wanted& wanted) {
    // The maps do not tell the number of a device that is mapped.
    if (wanted.node != 0) {
      return true;
    }
    // proc_pid_maps(5) shows the device as MAJOR:MINOR in hex.
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), " %02x:%02x ", major(wanted.device),
                  minor(wanted.device));
    return wanted.is_whole() && maps.find(text.data()) != std::string::npos;
  });
}

// Returns whether a process may have an open or mapped file that the search
// looks for.
bool CopySearch::MayHaveFiles() const {
  return std::any_of(wanted_.begin(), wanted_.end(), [](const Wanted& one) {
    return one.is_whole() || one.node != 0;
  });
}

void CopySearch::LookAtLinks(std::uint32_t pid, int dir, const char* name,
                             HolderKind kind) {
  const Sys<UniqueFd> links = context_.kernel.Open(
      dir, name, O_PATH | O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  if (!Got(links)) {
    return;
  }
  const Sys<std::vector<std::string>> names =
      context_.kernel.List(links->get(), kMostLinks);
  if (!Got(names)) {
    return;
  }
  if (names->size() == kMostLinks) {
    Miss(EFBIG);
  }
  Holder holder;
  holder.pid = pid;
  holder.kind = kind;
  for (const std::string& link : *names) {
    if (IsOver()) {
      return;
    }
    holder.fd =
        kind == HolderKind::kFd ? ParseNumber<int>(link).value_or(-1) : -1;
    LookAtFile(links->get(), link, holder);
  }
}

void CopySearch::LookAtFile(int dir, const std::string& link, Holder holder) {
  const Sys<FileFacts> file = context_.kernel.StatLinked(dir, link);
  if (Got(file)) {
    Compare(
        file->device, S_ISBLK(file->mode) ? file->node : 0,
        [&] { return context_.kernel.LinkedMountId(dir, link); }, holder);
  }
}

// Notes the file if it is one that the search looks for. `node` is the number
// of a block device, or 0. `mount_id` asks for the reusable id of its mount.
void CopySearch::Compare(std::uint64_t device, std::uint64_t node,
                         const std::function<Sys<std::uint64_t>()>& mount_id,
                         Holder holder) {
  for (const Wanted& wanted : wanted_) {
    // A device's node may lie in any file system, so compare the node's number.
    if (wanted.node != 0 && node == wanted.node) {
      holder.kind = HolderKind::kDevice;
      opened_.push_back({0, &wanted, holder});
    } else if ((wanted.is_whole() && device == wanted.device) ||
               (wanted.node != 0 && device == wanted.node)) {
      const Sys<std::uint64_t> id = mount_id();
      if (Got(id)) {
        opened_.push_back({*id, &wanted, holder});
      }
    }
  }
}

// ---- What was found ----

// Returns the peer groups that receive mounts made in `group`.
const std::set<std::uint64_t>& CopySearch::FollowersOf(std::uint64_t group) {
  const auto [known, is_new] = followers_.try_emplace(group);
  std::set<std::uint64_t>& all = known->second;
  if (!is_new) {
    return all;
  }
  all.insert(group);
  const auto add = [&all](const MountNamespace& space) {
    bool grown = false;
    for (const MountFacts& mount : space.seen.mounts) {
      if (mount.peer_group != 0 && all.contains(mount.master)) {
        grown = all.insert(mount.peer_group).second || grown;
      }
    }
    return grown;
  };
  // A group found in this round may have followers, so repeat until none is
  // new.
  bool grown = true;
  while (grown) {
    grown = add(namespaces_->own());
    for (const auto& [key, space] : namespaces_->others()) {
      grown = add(space) || grown;
    }
  }
  return all;
}

// Returns a key of the mount and of the place in the parent's file system that
// the mount is attached to. Empty if that place is not known.
std::string CopySearch::KeyOf(const MountFacts& mount,
                              const MountFacts& parent) {
  const std::string place = PlaceOf(mount, parent);
  return place.empty()
             ? ""
             : std::to_string(mount.device) + '\0' + mount.root + '\0' +
                   std::to_string(parent.device) + '\0' + place;
}

void CopySearch::IndexOwn() {
  for (const MountFacts& mount : namespaces_->own().seen.mounts) {
    const MountFacts* const parent = ParentOf(namespaces_->own(), mount);
    if (parent != nullptr && parent->peer_group != 0) {
      groups_[KeyOf(mount, *parent)].insert(parent->peer_group);
    }
  }
  // IndexOwn cannot match a mount whose place is not known (KeyOf).
  groups_.erase("");
}

// Returns whether the copy came by propagation from one of mountd's mounts.
// Such a copy goes when mountd unmounts its own.
bool CopySearch::Goes(const MountNamespace& space, const MountFacts& copy) {
  const MountFacts* const parent = ParentOf(space, copy);
  const auto ours =
      parent == nullptr ? groups_.end() : groups_.find(KeyOf(copy, *parent));
  return ours != groups_.end() &&
         std::any_of(ours->second.begin(), ours->second.end(),
                     [&](std::uint64_t group) {
                       const auto& all = FollowersOf(group);
                       return all.contains(parent->peer_group) ||
                              all.contains(parent->master);
                     });
}

// Adds the holder to the answer; each process once.
void CopySearch::Tell(const Wanted& wanted, Holder holder) {
  const bool is_member = members_.pids.contains(holder.pid);
  if (wanted.is_ambiguous || (wanted.is_shared && !is_member) ||
      !told_.insert(holder.pid).second) {
    return;
  }
  exec::HoldersState& holders = state_.holders;
  if (holders.count == exec::kMaxHolders) {
    holders.more = 1;
    return;
  }
  holder.in_cgroup = is_member ? 1 : 0;
  if (holder.pid != 0) {
    if (const Result<Process> process = OpenProcess(context_, holder.pid)) {
      Describe(context_, *process, &holder);
    }
  }
  holders.holders.at(holders.count++) = holder;
}

void CopySearch::TellMounts(const MountNamespace& space) {
  for (const MountFacts& mount : space.seen.mounts) {
    for (const Wanted& wanted : wanted_) {
      if (!wanted.Matches(mount) || Goes(space, mount) ||
          (!wanted.is_volume && hosts_points_.contains(mount.point))) {
        continue;
      }
      Holder holder;
      holder.is_copy = 1;
      holder.kind = HolderKind::kNamespace;
      if (space.pids.empty()) {
        Tell(wanted, holder);
      }
      holder.kind = HolderKind::kMount;
      for (const std::uint32_t pid : space.pids) {
        holder.pid = pid;
        Tell(wanted, holder);
      }
    }
  }
}

// Reports mounts of a volume in mountd's mount namespace that are not mountd's
// own. Every process there has these mounts, but the answer lists only the
// cgroup's processes: a plugin on the host serves the volume from mounts of its
// own there, which look the same as a copy that root made.
void CopySearch::TellOwnMounts() {
  for (const MountFacts& mount : namespaces_->own().seen.mounts) {
    for (const Wanted& wanted : wanted_) {
      if (!wanted.is_volume || !wanted.Matches(mount) || IsPlans(mount) ||
          paths::IsAtOrBelow(mount.point, paths::kBase)) {
        continue;
      }
      for (const std::uint32_t pid : namespaces_->own().pids) {
        if (!members_.pids.contains(pid)) {
          continue;
        }
        Holder holder;
        holder.pid = pid;
        holder.kind = HolderKind::kMount;
        holder.is_copy = 1;
        Tell(wanted, holder);
      }
    }
  }
}

// Reports open files of trees that are attached nowhere. Skips a file of a
// mount that some namespace shows: that mount is a copy and was reported, or
// goes with mountd's, or is mountd's own, for which the kernel answers EBUSY.
void CopySearch::TellFiles() {
  for (const Opened& opened : opened_) {
    const auto shows = [&](const MountNamespace& space) {
      return space.seen.ids.contains(opened.mount_id);
    };
    const bool is_shown =
        opened.mount_id != 0 &&
        (shows(namespaces_->own()) ||
         std::any_of(namespaces_->others().begin(), namespaces_->others().end(),
                     [&](const auto& one) { return shows(one.second); }));
    if (!is_shown) {
      Tell(*opened.wanted, opened.holder);
    }
  }
}

// Looks at the processes, and again at those that came meanwhile, because a
// process that ended may have passed its files to a child that the first list
// does not have.
Result<void> CopySearch::LookAtAll(std::set<std::uint32_t> pids) {
  std::set<std::uint32_t> seen;
  for (int round = 0; !pids.empty(); ++round) {
    if (round == kMostListings) {
      Miss(EAGAIN);
      break;
    }
    for (const std::uint32_t pid : pids) {
      if (IsOver()) {
        return Ok();
      }
      LookAt(pid);
      seen.insert(pid);
    }
    MOUNTD_ASSIGN(pids, ProcessesInScope());
    std::erase_if(pids, [&](std::uint32_t pid) { return seen.contains(pid); });
  }
  return Ok();
}

// Reads mount namespaces without a process. A file or a descriptor keeps such a
// namespace, and a process that enters it later uses its mounts. Skipped if the
// plan asks for one cgroup, because such a namespace belongs to no cgroup.
void CopySearch::LookAtOthers() {
  if (plan_.scope == HolderScope::kNode && !IsOver()) {
    Got(namespaces_->ReadOthers([this] { return IsOver(); }));
  }
}

Result<exec::CopiesState> CopySearch::Run() {
  // Look at the volume first: the answer describes it (`found`) in any case.
  if (plan_.has_volume != 0) {
    MOUNTD_TRY(WantVolume());
  }
  MOUNTD_ASSIGN(std::set<std::uint32_t> pids, ProcessesInScope());
  if (pids.empty()) {
    return state_;
  }
  MOUNTD_TRY(WantMounts());
  if (wanted_.empty()) {
    return state_;
  }
  namespaces_.emplace(context_, devices_);
  MOUNTD_TRY(Named(namespaces_->ReadOwn(), "read mountinfo", "self"));
  FindShared();
  MOUNTD_TRY(LookAtAll(std::move(pids)));
  LookAtOthers();
  IndexOwn();
  for (const auto& [key, space] : namespaces_->others()) {
    TellMounts(space);
  }
  TellOwnMounts();
  TellFiles();
  return state_;
}

// Returns whether the only holder is a namespace without a process.
bool IsLoneNamespace(const exec::HoldersState& found) {
  return found.count == 1 && found.more == 0 &&
         found.holders[0].kind == HolderKind::kNamespace;
}

}  // namespace

// Searches again while the only copy is in a namespace without a process. Such
// a namespace may exist only because somebody looks at it (another executor's
// search, lsns(8)), because a look holds a descriptor of each namespace for a
// moment. Each search is a whole one, because a task can move its copy from
// one namespace to the next.
Result<exec::CopiesState> FindCopies(const Context& context,
                                     const exec::CopiesPlan& plan) {
  constexpr std::chrono::milliseconds kLongestLook(500);
  const Clock::time_point deadline =
      Clock::now() + std::chrono::milliseconds(plan.budget_ms);
  MOUNTD_ASSIGN(exec::CopiesState found,
                CopySearch(context, plan, deadline).Run());
  const Clock::time_point until =
      std::min(deadline, Clock::now() + kLongestLook);
  for (std::chrono::milliseconds pause(4);
       IsLoneNamespace(found.holders) && Clock::now() + pause < until;
       pause *= 2) {
    std::this_thread::sleep_for(pause);
    MOUNTD_ASSIGN(exec::CopiesState again,
                  CopySearch(context, plan, deadline).Run());
    if (again.holders.incomplete != 0) {
      break;  // the search before it has seen more
    }
    found = again;
  }
  return found;
}

}  // namespace mountd::propagation
