// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/stat.h>

#include "dbus/methods/manager_serve.h"
#include "dbus/receive/inbound.h"
#include "mountd/closer/passed_fd.h"

// ManagerAdaptor's methods on running tasks.
namespace mountd::dbus {
namespace {

// Gives these calls a strand of their own, because they only look and may take
// long. The allocation's other calls, and other allocations' calls, do not wait
// for them.
std::string TasksStrand(const std::string& allocation) {
  return "tasks of " + allocation;
}

Result<exec::HolderScope> HolderScopeFrom(const std::string& scope) {
  if (scope == "allocation") {
    return exec::HolderScope::kCgroup;
  }
  if (scope == "node") {
    return exec::HolderScope::kNode;
  }
  return MakeError(Code::kInvalidArgument, "check", "options[\"scope\"]",
                   "must be allocation or node");
}

}  // namespace

void ManagerAdaptor::ListHolders(sdbus::Result<Dict>&& answer,
                                 std::string allocation, std::string task,
                                 std::string name, Dict options) {
  Serve<HolderReport>(
      std::move(answer), "ListHolders",
      [&]() -> Result<Decoded<HolderReport>> {
        Decoded<HolderReport> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        const auto scope_name = reader.Get<std::string>("scope", "allocation");
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const exec::HolderScope scope,
                      HolderScopeFrom(scope_name));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_ASSIGN(const Name task_name, Name::Parse("task", task));
        MOUNTD_ASSIGN(const Name mount_name, Name::Parse("name", name));
        call.strand = TasksStrand(allocation);
        call.arguments = Arguments::Of(allocation, task, name, scope_name);
        call.work = [id, task_name, mount_name, scope](
                        Services& services, const CallContext& context) {
          return services.tasks.ListHolders(context, id, task_name, mount_name,
                                            scope);
        };
        return call;
      },
      [](const HolderReport& report) { return ToDict(report); });
}

void ManagerAdaptor::ListHandedOut(sdbus::Result<Dict>&& answer,
                                   std::string allocation, Dict options) {
  Serve<HandedOutReport>(
      std::move(answer), "ListHandedOut",
      [&]() -> Result<Decoded<HandedOutReport>> {
        Decoded<HandedOutReport> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        call.strand = TasksStrand(allocation);
        call.arguments = Arguments::Of(allocation);
        call.work = [id](Services& services, const CallContext& context) {
          return services.tasks.ListHandedOut(context, id);
        };
        return call;
      },
      [](const HandedOutReport& report) { return ToDict(report); });
}

void ManagerAdaptor::VerifyTask(sdbus::Result<Dict>&& answer,
                                std::string allocation, std::string task,
                                sdbus::UnixFd pidfd, Dict options) {
  Serve<TaskReport>(
      std::move(answer), "VerifyTask",
      [&]() -> Result<Decoded<TaskReport>> {
        Decoded<TaskReport> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_ASSIGN(const Name task_name, Name::Parse("task", task));
        const auto process = TakePassed(pidfd.get());
        if (!process->valid()) {
          return MakeError(Code::kInvalidArgument, "check", "pidfd",
                           "must be a valid fd");
        }
        call.strand = TasksStrand(allocation);
        call.arguments =
            Arguments::Of(allocation, task, TaskOf(process->get()));
        call.work = [id, task_name, process](Services& services,
                                             const CallContext& context) {
          return services.tasks.VerifyTask(context, id, task_name, *process);
        };
        return call;
      },
      [](const TaskReport& report) { return ToDict(report); });
}

}  // namespace mountd::dbus
