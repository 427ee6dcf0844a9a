// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "propagation/ground/cgroup.h"
#include "propagation/look/copies.h"
#include "propagation/look/mount_namespaces.h"

// Internal to look/: the search of FindCopies (copies.h).
namespace mountd::propagation {

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

  bool Matches(const MountFacts& mount) const;
  bool is_whole() const { return root == "/"; }
};

// An open file of a file system or device that the search looks for.
struct Opened {
  std::uint64_t mount_id;  // the kernel may reuse this id
  const Wanted* wanted;
  exec::Holder holder;
};

// Processes or threads that start others without end must not keep the search
// going until its deadline.
inline constexpr int kMostListings = 16;

// One search for copies, in the order of its parts: copies_wanted.cc says what
// the search looks for, copies_processes.cc looks at processes, and
// copies_holders.cc decides which of them the answer lists. Owns what one
// search has read, and runs once.
class CopySearch {
 public:
  using Clock = std::chrono::steady_clock;

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
  bool Got(const exec::Sys<T>& outcome);
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
                   exec::HolderKind kind);
  void LookAtFile(int dir, const std::string& link, exec::Holder holder);
  void Compare(std::uint64_t device, std::uint64_t node,
               const std::function<exec::Sys<std::uint64_t>()>& mount_id,
               exec::Holder holder);
  void LookAtMaps(const Process& process);
  bool MapsAny(const std::string& maps) const;
  bool MayHaveFiles() const;

  // ---- What was found ----
  bool Goes(const MountNamespace& space, const MountFacts& copy);
  const std::set<std::uint64_t>& FollowersOf(std::uint64_t group);
  static std::string KeyOf(const MountFacts& mount, const MountFacts& parent);
  void IndexOwn();
  void Tell(const Wanted& wanted, exec::Holder holder);
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

// Returns whether the look succeeded. ENOENT and ESRCH mean that the process
// has ended; any other error makes the answer incomplete.
template <typename T>
bool CopySearch::Got(const exec::Sys<T>& outcome) {
  if (!outcome && outcome.error() != ENOENT && outcome.error() != ESRCH) {
    Miss(outcome.error());
  }
  return outcome.has_value();
}

}  // namespace mountd::propagation
