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

// Times of one thing, in microseconds; or what else was measured of it.
class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  std::size_t count() const { return values_.size(); }
  double Median() const { return Quantile(0.5); }
  double P99() const { return Quantile(0.99); }

 private:
  double Quantile(double part) const;
  std::vector<double> values_;
};

// How long a call takes that succeeds.
template <typename F>
Result<void> Time(Samples& into, const F& call) {
  const auto from = std::chrono::steady_clock::now();
  MOUNTD_TRY(call());
  into.Add(std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now() - from)
               .count());
  return Ok();
}

// The same right after one that is not measured: what ran in between, of
// others, has left the caches to itself, and its processor asleep.
template <typename F>
Result<void> AfterOne(Samples& into, const F& call) {
  MOUNTD_TRY(call());
  return Time(into, call);
}

// All that was measured: printed as it comes, and written as JSON at the end.
class Report {
 public:
  // A row of the table: one contender at one point.
  void Row(const std::string& point, const std::string& who,
           const Samples& mount, const Samples& unmount) {
    Row(point, who, {{"mount", mount}, {"unmount", unmount}});
  }
  // The same with other columns. One without samples stays blank.
  struct Column {
    const char* name;
    const Samples& samples;
  };
  void Row(const std::string& point, const std::string& who,
           std::initializer_list<Column> columns);
  // The same of what is no time: `n` times measured, each its median.
  struct Figure {
    const char* name;
    double value;
  };
  void Figures(const std::string& point, const std::string& who, std::size_t n,
               std::initializer_list<Figure> figures);
  // What a reader has to know beside the figures.
  void Note(const std::string& text);
  // `goal`: at least that if `higher`, else at most; 0: only shown.
  void Value(const std::string& name, double value, const std::string& unit,
             double goal, bool higher);
  void Ratio(const std::string& name, double value, double goal, bool higher) {
    Value(name, value, "ratio", goal, higher);
  }
  // False if it cannot be written.
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

  // Of a table that begins: `line` is all of it.
  void PrintHeader(const std::string& line);

  std::vector<Metric> metrics_;
  std::vector<Line> lines_;
  std::vector<std::string> notes_;
  std::string header_;  // the last that was printed
};

}  // namespace mountd::bench
