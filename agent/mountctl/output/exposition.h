// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Writes Prometheus' text exposition format, version 0.0.4, which
// node_exporter's textfile collector reads.
namespace mountd::agent {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

class Exposition {
 public:
  // Begins a family; the samples that follow belong to it. Call once for each
  // name, because a second HELP or TYPE line of a name makes the collector drop
  // the whole file.
  void Family(std::string_view name, std::string_view type,
              std::string_view help);
  void Sample(double value, const Labels& labels = {});

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string family_;
};

}  // namespace mountd::agent
