// SPDX-License-Identifier: LGPL-2.1-or-later
// Calls that are no operations, and connections that are refused, are audited.
#include "tests/dbus/api_test.h"
#include "tests/support/raw_socket.h"

namespace mountd::test {
namespace {

using Texts = std::vector<std::string>;

constexpr char kUnserved[] =
    "decode call: mountd has no such method, or the arguments are malformed or "
    "of other types";

std::string Record(const std::string& what, const std::string& error) {
  return what + " " + std::to_string(::geteuid()) + " somebody " + error;
}

class Audit : public BothTransports {};

TEST_P(Audit, ACallThatMountdCannotDecodeHasOneRecord) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->Call("ListOwed", "a{sv}", 0).ok());
  EXPECT_EQ(server().TakeAudited(), Texts{});
  EXPECT_FALSE(client->Call("ListOwed", "a{sv}", 1, "no_such", "b", 1).ok());
  EXPECT_FALSE(
      client->Call("ListOperations", "a{sv}", 1, "no_such", "b", 1).ok());
  EXPECT_FALSE(client->Call("PrepareAllocation", "sa{sv}", "a/b", 0).ok());
  EXPECT_TRUE(client->Call("ListOwed", "a{sv}", 0).ok());
  EXPECT_EQ(
      server().TakeAudited(),
      (Texts{
          Record("ListOwed undecodable",
                 "check options[\"no_such\"]: is not an option of this method"),
          Record("ListOperations undecodable",
                 "check options[\"no_such\"]: is not an option of this method"),
          Record("PrepareAllocation undecodable",
                 "check allocation: must be 1 to 128 bytes of "
                 "[A-Za-z0-9._[]-], but not . or ..")}));
}

// These two are no operations, and an administrator, as root is, gets the
// signals about all users.
TEST_P(Audit, ASubscriptionIsAuditedOnlyOfAnAdministrator) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->Call("Subscribe", "a{sv}", 0).ok());
  EXPECT_TRUE(client->Call("Unsubscribe", "a{sv}", 0).ok());
  EXPECT_TRUE(client->Call("ListOwed", "a{sv}", 0).ok());
  EXPECT_EQ(
      server().TakeAudited(),
      IsRoot() ? Texts{Record("Subscribe signals", "others=all")} : Texts{});
  for (const char* method : {"Subscribe", "Unsubscribe"}) {
    EXPECT_FALSE(client->Call(method, "a{sv}", 1, "no_such", "b", 1).ok());
    EXPECT_TRUE(client->Call("ListOwed", "a{sv}", 0).ok());
    EXPECT_EQ(
        server().TakeAudited(),
        Texts{Record(
            std::string(method) + " undecodable",
            "check options[\"no_such\"]: is not an option of this method")});
  }
}

TEST_P(Audit, NoValueOfAnOptionIsInARecord) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_FALSE(
      client->Call("ListOwed", "a{sv}", 1, "secrets", "s", "hunter2").ok());
  const Texts audited = server().TakeAudited();
  ASSERT_EQ(audited.size(), 1U);
  EXPECT_EQ(audited[0].find("hunter2"), std::string::npos) << audited[0];
}

MOUNTD_ON_BOTH_TRANSPORTS(Audit);

// sd-bus answers these calls itself.
TEST_F(ApiTest, ACallOfOtherTypesIsAuditedOnASocket) {
  Start();
  const auto client = ConnectPeer();
  ASSERT_NE(client, nullptr);
  EXPECT_FALSE(client->Call("ListOwed", "s", "x").ok());
  EXPECT_FALSE(client->Call("NoSuchMethod", "").ok());
  EXPECT_TRUE(client->Call("ListOwed", "a{sv}", 0).ok());
  EXPECT_EQ(server().TakeAudited(),
            (Texts{Record("ListOwed undecodable", kUnserved),
                   Record("NoSuchMethod undecodable", kUnserved)}));
  // The last call has its record without another one.
  EXPECT_FALSE(client->Call("NoSuchMethod", "").ok());
  EXPECT_TRUE(Eventually([this] {
    return server().TakeAudited() ==
           Texts{Record("NoSuchMethod undecodable", kUnserved)};
  }));
}

// D-Bus lets a call name no interface, and sd-bus finds no method for it.
TEST_F(ApiTest, ACallWithoutAnInterfaceIsAuditedOnASocket) {
  Start();
  RawSocket socket(server().socket());
  ASSERT_TRUE(socket.Write(kHandshake +
                           MarshalCallWithoutInterface(1, "ListOperations")));
  EXPECT_TRUE(Eventually([this] {
    return server().TakeAudited() ==
           Texts{Record("ListOperations undecodable", kUnserved)};
  }));
}

// D-Bus lets a caller leave the interface out, and name any other. The standard
// interfaces are read without a record.
TEST_F(ApiTest, ACallOfNoInterfaceOfMountdIsAuditedOnASocket) {
  Start();
  const auto client = ConnectPeer();
  ASSERT_NE(client, nullptr);
  constexpr char kPath[] = "/org/mountd1";
  EXPECT_FALSE(client->CallOn(kPath, nullptr, "ListOwed", "a{sv}", 0).ok());
  EXPECT_FALSE(client->CallOn(kPath, nullptr, "NoSuchMethod", "").ok());
  EXPECT_FALSE(client->CallOn(kPath, "org.mountd1.Other", "Do", "").ok());
  EXPECT_FALSE(client->CallOn(kPath, "org.example.Other", "Do", "").ok());
  EXPECT_FALSE(
      client->CallOn("/org/other", "org.mountd1.Manager", "ListOwed", "").ok());
  EXPECT_TRUE(client
                  ->CallOn(kPath, "org.freedesktop.DBus.Introspectable",
                           "Introspect", "")
                  .ok());
  EXPECT_TRUE(
      client->CallOn(kPath, "org.freedesktop.DBus.Peer", "Ping", "").ok());
  EXPECT_TRUE(client->Call("ListOwed", "a{sv}", 0).ok());
  EXPECT_EQ(server().TakeAudited(),
            (Texts{Record("ListOwed undecodable", kUnserved),
                   Record("NoSuchMethod undecodable", kUnserved),
                   Record("Do undecodable", kUnserved),
                   Record("Do undecodable", kUnserved),
                   Record("ListOwed undecodable", kUnserved)}));
}

// The types are right, and the text is no UTF-8.
TEST_F(ApiTest, AMalformedBodyIsAnsweredAndAudited) {
  Start();
  RawSocket socket(server().socket());
  std::string body = MarshalText("\xff\xff");
  body.resize((body.size() + 7) / 8 * 8 + 8, '\0');
  ASSERT_TRUE(socket.Write(
      kHandshake + MarshalCall(1, "PrepareAllocation", "sa{sv}", body)));
  for (int line = 0; line < 3; ++line) {
    ASSERT_TRUE(socket.ReadLine());
  }
  EXPECT_TRUE(socket.ReadMessage());
  EXPECT_TRUE(Eventually([this] {
    return server().TakeAudited() ==
           Texts{Record("PrepareAllocation undecodable", kUnserved)};
  }));
}

TEST_F(ApiTest, ARefusedConnectionIsAudited) {
  ApiServerOptions options;
  options.config = DefaultConfig();
  options.config.limits.peers_per_uid = 1;
  Start(std::move(options));
  const auto first = ConnectPeer();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(ConnectPeer(), nullptr);
  EXPECT_EQ(server().TakeAudited(),
            Texts{Record("connect refused",
                         "accept connection: its user has 1 connections "
                         "(limits.peers_per_uid)")});
}

}  // namespace
}  // namespace mountd::test
