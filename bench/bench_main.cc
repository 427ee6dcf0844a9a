// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/bench_main.h"

#include <cstdio>
#include <cstring>
#include <string>

namespace mountd::bench {
namespace {

// Returns the end of the log, because each call has a line in it.
std::string LastOf(const std::string& log) {
  constexpr std::size_t kEnough = 6000;
  return log.size() <= kEnough ? log : log.substr(log.size() - kEnough);
}

Result<void> WithWorld(const Measure& measure, Report& report, bool quick) {
  MOUNTD_ASSIGN(const auto world, World::Make());
  const auto measured = [&]() -> Result<void> {
    MOUNTD_ASSIGN(agent::Client client, world->Connect());
    return measure(*world, client, report, quick);
  }();
  if (!measured) {
    std::fputs(LastOf(world->Log()).c_str(), stderr);
  }
  return measured;
}

Result<void> Run(const MeasureAlone& measure, bool quick,
                 const std::string& json) {
  Report report;
  MOUNTD_TRY(measure(report, quick));
  if (!json.empty() && !report.WriteJson(json)) {
    return MakeError(Code::kInternal, "write", json);
  }
  return Ok();
}

}  // namespace

int RunBench(int argc, char** argv, const Measure& measure) {
  return RunAlone(argc, argv, [&](Report& report, bool quick) {
    return WithWorld(measure, report, quick);
  });
}

int RunAlone(int argc, char** argv, const MeasureAlone& measure) {
  bool quick = false;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--quick] [--json FILE]\n", argv[0]);
      return 2;
    }
  }
  const Result<void> ran = Run(measure, quick, json);
  if (!ran) {
    std::fprintf(stderr, "%s: %s\n", argv[0], ran.error().Message().c_str());
    return 1;
  }
  return 0;
}

}  // namespace mountd::bench
