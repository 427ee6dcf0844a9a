// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-process [--quick] [--json FILE]: measures a call's time in one
// process, without any peer: plans, the policy, the stores, the configuration.
#include <benchmark/benchmark.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_main.h"
#include "bench/report.h"
#include "mountd/base/fd_message.h"
#include "mountd/base/unique_fd.h"
#include "mountd/config/config.h"
#include "mountd/exec/invariants.h"
#include "mountd/plan/plan_error.h"
#include "mountd/plan/wire.h"
#include "mountd/policy/policy.h"
#include "mountd/store/boot_store.h"
#include "mountd/store/state_store.h"

namespace mountd::bench {
namespace {

constexpr int kHostVolumes = 100;
constexpr std::uint32_t kRules = 20;
constexpr char kStores[] = "/run/bench";
constexpr std::uint32_t kFirstUid = 1000;
constexpr std::uint32_t kUid =
    kFirstUid + kRules - 1;  // the last rule names this user

// The configuration of a busy node.
std::string ConfigText() {
  std::string text;
  for (int i = 0; i < kHostVolumes; ++i) {
    const std::string name = "volume-" + std::to_string(i);
    text += "[host_volume." + name + "]\npath = \"/srv/" + name +
            "\"\npropagation = [\"private\", \"host-to-task\"]\n";
  }
  text += "[network.default]\nipv4 = \"10.88.0.0/16\"\nipv6 = \"fd88::/64\"\n";
  for (std::uint32_t i = 0; i < kRules; ++i) {
    text += "[[rule]]\nusers = [\"" + std::to_string(kFirstUid + i) +
            "\"]\nhost_volumes = [\"volume-1\", \"volume-99\"]\n"
            "networks = [\"default\"]\nhost_ports = [\"20000-32000\"]\n";
  }
  return text;
}

exec::Request Plan() {
  exec::Request request;
  request.kind = exec::PlanKind::kAttach;
  exec::AttachPlan& plan = request.body.attach;
  plan = exec::AttachPlan();
  plan.target = exec::Target("web", "server", "data");
  plan.source.host_volume = exec::ToWire("volume-99");
  plan.propagation = exec::Propagation::kHostToTask;
  plan.attributes = exec::kReadOnly;
  return request;
}

MountRecord Mount() {
  MountRecord record;
  record.allocation = "web";
  record.task = "server";
  record.name = "data";
  record.wish.source = "volume-99";
  record.wish.propagation = exec::Propagation::kHostToTask;
  record.wish.task_path = "/data";
  record.mount_id = 4711;
  record.uid = kUid;
  return record;
}

// Does what the executor does with a plan before it begins, and what mountd
// does with the answer.
Result<void> Decode(const exec::Request& request, const Config& config) {
  exec::Request plan;
  MOUNTD_TRY(exec::DecodeRequest(std::as_bytes(std::span(&request, 1)), &plan));
  return exec::CheckRequest(plan, config);
}

// Sends a plan and receives it in one process, as two processes would.
Result<void> Send(const UniqueFd& from, const UniqueFd& to,
                  const exec::Request& request) {
  const auto bytes = std::as_bytes(std::span(&request, 1));
  if (!SendWithFds(from.get(), bytes, {})) {
    return MakeError(Code::kInternal, "send", "plan");
  }
  std::array<std::byte, sizeof(request)> buffer{};
  const auto received = ReceiveWithFds(to.get(), buffer, exec::kMaxPlanFds);
  return received && received->size == bytes.size()
             ? Ok()
             : Result<void>(MakeError(Code::kInternal, "receive", "plan"));
}

Result<void> Answer(exec::Reply& into) {
  exec::Reply reply;
  reply.body.mount = exec::MountState();
  std::memcpy(&into, &reply, sizeof(reply));
  benchmark::DoNotOptimize(into);
  return into.version == exec::kProtocolVersion && into.code == 0
             ? Ok()
             : Result<void>(exec::ToError(into));
}

class Process {
 public:
  static Result<std::unique_ptr<Process>> Make() {
    // /run is in memory as on a host. The other store is in memory here, too,
    // because a disk's time says nothing about mountd.
    if (::mount("tmpfs", "/run", "tmpfs", 0, nullptr) != 0) {
      return ErrnoError(errno, "mount", "/run");
    }
    std::filesystem::create_directories(kStores);
    std::unique_ptr<Process> process(new Process);
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) !=
        0) {
      return ErrnoError(errno, "socketpair", "");
    }
    process->ends_ = {UniqueFd(ends[0]), UniqueFd(ends[1])};
    MOUNTD_ASSIGN(process->config_, ParseConfig(process->text_, "config"));
    process->policy_ = std::make_unique<Policy>(
        std::make_shared<const Config>(process->config_));
    MOUNTD_ASSIGN(process->boot_,
                  store::BootStore::Open(std::string(kStores) + "/boot.db"));
    MOUNTD_ASSIGN(
        process->state_,
        store::StateStore::Open(std::string(kStores) + "/state.db", "boot"));
    AllocationRecord web;
    web.id = "web";
    web.uid = kUid;
    MOUNTD_TRY(process->state_->allocations.AddAllocation(web));
    return process;
  }

  void Register() {
    Add("plan filled in", [] {
      benchmark::DoNotOptimize(Plan());
      return Ok();
    });
    Add("plan checked",
        [this, plan = Plan()] { return Decode(plan, config_); });
    Add("plan handed over",
        [this, plan = Plan()] { return Send(ends_[0], ends_[1], plan); });
    Add("plan answered", [this] { return Answer(reply_); });
    Add("policy decision", [this] {
      return policy_->mounts().MayMountHostVolume(
          caller_, "volume-99", true, exec::Propagation::kHostToTask);
    });
    // Changes the record each time, because SQLite does not write a page that
    // is unchanged.
    Add("mount record", [this] {
      ++mount_.mount_id;
      return boot_->mounts.PutMount(mount_);
    });
    Add("mount state", [this] {
      return boot_->mounts.SetMountState(
          mount_,
          Turn() ? MountRecordState::kAttached : MountRecordState::kDetaching);
    });
    Add("allocation state", [this] {
      return state_->allocations.SetAllocationState(
          "web",
          Turn() ? AllocationState::kPrepared : AllocationState::kReleasing);
    });
    Add("configuration read", [this]() -> Result<void> {
      MOUNTD_ASSIGN(const Config config, ParseConfig(text_, "config"));
      return config.host_volumes.size() == kHostVolumes
                 ? Ok()
                 : Result<void>(MakeError(Code::kInternal, "parse", "config"));
    });
  }

  const std::optional<Error>& failed() const { return failed_; }

 private:
  Process() = default;

  bool Turn() { return turn_ = !turn_; }

  void Add(const char* name, const std::function<Result<void>()>& call) {
    benchmark::RegisterBenchmark(name, [this, call](benchmark::State& state) {
      for (auto _ : state) {
        if (Result<void> done = call(); !done) {
          failed_ = done.error();
          state.SkipWithError("failed");
          break;
        }
      }
    });
  }

  const std::string text_ = ConfigText();
  Config config_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<store::BootStore> boot_;
  std::unique_ptr<store::StateStore> state_;
  const Caller caller_{.uid = kUid, .gid = kUid, .groups = {}};
  MountRecord mount_ = Mount();
  bool turn_ = false;
  exec::Reply reply_;
  std::array<UniqueFd, 2> ends_;
  std::optional<Error> failed_;
};

// Prints rows of our own table; each repetition's mean is one sample.
class Rows final : public benchmark::BenchmarkReporter {
 public:
  explicit Rows(Report& report) : report_(report) {}

  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration && run.iterations > 0) {
        Samples& samples = samples_[run.run_name.function_name];
        samples.Add(run.real_accumulated_time * 1e6 /
                    static_cast<double>(run.iterations));
        if (run.repetition_index + 1 == run.repetitions) {
          const std::string& name = run.run_name.function_name;
          report_.Row(name, "in process", {{"call", samples}});
          medians_.emplace_back(name, samples.Median());
        }
      }
    }
  }

  // Shows the figures without goals, for a reader who compares two runs.
  void Finalize() override {
    std::printf("\n");
    for (auto [name, median] : medians_) {
      std::replace_if(
          name.begin(), name.end(),
          [](char letter) { return letter < 'a' || letter > 'z'; }, '_');
      report_.Value("process." + name, median, "us", 0, false);
    }
  }

 private:
  Report& report_;
  std::map<std::string, Samples> samples_;
  std::vector<std::pair<std::string, double>> medians_;
};

Result<void> MeasureProcess(Report& report, bool quick) {
  MOUNTD_ASSIGN(const std::unique_ptr<Process> process, Process::Make());
  process->Register();
  std::vector<std::string> words = {
      "bench",
      quick ? "--benchmark_min_time=0.02" : "--benchmark_min_time=0.04",
      quick ? "--benchmark_repetitions=7" : "--benchmark_repetitions=20"};
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  Rows rows(report);
  benchmark::RunSpecifiedBenchmarks(&rows);
  if (process->failed()) {
    return *process->failed();
  }
  return Ok();
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  return mountd::bench::RunAlone(argc, argv, mountd::bench::MeasureProcess);
}
