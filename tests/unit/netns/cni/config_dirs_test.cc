// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/config_dirs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd::cni {
namespace {

namespace fs = std::filesystem;

class CniConfigDirsTest : public ::testing::Test {
 protected:
  CniConfigDirsTest() {
    fs::create_directory(temp_.File("a"));
    fs::create_directory(temp_.File("b"));
  }

  void Write(const std::string& file, const std::string& text) {
    std::ofstream(temp_.File(file)) << text;
    fs::permissions(temp_.File(file), fs::perms(0644));
  }
  void WriteNetwork(const std::string& file, const std::string& name,
                    const std::string& type) {
    Write(file, R"({"name":")" + name +
                    R"(","cniVersion":"1.0.0","plugins":[{"type":")" + type +
                    R"("}]})");
  }
  std::vector<std::string> Directories() {
    return {temp_.File("a"), temp_.File("b"), temp_.File("missing")};
  }
  // Returns the types of the network's plugins, or the error.
  std::string Find(const std::string& name) {
    const auto list = FindNetwork(Directories(), name);
    if (!list) {
      return Outcome(list);
    }
    std::string types;
    for (const Json& plugin : list->plugins) {
      types += TypeOf(plugin) + " ";
    }
    return types;
  }

  TempDirectory temp_;
};

TEST_F(CniConfigDirsTest, TheFirstOfANameCounts) {
  WriteNetwork("a/20.conflist", "net", "later");
  WriteNetwork("a/10.json", "net", "first");
  WriteNetwork("b/05.conf", "net", "elsewhere");
  WriteNetwork("b/06.conf", "other", "other");
  WriteNetwork("a/01.txt", "net", "text");
  EXPECT_EQ(Find("net"), "first ");
  EXPECT_EQ(Find("other"), "other ");
  EXPECT_EQ(Find("none"), "NotFound");
  const Networks networks = LoadNetworks(Directories());
  EXPECT_EQ(networks.usable.size(), 2U);
  ASSERT_EQ(networks.unusable.size(), 2U);
  EXPECT_EQ(networks.unusable[0].reason.code, Code::kAlreadyExists);
}

TEST_F(CniConfigDirsTest, ABadFileMakesOnlyItselfUnusable) {
  Write("a/10.conf", "{");
  Write("a/11.conflist", R"({"name":"net","cniVersion":"0.2.0","type":"x"})");
  fs::create_directory(temp_.File("a/12.conf"));
  WriteNetwork("a/20.conflist", "net", "good");
  EXPECT_EQ(Find("net"), "good ");
  EXPECT_EQ(LoadNetworks(Directories()).unusable.size(), 3U);
}

TEST_F(CniConfigDirsTest, WhatOthersCanWriteIsUnusable) {
  WriteNetwork("a/10.conf", "net", "loose");
  fs::permissions(temp_.File("a/10.conf"), fs::perms(0664));
  WriteNetwork("a/real", "net", "real");
  fs::create_symlink("real", temp_.File("a/11.conf"));
  EXPECT_EQ(Find("net"), "NotFound");
  EXPECT_EQ(LoadNetworks(Directories()).unusable.size(), 2U);
}

TEST_F(CniConfigDirsTest, ADirectoryThatOthersCanWriteIsUnusable) {
  WriteNetwork("a/10.conf", "net", "loose");
  WriteNetwork("b/10.conf", "net", "good");
  fs::permissions(temp_.File("a"), fs::perms(01777));
  EXPECT_EQ(Find("net"), "good ");
  // A directory below it is refused, too, unless nobody can replace that
  // directory.
  fs::permissions(temp_.File("a"), fs::perms(0755));
  fs::create_directory(temp_.File("a/c"));
  WriteNetwork("a/c/10.conf", "deep", "good");
  const std::vector<std::string> below = {temp_.File("a/c")};
  EXPECT_EQ(Outcome(FindNetwork(below, "deep")), "Ok");
  fs::permissions(temp_.File("a"), fs::perms(01777));
  EXPECT_EQ(Outcome(FindNetwork(below, "deep")), "Ok");
  fs::permissions(temp_.File("a"), fs::perms(0777));
  EXPECT_EQ(Outcome(FindNetwork(below, "deep")), "NotFound");
}

TEST_F(CniConfigDirsTest, ALinkOnTheWayIsRefused) {
  WriteNetwork("b/10.conf", "net", "good");
  fs::create_directory_symlink(temp_.File("b"), temp_.File("link"));
  const Networks networks = LoadNetworks({temp_.File("link")});
  ASSERT_EQ(networks.unusable.size(), 1U);
  EXPECT_EQ(networks.unusable[0].reason.code, Code::kPermissionDenied);
}

TEST_F(CniConfigDirsTest, AListMayHaveADirectoryOfPlugins) {
  WriteNetwork("a/10.conflist", "net", "inline");
  fs::create_directory(temp_.File("a/net"));
  Write("a/net/2.conf", R"({"type":"two"})");
  Write("a/net/1.conf", R"({"type":"one"})");
  Write("a/net/3.txt", "{");
  EXPECT_EQ(Find("net"), "inline one two ");
  Write("a/net/4.conf", R"({"type":"../x"})");
  EXPECT_EQ(Find("net"), "InvalidArgument");
  Write("a/10.conflist",
        R"({"name":"net","cniVersion":"1.1.0","loadOnlyInlinedPlugins":true,
            "plugins":[{"type":"inline"}]})");
  EXPECT_EQ(Find("net"), "inline ");
}

}  // namespace
}  // namespace mountd::cni
