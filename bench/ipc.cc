// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-ipc [--quick] [--json FILE]: measures an empty call on each way
// to mountd, beside the floor under it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "bench/bench_main.h"
#include "bench/ping_pong.h"
#include "bench/programs.h"
#include "tests/support/servers/private_bus.h"

namespace mountd::bench {
namespace {

constexpr char kDaemon[] = "/usr/bin/dbus-daemon";
constexpr char kBus[] = "/run/bench/bus";
// PrivateBus puts its socket in that directory.
constexpr char kBusAddress[] = "unix:path=/run/bench/bus/system_bus_socket";
constexpr int kWarmUp = 50;

// Tries again, because mountd takes its name on the bus only once it is ready.
Result<agent::Client> ConnectByBus(const World& world) {
  for (int tries = 0;; ++tries) {
    Result<agent::Client> client = world.Connect({.system_bus = true});
    if (client && EmptyCall(*client)) {
      return client;
    }
    if (tries == 200) {
      return client ? Result<agent::Client>(MakeError(
                          Code::kUnavailable, "await", "mountd on the bus"))
                    : std::move(client);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

struct Times {
  Samples socket;
  Samples listing;
  Samples bus;
  Samples floor;
};

class Ipc {
 public:
  Ipc(agent::Client& client, PingPong ping_pong, Report& report)
      : client_(client), ping_pong_(std::move(ping_pong)), report_(report) {}

  void UseBus(agent::Client client) {
    by_bus_ = std::make_unique<agent::Client>(std::move(client));
  }

  Result<void> Run(int rounds) {
    Times unused;
    MOUNTD_TRY(Rounds(unused, kWarmUp));
    Times times;
    MOUNTD_TRY(Rounds(times, rounds));
    Show(times);
    return Ok();
  }

 private:
  Result<void> Rounds(Times& times, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      MOUNTD_TRY(AfterOne(times.floor, [&] { return ping_pong_.Call(); }));
      MOUNTD_TRY(AfterOne(times.socket, [&] { return EmptyCall(client_); }));
      MOUNTD_TRY(AfterOne(times.listing, [&] { return client_.ListOwed(); }));
      if (by_bus_ != nullptr) {
        MOUNTD_TRY(AfterOne(times.bus, [&] { return EmptyCall(*by_bus_); }));
      }
    }
    return Ok();
  }

  void Show(const Times& times) {
    report_.Row("ping-pong", "the floor", {{"call", times.floor}});
    report_.Row("Version", "socket", {{"call", times.socket}});
    report_.Row("ListOwed", "socket", {{"call", times.listing}});
    if (by_bus_ != nullptr) {
      report_.Row("Version", "bus", {{"call", times.bus}});
    }
    std::printf("\n");
    const double empty = times.socket.Median();
    report_.Ratio("ipc.empty_call_vs_ping_pong", empty / times.floor.Median(),
                  0, false);
    report_.Ratio("ipc.listing_vs_empty_call", times.listing.Median() / empty,
                  0, false);
    if (by_bus_ != nullptr) {
      report_.Ratio("ipc.bus_vs_socket", times.bus.Median() / empty, 0, false);
    }
  }

  agent::Client& client_;
  PingPong ping_pong_;
  Report& report_;
  std::unique_ptr<agent::Client> by_bus_;
};

Result<void> MeasureIpc(const World& world, agent::Client& client,
                        Report& report, bool quick) {
  MOUNTD_ASSIGN(PingPong ping_pong, PingPong::Start());
  Ipc ipc(client, std::move(ping_pong), report);
  std::unique_ptr<test::PrivateBus> bus;
  if (IsProgram(kDaemon)) {
    // Starts the bus after the world, because the bus looks up its callers.
    std::filesystem::create_directories(kBus);
    bus = std::make_unique<test::PrivateBus>(kBus);
    MOUNTD_ASSIGN(agent::Client by_bus, ConnectByBus(world));
    ipc.UseBus(std::move(by_bus));
  } else {
    report.Note("the bus: left out, as there is no dbus-daemon");
  }
  return ipc.Run(quick ? 3000 : 20'000);
}

}  // namespace
}  // namespace mountd::bench

// Names the bus in the environment, because the launcher and mountd find it
// there.
int main(int argc, char** argv) {
  ::setenv("DBUS_SYSTEM_BUS_ADDRESS", mountd::bench::kBusAddress, 1);
  return mountd::bench::RunBench(
      argc, argv, [](auto& world, auto& client, auto& report, bool quick) {
        return mountd::bench::MeasureIpc(world, client, report, quick);
      });
}
