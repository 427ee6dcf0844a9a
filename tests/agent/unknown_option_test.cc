// SPDX-License-Identifier: LGPL-2.1-or-later
// The client knows mountd's refusal of an option by the words of the refusal.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "agent/client/connection.h"
#include "dbus/dict/error_name.h"
#include "dbus/dict/options.h"

namespace mountd::agent::test {
namespace {

// Returns what the client makes of the error of these options, of which mountd
// knows "noexec" alone.
CallFailure FailureOfOptions(const std::string& what,
                             const dbus::Dict& options) {
  dbus::OptionReader reader(what, options);
  reader.Get<bool>("noexec", false);
  const Result<void> read = reader.Finish();
  return FailureOfOwnCall(dbus::ToDbus(read.error()), "BindMount", "web");
}

TEST(UnknownOptions, AreKnownByTheWordsOfThisMountd) {
  for (const char* what : {"options", "mounts", "mounts[0]", "usage"}) {
    const CallFailure failure =
        FailureOfOptions(what, {{"newer", dbus::Value(true)}});
    EXPECT_EQ(failure.unknown_option, "newer") << what;
    EXPECT_EQ(failure.error.code, Code::kNotSupported) << what;
    EXPECT_NE(failure.error.detail.find("this mountd is older than its client"),
              std::string::npos)
        << failure.error.detail;
  }
}

TEST(UnknownOptions, AreNotThoseOfAWrongType) {
  const CallFailure failure =
      FailureOfOptions("options", {{"noexec", dbus::Value(std::uint32_t{1})}});
  EXPECT_EQ(failure.unknown_option, "");
  EXPECT_EQ(failure.error.code, Code::kInvalidArgument);
}

TEST(UnknownOptions, AreThoseOfMountdAlone) {
  const std::string text =
      "check options[\"newer\"]: is not an option of this method";
  const auto unknown_option = [](const char* name, const std::string& message) {
    return FailureOfOwnCall({sdbus::Error::Name(name), message}, "BindMount",
                            "web")
        .unknown_option;
  };
  constexpr char kInvalid[] = "org.mountd1.Error.InvalidArgument";
  EXPECT_EQ(unknown_option(kInvalid, text), "newer");
  EXPECT_EQ(unknown_option(kInvalid, "check options[\"newer\"]: is not known"),
            "newer")
      << "the words of 0.1.0";
  EXPECT_EQ(unknown_option("org.mountd1.Error.NotFound", text), "");
  EXPECT_EQ(unknown_option(kInvalid, "stage " + text), "");
  EXPECT_EQ(unknown_option(kInvalid, text + " "), "");
  EXPECT_EQ(unknown_option(kInvalid, "check \"]: is not known"), "");
}

}  // namespace
}  // namespace mountd::agent::test
