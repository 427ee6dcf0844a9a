// SPDX-License-Identifier: LGPL-2.1-or-later
// Each value of the client library compares all its members and prints no
// secret.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "agent/fields/value_fields.h"

namespace mountd::agent {
namespace {

template <typename... T>
struct TypeList {};

using AllValues = TypeList<
    AllocationOptions, ReleasedVolume, Receipt, AllocationStatus,
    AllocationEntry, ReconciledAllocation, Reconciliation, TreeResult,
    ControllerPublishSpec, VolumeValidationSpec, VolumeValidation,
    VolumeCreation, PluginVolume, PageRequest, PluginVolumePage,
    ControllerExpansionSpec, ControllerExpansion, CapacityQuery, PluginCapacity,
    ControllerCall, TmpfsOptions, IdExtent, BindMountSpec, InboxConfig,
    MountConfig, RepairedMount, ReplacedMount, MountStatus, Port, NetworkSpec,
    NetworkSpec::Host, NetworkStatus, NetworkStatus::File, OwedTeardown,
    OperationStatus, OwedSummary, AddressUsage, Capabilities,
    Capabilities::HostPorts, MethodStatistics, PluginSpec, PluginSelection,
    PluginMount, PluginRegistration, PluginStatus, Holder, Holders, HandedOut,
    HandedOutList, TaskMount, TaskReport, VolumeUsage, VolumeSpec,
    PublishedVolume, VolumeUse, VolumeStats, VolumeExpansion, VolumeStatus,
    VolumeUser, StagedVolume, NodeInfo, CallNames, OperationSpan, IdRange,
    PortRange, LeaseSpec, Lease, Fence, LeaseChange, SourceGrant,
    HostVolumeGrant, FilesystemGrant, NetworkGrant>;

template <typename... T, typename F>
void ForEachType(TypeList<T...> /*all*/, const F& use) {
  (use(T{}), ...);
}

template <typename T>
std::string Printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

template <typename T>
std::string NameOf() {
  const std::string text = Printed(T{});
  return text.substr(0, text.find('{'));
}

// Gives the member another value.
template <typename M>
void Change(M& member) {
  if constexpr (std::is_same_v<M, bool>) {
    member = !member;
  } else if constexpr (std::is_integral_v<M>) {
    ++member;
  } else if constexpr (std::is_enum_v<M>) {
    member = static_cast<M>(member == M{} ? 1 : 0);
  } else if constexpr (std::is_same_v<M, std::string>) {
    member += "other";
  } else if constexpr (requires { member += typename M::duration(1); }) {
    member += typename M::duration(1);
  } else if constexpr (requires { typename M::period; }) {
    member += M(1);
  } else if constexpr (requires { member.has_value(); }) {
    member.emplace();
  } else if constexpr (requires { typename M::mapped_type; }) {
    member.emplace("other", typename M::mapped_type{});
  } else if constexpr (requires { member.emplace_back(); }) {
    member.emplace_back();
  } else {
    Change(member.*std::get<0>(MembersOf<M>::kList).member);
  }
}

constexpr char kSecret[] = "hunter2";

// Sets all texts to the secret beneath a member that may hold one, and to
// something else elsewhere.
template <typename M>
void Fill(M& member, bool is_sensitive, int depth);

template <typename T>
void FillMembers(T& value, int depth) {
  ForEachField(MembersOf<T>::kList, [&](const auto& field) {
    Fill(value.*field.member, IsSensitive(field.key), depth);
  });
}

template <typename M>
void Fill(M& member, bool is_sensitive, int depth) {
  if (depth == 0) {
    return;
  }
  if constexpr (std::is_same_v<M, std::string>) {
    member = is_sensitive ? kSecret : "plain";
  } else if constexpr (requires { member.has_value(); }) {
    Fill(member.emplace(), is_sensitive, depth - 1);
  } else if constexpr (requires { typename M::mapped_type; }) {
    Fill(member["key"], is_sensitive, depth - 1);
  } else if constexpr (requires { member.emplace_back(); }) {
    Fill(member.emplace_back(), is_sensitive, depth - 1);
  } else if constexpr (requires { MembersOf<M>::kList; }) {
    FillMembers(member, depth - 1);
  }
}

TEST(ValuesTest, EachMemberCountsInEquality) {
  ForEachType(AllValues(), [](const auto& plain) {
    using T = std::remove_cvref_t<decltype(plain)>;
    EXPECT_TRUE(plain == T{}) << plain;
    ForEachField(MembersOf<T>::kList, [&](const auto& field) {
      T other{};
      Change(other.*field.member);
      EXPECT_FALSE(plain == other) << field.key << " of " << other;
      const T copy = other;
      EXPECT_TRUE(copy == other) << field.key << " of " << other;
    });
  });
}

TEST(ValuesTest, NoValuePrintsASecret) {
  ForEachType(AllValues(), [](const auto& plain) {
    std::remove_cvref_t<decltype(plain)> full{};
    constexpr int kDepth = 6;
    FillMembers(full, kDepth);
    const std::string text = Printed(full);
    EXPECT_EQ(text.find(kSecret), std::string::npos) << text;
    // gtest prints failures in the same way.
    EXPECT_EQ(testing::PrintToString(full), text);
  });
}

TEST(ValuesTest, APrintedValueHasItsKeysAndItsOtherMembers) {
  VolumeSpec spec{.alias = "data", .volume = "v1", .plugin = "csi"};
  spec.usage.mount_flags = {"password=hunter2", "ro"};
  spec.publish_context = {{"token", "hunter2"}};
  spec.secrets = {{"user", "hunter2"}, {"key", "hunter2"}};
  EXPECT_EQ(Printed(spec),
            "VolumeSpec{alias=\"data\", volume=\"v1\", plugin=\"csi\", "
            "usage=VolumeUsage{read_only=false, access_mode=\"\", "
            "attachment_mode=\"\", fs_type=\"\", volume_mount_group=\"\", "
            "mount_flags=<2 redacted>}, "
            "publish_context={\"token\": <redacted>}, volume_context={}, "
            "secrets={\"key\": <redacted>, \"user\": <redacted>}}");
}

TEST(ValuesTest, APrintedRequestOfAControllerHasOnlyItsLength) {
  EXPECT_EQ(Printed(ControllerCall{
                .plugin = "csi", .rpc = "CreateSnapshot", .request = "12345"}),
            "ControllerCall{plugin=\"csi\", rpc=\"CreateSnapshot\", "
            "request=<5 redacted>, secrets={}}");
}

TEST(ValuesTest, APrintedTextForgesNoLineAndMovesNoCursor) {
  EXPECT_EQ(Printed(VolumeUser{"a\nb\x1b[2J", "\xc2\x9b\"\\"}),
            "VolumeUser{allocation=\"a\\x0ab\\x1b[2J\", "
            "alias=\"\\xc2\\x9b\\\"\\\\\"}");
}

TEST(ValuesTest, PrintsEachKindOfMember) {
  EXPECT_EQ(Printed(PluginSelection{.type = PluginType::kController}),
            "PluginSelection{type=\"controller\", allocation=none, "
            "force=false}");
  EXPECT_EQ(Printed(OwedSummary{2, Timestamp(std::chrono::seconds(1))}),
            "OwedSummary{count=2, since=1000000us}");
  EXPECT_NE(Printed(Capabilities{}).find("owed_warning_ms=300000ms"),
            std::string::npos);
  const NetworkSpec::Host host{"192.0.2.1", {"a", "b"}};
  EXPECT_EQ(Printed(host),
            "NetworkSpec::Host{address=\"192.0.2.1\", names=[\"a\", \"b\"]}");
  VolumeStats stats;
  stats.has_condition = true;
  EXPECT_NE(Printed(stats).find("has_abnormal=true"), std::string::npos);
}

// Returns how many data members each struct of agent/types*.h has.
std::map<std::string, std::size_t> MembersInHeaders() {
  const std::regex begin("^ *struct (\\w+) \\{$");
  const std::regex end("^ *\\};$");
  const std::regex member(
      "^ +[A-Za-z_][\\w:<>, ]* \\w+( = .*| ?\\{.*\\})?;( *//.*)?$");
  std::map<std::string, std::size_t> members;
  for (const auto& file :
       std::filesystem::directory_iterator(MOUNTD_AGENT_DIRECTORY)) {
    if (!file.path().filename().string().starts_with("types")) {
      continue;
    }
    std::ifstream lines(file.path());
    std::vector<std::string> open;
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      if (std::regex_match(line, match, begin)) {
        open.push_back(open.empty() ? match[1].str()
                                    : open.back() + "::" + match[1].str());
        members[open.back()] = 0;
      } else if (!open.empty() && std::regex_match(line, end)) {
        open.pop_back();
      } else if (!open.empty() && line.find("operator") == std::string::npos &&
                 std::regex_match(line, member)) {
        ++members[open.back()];
      }
    }
  }
  return members;
}

// A new struct needs operator==, operator<<, a line in AllValues, and all its
// members in FieldsOf or MembersOf (agent/fields/).
TEST(ValuesTest, TheListsHaveEachStructAndMemberOfTheHeaders) {
  std::map<std::string, std::size_t> listed;
  ForEachType(AllValues(), [&](const auto& plain) {
    using T = std::remove_cvref_t<decltype(plain)>;
    listed[NameOf<T>()] =
        std::tuple_size_v<std::remove_cvref_t<decltype(MembersOf<T>::kList)>>;
  });
  EXPECT_EQ(listed, MembersInHeaders());
}

}  // namespace
}  // namespace mountd::agent
