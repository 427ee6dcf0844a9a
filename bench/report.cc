// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/report.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace mountd::bench {
namespace {

bool Holds(double value, double goal, bool higher) {
  return higher ? value >= goal : value <= goal;
}

nlohmann::json Machine() {
  utsname name = {};
  ::uname(&name);
  return {{"kernel", &name.release[0]},
          {"arch", &name.machine[0]},
          {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)}};
}

}  // namespace

double Samples::Quantile(double part) const {
  if (values_.empty()) {
    return 0;
  }
  std::vector<double> sorted = values_;
  const auto at = std::min(
      static_cast<std::size_t>(part * static_cast<double>(sorted.size())),
      sorted.size() - 1);
  std::nth_element(sorted.begin(),
                   sorted.begin() + static_cast<std::ptrdiff_t>(at),
                   sorted.end());
  return sorted[at];
}

void Report::PrintHeader(std::initializer_list<Column> columns) {
  std::string names;
  for (const Column& column : columns) {
    names += std::string(" ") + column.name;
  }
  if (names == header_) {
    return;
  }
  header_ = names;
  std::printf("%-24s %-12s %5s", "", "us", "n");
  for (const Column& column : columns) {
    std::printf(" %10s %10s", column.name, "p99");
  }
  std::printf("\n");
}

void Report::Row(const std::string& point, const std::string& who,
                 std::initializer_list<Column> columns) {
  PrintHeader(columns);
  Line line{point, who, {}};
  for (const Column& column : columns) {
    const Samples& samples = column.samples;
    if (samples.count() == 0) {
      continue;
    }
    const std::string name = column.name;
    double& n = line.figures["n"];
    n = std::max(n, static_cast<double>(samples.count()));
    line.figures[name + "_p50_us"] = samples.Median();
    line.figures[name + "_p99_us"] = samples.P99();
  }
  std::printf("%-24s %-12s %5.0f", point.c_str(), who.c_str(),
              line.figures["n"]);
  for (const Column& column : columns) {
    if (column.samples.count() == 0) {
      std::printf(" %10s %10s", "", "");
    } else {
      std::printf(" %10.1f %10.1f", column.samples.Median(),
                  column.samples.P99());
    }
  }
  std::printf("\n");
  std::fflush(stdout);
  lines_.push_back(std::move(line));
}

void Report::Note(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  notes_.push_back(text);
}

void Report::Ratio(const std::string& name, double value, double goal,
                   bool higher) {
  metrics_.push_back({name, value, goal, higher});
  if (goal == 0) {
    std::printf("%-40s %8.2f\n", name.c_str(), value);
  } else {
    std::printf("%-40s %8.2f  goal %s %g: %s\n", name.c_str(), value,
                higher ? ">=" : "<=", goal,
                Holds(value, goal, higher) ? "holds" : "does NOT hold");
  }
  std::fflush(stdout);
}

bool Report::WriteJson(const std::string& path) const {
  nlohmann::json metrics = nlohmann::json::array();
  for (const Metric& metric : metrics_) {
    nlohmann::json one = {{"name", metric.name},
                          {"value", metric.value},
                          {"unit", "ratio"},
                          {"better", metric.higher ? "higher" : "lower"}};
    if (metric.goal != 0) {
      one["goal"] = metric.goal;
      one["holds"] = Holds(metric.value, metric.goal, metric.higher);
    }
    metrics.push_back(std::move(one));
  }
  nlohmann::json series = nlohmann::json::array();
  for (const Line& line : lines_) {
    nlohmann::json one = line.figures;
    one["point"] = line.point;
    one["who"] = line.who;
    series.push_back(std::move(one));
  }
  std::ofstream file(path);
  file << nlohmann::json{{"machine", Machine()},
                         {"notes", notes_},
                         {"metrics", std::move(metrics)},
                         {"series", std::move(series)}}
              .dump(2)
       << "\n";
  return file.good();
}

}  // namespace mountd::bench
