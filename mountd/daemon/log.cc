// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/daemon/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <string>
#include <string_view>
#include <utility>

#include "mountd/base/one_line.h"

namespace mountd {
namespace {

class MessageOnOneLine final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& into) override {
    const std::string line = OnOneLine(
        std::string_view(message.payload.data(), message.payload.size()));
    into.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<MessageOnOneLine>();
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> LogFormatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<MessageOnOneLine>('*').set_pattern("%l: %*");
  return formatter;
}

void LogToStderr() {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("mountd"));
  spdlog::set_formatter(LogFormatter());
}

}  // namespace mountd
