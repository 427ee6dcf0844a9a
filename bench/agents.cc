// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/agents.h"

#include <algorithm>
#include <barrier>
#include <thread>

namespace mountd::bench {
namespace {

double Microseconds(Spans::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Spans::Clock::time_point Spans::Begin() const {
  const auto less = [](const Span& a, const Span& b) {
    return a.from < b.from;
  };
  return std::min_element(spans_.begin(), spans_.end(), less)->from;
}

double Spans::Each(Clock::time_point end) const {
  return Microseconds(end - Begin()) / static_cast<double>(spans_.size());
}

double Spans::Each() const {
  const auto less = [](const Span& a, const Span& b) { return a.to < b.to; };
  return Each(std::max_element(spans_.begin(), spans_.end(), less)->to);
}

void Spans::AddTo(Samples& samples) const {
  for (const Span& span : spans_) {
    samples.Add(Microseconds(span.to - span.from));
  }
}

Result<Agents> Agents::Connect(const World& world, int count) {
  std::vector<agent::Client> clients;
  for (int i = 0; i < count; ++i) {
    MOUNTD_ASSIGN(agent::Client client, world.Connect());
    clients.push_back(std::move(client));
  }
  return Agents(std::move(clients));
}

Result<Spans> Agents::ForEach(int count, const Call& call) {
  const int threads = std::min(count, this->count());
  Spans spans(static_cast<std::size_t>(count));
  std::vector<Result<void>> results(static_cast<std::size_t>(threads), Ok());
  std::barrier ready(threads);
  const auto share = [&](int first) -> Result<void> {
    agent::Client& client = clients_[static_cast<std::size_t>(first)];
    ready.arrive_and_wait();
    for (int i = first; i < count; i += threads) {
      const auto from = Spans::Clock::now();
      MOUNTD_TRY(call(client, i));
      spans.Set(static_cast<std::size_t>(i), from, Spans::Clock::now());
    }
    return Ok();
  };
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back(
        [&, i] { results[static_cast<std::size_t>(i)] = share(i); });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  for (const Result<void>& result : results) {
    MOUNTD_TRY(result);
  }
  return spans;
}

}  // namespace mountd::bench
