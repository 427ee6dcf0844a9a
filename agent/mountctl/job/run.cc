// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/job/run.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "agent/mountctl/job/directory.h"
#include "agent/mountctl/job/run_tasks.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

using std::chrono::steady_clock;

class Runner {
 public:
  Runner(Client& client, const Job& job, const RunOptions& options,
         std::ostream& out)
      : client_(client), job_(job), options_(options), out_(out) {}

  Result<void> Run() {
    // GiveUp releases the allocation only if this run has made it. After any
    // other error than NotFound the allocation may have existed.
    const Result<AllocationStatus> before =
        client_.GetAllocation(job_.allocation);
    is_new_ = !before && before.error().code == Code::kNotFound;
    existed_ = before.has_value();
    Result<void> done = Steps();
    if (!done) {
      GiveUp();
    }
    if (options_.json) {
      PrintJson(done);
    } else if (done) {
      out_ << "mounts\n";
      PrintMounts(out_, mounts_);
    }
    return done;
  }

 private:
  template <typename F>
  auto Timed(const char* step, const std::string& object, const F& call) {
    const auto started = steady_clock::now();
    auto result = call();
    const auto took = steady_clock::now() - started;
    if (options_.json) {
      steps_.push_back(
          {{"step", step},
           {"object", object},
           {"ok", result.has_value()},
           {"us", std::chrono::duration_cast<std::chrono::microseconds>(took)
                      .count()}});
    } else {
      constexpr std::size_t kStepWidth = 9;
      constexpr std::size_t kObjectWidth = 34;
      std::string name = step;
      name.resize(kStepWidth, ' ');
      std::string what = Printable(object);
      what.resize(std::max(kObjectWidth, what.size()), ' ');
      out_ << name << what << " " << Millis(took) << (result ? "" : "  failed")
           << std::endl;
    }
    return result;
  }

  Result<void> Steps() {
    MOUNTD_ASSIGN(host_path_, Timed("prepare", job_.allocation, [&] {
                    return client_.PrepareAllocation(job_.allocation,
                                                     job_.options);
                  }));
    prepared_ = true;
    MOUNTD_TRY(MakeNamespaces());
    if (job_.network) {
      MOUNTD_ASSIGN(network_, Timed("network", job_.network->mode, [&] {
                      return SetupNetwork(*job_.network);
                    }));
      if (!options_.json) {
        PrintNetwork(out_, *network_);
      }
    }
    for (const VolumeSpec& volume : job_.volumes) {
      MOUNTD_ASSIGN(PublishedVolume published,
                    Timed("publish", volume.alias, [&] {
                      return client_.PublishVolume(job_.allocation, volume);
                    }));
      Json json = {{"alias", volume.alias}};
      json.update(ToJson(published));
      volumes_.push_back(std::move(json));
    }
    for (const BindMountSpec& spec : job_.mounts) {
      MOUNTD_ASSIGN(MountConfig config,
                    Timed("mount", spec.task + "/" + spec.name,
                          [&] { return Mount(spec); }));
      mounts_.push_back({spec.task, spec.name,
                         std::string(SourceTypeName(spec.source_type)),
                         spec.source, "mounted", std::move(config)});
    }
    return StartTasks();
  }

  // The driver makes the tasks' namespaces. mountd then puts the network into
  // these.
  Result<void> MakeNamespaces() {
    if (options_.tasks == nullptr || !NeedsNamespaces(job_)) {
      return Ok();
    }
    MOUNTD_ASSIGN(isolation_, Timed("isolate", job_.allocation, [&] {
                    return CreateNamespaces(*options_.tasks, job_);
                  }));
    return Ok();
  }

  Result<NetworkStatus> SetupNetwork(NetworkSpec spec) {
    MOUNTD_ASSIGN(const UniqueFd netns, OpenNamespaceOf(isolation_));
    spec.netns = netns.get();
    return client_.SetupNetwork(job_.allocation, spec);
  }

  Result<void> StartTasks() {
    if (options_.tasks == nullptr) {
      return Ok();
    }
    MOUNTD_TRY(WatchTasks(*options_.tasks, job_));
    for (std::size_t i = 0; i < job_.tasks.size(); ++i) {
      const std::string& name = job_.tasks[i].config.name;
      MOUNTD_ASSIGN(const bool started, Timed("start", name, [&] {
                      return StartTask(client_, *options_.tasks, job_, i,
                                       mounts_, isolation_);
                    }));
      tasks_.push_back({{"name", name}, {"started", started}});
    }
    return Ok();
  }

  Result<MountConfig> Mount(BindMountSpec spec) {
    MOUNTD_ASSIGN(const UniqueFd source, OpenSource(spec));
    return client_.BindMount(job_.allocation, spec);
  }

  void GiveUp() {
    if (!prepared_ || options_.keep || !is_new_) {
      if (prepared_ && !options_.json) {
        out_ << "kept: " << job_.allocation
             << (existed_   ? ", which existed before"
                 : !is_new_ ? ", which may have existed before"
                            : "")
             << std::endl;
      }
      return;
    }
    if (options_.tasks != nullptr) {
      const Result<void> ended = Timed("end", job_.allocation, [&] {
        return JobTasks(options_.tasks->driver, options_.tasks->directory)
            .StopAll();
      });
      // Keeps the allocation and the record, because a task may still use the
      // allocation, and only the record names that task.
      if (!ended) {
        if (!options_.json) {
          out_ << "kept: " << job_.allocation << ", because a task may run: "
               << Printable(ended.error().Message())
               << "; `mountctl stop` tries again" << std::endl;
        }
        return;
      }
    }
    // A failure of the release is in its step's line, and mountd retries it.
    // The function returns the first error.
    IgnoreBecauseBestEffort(Timed("release", job_.allocation, [&] {
      return client_.ReleaseAllocation(job_.allocation);
    }));
  }

  void PrintJson(const Result<void>& done) {
    Json json = {{"allocation", job_.allocation},
                 {"host_path", host_path_},
                 {"network", network_ ? ToJson(*network_) : Json()},
                 {"volumes", volumes_},
                 {"mounts", ToJson(mounts_)},
                 {"steps", steps_}};
    if (!job_.tasks.empty()) {
      json["tasks"] = tasks_;
    }
    if (!options_.warnings.empty()) {
      json["warnings"] = options_.warnings;
    }
    if (!done) {
      json["error"] = {{"name", "org.mountd1.Error." +
                                    std::string(CodeName(done.error().code))},
                       {"message", done.error().detail}};
      if (const auto away = AwayName(done.error().away); !away.empty()) {
        json["error"]["away"] = away;
      }
    }
    out_ << Dump(json) << std::endl;
  }

  Client& client_;
  const Job& job_;
  const RunOptions options_;
  std::ostream& out_;

  bool existed_ = false;
  bool is_new_ = false;
  bool prepared_ = false;
  std::string host_path_;
  std::optional<NetworkStatus> network_;
  Json volumes_ = Json::array();
  std::vector<MountStatus> mounts_;
  driver::NetworkIsolation isolation_;
  Json tasks_ = Json::array();
  Json steps_ = Json::array();
};

}  // namespace

Result<void> RunJob(Client& client, const Job& job, const RunOptions& options,
                    std::ostream& out) {
  return Runner(client, job, options, out).Run();
}

}  // namespace mountd::agent
