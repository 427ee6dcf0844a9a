// SPDX-License-Identifier: LGPL-2.1-or-later
// Each key that the client reads or sends is in the contract, with its type.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "agent/fields/grant_fields.h"
#include "agent/fields/lease_fields.h"
#include "agent/fields/node_fields.h"
#include "tests/support/field_types.h"

namespace mountd::agent {
namespace {

using mountd::test::Types;
using mountd::test::TypesOf;

// Returns the contract with each row of white space as one space.
std::string Contract() {
  std::ifstream file(MOUNTD_MANAGER_XML);
  std::ostringstream text;
  text << file.rdbuf();
  return std::regex_replace(text.str(), std::regex("\\s+"), " ");
}

bool IsWord(std::string_view text) {
  return text == "and" || text.starts_with('"');
}

// Returns whether the documentation has `"key" (type`, or the key in a list of
// keys of one type, as in `"uid" and "gid" (u`.
bool IsDocumented(const std::string& contract, const std::string& key,
                  const std::string& type) {
  const std::string quoted = "\"" + key + "\"";
  for (std::size_t at = contract.find(quoted); at != std::string::npos;
       at = contract.find(quoted, at + 1)) {
    std::istringstream words(contract.substr(at, 200));
    std::string word;
    while (words >> word && IsWord(word)) {
    }
    if (word.starts_with("(" + type) &&
        (word.size() == type.size() + 1 ||
         std::string("):;,").find(word[type.size() + 1]) !=
             std::string::npos)) {
      return true;
    }
  }
  return false;
}

std::string Undocumented(const Types& types) {
  static const std::string contract = Contract();
  std::string missing;
  for (const auto& [key, type] : types) {
    if (!IsDocumented(contract, key, type)) {
      missing += "\"" + key + "\" (" + type + ") ";
    }
  }
  return missing;
}

template <typename T>
void ExpectOneDocumented() {
  EXPECT_EQ(Undocumented(TypesOf<T>()), "");
}

template <typename... T>
void ExpectDocumented() {
  (ExpectOneDocumented<T>(), ...);
}

TEST(FieldsTest, TheContractHasEachKeyOfMountsWithItsType) {
  ExpectDocumented<BindMountSpec, TmpfsOptions, MountConfig, MountStatus,
                   ReplacedMount, RepairedMount, InboxConfig>();
  EXPECT_EQ(Undocumented(mountd::test::TypesOfList(kMountArguments)), "");
  for (const MountFlag& flag : kMountFlags) {
    EXPECT_EQ(Undocumented({{flag.key, "b"}}), "");
  }
}

TEST(FieldsTest, TheContractHasEachKeyOfTasksWithItsType) {
  ExpectDocumented<Holder, Holders, HandedOut, HandedOutList, TaskMount,
                   TaskReport>();
}

TEST(FieldsTest, TheContractHasEachKeyOfLeasesWithItsType) {
  ExpectDocumented<Lease, Fence, LeaseChange>();
}

TEST(FieldsTest, TheContractHasEachKeyOfNetworksAndVolumesWithItsType) {
  ExpectDocumented<NetworkSpec, NetworkStatus, VolumeUsage, PublishedVolume,
                   VolumeStats, VolumeStatus, StagedVolume, PluginRegistration,
                   PluginStatus, NodeInfo, VolumeCreation, VolumeValidation,
                   PluginVolume, PluginVolumePage, ControllerExpansion,
                   PluginCapacity>();
}

TEST(FieldsTest, TheContractHasEachKeyOfTheNodeWithItsType) {
  ExpectDocumented<AllocationStatus, Receipt, ReconciledAllocation, TreeResult,
                   OperationStatus, OperationSpan, Capabilities>();
}

TEST(FieldsTest, TheContractHasEachKeyOfGrantsWithItsType) {
  ExpectDocumented<HostVolumeGrant, FilesystemGrant, NetworkGrant>();
}

TEST(FieldsTest, AKeyThatTheContractHasNotIsNoticed) {
  EXPECT_EQ(Undocumented({{"no_such_key", "s"}}), "\"no_such_key\" (s) ");
  EXPECT_EQ(Undocumented({{"mount_id", "s"}}), "\"mount_id\" (s) ");
}

}  // namespace
}  // namespace mountd::agent
