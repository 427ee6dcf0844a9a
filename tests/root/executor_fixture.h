// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mountd/exec/dispatcher.h"
#include "mountd/kernel/real_kernel.h"
#include "mountd/plan/wire.h"
#include "tests/support/fakes/injecting_kernel.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {

// Where tests attach a tree that they have got.
inline constexpr char kPlace[] = "/run/place";

// Runs the executor's dispatcher in this process on the real kernel, on a host
// with some volumes below /run/host.
class ExecutorFixture : public PrivateNamespaces {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Sends a request whose body `fill` writes. Returns the reply.
  template <typename Fill>
  exec::Reply Call(exec::PlanKind kind, const Fill& fill) {
    exec::Request request;
    request.kind = kind;
    fill(&request.body);
    return Send(request);
  }
  exec::Reply Call(exec::PlanKind kind);
  exec::Reply Send(const exec::Request& request);

  // Moves the host volumes from SetUp's tmpfs to ext4, because tmpfs cannot map
  // ids before Linux 6.3.
  static void MoveHostToExt4();
  // True on Linux 6.8, which has statmount and listmount.
  bool HasUniqueMountIds();
  void PrepareBase();  // with the allocation "web"
  exec::Request AttachRequest(const std::string& volume,
                              exec::Propagation propagation,
                              const std::string& name = "data") const;
  // Returns a plan of a tmpfs of 64 KiB for 8 files, 01750 1234:5678, at the
  // same target.
  static exec::Request TmpfsRequest();
  exec::Reply Attach(const std::string& volume, exec::Propagation propagation,
                     const std::string& name = "data");
  exec::Reply Detach(std::uint64_t mount_id, const std::string& name = "data");
  static exec::Request FilesystemRequest(
      const std::string& name,
      exec::Propagation propagation = exec::Propagation::kPrivate);
  exec::Reply ReleaseFilesystem(const std::string& name,
                                std::uint64_t anchor_id);
  exec::Reply ReleaseHostVolume(const std::string& volume,
                                std::uint64_t anchor_id);

  // Expects that FailAt has made each of these calls fail.
  // tests/fault/coverage_test.py looks for this line where no operation makes
  // the call.
  void ExpectFailed(const std::set<std::string>& calls) {
    kernel_.FailAt(0, 0);
    for (const std::string& call : calls) {
      EXPECT_TRUE(kernel_.failed().contains(call)) << call;
    }
  }

  Config config_;
  exec::RealKernel real_;
  exec::InjectingKernel kernel_{real_};
  propagation::IdMaps id_maps_;  // for tests that call propagation/ themselves
  std::optional<exec::Dispatcher> dispatcher_;
  // Runs when the answer is sent, before the plan ends.
  std::vector<UniqueFd> fds_;
  std::function<void()> when_told_ = [] {};  // runs before the plan has ended
  UniqueFd last_fd_;
};

inline constexpr char kTarget[] = "/run/mountd/base/a/web/app/data";

// Returns the reply's error as text, "" for success.
std::string ErrorOf(const exec::Reply& reply);
// Returns the reply's code, "" for success.
std::string CodeOf(const exec::Reply& reply);

void MakeDirectories(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);
bool Exists(const std::string& path);
// Makes an ext4 image of 4 MiB, with a file `mark` of 1000:1000.
void MakeImage(const std::string& path);
// Mounts a tmpfs at `path` (made if missing) with a file `mark`.
void MountTmpfs(const std::string& path);
void Unmount(const std::string& path);
// Returns the id of the mount that `path` lies in, as in mountinfo. The kernel
// reuses it.
std::uint64_t ReusableId(const std::string& path);

}  // namespace mountd::testing
