// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/bench_main.h"

#include <cstdio>
#include <cstring>
#include <string>

namespace mountd::bench {
namespace {

Result<void> Run(const Measure& measure, bool quick, const std::string& json) {
  MOUNTD_ASSIGN(const auto world, World::Make());
  Report report;
  const auto measured = [&]() -> Result<void> {
    MOUNTD_ASSIGN(agent::Client client, world->Connect());
    return measure(*world, client, report, quick);
  }();
  if (!measured) {
    std::fputs(world->Log().c_str(), stderr);
    return measured;
  }
  if (!json.empty() && !report.WriteJson(json)) {
    return MakeError(Code::kInternal, "write", json);
  }
  return Ok();
}

}  // namespace

int RunBench(int argc, char** argv, const Measure& measure) {
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
