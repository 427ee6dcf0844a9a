// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Starts each task once, even if somebody kills the driver or the shim
// meanwhile.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "agent/client.h"
#include "agent/driver/logs/journal_stream.h"
#include "agent/driver/oci/config_document.h"
#include "agent/driver/oci/driver.h"
#include "agent/driver/oci/files.h"
#include "agent/driver/oci/task_processes.h"
#include "agent/driver/protocol/launch.h"
#include "agent/driver/protocol/task_files.h"

namespace mountd::driver {
namespace {

using shim::Kind;
using shim::Message;
using shim::ShimConnection;
using shim::Sink;
using shim::Tag;

// A runtime takes milliseconds; a machine under load takes longer.
constexpr std::chrono::minutes kStartPatience{2};
constexpr std::chrono::seconds kAbandonPatience{30};

TaskHandle HandleOf(const TaskConfig& config, TaskState state) {
  TaskHandle handle;
  handle.config = config;
  handle.state = state;
  return handle;
}

Error AnotherConfig(const std::string& id) {
  return MakeError(Code::kAlreadyExists, "start", id,
                   "a task with this id and another configuration is there; "
                   "destroy it, or choose a new id");
}

bool IsInRuntimesState(const Host& host, const TaskPlace& place,
                       const std::string& name) {
  return ::access((host.RuntimeRoot() + "/" + place.key + "/" + name).c_str(),
                  F_OK) == 0;
}

// Looks for the FIFO on which the first process of a created container waits.
// crun removes the FIFO before the task's program begins. Answers false for
// runc, because runc removes the FIFO only after that.
bool WaitsForStart(Host& host, const TaskPlace& place) {
  const auto is_crun = host.IsCrun();
  return is_crun && *is_crun && IsInRuntimesState(host, place, "exec.fifo");
}

// Returns whether somebody has killed the shim while it let the container go.
// The program may have begun, and may also wait for ever.
bool IsHalfStarted(const Host& host, const TaskPlace& place) {
  return IsInRuntimesState(host, place,
                           std::string("exec.fifo") + shim::kLetGoSuffix);
}

void AddLogs(const TaskConfig& config, Message* create) {
  const auto sinks = [create](Sink sink) {
    create->Add(Tag::kStdoutSink, static_cast<std::uint64_t>(sink))
        .Add(Tag::kStderrSink, static_cast<std::uint64_t>(sink));
  };
  const LogConfig& logs = config.logs;
  switch (logs.mode) {
    case LogMode::kFiles: {
      const std::string path = config.directories.logs + "/" + config.name;
      sinks(Sink::kFiles);
      create->Add(Tag::kStdoutPath, path + ".stdout")
          .Add(Tag::kStderrPath, path + ".stderr")
          .Add(Tag::kLogFileBytes, logs.max_file_bytes)
          .Add(Tag::kLogFiles, std::uint64_t{logs.max_files});
      return;
    }
    case LogMode::kFifos:
      sinks(Sink::kFifo);
      create->Add(Tag::kStdoutPath, logs.stdout_path)
          .Add(Tag::kStderrPath, logs.stderr_path);
      return;
    case LogMode::kJournal:
      return sinks(Sink::kPassed);
    case LogMode::kOff:
      return sinks(Sink::kNone);
  }
}

}  // namespace

Result<StartedTask> OciDriver::StartTask(const TaskConfig& config) {
  MOUNTD_TRY(CheckConfig(config));
  const std::string digest = DigestOf(config);
  MOUNTD_ASSIGN(const KeyLock lock, store_.Lock(config.id));
  const auto place = store_.Find(config.id);
  if (!place && place.error().code != Code::kNotFound) {
    return place.error();
  }
  if (place) {
    if (place->record.config_digest != digest) {
      return AnotherConfig(config.id);
    }
    MOUNTD_ASSIGN(const bool has_run, Resume(*place));
    if (has_run) {
      MOUNTD_ASSIGN(const Sight sight, LookAt(*place));
      return StartedTask{HandleOf(config, sight.phase == Phase::kExited
                                              ? TaskState::kExited
                                              : TaskState::kRunning)};
    }
  }
  MOUNTD_TRY(Launch(config, digest));
  host_->namespaces().PrepareNext();
  return StartedTask{HandleOf(config, TaskState::kRunning)};
}

// Completes a start that was interrupted. False: the task's program has not
// begun, and never will.
Result<bool> OciDriver::Resume(const TaskPlace& place) {
  MOUNTD_ASSIGN(Sight sight, LookAtListener(place));
  switch (sight.phase) {
    case Phase::kNoShim:
    case Phase::kFailed:
      return false;
    case Phase::kRunning:
      return true;
    case Phase::kExited:
      if (!MayHaveStarted(place)) {
        Abandon(place.record.id, std::move(sight.shim));
        return false;
      }
      return true;
    case Phase::kLost:
      return ResumeLost(place);
    case Phase::kCreating:
    case Phase::kCreated:
      break;
  }
  const auto finished = Finish(place, *sight.shim);
  if (!finished) {
    GiveUpStart(place, finished.error(), std::move(sight.shim));
    return finished.error();
  }
  return true;
}

// Decides whether the program has run. The program has not run if all processes
// have ended while the container still waited for its start.
Result<bool> OciDriver::ResumeLost(const TaskPlace& place) {
  if (MayHaveStarted(place) && !WaitsForStart(*host_, place)) {
    if (IsHalfStarted(*host_, place)) {
      MOUNTD_TRY(KillLost(place));
    }
    return true;
  }
  MOUNTD_TRY(KillLost(place));
  return MayHaveStarted(place) && !WaitsForStart(*host_, place);
}

Result<void> OciDriver::KillLost(const TaskPlace& place) const {
  const auto cgroup = CgroupOf(*host_, place);
  if (cgroup) {
    MOUNTD_TRY(cgroup->Kill());
    return AwaitLostTask(*host_, place, host_->shutdown(),
                         std::chrono::steady_clock::now() + kAbandonPatience);
  }
  if (cgroup.error().code != Code::kNotFound) {
    return cgroup.error();
  }
  return KillProcessesWithUpper(place.Upper(), kAbandonPatience);
}

Result<void> OciDriver::Launch(const TaskConfig& config,
                               const std::string& digest) {
  MOUNTD_TRY(store_.Discard(config.id));
  MOUNTD_ASSIGN(TaskPlace place, store_.Make(config.id));
  std::optional<ShimConnection> shim;
  const auto launched = [&]() -> Result<void> {
    MOUNTD_TRY(Hold(place));
    place.record.id = config.id;
    place.record.allocation = config.allocation;
    place.record.name = config.name;
    place.record.config_digest = digest;
    place.record.has_cgroup = host_->cgroups() != nullptr;
    place.record.cgroup = host_->CgroupPath(place.Cgroup());
    place.record.has_mounts =
        std::any_of(config.mounts.begin(), config.mounts.end(),
                    [](const Mount& mount) { return mount.is_mountds; });
    MOUNTD_ASSIGN(const ContainerPlan plan,
                  PlanContainer(*host_, config, place));
    MOUNTD_TRY(TaskStore::WriteRecord(place));
    MOUNTD_ASSIGN(shim, LaunchShimOf(place, plan, config));
    MOUNTD_TRY(Finish(place, *shim));
    Tell(place.record, "the task runs");
    return Ok();
  }();
  if (!launched) {
    GiveUpStart(place, launched.error(), std::move(shim));
  }
  return launched;
}

Result<ShimConnection> OciDriver::LaunchShimOf(const TaskPlace& place,
                                               const ContainerPlan& plan,
                                               const TaskConfig& config) {
  shim::Launch launch;
  launch.program = host_->options().shim;
  MOUNTD_ASSIGN(const auto runtime, host_->Runtime());
  for (const std::string& word : runtime) {
    launch.create.Add(Tag::kRuntime, word);
  }
  launch.create.Add(Tag::kContainer, place.key)
      .Add(Tag::kRuntimeRoot, host_->RuntimeRoot())
      .Add(Tag::kBundle, place.path + "/bundle")
      .Add(Tag::kMountType, "overlay")
      .Add(Tag::kMountSource, "overlay")
      .Add(Tag::kMountTarget, place.path + "/bundle/rootfs")
      .Add(Tag::kMountOptions, plan.overlay);
  MOUNTD_ASSIGN(const bool is_crun, host_->IsCrun());
  if (!is_crun && host_->cgroups() != nullptr) {
    launch.create.Add(Tag::kRuntimeJoins, std::uint64_t{1});
  }
  AddLogs(config, &launch.create);
  UniqueFd output;
  UniqueFd error;
  if (config.logs.mode == LogMode::kJournal) {
    MOUNTD_ASSIGN(output, OpenJournalStream(config.id, false));
    MOUNTD_ASSIGN(error, OpenJournalStream(config.id, true));
  }
  std::optional<TaskCgroup> cgroup;
  std::optional<TaskCgroup> shims;
  if (host_->cgroups() != nullptr) {
    MOUNTD_ASSIGN(cgroup, host_->cgroups()->Make(place.Cgroup()));
    MOUNTD_TRY(cgroup->SetLimits(LimitsOf(config.resources)));
    MOUNTD_ASSIGN(shims, host_->cgroups()->Make("shims"));
    launch.cgroup = cgroup->fd();
    launch.shim_cgroup = shims->fd();
  }
  launch.task_directory = place.directory.get();
  launch.user_namespace = plan.user_namespace.get();
  launch.network_namespace = plan.network_namespace.get();
  launch.stdout_fd = output.get();
  launch.stderr_fd = error.get();
  launch.image = plan.image.hold.get();
  return shim::LaunchShim(std::move(launch));
}

// Waits for the container, verifies its mounts, and starts the task's program.
Result<void> OciDriver::Finish(const TaskPlace& place, ShimConnection& shim) {
  auto created = shim.Call(Message(Kind::kAwaitCreated), {}, kStartPatience);
  if (!created) {
    return created.error();
  }
  if (created->fds.empty()) {
    return MakeError(Code::kResourceExhausted, "start", place.record.id,
                     "the shim could pass no pidfd, because programs of this "
                     "user have too many file descriptors in flight");
  }
  MOUNTD_TRY(Verify(place, created->fds.front().get()));
  MOUNTD_TRY(MarkStarted(place));
  const auto started = shim.Call(Message(Kind::kStart), {}, kStartPatience);
  if (started) {
    return Ok();
  }
  MOUNTD_ASSIGN(const bool has_run, HasRunDespite(started.error(), place));
  return has_run ? Ok() : Result<void>(started.error());
}

// Finds out whether the task's program has begun although the shim has not said
// so. The program may have ended before the call, and the shim then answers an
// error. Somebody may also have killed the shim before its answer.
Result<bool> OciDriver::HasRunDespite(const Error& error,
                                      const TaskPlace& place) {
  if (error.code == Code::kUnavailable) {
    return ResumeLost(place);
  }
  const auto sight = LookAt(place);
  return sight && sight->phase == Phase::kExited &&
         !WaitsForStart(*host_, place);
}

// Ends a start that has failed. Keeps a task whose program may have begun,
// because the next StartTask must not begin it a second time.
void OciDriver::GiveUpStart(const TaskPlace& place, const Error& error,
                            std::optional<ShimConnection> shim) {
  const bool may_run = error.code == Code::kUnavailable &&
                       MayHaveStarted(place) && !WaitsForStart(*host_, place);
  if (!may_run) {
    Abandon(place.record.id, std::move(shim));
  }
}

void OciDriver::Abandon(const std::string& task_id,
                        std::optional<ShimConnection> shim) {
  if (shim) {
    Message request(Kind::kDelete);
    request.Add(Tag::kForce, std::uint64_t{1});
    if (shim->Call(request, {}, kAbandonPatience)) {
      IgnoreBecauseBestEffort(shim->Next(kAbandonPatience));
    }
  }
  // If this fails, the next call discards the task.
  IgnoreBecauseBestEffort(store_.Discard(task_id));
}

}  // namespace mountd::driver
