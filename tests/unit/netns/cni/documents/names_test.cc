// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/names.h"

#include <gtest/gtest.h>

namespace mountd::cni {
namespace {

TEST(CniNamesTest, AContainerIdIsTheSpecifications) {
  for (const char* id : {"web", "0", "a.b_c-d", "f00..x"}) {
    EXPECT_TRUE(IsContainerId(id)) << id;
  }
  for (const char* id : {"", ".", "..", ".a", "-a", "_a", "a/b", "a b", "a@b",
                         "a\n", "\xc3\xa9"}) {
    EXPECT_FALSE(IsContainerId(id)) << id;
  }
  EXPECT_TRUE(IsContainerId(std::string(128, 'a')));
  EXPECT_FALSE(IsContainerId(std::string(129, 'a')));
}

TEST(CniNamesTest, AnInterfaceNameIsTheKernels) {
  for (const char* name : {"eth0", "a", ".a", "fifteen-bytes--"}) {
    EXPECT_TRUE(IsInterfaceName(name)) << name;
  }
  for (const char* name :
       {"", ".", "..", "eth0:1", "a/b", "a b", "sixteen-bytes---"}) {
    EXPECT_FALSE(IsInterfaceName(name)) << name;
  }
}

TEST(CniNamesTest, PlainTextHasNoControlCharacters) {
  for (const char* text : {"", "a b", "\xc3\xa9", "\xc2\xa0", "\xe2\x82\xac"}) {
    EXPECT_TRUE(IsPlainText(text)) << text;
  }
  for (const char* text : {"\n", "a\x1b", "\x7f", "\xc2\x80", "a\xc2\x9bm",
                           "\xc2\xa0\xc2\x85", "\xff", "\xc2"}) {
    EXPECT_FALSE(IsPlainText(text)) << text;
  }
  EXPECT_FALSE(IsPlainText(std::string_view("a\0b", 3)));
}

TEST(CniNamesTest, APluginIsNoPath) {
  EXPECT_TRUE(IsPluginType("host-local"));
  for (const char* type : {"", ".", "..", "../sh", "/bin/sh", "a:b"}) {
    EXPECT_FALSE(IsPluginType(type)) << type;
  }
}

TEST(CniNamesTest, AnArgumentCannotBecomeTwo) {
  EXPECT_TRUE(IsArgumentKey("NOMAD_JOB_ID"));
  EXPECT_FALSE(IsArgumentKey("A=B"));
  EXPECT_TRUE(IsArgumentValue(""));
  EXPECT_TRUE(IsArgumentValue("a job, \"quoted\" \xc3\xa9"));
  for (const char* value : {"a;b", "a=b", "a\nb", "\x7f", "\xff"}) {
    EXPECT_FALSE(IsArgumentValue(value)) << value;
  }
  EXPECT_FALSE(IsArgumentValue(std::string(5000, 'a')));
  EXPECT_FALSE(IsArgumentValue(std::string("a\0b", 3)));
}

TEST(CniNamesTest, AMacIsSixBytes) {
  EXPECT_TRUE(IsMac("02:4D:0a:00:00:01"));
  for (const char* mac : {"", "02:4d:0a:00:00", "02-4d-0a-00-00-01",
                          "02:4d:0a:00:00:0g", "024:d:0a:00:00:01"}) {
    EXPECT_FALSE(IsMac(mac)) << mac;
  }
}

TEST(CniNamesTest, TextForPeopleIsScrubbedAndCut) {
  EXPECT_EQ(Scrubbed("\n a\t\x1b[1m b\xc3\xa9\n\n"), "a [1m b??");
  EXPECT_EQ(Scrubbed("abc", 2), "ab");
  EXPECT_EQ(Scrubbed(std::string(1000, 'x')).size(), 200U);
}

}  // namespace
}  // namespace mountd::cni
