// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/image_reference.h"

#include <gtest/gtest.h>

#include "tests/support/matchers.h"

namespace mountd::driver {
namespace {

using Kind = ImageReference::Kind;

TEST(ImageReference, ReadsEachForm) {
  struct Case {
    const char* text;
    ImageReference reference;
  };
  const Case cases[] = {
      {"/srv/root", {Kind::kDirectory, "/srv/root", ""}},
      {"dir:/srv/root", {Kind::kDirectory, "/srv/root", ""}},
      {"/srv/a:b", {Kind::kDirectory, "/srv/a:b", ""}},
      {"oci:/srv/layout", {Kind::kOci, "/srv/layout", ""}},
      {"oci:/srv/layout:v1", {Kind::kOci, "/srv/layout", "v1"}},
      {"oci-archive:/a.tar:v1", {Kind::kOciArchive, "/a.tar", "v1"}},
      {"docker-archive:/a.tar:example/web:1.2",
       {Kind::kDockerArchive, "/a.tar", "example/web:1.2"}},
  };
  for (const Case& one : cases) {
    ASSERT_OK_AND_ASSIGN(const ImageReference read,
                         ParseImageReference(one.text));
    EXPECT_EQ(read, one.reference) << one.text;
  }
}

TEST(ImageReference, RefusesEverythingElse) {
  const std::string cases[] = {
      "",
      "web",
      "web:latest",
      "docker://example/web",
      "containers-storage:web",
      "oci:",
      "oci:layout",
      "oci:/",
      "oci:/a/../b",
      "oci:/a//b",
      "oci:/a/",
      "oci:/a:",
      "oci:/a:-x",
      "oci:/a:@0",
      "docker-archive:/a.tar:@0",
      "oci:/a:x y",
      "dir:srv",
      "/srv/../etc",
      "/",
      "oci:/a\n",
      std::string("oci:/a\0b", 8),
      "oci:/" + std::string(5000, 'a'),
      "oci:/a:" + std::string(400, 'a'),
  };
  for (const std::string& text : cases) {
    EXPECT_THAT(ParseImageReference(text),
                IsErrOf(Code::kInvalidArgument, "parse image"))
        << text;
  }
}

TEST(ImageReference, GivesTheFormThatSkopeoReads) {
  ASSERT_OK_AND_ASSIGN(const ImageReference read,
                       ParseImageReference("docker-archive:/a.tar:web:1"));
  EXPECT_EQ(read.ToText(), "docker-archive:/a.tar:web:1");
}

}  // namespace
}  // namespace mountd::driver
