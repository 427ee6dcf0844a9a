// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/goplugin/hclog.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "mountd/base/wall_clock.h"

namespace mountd::goplugin {
namespace {

// JSON may write six bytes for a byte, so a line has at most 50 KiB.
constexpr std::size_t kMostMessage = 2048;
constexpr std::size_t kMostPairs = 8;
constexpr std::size_t kMostKey = 64;
constexpr std::size_t kMostValue = 700;

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return "trace";
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      break;
  }
  return "error";
}

// hclog's format of a time, in UTC.
std::string TimeText(std::uint64_t microseconds) {
  constexpr std::uint64_t kSecond = 1'000'000;
  const auto seconds = static_cast<std::time_t>(microseconds / kSecond);
  std::tm parts = {};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 24> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 12> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06u",
                static_cast<unsigned>(microseconds % kSecond));
  return std::string(date.data()) + fraction.data() + "Z";
}

}  // namespace

std::string HclogLine(LogLevel level, std::string_view module,
                      std::string_view message, const LogPairs& pairs,
                      std::uint64_t at) {
  nlohmann::ordered_json line;
  line["@level"] = NameOf(level);
  line["@message"] = std::string(message.substr(0, kMostMessage));
  line["@module"] = std::string(module.substr(0, kMostKey));
  line["@timestamp"] = TimeText(at);
  std::size_t count = 0;
  for (const auto& [key, value] : pairs) {
    // A host's library ends the host if one of its own keys is no string.
    if (!key.starts_with('@') && count < kMostPairs) {
      line[key.substr(0, kMostKey)] = value.substr(0, kMostValue);
      ++count;
    }
  }
  return line.dump(-1, ' ', true,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

// Opens the pipe of stderr again, because O_NONBLOCK on fd 2 itself would also
// affect each process that shares it. A socket cannot be opened again.
Hclog::Hclog(std::string module)
    : module_(std::move(module)),
      own_(::open("/proc/self/fd/2",
                  O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {}

void Hclog::Write(LogLevel level, std::string_view message,
                  const LogPairs& pairs) {
  std::string line =
      HclogLine(level, module_, message, pairs, NowMicroseconds());
  const std::lock_guard lock(mutex_);
  const int fd = own_.valid() ? own_.get() : STDERR_FILENO;
  if (cut_) {
    line.insert(0, "\n");
  }
  ssize_t wrote = -1;
  do {
    wrote = ::write(fd, line.data(), line.size());
  } while (wrote < 0 && errno == EINTR);
  // A pipe takes lines of at most PIPE_BUF bytes whole or not at all (pipe(7)).
  if (wrote > 0) {
    cut_ = static_cast<std::size_t>(wrote) < line.size();
  }
}

}  // namespace mountd::goplugin
