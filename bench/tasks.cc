// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-tasks [--quick] [--json FILE]: measures the start of a whole
// task, and exec in it, beside crun alone. Runs as root in a mount, network and
// pid namespace of its own (bench/run); an ordinary user runs the tasks.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
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
#include "bench/raw_netlink.h"
#include "bench/runtime_floor.h"
#include "bench/task_agent.h"
#include "bench/whole_allocations.h"

namespace mountd::bench {
namespace {

constexpr int kPorts = 8;
constexpr int kFirstPort = 30'000;
constexpr int kPresentPort = 40'000;
constexpr int kAtOnce = 8;

struct Counts {
  int starts;
  int execs;
  int echoes;
  int at_once;  // rounds of kAtOnce
  int present;  // other tasks
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

// One task after the other, beside crun alone in the namespaces of another task
// that runs all the time.
Result<void> MeasureOne(const Counts& counts, const std::string& point,
                        TaskAgent& agent, const RuntimeFloor& floor,
                        SamplesByName& into) {
  for (int i = 0; i < counts.starts; ++i) {
    MOUNTD_TRY(Start(agent, "one", kFirstPort, into["start" + point],
                     into["mountd" + point]));
    MOUNTD_TRY(Stop(agent, "one"));
    const std::string container = "floor" + point + std::to_string(i);
    MOUNTD_TRY(floor.Prepare(container));
    MOUNTD_TRY(
        Time(into["crun" + point], [&] { return floor.Start(container); }));
    MOUNTD_TRY(floor.Delete(container));
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

// Several starts at the same time; each sample is the time of all of them.
Result<void> MeasureAtOnce(const Counts& counts, const RuntimeFloor& floor,
                           SamplesByName& into) {
  std::vector<TaskAgent> agents;
  for (int i = 0; i < kAtOnce; ++i) {
    MOUNTD_ASSIGN(TaskAgent agent, TaskAgent::Connect());
    agents.push_back(std::move(agent));
  }
  const auto name = [](int i) { return "many-" + std::to_string(i); };
  for (int round = 0; round < counts.at_once; ++round) {
    MOUNTD_TRY(Time(into["start_8"], [&] {
      return AtOnce(kAtOnce, [&](int i) {
        Samples whole;
        Samples mountd;
        return Start(agents[static_cast<std::size_t>(i)], name(i),
                     kFirstPort + i * kPorts, whole, mountd);
      });
    }));
    MOUNTD_TRY(AtOnce(kAtOnce, [&](int i) {
      return Stop(agents[static_cast<std::size_t>(i)], name(i));
    }));
    MOUNTD_TRY(AtOnce(kAtOnce, [&](int i) {
      return floor.Prepare(name(i) + "-" + std::to_string(round));
    }));
    MOUNTD_TRY(Time(into["crun_8"], [&] {
      return AtOnce(kAtOnce, [&](int i) {
        return floor.Start(name(i) + "-" + std::to_string(round));
      });
    }));
    MOUNTD_TRY(AtOnce(kAtOnce, [&](int i) {
      return floor.Delete(name(i) + "-" + std::to_string(round));
    }));
  }
  return Ok();
}

Result<void> MeasureAsUser(const Counts& counts, SamplesByName& into) {
  MOUNTD_ASSIGN(TaskAgent agent, TaskAgent::Connect());
  Samples unused;
  MOUNTD_TRY(Start(agent, "steady", kPresentPort - kPorts, unused, unused));
  MOUNTD_ASSIGN(const RuntimeFloor floor, RuntimeFloor::OfRunningTask());
  MOUNTD_TRY(MeasureOne(counts, "", agent, floor, into));
  MOUNTD_TRY(MeasureExec(counts, agent, floor, into));
  MOUNTD_TRY(MeasureAtOnce(counts, floor, into));
  const auto name = [](int i) { return "present-" + std::to_string(i); };
  for (int i = 0; i < counts.present; ++i) {
    MOUNTD_TRY(
        Start(agent, name(i), kPresentPort + i * kPorts, unused, unused));
  }
  if (counts.present > 0) {
    MOUNTD_TRY(MeasureOne(counts, "_present", agent, floor, into));
  }
  for (int i = 0; i < counts.present; ++i) {
    MOUNTD_TRY(Stop(agent, name(i)));
  }
  return Stop(agent, "steady");
}

void Tell(SamplesByName& all, const Counts& counts, Report& report) {
  const auto row = [&](const std::string& point, const char* who,
                       const std::string& name) {
    report.Row(point, who, {{"time", all[name]}});
  };
  row("start", "mountd + driver", "start");
  row("start", "mountd's calls", "mountd");
  row("start", "crun", "crun");
  row("8 starts at once", "mountd + driver", "start_8");
  row("8 starts at once", "crun", "crun_8");
  row("exec, first byte", "driver", "exec");
  row("exec, first byte", "crun", "crun_exec");
  row("echo of a key", "driver", "echo");
  row("echo of a key", "local pty", "pty");
  report.Ratio("tasks.start_vs_crun",
               all["start"].Median() / all["crun"].Median(), 1.6, false);
  report.Ratio("tasks.start_vs_crun_8_at_once",
               all["start_8"].Median() / all["crun_8"].Median(), 1.6, false);
  report.Ratio("tasks.mountd_part",
               all["mountd"].Median() / all["start"].Median(), 0.2, false);
  report.Ratio("tasks.exec_vs_crun",
               all["exec"].Median() / all["crun_exec"].Median(), 1.3, false);
  report.Ratio("tasks.echo_p99_vs_pty", all["echo"].P99() / all["pty"].P99(), 4,
               false);
  if (counts.present > 0) {
    const std::string point = std::to_string(counts.present) + " present";
    row(point, "mountd + driver", "start_present");
    row(point, "crun", "crun_present");
    report.Ratio("tasks.start_vs_crun_200_present",
                 all["start_present"].Median() / all["crun_present"].Median(),
                 1.6, false);
  }
}

Result<void> MeasureTasks(World& /*world*/, agent::Client& client,
                          Report& report, bool quick) {
  const Counts& counts = quick ? kQuick : kFull;
  const auto host = TaskHost::Make();
  if (!host && host.error().code == Code::kNotSupported) {
    report.Note("tasks: " + host.error().Message());
    return Ok();
  }
  if (!host) {
    return host.error();
  }
  MOUNTD_ASSIGN(const testing::Process plugin, HavePlugin(client));
  MOUNTD_ASSIGN(SamplesByName all, AsTaskUser([&](SamplesByName& into) {
                  return MeasureAsUser(counts, into);
                }));
  Tell(all, counts, report);
  return Ok();
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  return mountd::bench::RunBench(argc, argv, mountd::bench::MeasureTasks);
}
