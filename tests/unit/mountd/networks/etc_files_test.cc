// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/etc_files.h"

#include <gtest/gtest.h>

#include "tests/support/fakes/core.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

NetworkFiles Everything() {
  NetworkFiles files;
  files.hostname = "web-1.example";
  files.hosts = {{"192.0.2.7", {"db", "db.example"}}, {"fd00::7", {"db6"}}};
  files.dns.servers = {"192.0.2.53", "fd00::53"};
  files.dns.searches = {"example.", "service.consul"};
  files.dns.options = {"ndots:2", "edns0"};
  return files;
}

std::string Checked(const NetworkFiles& files) {
  return Outcome(CheckNetworkFiles(files));
}

TEST(NetworkFilesTest, TextsAreThoseOfTheManualPages) {
  const NetworkFiles files = Everything();
  ASSERT_EQ(Checked(files), "Ok");
  const auto texts =
      TextsOf(files, {10, 0, 0, 2}, *netns::ParseIpv6("fd00::2"));
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(texts[0].text, "web-1.example\n");
  EXPECT_EQ(texts[0].task_path, "/etc/hostname");
  EXPECT_EQ(texts[1].text,
            "127.0.0.1 localhost\n"
            "::1 localhost ip6-localhost ip6-loopback\n"
            "10.0.0.2 web-1.example\n"
            "fd00::2 web-1.example\n"
            "192.0.2.7 db db.example\n"
            "fd00::7 db6\n");
  EXPECT_EQ(texts[2].text,
            "nameserver 192.0.2.53\nnameserver fd00::53\n"
            "search example. service.consul\noptions ndots:2 edns0\n");
  EXPECT_EQ(texts[2].task_path, "/etc/resolv.conf");
}

TEST(NetworkFilesTest, WhatIsNotAskedForIsNotMade) {
  EXPECT_TRUE(TextsOf({}, {10, 0, 0, 2}, {}).empty());
  NetworkFiles dns;
  dns.dns.servers = {"192.0.2.53"};
  EXPECT_EQ(TextsOf(dns, {10, 0, 0, 2}, {}).size(), 1U);
  NetworkFiles named;
  named.hostname = "web";
  const auto texts = TextsOf(named, {10, 0, 0, 2}, {});
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[1].text.find("fd00"), std::string::npos);
}

TEST(NetworkFilesTest, NothingEndsALineOrAWord) {
  for (const char* name :
       {"a b", "a\nb", "-a", "a-", "a..b", ".", "", "a.", "ä", "a#b", "a\tb"}) {
    NetworkFiles files;
    files.hostname = name;
    if (*name != '\0') {
      EXPECT_EQ(Checked(files), "InvalidArgument") << name;
    }
    files = {};
    files.hosts = {{"192.0.2.1", {name}}};
    EXPECT_EQ(Checked(files), "InvalidArgument") << name;
  }
  for (const char* text : {"", "192.0.2.1 evil", "1.2.3.4\n", "localhost"}) {
    NetworkFiles files;
    files.dns.servers = {text};
    EXPECT_EQ(Checked(files), "InvalidArgument") << text;
    files = {};
    files.hosts = {{text, {"db"}}};
    EXPECT_EQ(Checked(files), "InvalidArgument") << text;
  }
  for (const char* text : {"", "a b", "ndots:2\nnameserver", "a#", "a;"}) {
    NetworkFiles files;
    files.dns.options = {text};
    EXPECT_EQ(Checked(files), "InvalidArgument") << text;
    files = {};
    files.dns.searches = {text};
    EXPECT_EQ(Checked(files), "InvalidArgument") << text;
  }
}

TEST(NetworkFilesTest, BoundsAreKept) {
  NetworkFiles files;
  files.hostname = std::string(63, 'a') + "." + std::string(63, 'b');
  EXPECT_EQ(Checked(files), "Ok");
  files.hostname = std::string(64, 'a');
  EXPECT_EQ(Checked(files), "InvalidArgument");
  files = {};
  files.dns.servers.assign(17, "192.0.2.1");
  EXPECT_EQ(Checked(files), "ResourceExhausted");
  files = {};
  files.hosts.assign(257, {"192.0.2.1", {"a"}});
  EXPECT_EQ(Checked(files), "ResourceExhausted");
}

TEST(NetworkFilesTest, TheyAreMadeWithTheNetworkAndGoWithIt) {
  Config config = Core::DefaultConfig();
  config.networks["second"].ipv4 = {*netns::ParseIpv4Range("10.1.0.0/29")};
  Core core(config);
  NetworkRequest spec;
  spec.files = Everything();
  const auto made = core.networks->Setup("web", spec, {}, 1000);
  ASSERT_EQ(MessageOf(made), "Ok");
  ASSERT_EQ(made->files.size(), 3U);
  EXPECT_EQ(made->files[1].host_path, "/run/mountd/base/d/web/hosts");
  EXPECT_EQ(made->files[1].task_path, "/etc/hosts");
  EXPECT_NE(core.executor->NetworkFileText("web/1").find(
                netns::ToString(made->ipv4) + " web-1.example\n"),
            std::string::npos);
  EXPECT_EQ(core.executor->plans().back().body.network_file.uid, 1000U);
  // The same call gives the same files; another network of the allocation
  // cannot bring others.
  EXPECT_EQ(Outcome(core.networks->Setup("web", spec)), "Ok");
  NetworkRequest second = spec;
  second.interface = "eth1";
  second.network = "second";
  EXPECT_EQ(Outcome(core.networks->Setup("web", second)), "FailedPrecondition");
  core.Restart();
  ASSERT_EQ(MessageOf(core.networks->Recover()), "Ok");
  EXPECT_EQ(core.networks->Of("web")->front().files.size(), 3U);
  EXPECT_EQ(MessageOf(core.networks->Teardown("web", "eth0")), "Ok");
  EXPECT_EQ(core.executor->NetworkFileText("web/1"), "");
}

TEST(NetworkFilesTest, OneThatCannotBeWrittenUndoesTheNetwork) {
  Core core;
  NetworkRequest spec;
  spec.files = Everything();
  core.executor->FailNext("WriteNetworkFile", Code::kResourceExhausted);
  EXPECT_EQ(Outcome(core.networks->Setup("web", spec)), "ResourceExhausted");
  EXPECT_TRUE(core.executor->Existing().empty());
  EXPECT_TRUE(core.boot->networks.NetworksOf("web")->empty());
}

}  // namespace
}  // namespace mountd
