// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/soak.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <utility>
#include <vector>

#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

struct Series {
  std::string name;
  std::vector<nanoseconds> times;
};

nanoseconds Percentile(std::vector<nanoseconds>& times, std::size_t percent) {
  if (times.empty()) {
    return nanoseconds(0);
  }
  std::sort(times.begin(), times.end());
  return times[std::min(times.size() - 1, times.size() * percent / 100)];
}

class Soaker {
 public:
  Soaker(Client& client, const SoakOptions& options)
      : client_(client), options_(options) {}

  Result<void> Run() {
    for (std::uint32_t i = 0; i < options_.allocations; ++i) {
      const std::string id = options_.prefix + "-" +
                             std::to_string(::getpid()) + "-" +
                             std::to_string(i);
      Result<void> done = One(id);
      if (!done) {
        // Ignores an error of the release, because the function returns the
        // error that ended the run.
        IgnoreBecauseBestEffort(client_.ReleaseAllocation(id));
        return done;
      }
    }
    return Ok();
  }

  void Print(std::ostream& out) {
    Json json = Json::array();
    Table table({"OPERATION", "CALLS", "MEDIAN", "P99", "MOST"});
    for (Series* series : {&prepare_, &network_, &mount_, &release_}) {
      const nanoseconds p50 = Percentile(series->times, 50);
      const nanoseconds p99 = Percentile(series->times, 99);
      const nanoseconds most = Percentile(series->times, 100);
      table.Add({series->name, std::to_string(series->times.size()),
                 Millis(p50), Millis(p99), Millis(most)});
      json.push_back({{"operation", series->name},
                      {"calls", series->times.size()},
                      {"p50_us", p50.count() / 1000},
                      {"p99_us", p99.count() / 1000},
                      {"max_us", most.count() / 1000}});
    }
    if (options_.json) {
      out << Dump(json) << std::endl;
    } else {
      table.Print(out);
    }
  }

 private:
  template <typename F>
  auto Timed(Series& series, const F& call) {
    const auto started = steady_clock::now();
    auto result = call();
    if (result) {
      series.times.push_back(steady_clock::now() - started);
    }
    return result;
  }

  Result<void> One(const std::string& id) {
    MOUNTD_TRY(Timed(prepare_, [&] { return client_.PrepareAllocation(id); }));
    NetworkSpec network;
    for (std::uint32_t i = 0; i < options_.ports; ++i) {
      network.ports.push_back(
          {"p" + std::to_string(i),
           static_cast<std::uint16_t>(options_.first_port + i), 80, "tcp"});
    }
    MOUNTD_TRY(
        Timed(network_, [&] { return client_.SetupNetwork(id, network); }));
    for (std::uint32_t i = 0; i < options_.mounts; ++i) {
      BindMountSpec mount;
      mount.task = "task";
      mount.name = "m" + std::to_string(i);
      mount.source_type = SourceType::kHostVolume;
      mount.source = options_.host_volume;
      MOUNTD_TRY(Timed(mount_, [&] { return client_.BindMount(id, mount); }));
    }
    MOUNTD_TRY(Timed(release_, [&] { return client_.ReleaseAllocation(id); }));
    return Ok();
  }

  Client& client_;
  const SoakOptions options_;
  Series prepare_{"PrepareAllocation", {}};
  Series network_{"SetupNetwork", {}};
  Series mount_{"BindMount", {}};
  Series release_{"ReleaseAllocation", {}};
};

}  // namespace

Result<void> Soak(Client& client, const SoakOptions& options,
                  std::ostream& out) {
  Soaker soaker(client, options);
  Result<void> done = soaker.Run();
  soaker.Print(out);
  return done;
}

}  // namespace mountd::agent
