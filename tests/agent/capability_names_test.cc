// SPDX-License-Identifier: LGPL-2.1-or-later
// The names of capabilities are those of csi-node/csi.proto.
#include "agent/client/capability_names.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "agent/types_plugins.h"

namespace mountd::agent {
namespace {

// Returns names by numbers of the enum Type of `message`.
std::map<std::int32_t, std::string> InProto(const std::string& message) {
  std::ifstream file(MOUNTD_CSI_PROTO);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string proto = text.str();
  const std::size_t begin =
      proto.find("enum Type {", proto.find("message " + message + " {"));
  const std::string body =
      proto.substr(begin, proto.find('}', begin) - begin);
  std::map<std::int32_t, std::string> names;
  const std::regex line("([A-Z_]+) = (\\d+);");
  for (std::sregex_iterator one(body.begin(), body.end(), line), end;
       one != end; ++one) {
    names[std::stoi((*one)[2])] = (*one)[1];
  }
  return names;
}

struct Kind {
  const char* message;
  Form form;
};
constexpr Kind kKinds[] = {
    {"PluginCapability", Form::kServices},
    {"ControllerServiceCapability", Form::kControllerRpcs},
    {"NodeServiceCapability", Form::kNodeRpcs},
};

TEST(CapabilityNamesTest, AreThoseOfTheSpecification) {
  for (const Kind& kind : kKinds) {
    const auto names = InProto(kind.message);
    EXPECT_GT(names.size(), 5U) << kind.message;
    for (const auto& [number, name] : names) {
      EXPECT_EQ(CapabilityNames(kind.form, {number}),
                std::vector<std::string>{name})
          << kind.message;
    }
    const std::int32_t next = names.rbegin()->first + 1;
    EXPECT_EQ(CapabilityNames(kind.form, {next}),
              std::vector<std::string>{std::to_string(next)})
        << kind.message;
  }
}

TEST(CapabilityNamesTest, UnknownNumbersStayNumbersInTheirPlaces) {
  for (const Kind& kind : kKinds) {
    EXPECT_EQ(CapabilityNames(kind.form, {4711, -1, 0, INT32_MIN}),
              (std::vector<std::string>{"4711", "-1", "UNKNOWN",
                                        "-2147483648"}));
  }
  EXPECT_TRUE(CapabilityNames(Form::kNodeRpcs, {}).empty());
}

TEST(CapabilityNamesTest, AControllerIsRequiredIfAnyInstanceSaysSo) {
  PluginStatus plugin;
  EXPECT_FALSE(ControllerRequired(plugin));
  // The controller's RPCs say nothing without the service.
  plugin.controller_capabilities = {"PUBLISH_UNPUBLISH_VOLUME"};
  plugin.plugin_capabilities = {"GROUP_CONTROLLER_SERVICE", "1"};
  EXPECT_FALSE(ControllerRequired(plugin));
  plugin.instances.resize(2);
  plugin.instances[1].plugin_capabilities = {"CONTROLLER_SERVICE"};
  EXPECT_TRUE(ControllerRequired(plugin));
  plugin.plugin_capabilities = {"CONTROLLER_SERVICE"};
  plugin.instances.clear();
  EXPECT_TRUE(ControllerRequired(plugin));
}

}  // namespace
}  // namespace mountd::agent
