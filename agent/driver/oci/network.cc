// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd's part of a task: the network, and the look at the mounts.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "agent/client.h"
#include "agent/driver/namespaces/namespaces.h"
#include "agent/driver/oci/driver.h"
#include "agent/driver/oci/task_mounts.h"

namespace mountd::driver {
namespace {

constexpr char kMode[] = "driver";

Error NoMountd(const char* op, const std::string& allocation) {
  return MakeError(Code::kNotSupported, op, allocation,
                   "the driver has no connection to mountd, which makes "
                   "networks");
}

CreatedNetwork NetworkOf(const agent::NetworkStatus& status,
                         const std::string& hostname, bool created) {
  CreatedNetwork network;
  network.created = created;
  network.isolation.mode = NetworkMode::kGroup;
  network.isolation.namespace_path = status.netns_path;
  if (!hostname.empty()) {
    network.isolation.labels[kHostnameLabel] = hostname;
  }
  return network;
}

// Says whether tasks can enter the namespace.
Result<void> CheckOwner(const std::string& path) {
  const UniqueFd network(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!network.valid()) {
    return ErrnoError(errno, "open", path);
  }
  MOUNTD_ASSIGN(const UniqueFd user, UserNamespaceOf(network.get()));
  return Ok();
}

Result<void> EndNetwork(Host& host, const std::string& allocation,
                        const std::string& interface) {
  const auto gone = host.Ask([&](agent::Client& client) {
    return client.TeardownNetwork(allocation, interface);
  });
  return gone || gone.error().code == Code::kNotFound
             ? Ok()
             : Result<void>(gone.error());
}

// Says which of the task's mounts are not as requested.
std::string ProblemsOf(const agent::TaskReport& report) {
  std::string problems;
  for (const agent::TaskMount& mount : report.mounts) {
    if (mount.verdict != "ok") {
      problems += (problems.empty() ? "" : "; ") + mount.name + ": " +
                  mount.verdict +
                  (mount.reason.empty() ? "" : " (" + mount.reason + ")");
    }
  }
  return problems.empty() ? "mountd does not say which" : problems;
}

}  // namespace

Result<CreatedNetwork> OciDriver::CreateNetwork(const std::string& allocation,
                                                const std::string& hostname) {
  if (!host_->has_mountd()) {
    return NoMountd("create network", allocation);
  }
  const auto before = host_->Ask(
      [&](agent::Client& client) { return client.GetAllocation(allocation); });
  if (!before) {
    return before.error();
  }
  for (const agent::NetworkStatus& network : before->networks) {
    if (!network.netns_path.empty()) {
      MOUNTD_TRY(CheckOwner(network.netns_path));
      return NetworkOf(network, hostname, false);
    }
  }
  // mountd must pin the namespaces, because they otherwise end with these fds.
  // The allocation's files come with a later network, because this one has no
  // address.
  MOUNTD_ASSIGN(const NewNamespaces made, host_->namespaces().Take());
  agent::NetworkSpec spec;
  spec.mode = kMode;
  spec.netns = made.network.get();
  MOUNTD_ASSIGN(const agent::NetworkStatus status,
                host_->Ask([&](agent::Client& client) {
                  return client.SetupNetwork(allocation, spec);
                }));
  return NetworkOf(status, hostname, true);
}

Result<void> OciDriver::DestroyNetwork(const std::string& allocation,
                                       const NetworkIsolation& isolation) {
  if (isolation.mode != NetworkMode::kGroup) {
    return Ok();
  }
  if (!host_->has_mountd()) {
    return NoMountd("destroy network", allocation);
  }
  const auto before = host_->Ask(
      [&](agent::Client& client) { return client.GetAllocation(allocation); });
  if (!before) {
    return before.error().code == Code::kNotFound
               ? Ok()
               : Result<void>(before.error());
  }
  // mountd keeps the namespace while another network uses it.
  for (const agent::NetworkStatus& network : before->networks) {
    if (network.interface != kLoopback) {
      MOUNTD_TRY(EndNetwork(*host_, allocation, network.interface));
    }
  }
  return EndNetwork(*host_, allocation, kLoopback);
}

Result<void> OciDriver::Verify(const TaskPlace& place, int pidfd) {
  if (!host_->has_mountd() || !place.record.has_mounts) {
    return Ok();
  }
  const TaskRecord& record = place.record;
  MOUNTD_ASSIGN(
      const agent::TaskReport report, host_->Ask([&](agent::Client& client) {
        return client.VerifyTask(record.allocation, record.name, pidfd);
      }));
  if (!report.ok) {
    Tell(record, "the task's mounts are not as asked: " + ProblemsOf(report));
    return MakeError(Code::kAborted, "verify", record.id,
                     "the task's mounts are not as asked, so its program has "
                     "not begun: " +
                         ProblemsOf(report));
  }
  return Ok();
}

}  // namespace mountd::driver
