// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Files of others with bytes changed, moved and missing are refused or
// accepted, and do nothing else. The sanitizers show what does more.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "netns/cni/documents/plugin_error.h"
#include "netns/cni/documents/plugin_result.h"
#include "netns/cni/documents/request.h"
#include "netns/cni/network_list.h"
#include "netns/cni/record.h"

namespace mountd::cni {
namespace {

constexpr char kRequest[] = R"({"network":"net","container_id":"web",
  "ifname":"eth0","args":{"A":"1"},"port_mappings":[{"hostPort":8080,
  "containerPort":80,"protocol":"tcp","hostIP":"fd00::1"}],"dns":{"servers":
  ["10.0.0.1"]},"bandwidth":{"ingressRate":1},"ips":["10.0.0.5/24"],
  "mac":"02:00:00:00:00:01","valid":[{"container_id":"a","ifname":"b"}]})";

constexpr char kList[] = R"({"name":"net","cniVersion":"1.0.0","cniVersions":
  ["1.1.0"],"disableCheck":true,"loadOnlyInlinedPlugins":false,"plugins":[
  {"type":"bridge","ipam":{"type":"host-local"},"capabilities":{"ips":true}}]})";

constexpr char kResult[] = R"({"cniVersion":"1.0.0","interfaces":[{"name":
  "eth0","mac":"02:00:00:00:00:01","sandbox":"/run/netns/web","mtu":1500}],
  "ips":[{"address":"10.0.0.2/24","gateway":"10.0.0.1","interface":0}],
  "routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"}],"dns":{"nameservers":["::1"]},
  "code":11,"msg":"later","details":"why"})";

class Mutator {
 public:
  std::string Of(std::string text) {
    for (std::size_t left = 1 + Below(4); left > 0 && !text.empty(); --left) {
      const std::size_t at = Below(text.size());
      switch (Below(4)) {
        case 0:
          text[at] = static_cast<char>(Below(256));
          break;
        case 1:
          text.erase(at, 1 + Below(8));
          break;
        case 2:
          text.insert(at, text.substr(Below(text.size()), Below(24)));
          break;
        default:
          std::swap(text[at], text[Below(text.size())]);
      }
    }
    return text;
  }

 private:
  std::size_t Below(std::size_t limit) { return random_() % limit; }

  std::mt19937_64 random_{1};
};

void ReadAll(const std::string& text) {
  IgnoreBecauseBestEffort(ParseRequest(text));
  const auto list = ParseNetworkList(text, "file");
  if (list) {
    IgnoreBecauseBestEffort(FromJson(ToJson(*list), "again"));
  }
  const auto json = ParseObject(text, kOutputBounds, "text");
  if (!json) {
    return;
  }
  ReadPluginError(*json, "ADD", "plugin");
  IgnoreBecauseBestEffort(ReadRecord(*json, {"web", "eth0"}));
  const auto result = ReadPluginResult(*json, "1.0.0");
  if (result) {
    IgnoreBecauseBestEffort(StatusOf(*result, "eth0"));
    EXPECT_FALSE(ToText(ToJson(*result)).empty());
  }
}

TEST(CniMutationsTest, AnythingCanBeRead) {
  Record record;
  record.list = *ParseNetworkList(kList, "file");
  record.attachment = {"web", "eth0"};
  record.result = Json::parse(kResult);
  const std::string kept = ToText(ToJson(record));
  Mutator mutator;
  for (int i = 0; i < 3000; ++i) {
    for (const std::string& text : {std::string(kRequest), std::string(kList),
                                    std::string(kResult), kept}) {
      ReadAll(mutator.Of(text));
    }
  }
}

}  // namespace
}  // namespace mountd::cni
