// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mountd/exec/kernel.h"

namespace mountd::propagation {

using exec::MountFacts;

// What the kernel says of mounts, by the ids that Kernel::Stat answers.
class MountInspector {
 public:
  virtual ~MountInspector() = default;
  // NotFound if no attached mount of this namespace has the id.
  virtual Result<MountFacts> Facts(std::uint64_t id) const = 0;
  // The mounts attached right on the mount `id`, oldest first.
  virtual Result<std::vector<MountFacts>> Children(std::uint64_t id) const = 0;
  // The mounts below the mount `id`, at whatever depth, that are newer than the
  // mount `after`; 0: all. Where ids do not say which is newer, all. Costs no
  // more for what is older.
  virtual Result<std::vector<MountFacts>> Below(std::uint64_t id,
                                                std::uint64_t after) const = 0;
  // How many mounts there are below the mount `id`, at whatever depth.
  virtual Result<std::uint64_t> CountBelow(std::uint64_t id) const = 0;
  // The ids of all mounts of this namespace.
  virtual Result<std::vector<std::uint64_t>> All() const = 0;
};

// statmount(2) and listmount(2): Linux 6.8; one call a mount, whatever else is
// mounted.
class StatmountInspector final : public MountInspector {
 public:
  explicit StatmountInspector(exec::Kernel& kernel) : kernel_(kernel) {}
  Result<MountFacts> Facts(std::uint64_t id) const override;
  Result<std::vector<MountFacts>> Children(std::uint64_t id) const override;
  Result<std::vector<MountFacts>> Below(std::uint64_t id,
                                        std::uint64_t after) const override;
  Result<std::uint64_t> CountBelow(std::uint64_t id) const override;
  Result<std::vector<std::uint64_t>> All() const override;

 private:
  exec::Kernel& kernel_;
};

// /proc/<pid>/mountinfo through libmount: older kernels; reads the whole table.
class MountinfoInspector final : public MountInspector {
 public:
  // `process` is the process's directory in /proc; -1: this process's.
  explicit MountinfoInspector(exec::Kernel& kernel, int process = -1)
      : kernel_(kernel), process_(process) {}
  Result<MountFacts> Facts(std::uint64_t id) const override;
  Result<std::vector<MountFacts>> Children(std::uint64_t id) const override;
  Result<std::vector<MountFacts>> Below(std::uint64_t id,
                                        std::uint64_t after) const override;
  Result<std::uint64_t> CountBelow(std::uint64_t id) const override;
  Result<std::vector<std::uint64_t>> All() const override;

 private:
  template <typename Keep>
  Result<std::vector<MountFacts>> Select(const Keep& keep) const;

  exec::Kernel& kernel_;
  const int process_;
};

// The better of the two that this kernel has. `process` is this process's
// directory in /proc, for when that is out of sight; -1: it never is.
// An error if the kernel cannot say which: ids of the other kind are of other
// mounts.
Result<std::unique_ptr<MountInspector>> MakeMountInspector(exec::Kernel& kernel,
                                                           int process = -1);

// The mounts that a /proc/<pid>/mountinfo tells of, by ids that may be used
// again.
Result<std::vector<MountFacts>> ParseMountinfo(std::string text);

// All mounts below the mount `id`, each before the one it is attached to.
Result<std::vector<MountFacts>> Descendants(const MountInspector& inspector,
                                            std::uint64_t id);

}  // namespace mountd::propagation
