// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/driver.h"

#include <unistd.h>

#include <utility>

#include "mountd/base/wall_clock.h"

namespace mountd::driver {

namespace {

Result<std::shared_ptr<Host>> OpenHost(OciDriverOptions options) {
  if (::geteuid() == 0 || ::getuid() == 0) {
    return MakeError(Code::kPermissionDenied, "driver", "root",
                     "a container's root would be the machine's root; run the "
                     "driver as an ordinary user");
  }
  MOUNTD_ASSIGN(std::shared_ptr<Host> host, Host::Open(std::move(options)));
  return host;
}

}  // namespace

Result<std::vector<std::string>> RemoveUnusedImages(
    const OciDriverOptions& options) {
  MOUNTD_ASSIGN(const std::shared_ptr<Host> host, OpenHost(options));
  MOUNTD_ASSIGN(const int space, host->namespaces().Shared());
  return host->images().RemoveUnused(TaskStore(host.get()).ImageDigests(),
                                     space);
}

Result<std::set<TaskName>> RecordedTasks(const OciDriverOptions& options) {
  MOUNTD_ASSIGN(const std::shared_ptr<Host> host, OpenHost(options));
  return TaskStore(host.get()).Names();
}

Result<std::unique_ptr<TaskDriver>> MakeOciDriver(OciDriverOptions options) {
  MOUNTD_ASSIGN(std::shared_ptr<Host> host, OpenHost(std::move(options)));
  return std::unique_ptr<TaskDriver>(
      std::make_unique<OciDriver>(std::move(host)));
}

OciDriver::OciDriver(std::shared_ptr<Host> host)
    : host_(std::move(host)), store_(host_.get()) {}

OciDriver::~OciDriver() { OciDriver::Shutdown(); }

void OciDriver::Shutdown() {
  host_->Shutdown();
  events_.Close();
}

Result<std::unique_ptr<Stream<TaskEvent>>> OciDriver::Events() {
  return events_.Subscribe();
}

void OciDriver::Tell(const TaskRecord& record, std::string message) {
  events_.Tell({record.id,
                record.allocation,
                record.name,
                Timestamp(std::chrono::microseconds(NowMicroseconds())),
                std::move(message),
                {}});
}

}  // namespace mountd::driver
