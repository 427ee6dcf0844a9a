// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "bench/report.h"
#include "bench/world.h"

namespace mountd::bench {

// Records when each of some calls began and ended.
class Spans {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Spans(std::size_t count) : spans_(count) {}

  void Set(std::size_t i, Clock::time_point from, Clock::time_point to) {
    spans_[i] = {from, to};
  }
  Clock::time_point Begin() const;
  // Returns the microseconds from the first begin until `end`, divided by the
  // number of calls.
  double Each(Clock::time_point end) const;
  double Each() const;  // until the last end
  void AddTo(Samples& samples) const;

 private:
  struct Span {
    Clock::time_point from;
    Clock::time_point to;
  };
  std::vector<Span> spans_;
};

// Owns several connections of an agent, which work at the same time.
class Agents {
 public:
  static Result<Agents> Connect(const World& world, int count);
  int count() const { return static_cast<int>(clients_.size()); }

  using Call = std::function<Result<void>(agent::Client&, int)>;
  // Makes calls 0 to count - 1. Each connection makes its share of them one
  // after the other; all connections begin at the same moment.
  Result<Spans> ForEach(int count, const Call& call);

 private:
  explicit Agents(std::vector<agent::Client> clients)
      : clients_(std::move(clients)) {}
  std::vector<agent::Client> clients_;
};

}  // namespace mountd::bench
