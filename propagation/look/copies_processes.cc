// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

#include "mountd/base/number.h"
#include "propagation/look/copies_search.h"
#include "propagation/look/memory_maps.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Holder;
using exec::HolderKind;
using exec::Sys;

constexpr std::size_t kMostLinks = 1U << 16U;  // of one process and kind

// Returns whether the thread has ended; `dir` is its directory in /proc.
bool HasThreadEnded(const Context& context, int dir) {
  const Sys<FileFacts> left = context.kernel.Stat(dir, "ns");
  return exec::FailedWith(left, ENOENT) || exec::FailedWith(left, ESRCH);
}

}  // namespace

// Calls `look`. If `holds_nothing` then returns true, forgets the errors of
// `look`, because the kernel answers EACCES for a process or thread that ends
// during a call.
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

}  // namespace mountd::propagation
