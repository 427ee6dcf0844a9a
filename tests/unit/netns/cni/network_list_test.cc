// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/network_list.h"

#include <gtest/gtest.h>

#include "tests/support/outcome.h"

namespace mountd::cni {
namespace {

using Names = std::vector<std::string>;

Result<NetworkList> Parse(const std::string& text) {
  return ParseNetworkList(text, "1.conflist");
}

TEST(CniNetworkListTest, AListIsRead) {
  const auto list = Parse(R"({"name": "net", "cniVersion": "1.0.0",
    "cniVersions": ["0.3.1", "0.4.0", "1.1.0", "9.0.0"],
    "disableCheck": true, "disableGC": "true", "loadOnlyInlinedPlugins": true,
    "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}},
                {"type": "portmap"}]})");
  ASSERT_EQ(MessageOf(list), "Ok");
  EXPECT_EQ(list->versions, (Names{"0.4.0", "1.0.0", "1.1.0"}));
  EXPECT_EQ(list->Version(), "1.1.0");
  EXPECT_TRUE(list->disable_check);
  EXPECT_TRUE(list->disable_gc);
  EXPECT_TRUE(list->only_inlined_plugins);
  ASSERT_EQ(list->plugins.size(), 2U);
  EXPECT_EQ(IpamTypeOf(list->plugins[0]), "host-local");
  EXPECT_EQ(TypeOf(list->plugins[1]), "portmap");
}

TEST(CniNetworkListTest, ASinglePluginIsAListOfOne) {
  const auto list =
      Parse(R"({"name": "net", "cniVersion": "0.4.0", "type": "macvlan"})");
  ASSERT_EQ(MessageOf(list), "Ok");
  ASSERT_EQ(list->plugins.size(), 1U);
  EXPECT_EQ(TypeOf(list->plugins[0]), "macvlan");
  EXPECT_TRUE(list->only_inlined_plugins);
}

TEST(CniNetworkListTest, ItIsKeptAsItIs) {
  const auto list = Parse(R"({"name": "net", "cniVersion": "0.4.0",
    "disableCheck": true, "plugins": [{"type": "a", "x": [1.5, null]}]})");
  ASSERT_EQ(MessageOf(list), "Ok");
  const auto again = FromJson(ToJson(*list), "record");
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(ToJson(*again), ToJson(*list));
}

TEST(CniNetworkListTest, WhatIsWrongIsRefused) {
  for (
      const char* text : {
          "",
          "[]",
          "{}",
          R"({"name":"net","cniVersion":"1.0.0","plugins":[{}]})",
          R"({"name":"a/b","cniVersion":"1.0.0","type":"x"})",
          R"({"cniVersion":"1.0.0","type":"x"})",
          R"({"name":"net","cniVersion":"1.0.0","type":"../x"})",
          R"({"name":"net","cniVersion":"1.0.0","plugins":[{"type":"/bin/sh"}]})",
          R"({"name":"net","cniVersion":"1.0.0","plugins":[{"type":"a","ipam":{"type":"../b"}}]})",
          R"({"name":"net","cniVersion":"1.0.0","plugins":[{"type":"a","capabilities":[]}]})",
          R"({"name":"net","cniVersion":"1.0.0","plugins":{"type":"a"}})",
          R"({"name":"net","cniVersion":"1.0.0","disableCheck":1,"type":"x"})",
          R"({"name":"net","cniVersion":"1.0.0","plugins":[],"loadOnlyInlinedPlugins":true})",
      }) {
    EXPECT_EQ(Outcome(Parse(text)), "InvalidArgument") << text;
  }
  for (const char* text :
       {R"({"name":"net","type":"x"})",
        R"({"name":"net","cniVersion":"0.3.1","type":"x"})",
        R"({"name":"net","cniVersion":"2.0.0","type":"x"})"}) {
    EXPECT_EQ(Outcome(Parse(text)), "NotSupported") << text;
  }
}

}  // namespace
}  // namespace mountd::cni
