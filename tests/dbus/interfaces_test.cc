// SPDX-License-Identifier: LGPL-2.1-or-later
// The standard interfaces: introspection, properties and ping.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/dbus/api_test.h"
#include "tests/golden/golden.h"

namespace mountd::test {
namespace {

constexpr char kPath[] = "/org/mountd1";
constexpr char kManager[] = "org.mountd1.Manager";
constexpr char kPlugin[] = "org.mountd1.Plugin";
constexpr char kProperties[] = "org.freedesktop.DBus.Properties";

std::string Attribute(const std::string& tag, const std::string& name) {
  std::smatch found;
  const std::regex pattern(" " + name + "=\"([^\"]*)\"");
  return std::regex_search(tag, found, pattern) ? found[1].str() : "";
}

// Returns methods, signals and properties of the interface, each with its
// arguments, one a line, sorted. The XML's comments must contain no tags.
std::string Described(const std::string& xml, const std::string& interface) {
  std::set<std::string> members;
  std::string member;
  bool inside = false;
  const std::regex tags(
      "<(/?(?:interface|method|signal|property|arg))\\b([^>]*)>");
  for (std::sregex_iterator tag(xml.begin(), xml.end(), tags), end; tag != end;
       ++tag) {
    const std::string kind = (*tag)[1];
    const std::string rest = (*tag)[2];
    if (kind == "interface") {
      inside = Attribute(rest, "name") == interface;
    } else if (!inside || kind == "/interface") {
      inside = false;
    } else if (kind == "arg") {
      const std::string direction = Attribute(rest, "direction");
      member += " (" + direction + " " + Attribute(rest, "type") + " " +
                Attribute(rest, "name") + ")";
    } else if (kind == "property") {
      members.insert("property " + Attribute(rest, "name") + " " +
                     Attribute(rest, "type") + " " + Attribute(rest, "access"));
    } else if (kind == "/property") {
      continue;
    } else if (kind.front() != '/') {
      member = kind + " " + Attribute(rest, "name");
      if (rest.back() == '/') {
        members.insert(member);
      }
    } else {
      members.insert(member);
    }
  }
  std::string text;
  for (const std::string& one : members) {
    text += one + "\n";
  }
  return text;
}

std::string Contract(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Interfaces : public BothTransports {
 protected:
  void SetUp() override {
    BothTransports::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
  }

  std::unique_ptr<BusClient> client_;
};

TEST_P(Interfaces, IntrospectionIsTheContract) {
  const std::string contract =
      Described(Contract(MOUNTD_MANAGER_XML), kManager);
  ASSERT_NE(contract.find("method ReleaseAllocation (in s allocation) "
                          "(in a{sv} options) (out a{sv} receipt)\n"),
            std::string::npos)
      << contract;
  const Answer answer = client_->CallOn(
      kPath, "org.freedesktop.DBus.Introspectable", "Introspect", "");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(Described(answer.text, kManager), contract);
}

TEST_P(Interfaces, APluginsIntrospectionIsItsContract) {
  RegisterPlugin(*client_);
  const Answer answer =
      client_->CallOn("/org/mountd1/plugin/csi/0",
                      "org.freedesktop.DBus.Introspectable", "Introspect", "");
  ASSERT_TRUE(answer.ok()) << answer.message;
  const std::string contract = Described(Contract(MOUNTD_PLUGIN_XML), kPlugin);
  EXPECT_NE(contract.find("property State s read\n"), std::string::npos);
  EXPECT_EQ(Described(answer.text, kPlugin), contract);
}

// Shows in a diff of the golden files how a change alters what clients see.
class IntrospectionGolden : public Interfaces {
 protected:
  void Expect(const char* path, const char* interface) {
    const Answer answer = client_->CallOn(
        path, "org.freedesktop.DBus.Introspectable", "Introspect", "");
    ASSERT_TRUE(answer.ok()) << answer.message;
    ExpectGolden(std::string("introspection/") + interface + ".txt",
                 Described(answer.text, interface));
  }
};

TEST_P(IntrospectionGolden, OfTheManager) { Expect(kPath, kManager); }

TEST_P(IntrospectionGolden, OfAPlugin) {
  RegisterPlugin(*client_);
  Expect("/org/mountd1/plugin/csi/0", kPlugin);
}

TEST_P(Interfaces, PropertiesTellWhatIsFree) {
  const auto get = [&](const char* name) {
    return client_->CallOn(kPath, kProperties, "Get", "ss",
                           "org.mountd1.Manager", name);
  };
  const Answer addresses = get("Addresses");
  EXPECT_EQ(addresses.signature, "v");
  const Answer ports = get("FreeHostPorts");
  ASSERT_TRUE(client_->Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
  ASSERT_TRUE(client_
                  ->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 1,
                         "http", "", 20080, 80, 1, "tcp", 0)
                  .ok());
  EXPECT_NE(get("Addresses").text, addresses.text);
  EXPECT_EQ(std::stoul(get("FreeHostPorts").text) + 1, std::stoul(ports.text));
}

TEST_P(Interfaces, VersionIsReadAndNotWritten) {
  const Answer version = client_->CallOn(kPath, kProperties, "Get", "ss",
                                         "org.mountd1.Manager", "Version");
  EXPECT_EQ(version.signature, "v");
  EXPECT_EQ(version.text, "\"" MOUNTD_VERSION "\"");
  const Answer all =
      client_->CallOn(kPath, kProperties, "GetAll", "s", "org.mountd1.Manager");
  EXPECT_EQ(all.types,
            (std::map<std::string, std::string>{{"Version", "s"},
                                                {"Addresses", "a{s(uu)}"},
                                                {"Owed", "(ut)"},
                                                {"FreeHostPorts", "u"},
                                                {"StuckExecutors", "u"},
                                                {"DroppedPeers", "a{st}"}}));
  EXPECT_EQ(client_
                ->CallOn(kPath, kProperties, "Set", "ssv",
                         "org.mountd1.Manager", "Version", "s", "2")
                .error,
            "org.freedesktop.DBus.Error.PropertyReadOnly");
  EXPECT_EQ(client_
                ->CallOn(kPath, kProperties, "Get", "ss", "org.mountd1.Manager",
                         "Secret")
                .error,
            "org.freedesktop.DBus.Error.UnknownProperty");
}

TEST_P(Interfaces, PeerIsAnswered) {
  const Answer pong =
      client_->CallOn(kPath, "org.freedesktop.DBus.Peer", "Ping", "");
  EXPECT_TRUE(pong.ok()) << pong.message;
  EXPECT_EQ(
      client_->CallOn(kPath, "org.freedesktop.DBus.Peer", "GetMachineId", "")
          .signature,
      "s");
}

MOUNTD_ON_BOTH_TRANSPORTS(Interfaces);
MOUNTD_ON_BOTH_TRANSPORTS(IntrospectionGolden);

}  // namespace
}  // namespace mountd::test
