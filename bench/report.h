// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::bench {

// Samples of one measurement: times in microseconds, or another unit.
class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  std::size_t count() const { return values_.size(); }
  const std::vector<double>& values() const { return values_; }
  double Median() const { return Quantile(0.5); }
  double P99() const { return Quantile(0.99); }

 private:
  double Quantile(double part) const;
  std::vector<double> values_;
};

// Measures the time of a call, and fails if the call does.
template <typename F>
Result<void> Time(Samples& into, const F& call) {
  const auto from = std::chrono::steady_clock::now();
  MOUNTD_TRY(call());
  into.Add(std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now() - from)
               .count());
  return Ok();
}

// Measures a call right after an unmeasured one. Otherwise the work of others
// in between would leave cold caches and a sleeping processor.
template <typename F>
Result<void> AfterOne(Samples& into, const F& call) {
  MOUNTD_TRY(call());
  return Time(into, call);
}

// Prints all measurements as they come, and writes them as JSON at the end.
class Report {
 public:
  // Adds a row of the table: one contender at one point.
  void Row(const std::string& point, const std::string& who,
           const Samples& mount, const Samples& unmount) {
    Row(point, who, {{"mount", mount}, {"unmount", unmount}});
  }
  // Adds a row with other columns. A column without samples stays blank.
  struct Column {
    const char* name;
    const Samples& samples;
  };
  void Row(const std::string& point, const std::string& who,
           std::initializer_list<Column> columns);
  // Adds a row of values that are no times. Each is the median of `n`
  // measurements.
  struct Figure {
    const char* name;
    double value;
  };
  void Figures(const std::string& point, const std::string& who, std::size_t n,
               std::initializer_list<Figure> figures);
  // Adds a note that a reader needs beside the figures.
  void Note(const std::string& text);
  // Adds a figure with its `goal`: at least `goal` if `higher`, else at most. A
  // goal of 0 means that there is none.
  void Value(const std::string& name, double value, const std::string& unit,
             double goal, bool higher);
  void Ratio(const std::string& name, double value, double goal, bool higher) {
    Value(name, value, "ratio", goal, higher);
  }
  // False if the file cannot be written.
  bool WriteJson(const std::string& path) const;

 private:
  struct Metric {
    std::string name;
    double value = 0;
    std::string unit;
    double goal = 0;
    bool higher = false;
  };
  struct Line {
    std::string point;
    std::string who;
    std::map<std::string, double> figures;
  };

  // Prints the header of a new table; `line` is the whole header.
  void PrintHeader(const std::string& line);

  std::vector<Metric> metrics_;
  std::vector<Line> lines_;
  std::vector<std::string> notes_;
  std::string header_;  // the last printed header
};

}  // namespace mountd::bench
