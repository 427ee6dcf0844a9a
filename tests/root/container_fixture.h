// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <string>

#include "tests/root/cgroup_fixture.h"

namespace mountd::testing {

inline constexpr char kContainersRoot[] = "/run/rootfs";

// Makes the calling process a container as a runtime does: a mount namespace
// whose root is a tmpfs of its own, with directories /data, /data2, /proc and a
// file /file. `shared` is a directory of the host that the container has at
// /shared, in the same peer group. The caller makes the pid namespace.
bool BecomeContainer(bool user_namespace, const std::string& shared = "");

// Runs the executor beside containers, one of them in the cgroup "web", where a
// rule grants containers. The host volumes are ExecutorFixture's.
class ContainerFixture : public CgroupFixture {
 protected:
  void SetUp() override;

  // Spawns a container with a pid namespace of its own.
  Child& SpawnContainer(const std::string& cgroup,
                        const std::string& shared = "");

  exec::Request InContainer(exec::Propagation propagation,
                            const std::string& path = "/data",
                            const std::string& volume = "data") const;
  exec::Reply SendFor(const Child& child, const exec::Request& request);
  exec::Reply AttachTo(const Child& child, exec::Propagation propagation,
                       const std::string& path = "/data",
                       const std::string& volume = "data");
  exec::Reply Inspect();
  // Returns the result of `body` in the container, 255 if it could not run
  // there.
  static int Do(const Child& child, const std::function<int()>& body);
  static bool Sees(const Child& child, const std::string& path);
  static std::string MountsOf(const Child& child);
  // Releases the mount, and expects nothing left on the host or in the
  // container.
  void ExpectNothingLeft(std::uint64_t mount_id);

  std::uint64_t cgroup_ = 0;
  Child* container_ = nullptr;
  std::uint32_t caller_ = 0;  // pid of the caller; this process by default
};

}  // namespace mountd::testing
