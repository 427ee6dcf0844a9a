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

// Times of one thing, in microseconds.
class Samples {
 public:
  void Add(double microseconds) { values_.push_back(microseconds); }
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
  // What a reader has to know beside the figures.
  void Note(const std::string& text);
  // A ratio. `goal`: at least that if `higher`, else at most; 0: only shown.
  void Ratio(const std::string& name, double value, double goal, bool higher);
  // False if it cannot be written.
  bool WriteJson(const std::string& path) const;

 private:
  struct Metric {
    std::string name;
    double value = 0;
    double goal = 0;
    bool higher = false;
  };
  struct Line {
    std::string point;
    std::string who;
    std::map<std::string, double> figures;
  };

  void PrintHeader(std::initializer_list<Column> columns);

  std::vector<Metric> metrics_;
  std::vector<Line> lines_;
  std::vector<std::string> notes_;
  std::string header_;  // the last that was printed
};

}  // namespace mountd::bench
