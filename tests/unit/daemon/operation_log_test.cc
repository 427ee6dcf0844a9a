// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The one line that each operation gets.
#include "mountd/daemon/operation_log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <sstream>

namespace mountd {
namespace {

using std::chrono::microseconds;

OperationSummary Summary() {
  OperationSummary summary;
  summary.id = "7.12";
  summary.method = "BindMount";
  summary.object = "allocation web";
  summary.uid = 1000;
  summary.duration = microseconds(1234);
  summary.rules = "8,11";
  return summary;
}

std::map<std::string, std::string> FieldsOf(const OperationSummary& summary) {
  std::map<std::string, std::string> fields;
  for (const std::string& field : JournalFieldsOf(summary)) {
    const std::size_t equals = field.find('=');
    EXPECT_TRUE(
        fields.emplace(field.substr(0, equals), field.substr(equals + 1))
            .second)
        << field;
  }
  return fields;
}

// What LogOperation writes where there is no journal, at this level.
std::string Logged(const OperationSummary& summary,
                   spdlog::level::level_enum level) {
  std::ostringstream out;
  const auto before = spdlog::default_logger();
  const auto logger = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger->set_level(level);
  logger->set_pattern("%l: %v");
  spdlog::set_default_logger(logger);
  LogOperation(summary);
  spdlog::set_default_logger(before);
  return out.str();
}

TEST(OperationLog, OneThatSucceededSaysWhoWhatHowLongAndByWhichRules) {
  const auto fields = FieldsOf(Summary());
  EXPECT_EQ(fields, (std::map<std::string, std::string>{
                        {"MESSAGE",
                         "BindMount allocation web uid=1000 id=7.12 us=1234 "
                         "rules=8,11 ok"},
                        {"MESSAGE_ID", "c1d4a86a5b7f4b0e9f5e3c0a7d2b6e48"},
                        {"PRIORITY", "6"},
                        {"MOUNTD_METHOD", "BindMount"},
                        {"MOUNTD_OBJECT", "allocation web"},
                        {"MOUNTD_ALLOCATION", "web"},
                        {"MOUNTD_OPERATION", "7.12"},
                        {"MOUNTD_UID", "1000"},
                        {"MOUNTD_DURATION_USEC", "1234"},
                        {"MOUNTD_RULES", "8,11"}}));
}

TEST(OperationLog, OneThatFailedSaysWhyAsAWarning) {
  const Error error =
      ErrnoError(EBUSY, "umount2", "web/server/data", "used by pid 7");
  OperationSummary summary = Summary();
  summary.error = &error;
  summary.rules.clear();
  const auto fields = FieldsOf(summary);
  EXPECT_EQ(fields.at("PRIORITY"), "4");
  EXPECT_EQ(fields.at("MOUNTD_ERROR"), "Busy");
  EXPECT_EQ(fields.at("ERRNO"), std::to_string(EBUSY));
  EXPECT_EQ(fields.at("MOUNTD_RULES"), "");
  EXPECT_EQ(fields.at("MESSAGE"),
            "BindMount allocation web uid=1000 id=7.12 us=1234 Busy: " +
                error.Message());
}

TEST(OperationLog, ItsObjectIsAnAllocationOrAPluginByItself) {
  OperationSummary summary = Summary();
  for (const char* object : {"plugin csi", "controller of csi"}) {
    summary.object = object;
    const auto fields = FieldsOf(summary);
    EXPECT_EQ(fields.at("MOUNTD_PLUGIN"), "csi");
    EXPECT_EQ(fields.at("MOUNTD_OBJECT"), object);
    EXPECT_FALSE(fields.contains("MOUNTD_ALLOCATION"));
  }
  for (const char* object : {"", "reload", "volume 1a2b", "allocations"}) {
    summary.object = object;
    const auto fields = FieldsOf(summary);
    EXPECT_FALSE(fields.contains("MOUNTD_PLUGIN")) << object;
    EXPECT_FALSE(fields.contains("MOUNTD_ALLOCATION")) << object;
  }
}

// What only looks is told to who debugs, unless it was refused.
TEST(OperationLog, HowLoudItIsGoesByWhatItDid) {
  const Error denied = MakeError(Code::kPermissionDenied, "use",
                                 "allocation web", "belongs to another user");
  OperationSummary summary = Summary();
  for (const char* method :
       {"GetAllocation", "ListOwed", "VerifyTask", "ValidateVolume"}) {
    summary.method = method;
    summary.error = nullptr;
    EXPECT_EQ(FieldsOf(summary).at("PRIORITY"), "7") << method;
    EXPECT_EQ(Logged(summary, spdlog::level::info), "") << method;
    EXPECT_TRUE(Logged(summary, spdlog::level::debug).starts_with("debug: "));
    summary.error = &denied;
    EXPECT_EQ(FieldsOf(summary).at("PRIORITY"), "4") << method;
    EXPECT_TRUE(Logged(summary, spdlog::level::info).starts_with("warning: "));
  }
  summary = Summary();
  EXPECT_EQ(Logged(summary, spdlog::level::info),
            "info: BindMount allocation web uid=1000 id=7.12 us=1234 "
            "rules=8,11 ok\n");
  EXPECT_EQ(Logged(summary, spdlog::level::warn), "");
}

// Whatever an error quotes is on the operation's one line.
TEST(OperationLog, ALineIsALine) {
  const Error error = MakeError(Code::kInternal, "NodeStageVolume", "web/data",
                                "broken\ninfo: BindMount of nobody\x1b[2J ok");
  OperationSummary summary = Summary();
  summary.error = &error;
  const std::string text = Logged(summary, spdlog::level::info);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  const auto fields = FieldsOf(summary);
  EXPECT_EQ(fields.at("MESSAGE").find('\n'), std::string::npos);
}

}  // namespace
}  // namespace mountd
