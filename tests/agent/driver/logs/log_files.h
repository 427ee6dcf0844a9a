// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "agent/driver/logs/log_reader.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {

// Owns the log files of the task "web", and a reader of one stream.
class LogFilesTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kNow{0};

  std::string Path(int number, const std::string& stream = "stdout") const {
    return directory_.File("web." + stream + "." + std::to_string(number));
  }
  void Write(int number, const std::string& text) const {
    std::ofstream(Path(number), std::ios::app) << text;
  }
  void Remove(int number) const { std::filesystem::remove(Path(number)); }

  LogRequest Request() const {
    LogRequest request;
    request.config.max_file_bytes = 10;
    request.directories.logs = directory_.File("");
    request.directories.logs.pop_back();
    request.task = "web";
    request.task_id = "alloc/web/0123abcd";
    return request;
  }
  void Open(const LogRequest& request) {
    auto reader = OpenLog(request);
    ASSERT_TRUE(reader) << reader.error().Message();
    reader_ = std::move(*reader);
  }
  void Follow(std::optional<std::uint64_t> tail_lines = std::nullopt) {
    LogRequest request = Request();
    request.follow = true;
    request.tail_lines = tail_lines;
    Open(request);
  }

  // Returns what the reader has now.
  std::string Now() {
    std::string all;
    for (;;) {
      const auto bytes = reader_->Read(kNow);
      EXPECT_TRUE(bytes) << bytes.error().Message();
      has_ended_ = !bytes || !*bytes;
      if (has_ended_ || (*bytes)->empty()) {
        return all;
      }
      EXPECT_LE((*bytes)->size(), LogReader::kMostBytes);
      all += **bytes;
    }
  }
  std::string Tail(std::uint64_t lines) {
    LogRequest request = Request();
    request.tail_lines = lines;
    Open(request);
    return Now();
  }
  std::string All() {
    Open(Request());
    return Now();
  }
  Code Refusal(const LogRequest& request) const {
    const auto reader = OpenLog(request);
    EXPECT_FALSE(reader);
    return reader ? Code::kInternal : reader.error().code;
  }

  const TempDirectory directory_;
  std::unique_ptr<LogReader> reader_;
  bool has_ended_ = false;
};

}  // namespace mountd::driver
