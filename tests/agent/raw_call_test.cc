// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/raw_call.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

namespace mountd::agent {
namespace {

using Methods = std::map<std::string, std::string>;

// Returns the contract's methods, each with the signature of its arguments.
Methods MethodsOfTheContract() {
  std::ifstream file(MOUNTD_MANAGER_XML);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::regex element(
      R"re(<method name="(\w+)">|<arg [^>]*type="([^"]+)"[^>]*direction="in")re");
  Methods methods;
  std::string method;
  for (std::sregex_iterator it(text.begin(), text.end(), element), end;
       it != end; ++it) {
    if ((*it)[1].matched) {
      method = (*it)[1];
      methods[method] = "";
    } else {
      methods[method] += (*it)[2];
    }
  }
  return methods;
}

TEST(RawCallTest, KnowsEveryMethodOfTheContract) {
  const Methods methods = MethodsOfTheContract();
  ASSERT_GT(methods.size(), 40U);
  for (const auto& [method, signature] : methods) {
    bool known = false;
    EXPECT_EQ(ArgumentsOf(method, known), signature) << method;
    EXPECT_TRUE(known) << method;
  }
}

}  // namespace
}  // namespace mountd::agent
