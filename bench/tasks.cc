// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-tasks [--present COUNT] [--quick] [--json FILE]: measures the
// start of a whole task, and exec in it, beside crun alone and beside rootless
// podman. Runs as root in a mount, network and pid namespace of its own
// (bench/run); an ordinary user runs the tasks.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bench_main.h"
#include "bench/csi_plugin.h"
#include "bench/echo.h"
#include "bench/mountd_network.h"
#include "bench/pipe.h"
#include "bench/podman.h"
#include "bench/process_figures.h"
#include "bench/raw_netlink.h"
#include "bench/runtime_floor.h"
#include "bench/task_agent.h"
#include "bench/whole_allocations.h"
#include "mountd/base/number.h"

namespace mountd::bench {
namespace {

constexpr int kPorts = 8;
constexpr int kFirstPort = 30'000;
constexpr int kPresentPort = 40'000;
// podman's ports are others, because one host has all of them.
constexpr int kFirstPodmanPort = 20'000;
constexpr int kPresentPodmanPort = 50'000;
constexpr int kMostPresent = 500;  // the ports of a rule suffice for these
constexpr int kAtOnce = 8;
// The kernel keeps 15 characters of a process's name.
constexpr char kShimName[] = "mountd-task-shi";
constexpr int kPssTasks = 100;  // so many have to be there

struct Counts {
  int starts;
  int execs;
  int echoes;
  int at_once;  // rounds of kAtOnce
  int present;  // other tasks, and as many containers of podman's
};

constexpr Counts kFull = {25, 40, 500, 5, 200};
constexpr Counts kQuick = {4, 5, 50, 1, 0};

std::string TaskOf(const std::string& allocation) {
  return allocation + "/app/00000001";
}

driver::TaskConfig ConfigOf(const std::string& allocation) {
  driver::TaskConfig config;
  config.id = TaskOf(allocation);
  config.allocation = allocation;
  config.name = "app";
  config.image = kTaskImage;
  config.command = {"/bin/sleep", "1000000"};
  config.logs.mode = driver::LogMode::kOff;
  config.mounts = {
      {"/usr", "/usr", true, false, driver::MountPropagation::kPrivate, ""}};
  return config;
}

// Has mountd make a network with ports, a volume and its two mounts.
Result<void> MakeByMountd(agent::Client& client, const std::string& allocation,
                          int first_port, driver::TaskConfig* config) {
  MOUNTD_ASSIGN(const UniqueFd netns, client.OpenNamespace(allocation));
  agent::NetworkSpec network = SpecWith(Ports(first_port, kPorts));
  network.netns = netns.get();
  MOUNTD_TRY(client.SetupNetwork(allocation, network));
  MOUNTD_TRY(PublishOwnVolume(client, allocation));
  for (const char* name : {"data", "more"}) {
    agent::BindMountSpec spec{.task = "app",
                              .name = name,
                              .source_type = agent::SourceType::kVolume,
                              .source = "data",
                              .propagation = agent::Propagation::kHostToTask};
    spec.task_path = std::string("/") + name;
    MOUNTD_ASSIGN(const agent::MountConfig mount,
                  client.BindMount(allocation, spec));
    config->mounts.push_back({spec.task_path, mount.host_path, false, false,
                              driver::MountPropagation::kHostToTask, name});
  }
  return Ok();
}

// Measures the whole, and mountd's calls in it.
Result<void> Start(TaskAgent& agent, const std::string& allocation,
                   int first_port, Samples& whole, Samples& mountd) {
  driver::TaskConfig config = ConfigOf(allocation);
  return Time(whole, [&]() -> Result<void> {
    MOUNTD_TRY(agent.client->PrepareAllocation(allocation));
    MOUNTD_ASSIGN(const driver::CreatedNetwork made,
                  agent.driver->CreateNetwork(allocation, allocation));
    config.network = made.isolation;
    MOUNTD_TRY(Time(mountd, [&] {
      return MakeByMountd(*agent.client, allocation, first_port, &config);
    }));
    MOUNTD_TRY(agent.driver->StartTask(config));
    return Ok();
  });
}

Result<void> Stop(TaskAgent& agent, const std::string& allocation) {
  MOUNTD_TRY(agent.driver->DestroyTask(TaskOf(allocation), /*force=*/true));
  MOUNTD_TRY(agent.driver->DestroyNetwork(
      allocation, {.mode = driver::NetworkMode::kGroup}));
  MOUNTD_TRY(StopWhole(*agent.client, allocation));
  return Ok();
}

// Time until the first byte of a command's output.
Result<void> FirstByte(Samples& into,
                       const std::function<Result<void>(int)>& run) {
  MOUNTD_ASSIGN(Pipe pipe, MakePipe());
  Result<void> ran = Ok();
  std::thread command;
  MOUNTD_TRY(Time(into, [&]() -> Result<void> {
    command = std::thread([&] {
      ran = run(pipe.in.get());
      pipe.in.reset();
    });
    char byte = 0;
    const ssize_t got = ::read(pipe.out.get(), &byte, 1);
    return got == 1 ? Ok() : Result<void>(ErrnoError(errno, "read", "output"));
  }));
  command.join();
  return ran;
}

const std::vector<std::string>& Hello() {
  static const std::vector<std::string> command = {"/bin/echo", "x"};
  return command;
}

Result<void> ExecInTask(TaskAgent& agent, const std::string& task, int out) {
  driver::ExecOptions options;
  options.command = Hello();
  options.stdout_fd = out;
  MOUNTD_TRY(ExecTaskStreaming(*agent.driver, task, options));
  return Ok();
}

struct Contenders {
  TaskAgent& agent;
  // crun alone, in the namespaces of another task that runs all the time.
  const RuntimeFloor& floor;
  const Podman* podman;  // null if it is not installed
};

// One start after the other.
Result<void> MeasureOne(const Counts& counts, const std::string& point,
                        const Contenders& who, SamplesByName& into) {
  for (int i = 0; i < counts.starts; ++i) {
    MOUNTD_TRY(Start(who.agent, "one", kFirstPort, into["start" + point],
                     into["mountd" + point]));
    MOUNTD_TRY(Stop(who.agent, "one"));
    const std::string container = "floor" + point + std::to_string(i);
    MOUNTD_TRY(who.floor.Prepare(container));
    MOUNTD_TRY(
        Time(into["crun" + point], [&] { return who.floor.Start(container); }));
    MOUNTD_TRY(who.floor.Delete(container));
    if (who.podman != nullptr) {
      MOUNTD_TRY(Time(into["podman" + point], [&] {
        return who.podman->Start("one", Ports(kFirstPodmanPort, kPorts));
      }));
      MOUNTD_TRY(who.podman->Stop("one"));
    }
  }
  return Ok();
}

Result<void> MeasureExec(const Counts& counts, TaskAgent& agent,
                         const RuntimeFloor& floor, SamplesByName& into) {
  for (int i = 0; i < counts.execs; ++i) {
    MOUNTD_TRY(FirstByte(into["exec"], [&](int out) {
      return ExecInTask(agent, TaskOf("steady"), out);
    }));
    MOUNTD_TRY(FirstByte(into["crun_exec"],
                         [&](int out) { return floor.Exec(Hello(), out); }));
  }
  MOUNTD_TRY(
      EchoInTask(*agent.driver, TaskOf("steady"), counts.echoes, into["echo"]));
  return EchoAtLocalTerminal(counts.echoes, into["pty"]);
}

// Calls `call` with each number in a thread of its own.
Result<void> AtOnce(int count, const std::function<Result<void>(int)>& call) {
  std::vector<Result<void>> results(static_cast<std::size_t>(count), Ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back(
        [&, i] { results[static_cast<std::size_t>(i)] = call(i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Result<void>& result : results) {
    MOUNTD_TRY(result);
  }
  return Ok();
}

std::string ManyName(int i) { return "many-" + std::to_string(i); }

Result<void> FloorsAtOnce(const RuntimeFloor& floor, int round, Samples& into) {
  const auto name = [round](int i) {
    return ManyName(i) + "-" + std::to_string(round);
  };
  MOUNTD_TRY(AtOnce(kAtOnce, [&](int i) { return floor.Prepare(name(i)); }));
  MOUNTD_TRY(Time(into, [&] {
    return AtOnce(kAtOnce, [&](int i) { return floor.Start(name(i)); });
  }));
  return AtOnce(kAtOnce, [&](int i) { return floor.Delete(name(i)); });
}

Result<void> PodmansAtOnce(const Podman& podman, Samples& into) {
  MOUNTD_TRY(Time(into, [&] {
    return AtOnce(kAtOnce, [&](int i) {
      return podman.Start(ManyName(i),
                          Ports(kFirstPodmanPort + i * kPorts, kPorts));
    });
  }));
  return AtOnce(kAtOnce, [&](int i) { return podman.Stop(ManyName(i)); });
}

// Several starts at the same time; each sample is the time of all of them.
Result<void> MeasureAtOnce(const Counts& counts, const Contenders& who,
                           SamplesByName& into) {
  std::vector<TaskAgent> agents;
  for (int i = 0; i < kAtOnce; ++i) {
    MOUNTD_ASSIGN(TaskAgent agent, TaskAgent::Connect());
    agents.push_back(std::move(agent));
  }
  for (int round = 0; round < counts.at_once; ++round) {
    MOUNTD_TRY(Time(into["start_8"], [&] {
      return AtOnce(kAtOnce, [&](int i) {
        Samples whole;
        Samples mountd;
        return Start(agents[static_cast<std::size_t>(i)], ManyName(i),
                     kFirstPort + i * kPorts, whole, mountd);
      });
    }));
    MOUNTD_TRY(AtOnce(kAtOnce, [&](int i) {
      return Stop(agents[static_cast<std::size_t>(i)], ManyName(i));
    }));
    MOUNTD_TRY(FloorsAtOnce(who.floor, round, into["crun_8"]));
    if (who.podman != nullptr) {
      MOUNTD_TRY(PodmansAtOnce(*who.podman, into["podman_8"]));
    }
  }
  return Ok();
}

std::string PresentName(int i) { return "present-" + std::to_string(i); }

Result<void> HavePresent(const Counts& counts, const Contenders& who,
                         SamplesByName& into) {
  Samples unused;
  for (int i = 0; i < counts.present; ++i) {
    MOUNTD_TRY(Start(who.agent, PresentName(i), kPresentPort + i * kPorts,
                     unused, unused));
    if (i + 1 == kPssTasks) {
      MOUNTD_ASSIGN(const ProcessFigures shims, bench::FiguresOf(kShimName));
      into["shim_pss"].Add(shims.pss_mb / shims.processes);
    }
  }
  for (int i = 0; who.podman != nullptr && i < counts.present; ++i) {
    MOUNTD_TRY(who.podman->Start(
        PresentName(i), Ports(kPresentPodmanPort + i * kPorts, kPorts)));
  }
  return Ok();
}

Result<void> MeasurePresent(const Counts& counts, const Contenders& who,
                            SamplesByName& into) {
  if (counts.present == 0) {
    return Ok();
  }
  MOUNTD_TRY(HavePresent(counts, who, into));
  MOUNTD_TRY(MeasureOne(counts, "_present", who, into));
  if (who.podman != nullptr) {
    // Each slirp4netns has a copy of the host's mounts, which keeps the tasks'
    // volumes in use.
    MOUNTD_TRY(who.podman->StopAll());
  }
  for (int i = 0; i < counts.present; ++i) {
    MOUNTD_TRY(Stop(who.agent, PresentName(i)));
  }
  return Ok();
}

Result<void> MeasureAsUser(const Counts& counts, bool has_podman,
                           SamplesByName& into) {
  MOUNTD_ASSIGN(TaskAgent agent, TaskAgent::Connect());
  Samples unused;
  MOUNTD_TRY(Start(agent, "steady", kPresentPort - kPorts, unused, unused));
  MOUNTD_ASSIGN(const RuntimeFloor floor, RuntimeFloor::OfRunningTask());
  std::unique_ptr<Podman> podman;
  if (has_podman) {
    Result<std::unique_ptr<Podman>> made = Podman::Make();
    // A machine on which podman cannot work still has mountd's own figures.
    if (made) {
      podman = *std::move(made);
    } else {
      std::fprintf(stderr, "tasks: no figure for podman: %s\n",
                   made.error().Message().c_str());
    }
  }
  const Contenders who{agent, floor, podman.get()};
  MOUNTD_TRY(MeasureOne(counts, "", who, into));
  MOUNTD_TRY(MeasureExec(counts, agent, floor, into));
  MOUNTD_TRY(MeasureAtOnce(counts, who, into));
  MOUNTD_TRY(MeasurePresent(counts, who, into));
  return Stop(agent, "steady");
}

// Rows and ratios of starts at one point; `suffix` is that of the samples.
void TellStarts(SamplesByName& all, const std::string& point,
                const std::string& suffix, const std::string& metric,
                Report& report) {
  const auto& start = all["start" + suffix];
  const auto& crun = all["crun" + suffix];
  const auto& podman = all["podman" + suffix];
  report.Row(point, "mountd + driver", {{"time", start}});
  report.Row(point, "crun", {{"time", crun}});
  report.Ratio("tasks.start_vs_crun" + metric, start.Median() / crun.Median(),
               1.6, false);
  if (podman.count() > 0) {
    report.Row(point, Podman::Version(), {{"time", podman}});
    report.Ratio("tasks.start_speedup_vs_podman" + metric,
                 podman.Median() / start.Median(), 10, true);
  }
}

void TellExec(SamplesByName& all, Report& report) {
  const auto row = [&](const char* point, const char* who,
                       const std::string& name) {
    report.Row(point, who, {{"time", all[name]}});
  };
  row("exec, first byte", "driver", "exec");
  row("exec, first byte", "crun", "crun_exec");
  row("echo of a key", "driver", "echo");
  row("echo of a key", "local pty", "pty");
  report.Ratio("tasks.exec_vs_crun",
               all["exec"].Median() / all["crun_exec"].Median(), 1.3, false);
  report.Ratio("tasks.echo_p99_vs_pty", all["echo"].P99() / all["pty"].P99(), 4,
               false);
}

void Tell(SamplesByName& all, const Counts& counts, Report& report) {
  TellStarts(all, "start", "", "", report);
  report.Row("start", "mountd's calls", {{"time", all["mountd"]}});
  report.Ratio("tasks.mountd_part",
               all["mountd"].Median() / all["start"].Median(), 0.2, false);
  TellStarts(all, "8 starts at once", "_8", "_8_at_once", report);
  TellExec(all, report);
  if (counts.present > 0) {
    const std::string count = std::to_string(counts.present);
    TellStarts(all, count + " present", "_present", "_" + count + "_present",
               report);
  }
  if (all["shim_pss"].count() > 0) {
    report.Value("tasks.shim_pss_mb", all["shim_pss"].Median(), "MB", 0.6,
                 false);
  }
}

// False, with a note, if podman cannot be measured.
bool HavePodman(Report& report) {
  const auto made = Podman::MakeHost();
  if (!made) {
    report.Note("tasks: no figure for podman: " + made.error().Message());
  }
  return made.has_value();
}

Result<void> MeasureTasks(agent::Client& client, Report& report,
                          const Counts& counts) {
  const auto host = TaskHost::Make();
  if (!host && host.error().code == Code::kNotSupported) {
    report.Note("tasks: " + host.error().Message());
    return Ok();
  }
  if (!host) {
    return host.error();
  }
  const bool has_podman = HavePodman(report);
  MOUNTD_ASSIGN(const testing::Process plugin, HavePlugin(client));
  MOUNTD_ASSIGN(SamplesByName all, AsTaskUser([&](SamplesByName& into) {
                  return MeasureAsUser(counts, has_podman, into);
                }));
  Tell(all, counts, report);
  return Ok();
}

// Takes "--present COUNT" out of the arguments. False if COUNT is no number, or
// out of range.
bool TakePresent(int* argc, char** argv, std::optional<int>* present) {
  for (int i = 1; i + 1 < *argc; ++i) {
    if (std::strcmp(argv[i], "--present") == 0) {
      *present = ParseNumber<int>(argv[i + 1]);
      std::copy(argv + i + 2, argv + *argc + 1, argv + i);
      *argc -= 2;
      return *present && **present >= 0 && **present <= kMostPresent;
    }
  }
  return true;
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  using mountd::bench::kFull;
  using mountd::bench::kQuick;
  std::optional<int> present;
  if (!mountd::bench::TakePresent(&argc, argv, &present)) {
    std::fprintf(stderr, "--present takes 0 to %d\n",
                 mountd::bench::kMostPresent);
    return 2;
  }
  return mountd::bench::RunBench(
      argc, argv, [&](auto& /*world*/, auto& client, auto& report, bool quick) {
        auto counts = quick ? kQuick : kFull;
        counts.present = present.value_or(counts.present);
        return mountd::bench::MeasureTasks(client, report, counts);
      });
}
