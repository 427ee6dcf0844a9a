// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <memory>
#include <sstream>
#include <string>

#include "mountd/daemon/log.h"

namespace mountd {

// Returns what is logged at this level where there is no journal.
inline std::string Logged(const std::function<void()>& log_something,
                          spdlog::level::level_enum level) {
  std::ostringstream out;
  const auto before = spdlog::default_logger();
  const auto logger = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger->set_level(level);
  logger->set_formatter(LogFormatter());
  spdlog::set_default_logger(logger);
  log_something();
  spdlog::set_default_logger(before);
  return out.str();
}

}  // namespace mountd
