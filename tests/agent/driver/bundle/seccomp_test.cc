// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/seccomp.h"

#include <gtest/gtest.h>
#include <seccomp.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "agent/driver/bundle/capabilities.h"
#include "agent/driver/bundle/seccomp_calls.h"

namespace mountd::driver {
namespace {

using Json = nlohmann::json;
using Names = std::set<std::string>;

// The names of rules with this action and no condition.
Names NamesOf(const Json& filter, const std::string& action) {
  Names names;
  for (const Json& rule : filter.at("syscalls")) {
    if (rule.at("action") == action && !rule.contains("args")) {
      names.insert(rule.at("names").begin(), rule.at("names").end());
    }
  }
  return names;
}

Names AllowedWith(const Names& capabilities) {
  return NamesOf(SeccompFor(capabilities), "SCMP_ACT_ALLOW");
}

TEST(DriverSeccomp, TheDefaultRefusesWhatReachesBeyondTheContainer) {
  const Json filter = SeccompFor(DefaultCapabilities());
  const Names allowed = NamesOf(filter, "SCMP_ACT_ALLOW");
  const Names refused = NamesOf(filter, "SCMP_ACT_ERRNO");
  EXPECT_EQ(filter.at("defaultAction"), "SCMP_ACT_ERRNO");
  for (const char* name : {"bpf",
                           "mount",
                           "umount2",
                           "keyctl",
                           "add_key",
                           "request_key",
                           "open_by_handle_at",
                           "userfaultfd",
                           "perf_event_open",
                           "setns",
                           "unshare",
                           "pivot_root",
                           "move_mount",
                           "fsopen",
                           "open_tree",
                           "kexec_load",
                           "init_module",
                           "finit_module",
                           "delete_module",
                           "reboot",
                           "swapon",
                           "acct",
                           "quotactl",
                           "syslog",
                           "iopl",
                           "ioperm",
                           "kcmp",
                           "vhangup",
                           "settimeofday",
                           "clock_settime",
                           "fanotify_init",
                           "io_uring_setup"}) {
    EXPECT_EQ(allowed.count(name), 0U) << name;
    EXPECT_EQ(refused.count(name), 1U) << name;
  }
}

TEST(DriverSeccomp, ACapabilityOpensItsOwnCallsAlone) {
  const Names none = AllowedWith({});
  EXPECT_EQ(none.count("chroot"), 0U);
  EXPECT_EQ(AllowedWith(DefaultCapabilities()).count("chroot"), 1U);
  Names with = AllowedWith({"CAP_SYS_ADMIN"});
  for (const char* name : {"mount", "unshare", "clone3", "clone"}) {
    EXPECT_EQ(with.count(name), 1U) << name;
    EXPECT_EQ(none.count(name), 0U) << name;
  }
  EXPECT_EQ(with.count("open_by_handle_at"), 0U);
  EXPECT_EQ(with.count("keyctl"), 0U);
  EXPECT_EQ(AllowedWith({"CAP_DAC_READ_SEARCH"}).count("open_by_handle_at"),
            1U);
}

// A call that is in two lists would be both allowed and refused, and the
// runtime's library would choose.
TEST(DriverSeccomp, EachCallIsInOneList) {
  Names seen;
  const auto once = [&seen](std::string_view name) {
    EXPECT_TRUE(seen.insert(std::string(name)).second) << name;
  };
  for (const CallGroup& group : CallGroups()) {
    std::for_each(group.calls.begin(), group.calls.end(), once);
    EXPECT_TRUE(group.capability.empty() ||
                CapabilityName(group.capability).has_value())
        << group.capability;
  }
  std::for_each(RefusedCalls().begin(), RefusedCalls().end(), once);
  for (const char* name : {"clone", "clone3", "socket", "personality"}) {
    once(name);
  }
}

// A misspelled name would be a call that the filter refuses by mistake.
TEST(DriverSeccomp, TheLibraryKnowsEachName) {
  const Json filter = SeccompFor(DefaultCapabilities());
  for (const Json& rule : filter.at("syscalls")) {
    for (const std::string name : rule.at("names")) {
      EXPECT_NE(::seccomp_syscall_resolve_name(name.c_str()), __NR_SCMP_ERROR)
          << name;
    }
  }
}

bool Applies(const Json& rule, const char* list, const Names& capabilities) {
  if (!rule.contains(list) || !rule.at(list).contains("caps")) {
    return true;
  }
  bool all = true;
  bool any = false;
  for (const std::string name : rule.at(list).at("caps")) {
    all = all && capabilities.count(name) != 0;
    any = any || capabilities.count(name) != 0;
  }
  return std::string(list) == "includes" ? all : !any;
}

// The calls that podman's default allows to these capabilities, also under a
// condition.
Names AllowedByPodman(const Json& profile, const Names& capabilities) {
  Names names;
  for (const Json& rule : profile.at("syscalls")) {
    if (rule.at("action") == "SCMP_ACT_ALLOW" &&
        Applies(rule, "includes", capabilities) &&
        Applies(rule, "excludes", capabilities)) {
      names.insert(rule.at("names").begin(), rule.at("names").end());
    }
  }
  return names;
}

TEST(DriverSeccomp, NothingIsWeakerThanPodmans) {
  std::ifstream file("/usr/share/containers/seccomp.json");
  if (!file) {
    GTEST_SKIP() << "podman's profile is not installed";
  }
  const Json profile = Json::parse(file);
  std::vector<Names> sets = {{}, DefaultCapabilities()};
  for (const char* one :
       {"CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH",
        "CAP_SYS_TIME", "CAP_SYS_MODULE", "CAP_AUDIT_WRITE", "CAP_SYSLOG"}) {
    sets.push_back({one});
  }
  for (const Names& capabilities : sets) {
    const Names podmans = AllowedByPodman(profile, capabilities);
    ASSERT_GT(podmans.size(), 300U);
    for (const std::string& name : AllowedWith(capabilities)) {
      EXPECT_EQ(podmans.count(name), 1U) << name;
    }
  }
}

}  // namespace
}  // namespace mountd::driver
