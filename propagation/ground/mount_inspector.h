// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mountd/kernel/kernel.h"

namespace mountd::propagation {

using exec::MountFacts;

// Reads the kernel's facts on mounts, by the ids that Kernel::Stat returns.
class MountInspector {
 public:
  virtual ~MountInspector() = default;
  // Returns the facts. NotFound if no attached mount of this namespace has the
  // id.
  virtual Result<MountFacts> Facts(std::uint64_t id) const = 0;
  // Returns the mounts attached right on the mount `id`, oldest first.
  virtual Result<std::vector<MountFacts>> Children(std::uint64_t id) const = 0;
  // Returns the mounts below the mount `id`, at any depth, that are newer than
  // the mount `after`; 0: all of them. Returns all, too, where ids do not say
  // which mount is newer. The cost does not grow with the number of older
  // mounts.
  virtual Result<std::vector<MountFacts>> Below(std::uint64_t id,
                                                std::uint64_t after) const = 0;
  // Returns the number of mounts below the mount `id`, at any depth.
  virtual Result<std::uint64_t> CountBelow(std::uint64_t id) const = 0;
  // Returns the ids of all mounts of this namespace.
  virtual Result<std::vector<std::uint64_t>> All() const = 0;
};

// Uses statmount(2) and listmount(2), of Linux 6.8. Makes one call for each
// mount it returns, however many other mounts there are.
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

// Uses /proc/<pid>/mountinfo through libmount, on older kernels. Reads the
// whole table each time.
class MountinfoInspector final : public MountInspector {
 public:
  // `process` is a directory in /proc; -1: this process's own.
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

// Returns the better of the two inspectors that this kernel supports. `process`
// is this process's directory in /proc, for a caller that will lose sight of
// /proc; -1: the caller keeps it in sight. Fails if the kernel does not say
// which kind of mount id it gives out, because an id of the other kind names
// another mount.
Result<std::unique_ptr<MountInspector>> MakeMountInspector(exec::Kernel& kernel,
                                                           int process = -1);

// Returns the mounts in a /proc/<pid>/mountinfo. The kernel may reuse their
// ids.
Result<std::vector<MountFacts>> ParseMountinfo(std::string text);

// Returns all mounts below the mount `id`, each before the mount it lies on.
Result<std::vector<MountFacts>> Descendants(const MountInspector& inspector,
                                            std::uint64_t id);

}  // namespace mountd::propagation
