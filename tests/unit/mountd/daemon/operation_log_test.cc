// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Each operation gets exactly one line in the log, and each named call that
// joined it one more.
#include "mountd/daemon/operation_log.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "tests/support/naive.h"
#include "tests/unit/mountd/daemon/logged.h"

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

std::string LinesOf(const OperationSummary& summary,
                    spdlog::level::level_enum level) {
  return Logged([&] { OperationLog().Log(summary); }, level);
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

TEST(OperationLog, ItHasTheCallersNames) {
  OperationSummary summary = Summary();
  summary.trace = std::make_shared<OperationTrace>(
      CallTrace{ParseTraceParent(
                    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
                "r1"},
      OperationTrace::Clock::now());
  const auto fields = FieldsOf(summary);
  EXPECT_EQ(fields.at("MOUNTD_TRACE_ID"), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(fields.at("MOUNTD_REQUEST_ID"), "r1");
  EXPECT_EQ(fields.at("MESSAGE"),
            "BindMount allocation web uid=1000 id=7.12 us=1234 rules=8,11 "
            "trace_id=0af7651916cd43dd8448eb211c80319c request_id=r1 ok");
}

// The calls that joined have a line each, with the operation's id and their own
// names.
TEST(OperationLog, EachNamedCallThatJoinedHasALine) {
  OperationSummary summary = Summary();
  summary.joined = {{std::nullopt, "r2"},
                    {ParseTraceParent("00-0af7651916cd43dd8448eb211c80319c-"
                                      "b7ad6b7169203331-01"),
                     ""}};
  EXPECT_EQ(LinesOf(summary, spdlog::level::info),
            "info: BindMount allocation web uid=1000 id=7.12 us=1234 "
            "rules=8,11 ok\n"
            "info: BindMount allocation web uid=1000 id=7.12 us=1234 "
            "rules=8,11 joined request_id=r2 ok\n"
            "info: BindMount allocation web uid=1000 id=7.12 us=1234 "
            "rules=8,11 joined trace_id=0af7651916cd43dd8448eb211c80319c ok\n");
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

// A call that only reads is logged at the level debug, unless it was refused.
TEST(OperationLog, HowLoudItIsGoesByWhatItDid) {
  const Error denied = MakeError(Code::kPermissionDenied, "use",
                                 "allocation web", "belongs to another user");
  OperationSummary summary = Summary();
  for (const char* method :
       {"GetAllocation", "ListOwed", "VerifyTask", "ValidateVolume"}) {
    summary.method = method;
    summary.error = nullptr;
    EXPECT_EQ(FieldsOf(summary).at("PRIORITY"), "7") << method;
    EXPECT_EQ(LinesOf(summary, spdlog::level::info), "") << method;
    EXPECT_TRUE(LinesOf(summary, spdlog::level::debug).starts_with("debug: "));
    summary.error = &denied;
    EXPECT_EQ(FieldsOf(summary).at("PRIORITY"), "4") << method;
    EXPECT_TRUE(LinesOf(summary, spdlog::level::info).starts_with("warning: "));
  }
  summary = Summary();
  EXPECT_EQ(LinesOf(summary, spdlog::level::info),
            "info: BindMount allocation web uid=1000 id=7.12 us=1234 "
            "rules=8,11 ok\n");
  EXPECT_EQ(LinesOf(summary, spdlog::level::warn), "");
}

TEST(OperationLog, AnAdministratorsReadOfOthersIsToldAndSaysWhose) {
  OperationSummary summary = Summary();
  summary.method = "GetAllocation";
  summary.others = "1001,1002";
  EXPECT_EQ(LinesOf(summary, spdlog::level::info),
            "info: GetAllocation allocation web uid=1000 id=7.12 us=1234 "
            "rules=8,11 others=1001,1002 ok\n");
  const auto fields = FieldsOf(summary);
  EXPECT_EQ(fields.at("PRIORITY"), "6");
  EXPECT_EQ(fields.at("MOUNTD_OTHERS"), "1001,1002");
}

// Such a line has no operation, and its text is the peer's.
TEST(OperationLog, ACallThatIsNoOperationHasALineToo) {
  const Error error =
      MakeError(Code::kInvalidArgument, "check",
                "options[\"x\ninfo: all is well\"]", "is unknown");
  OperationSummary summary;
  summary.method = "BindMount";
  summary.object = "undecodable";
  summary.uid = 1000;
  summary.pid = 77;
  summary.error = &error;
  EXPECT_EQ(LinesOf(summary, spdlog::level::info),
            "warning: BindMount undecodable uid=1000 pid=77 InvalidArgument: "
            "check options[\"x?info: all is well\"]: is unknown\n");
  EXPECT_EQ(FieldsOf(summary).at("MOUNTD_PID"), "77");
}

// The reads of an administrator who looks all the time are bounded, and take
// no line from the operations that change something.
TEST(OperationLog, AnAdministratorsReadsHaveABudgetOfTheirOwn) {
  OperationSummary reads = Summary();
  reads.method = "ListAllocations";
  reads.others = "1001";
  OperationSummary objects = reads;
  objects.method = "Introspect";
  OperationLog operations;
  LogBudget::Clock::time_point now{};
  const std::string text = Logged(
      [&] {
        for (int i = 0; i < 500; ++i) {
          operations.Log(reads, now);
          operations.Log(objects, now);
        }
        operations.Log(Summary(), now);
        now += std::chrono::seconds(1);
        operations.Log(reads, now);
      },
      spdlog::level::info);
  EXPECT_NE(text.find("BindMount allocation web uid=1000"), std::string::npos);
  EXPECT_NE(
      text.find("uid 1000: mountd left out 900 lines of reading operations"),
      std::string::npos)
      << text;
}

// A text that an error quotes stays on the operation's one line.
TEST(OperationLog, ALineIsALine) {
  const Error error = MakeError(Code::kInternal, "NodeStageVolume", "web/data",
                                "broken\ninfo: BindMount of nobody\x1b[2J ok");
  OperationSummary summary = Summary();
  summary.error = &error;
  const std::string text = LinesOf(summary, spdlog::level::info);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  const auto fields = FieldsOf(summary);
  EXPECT_EQ(fields.at("MESSAGE").find('\n'), std::string::npos);
}

// The formatter also protects messages that nobody has thought of. The naive
// pattern, which mountd once had, makes two lines of this message, and the
// journal reads the second line as a message to everybody's terminal.
TEST(OperationLog, NoMessageIsTwoLines) {
  const auto log = [] {
    spdlog::warn("restore: volume {} of plugin {}: {}",
                 "v\n<0>mountd: all is lost\xE2\x80\xA8\xC2\x85", "p", "gone");
  };
  const std::string text = Logged(log, spdlog::level::info);
  EXPECT_EQ(text,
            "warning: restore: volume v?<0>mountd: all is lost?? of plugin p: "
            "gone\n");
  std::ostringstream out;
  spdlog::logger naive("naive",
                       std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  naive.set_pattern("%l: %v");
  naive.warn("restore: volume {}", "v\n<0>mountd: all is lost");
  EXPECT_NAIVE(out.str().find("\n<0>mountd") != std::string::npos);
}

TEST(OperationLog, WhoIsRefusedTooOftenIsLeftOut) {
  const Error denied = MakeError(Code::kPermissionDenied, "use",
                                 "allocation web", "belongs to another user");
  OperationSummary attackers = Summary();
  attackers.error = &denied;
  OperationSummary others = attackers;
  others.uid = 1001;
  OperationLog operations;
  LogBudget::Clock::time_point now{};
  const std::string text = Logged(
      [&] {
        for (int i = 0; i < 20'000; ++i) {
          operations.Log(attackers, now);
        }
        operations.Log(others, now);
        operations.Log(Summary(), now);  // counts against another budget
        now += std::chrono::seconds(1);
        operations.Log(attackers, now);
      },
      spdlog::level::info);
  const auto count = [&text](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos;
         at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("uid=1000 id=7.12 us=1234 rules=8,11 PermissionDenied"),
            101U);
  EXPECT_EQ(count("uid=1001"), 1U);
  EXPECT_EQ(count("rules=8,11 ok"), 1U);
  EXPECT_EQ(count("uid 1000: too many failed operations"), 1U);
  EXPECT_EQ(count("uid 1000: mountd left out 19900 lines of failed operations"),
            1U);
}

}  // namespace
}  // namespace mountd
