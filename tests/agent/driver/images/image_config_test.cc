// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/image_config.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/matchers.h"

namespace mountd::driver {
namespace {

Result<ImageConfig> Parse(const std::string& run) {
  return ParseImageConfig(R"({"os":"linux","config":)" + run + "}", "image");
}

TEST(ImageConfig, ReadsHowAnImageIsRun) {
  ASSERT_OK_AND_ASSIGN(const ImageConfig config,
                       Parse(R"({"Entrypoint":["/bin/web","-v"],"Cmd":["serve"],
                "Env":["PATH=/bin","EMPTY=","A=b=c"],"User":"www:www",
                "WorkingDir":"/srv","StopSignal":"SIGQUIT",
                "ExposedPorts":{"80/tcp":{}},"Labels":{"a":"b"}})"));
  const ImageConfig expected{
      {"/bin/web", "-v"}, {"serve"}, {"PATH=/bin", "EMPTY=", "A=b=c"},
      "www:www",          "/srv",    SIGQUIT};
  EXPECT_EQ(config, expected);
}

TEST(ImageConfig, TakesMissingAndNullMembers) {
  ASSERT_OK_AND_ASSIGN(
      const ImageConfig config,
      Parse(R"({"Entrypoint":null,"Cmd":null,"Env":null,"User":null})"));
  EXPECT_EQ(config, ImageConfig());
  ASSERT_OK_AND_ASSIGN(const ImageConfig none, ParseImageConfig("{}", "image"));
  EXPECT_EQ(none, ImageConfig());
}

TEST(ImageConfig, RefusesValuesThatNoProcessCanHave) {
  const std::string cases[] = {
      R"({"Entrypoint":"/bin/sh"})",
      R"({"Cmd":[1]})",
      R"({"Cmd":[null]})",
      R"({"Cmd":["a\u0000b"]})",
      R"({"Env":["NOVALUE"]})",
      R"({"Env":["=value"]})",
      R"({"User":7})",
      R"({"WorkingDir":"srv"})",
      R"({"StopSignal":"SIGNONE"})",
      R"({"StopSignal":"0"})",
      R"({"Cmd":[")" + std::string(200 << 10, 'a') + R"("]})",
      R"(["Cmd"])",
  };
  for (const std::string& text : cases) {
    EXPECT_THAT(Parse(text), IsErr(Code::kInvalidArgument))
        << text.substr(0, 60);
  }
}

TEST(ImageConfig, RefusesAnotherOperatingSystem) {
  EXPECT_THAT(ParseImageConfig(R"({"os":"windows"})", "image"),
              IsErrOf(Code::kNotSupported, "windows"));
}

TEST(ImageConfig, BoundsDepthValuesAndBytes) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THAT(Parse(deep), IsErrOf(Code::kInvalidArgument, "32 levels"));
  std::string many = "[0";
  for (int i = 0; i < 70000; ++i) {
    many += ",0";
  }
  EXPECT_THAT(Parse(many + "]"), IsErr(Code::kInvalidArgument));
  EXPECT_THAT(Parse("\"" + std::string(5 << 20, 'a') + "\""),
              IsErr(Code::kInvalidArgument));
  EXPECT_THAT(ParseImageConfig("{", "image"), IsErr(Code::kInvalidArgument));
  EXPECT_THAT(ParseImageConfig("7", "image"), IsErr(Code::kInvalidArgument));
}

TEST(ParseSignal, ReadsNamesAndNumbers) {
  struct Case {
    const char* text;
    int number;
  };
  const Case cases[] = {{"SIGTERM", SIGTERM},
                        {"TERM", SIGTERM},
                        {"9", 9},
                        {"64", 64},
                        {"SIGRTMIN", SIGRTMIN},
                        {"SIGRTMIN+3", SIGRTMIN + 3},
                        {"RTMAX-1", SIGRTMAX - 1}};
  for (const Case& one : cases) {
    ASSERT_OK_AND_ASSIGN(const int number, ParseSignal(one.text));
    EXPECT_EQ(number, one.number) << one.text;
  }
  for (const char* text :
       {"", "SIG", "0", "-1", "65", "sigterm", "SIGRTMIN-1", "SIGRTMAX+1",
        "SIGRTMIN+40", "SIGRTMIN+", "SIGRTMAX-99", "99999999999"}) {
    EXPECT_THAT(ParseSignal(text), IsErr(Code::kInvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace mountd::driver
