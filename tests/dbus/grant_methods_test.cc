// SPDX-License-Identifier: LGPL-2.1-or-later
// The methods that list what a caller may use, as clients get their answers.
#include "agent/fields/grant_fields.h"
#include "tests/dbus/methods.h"

namespace mountd::test {
namespace {

class GrantMethods : public Methods {
 protected:
  // Returns the types of a list's first element, but those of `absent`.
  template <typename Grant>
  static Types TypesOfFirst(std::initializer_list<const char*> absent) {
    Types types = TypesOf<Grant>();
    for (const char* key : absent) {
      types.erase(key);
    }
    return Prefixed("0.", types);
  }
};

TEST_P(GrantMethods, ListHostVolumes) {
  const Answer answer = client_->Call("ListHostVolumes", "a{sv}", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "aa{sv}");
  EXPECT_EQ(answer.types, TypesOfFirst<agent::HostVolumeGrant>({"uids"}));
  EXPECT_EQ(answer.values.at("0.name"), R"("data")");
  EXPECT_EQ(answer.values.at("0.read_only_propagation"),
            R"(["private", "host-to-task"])");
  EXPECT_EQ(answer.values.at("0.writable_propagation"),
            R"(["private", "host-to-task", "bidirectional"])");
  EXPECT_EQ(answer.values.at("0.attributes"), R"(["nosuid", "nodev"])");
  EXPECT_EQ(answer.values.at("0.ids"), "[(100000, 165535)]");
  EXPECT_EQ(answer.values.at("0.root_as_caller"), "[]");
}

TEST_P(GrantMethods, ListFilesystems) {
  const Answer answer = client_->Call("ListFilesystems", "a{sv}", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "aa{sv}");
  EXPECT_EQ(answer.types, TypesOfFirst<agent::FilesystemGrant>({"uids"}));
  EXPECT_EQ(answer.values.at("0.name"), R"("homes")");
  EXPECT_EQ(answer.values.at("0.type"), R"("nfs4")");
  EXPECT_EQ(answer.text.find("server"), std::string::npos)
      << "the source is the administrator's: " << answer.text;
}

TEST_P(GrantMethods, ListNetworks) {
  executor().PutCniNetwork("net", "no such plugin");
  const Answer answer = client_->Call("ListNetworks", "a{sv}", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "aa{sv}");
  Types types = TypesOfFirst<agent::NetworkGrant>({"unusable"});
  for (const auto& [key, type] : TypesOf<agent::NetworkGrant>()) {
    if (key != "ipv4" && key != "ipv6" && key != "mtu") {
      types["1." + key] = type;
    }
  }
  EXPECT_EQ(answer.types, types);
  EXPECT_EQ(answer.values.at("0.network"), R"("default")");
  EXPECT_EQ(answer.values.at("0.mode"), R"("bridge")");
  EXPECT_EQ(answer.values.at("0.ipv4"), R"(["10.0.0.0/24"])");
  EXPECT_EQ(answer.values.at("0.ipv6"), R"(["fd00::/64"])");
  EXPECT_EQ(answer.values.at("0.host_ports"), "[(20000, 21000)]");
  EXPECT_EQ(answer.values.at("1.mode"), R"("cni/net")");
  EXPECT_EQ(answer.values.at("1.unusable"), R"("no such plugin")");
}

TEST_P(GrantMethods, ListsOfOthersAreForAdministrators) {
  if (!IsRoot()) {
    GTEST_SKIP() << "callers are other users: needs root";
  }
  const auto alice = Connect(kAlice);
  const auto stranger = Connect(kStranger);
  ASSERT_NE(alice, nullptr);
  ASSERT_NE(stranger, nullptr);
  for (const char* method :
       {"ListHostVolumes", "ListFilesystems", "ListNetworks"}) {
    SCOPED_TRACE(method);
    const auto denied = [&](const Answer& answer) {
      EXPECT_EQ(answer.error, "org.mountd1.Error.PermissionDenied");
    };
    denied(alice->Call(method, "a{sv}", 1, "uid", "u", kBob));
    denied(alice->Call(method, "a{sv}", 1, "all_users", "b", 1));
    denied(stranger->Call(method, "a{sv}", 1, "uid", "u", kAlice));
    const std::string own = alice->Call(method, "a{sv}", 0).text;
    EXPECT_EQ(alice->Call(method, "a{sv}", 1, "uid", "u", kAlice).text, own);
    EXPECT_EQ(client_->Call(method, "a{sv}", 1, "uid", "u", kAlice).text, own);
    EXPECT_EQ(stranger->Call(method, "a{sv}", 0).text, "[]");
    EXPECT_EQ(client_->Call(method, "a{sv}", 1, "uid", "u", kStranger).text,
              "[]");
    const Answer all = client_->Call(method, "a{sv}", 1, "all_users", "b", 1);
    EXPECT_TRUE(all.ok()) << all.message;
    EXPECT_EQ(all.types.contains("0.uids"),
              std::string_view(method) != "ListNetworks");
  }
}

TEST_P(GrantMethods, AListIsOfOneUserOrOfAll) {
  for (const char* method :
       {"ListHostVolumes", "ListFilesystems", "ListNetworks"}) {
    const Answer both =
        client_->Call(method, "a{sv}", 2, "uid", "u", 0, "all_users", "b", 1);
    EXPECT_EQ(both.error, "org.mountd1.Error.InvalidArgument");
    EXPECT_NE(both.message.find("options[\"uid\"]"), std::string::npos);
    EXPECT_EQ(client_->Call(method, "a{sv}", 1, "uid", "i", 0).error,
              "org.mountd1.Error.InvalidArgument");
  }
}

MOUNTD_ON_BOTH_TRANSPORTS(GrantMethods);

}  // namespace
}  // namespace mountd::test
