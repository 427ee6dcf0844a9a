// SPDX-License-Identifier: LGPL-2.1-or-later
// Spans as OTLP/JSON, to a file and to a collector's socket.
#include "agent/mountctl/output/otlp.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "agent/mountctl/commands/span_export.h"
#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent {
namespace {

OperationStatus Traced() {
  OperationStatus operation;
  operation.id = "7.12";
  operation.method = "BindMount";
  operation.object = "allocation web";
  operation.uid = 1000;
  operation.traceparent =
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  operation.request_id = "r1";
  operation.span_id = "00f067aa0ba902b7";
  operation.spans = {
      {"BindMount", "server", "00f067aa0ba902b7", "b7ad6b7169203331",
       1'700'000'000'000'000'000, 1'700'000'000'000'500'000, ""},
      {"Attach", "client", "00f067aa0ba902b8", "00f067aa0ba902b7",
       1'700'000'000'000'100'000, 1'700'000'000'000'400'000, "Busy"}};
  return operation;
}

// OTLP's protocol: ids in lower-case hex, enumerations as numbers, and 64-bit
// numbers as strings.
constexpr char kTraced[] =
    R"({"resourceSpans":[{"resource":{"attributes":[{"key":"service.name",)"
    R"("value":{"stringValue":"mountd"}}]},"scopeSpans":[{"scope":)"
    R"({"name":"mountd"},"spans":[{"traceId":)"
    R"("0af7651916cd43dd8448eb211c80319c","spanId":"00f067aa0ba902b7",)"
    R"("parentSpanId":"b7ad6b7169203331","flags":1,"name":"BindMount",)"
    R"("kind":2,"startTimeUnixNano":"1700000000000000000",)"
    R"("endTimeUnixNano":"1700000000000500000","attributes":)"
    R"([{"key":"mountd.operation","value":{"stringValue":"7.12"}},)"
    R"({"key":"mountd.object","value":{"stringValue":"allocation web"}},)"
    R"({"key":"mountd.request_id","value":{"stringValue":"r1"}},)"
    R"({"key":"mountd.uid","value":{"intValue":"1000"}}]},)"
    R"({"traceId":"0af7651916cd43dd8448eb211c80319c",)"
    R"("spanId":"00f067aa0ba902b8","parentSpanId":"00f067aa0ba902b7",)"
    R"("flags":1,"name":"Attach","kind":3,)"
    R"("startTimeUnixNano":"1700000000000100000",)"
    R"("endTimeUnixNano":"1700000000000400000",)"
    R"("status":{"message":"Busy","code":2}}]}]}]})";

TEST(Otlp, SpansAreInTheMappingOfTheProtocol) {
  EXPECT_EQ(Dump(ToOtlp(Traced()), -1), kTraced);
}

TEST(Otlp, AnOperationWithoutSpansIsNothing) {
  OperationStatus operation = Traced();
  operation.spans.clear();
  EXPECT_TRUE(ToOtlp(operation).is_null());
  operation = Traced();
  operation.traceparent = "";
  EXPECT_TRUE(ToOtlp(operation).is_null());
}

// Whatever a daemon says stays one string on one line.
TEST(Otlp, TextsAreEscaped) {
  OperationStatus operation = Traced();
  operation.object = "a\"}\n{\x1b\xff";
  operation.spans[1].error = "\"},{\"";
  const std::string text = Dump(ToOtlp(operation), -1);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Json again = Json::parse(text, nullptr, false);
  ASSERT_FALSE(again.is_discarded());
  const Json& spans = again["resourceSpans"][0]["scopeSpans"][0]["spans"];
  EXPECT_EQ(spans[0]["attributes"][1]["value"]["stringValue"],
            "a\"}\n{\x1b\xef\xbf\xbd");
  EXPECT_EQ(spans[1]["status"]["message"], "\"},{\"");
}

class SpanExporterTest : public ::testing::Test {
 protected:
  // Makes a collector's socket, which nobody answers on yet.
  UniqueFd Listen() {
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address),
                     sizeof(address)),
              0);
    EXPECT_EQ(::listen(listener.get(), 8), 0);
    return listener;
  }
  // Takes one request and answers it. Returns the request.
  static std::string Answer(const UniqueFd& listener, const char* answer) {
    const UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
    std::string text;
    std::array<char, 4096> buffer{};
    while (!IsComplete(text)) {
      const ssize_t got = ::read(peer.get(), buffer.data(), buffer.size());
      if (got <= 0) {
        break;
      }
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    EXPECT_GT(::send(peer.get(), answer, std::strlen(answer), MSG_NOSIGNAL), 0);
    return text;
  }
  static bool IsComplete(const std::string& text) {
    const std::size_t head = text.find("\r\n\r\n");
    return head != std::string::npos &&
           text.size() >= head + 4 + std::strlen(kTraced);
  }

  TempDirectory directory_;
  std::string path_ = directory_.File("spans");
};

TEST_F(SpanExporterTest, AFileGetsALineForEachOperation) {
  for (int run = 0; run < 2; ++run) {
    Result<SpanExporter> exporter = SpanExporter::To(path_);
    ASSERT_EQ(MessageOf(exporter), "Ok");
    EXPECT_EQ(MessageOf(exporter->Export(Traced())), "Ok");
    EXPECT_EQ(MessageOf(exporter->Export(OperationStatus())), "Ok");
  }
  std::stringstream text;
  text << std::ifstream(path_).rdbuf();
  EXPECT_EQ(text.str(), std::string(kTraced) + "\n" + kTraced + "\n");
}

TEST_F(SpanExporterTest, WhatIsNotSampledIsExportedWhenToldSo) {
  OperationStatus operation = Traced();
  operation.traceparent.back() = '0';
  for (const bool unsampled : {false, true}) {
    Result<SpanExporter> exporter = SpanExporter::To(path_, unsampled);
    ASSERT_EQ(MessageOf(exporter), "Ok");
    EXPECT_EQ(MessageOf(exporter->Export(operation)), "Ok");
    std::string line;
    EXPECT_EQ(static_cast<bool>(std::getline(std::ifstream(path_), line)),
              unsampled);
  }
}

TEST_F(SpanExporterTest, ACollectorGetsAnHttpRequest) {
  const UniqueFd listener = Listen();
  std::string request;
  std::thread collector([&] {
    request =
        Answer(listener, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
  });
  Result<SpanExporter> exporter = SpanExporter::To(path_);
  ASSERT_EQ(MessageOf(exporter), "Ok");
  EXPECT_EQ(MessageOf(exporter->Export(Traced())), "Ok");
  collector.join();
  EXPECT_EQ(request,
            "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Type: application/json\r\nContent-Length: " +
                std::to_string(std::strlen(kTraced)) +
                "\r\nConnection: close\r\n\r\n" + kTraced);
  EXPECT_EQ(exporter->lost(), 0U);
}

TEST_F(SpanExporterTest, ARefusalLosesSpansAndIsNoError) {
  const UniqueFd listener = Listen();
  std::thread collector(
      [&] { Answer(listener, "HTTP/1.1 503 Busy\x1b[2J\r\n\r\n"); });
  Result<SpanExporter> exporter = SpanExporter::To(path_);
  ASSERT_EQ(MessageOf(exporter), "Ok");
  EXPECT_EQ(MessageOf(exporter->Export(Traced())), "Ok");
  collector.join();
  EXPECT_EQ(exporter->lost(), 2U);
  // Nobody accepts this one, and the exporter does not try.
  EXPECT_EQ(MessageOf(exporter->Export(Traced())), "Ok");
  EXPECT_EQ(exporter->lost(), 4U);
}

// A naive exporter reads until the collector answers.
TEST_F(SpanExporterTest, ACollectorThatHangsCostsAMomentOnce) {
  const UniqueFd listener = Listen();
  Result<SpanExporter> exporter = SpanExporter::To(path_);
  ASSERT_EQ(MessageOf(exporter), "Ok");
  const auto start = SpanExporter::Clock::now();
  EXPECT_EQ(MessageOf(exporter->Export(Traced())), "Ok");
  EXPECT_GE(SpanExporter::Clock::now() - start, SpanExporter::kPatience);
  EXPECT_EQ(exporter->lost(), 2U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(MessageOf(exporter->Export(Traced())), "Ok");
  }
  EXPECT_EQ(exporter->lost(), 202U);
}

TEST_F(SpanExporterTest, WhereThereIsNoDirectoryIsAnError) {
  EXPECT_EQ(Outcome(SpanExporter::To(path_ + "/no/file")), "NotFound");
}

}  // namespace
}  // namespace mountd::agent
