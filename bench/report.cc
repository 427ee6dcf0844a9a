// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/report.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace mountd::bench {
namespace {

bool Holds(double value, double goal, bool higher) {
  return higher ? value >= goal : value <= goal;
}

std::string Text(double value, int digits = 1) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string Padded(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// Left returns the beginning of a line, Right each column after it.
std::string Left(const std::string& point, const std::string& who,
                 const std::string& n) {
  std::string line = point;
  line.resize(std::max<std::size_t>(24, line.size()), ' ');
  line += " " + who;
  line.resize(std::max<std::size_t>(37, line.size()), ' ');
  return line + " " + Padded(n, 5);
}

std::string Right(const std::string& text) { return " " + Padded(text, 10); }

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

void Report::PrintHeader(const std::string& line) {
  if (line != header_) {
    header_ = line;
    std::printf("%s\n", line.c_str());
  }
}

void Report::Row(const std::string& point, const std::string& who,
                 std::initializer_list<Column> columns) {
  std::string header = Left("", "us", "n");
  for (const Column& column : columns) {
    header += Right(column.name) + Right("p99");
  }
  PrintHeader(header);
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
  std::printf("%s", Left(point, who, Text(line.figures["n"], 0)).c_str());
  for (const Column& column : columns) {
    const bool none = column.samples.count() == 0;
    std::printf("%s%s",
                Right(none ? "" : Text(column.samples.Median())).c_str(),
                Right(none ? "" : Text(column.samples.P99())).c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
  lines_.push_back(std::move(line));
}

void Report::Figures(const std::string& point, const std::string& who,
                     std::size_t n, std::initializer_list<Figure> figures) {
  std::string header = Left("", "", "n");
  std::string text = Left(point, who, std::to_string(n));
  Line line{point, who, {{"n", static_cast<double>(n)}}};
  for (const Figure& figure : figures) {
    header += Right(figure.name);
    text += Right(Text(figure.value));
    line.figures[figure.name] = figure.value;
  }
  PrintHeader(header);
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  lines_.push_back(std::move(line));
}

void Report::Note(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  notes_.push_back(text);
}

void Report::Value(const std::string& name, double value,
                   const std::string& unit, double goal, bool higher) {
  metrics_.push_back({name, value, unit, goal, higher});
  const std::string shown = unit == "ratio" ? "" : " " + unit;
  if (goal == 0) {
    std::printf("%-40s %8.2f%s\n", name.c_str(), value, shown.c_str());
  } else {
    std::printf("%-40s %8.2f%s  goal %s %g: %s\n", name.c_str(), value,
                shown.c_str(), higher ? ">=" : "<=", goal,
                Holds(value, goal, higher) ? "holds" : "does NOT hold");
  }
  std::fflush(stdout);
}

bool Report::WriteJson(const std::string& path) const {
  nlohmann::json metrics = nlohmann::json::array();
  for (const Metric& metric : metrics_) {
    nlohmann::json one = {{"name", metric.name},
                          {"value", metric.value},
                          {"unit", metric.unit},
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
