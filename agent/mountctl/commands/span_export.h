// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/types_node.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {

// Exports the spans of operations as OTLP/JSON: to a file as one line for each
// operation, or to a collector's Unix socket by HTTP (POST /v1/traces).
//
// A collector that refuses or hangs costs kPatience. The exporter then leaves
// spans out for kPause, because mountd would drop a client that reads no
// signals. OTLP lets an exporter lose spans, and stderr says how many are lost.
//
// Used by one thread at a time.
class SpanExporter {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPatience{2000};
  static constexpr std::chrono::milliseconds kPause{5000};

  // Opens the file, which this function makes if it does not exist, or notes
  // the socket. Fails if neither is possible. With `unsampled` also exports
  // traces that are not sampled.
  static Result<SpanExporter> To(const std::string& path,
                                 bool unsampled = false);

  // Exports the operation's spans; does nothing if there are none to export.
  // Fails only if the file cannot be written.
  Result<void> Export(const OperationStatus& operation);

  std::uint64_t lost() const { return lost_; }

 private:
  SpanExporter(std::string path, UniqueFd file, bool unsampled)
      : path_(std::move(path)), file_(std::move(file)), unsampled_(unsampled) {}

  void Post(const std::string& body, std::size_t spans);

  std::string path_;
  UniqueFd file_;  // not valid: path_ is a socket
  bool unsampled_;
  Clock::time_point paused_until_{};
  std::uint64_t lost_ = 0;
};

}  // namespace mountd::agent
