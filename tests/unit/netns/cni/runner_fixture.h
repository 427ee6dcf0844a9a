// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/private_namespaces.h"
#include "tests/support/program.h"

namespace mountd::cni {

using Json = nlohmann::json;

// The runner's executable, with directories of its own on a private /run, a
// pinned namespace "web", and plugins that do what they are told
// (fake_plugin.cc).
class RunnerTest : public mountd::testing::PrivateNamespaces {
 protected:
  void SetUp() override;

  // A plugin of a list; `what` it does by verb.
  static Json Plugin(const std::string& type, const Json& what = {});
  static Json Network(const std::string& name,
                      const std::vector<Json>& plugins);
  static void WriteNetwork(const std::string& file, const Json& network);
  static void InstallPlugin(const std::string& type);
  static std::string PinNamespace(const std::string& name);

  static Json RequestFor(const std::string& container);

  // The runner's answer; null, and a failure of the test, if it gave none.
  static Json Run(const std::string& verb, const Json& request,
                  const std::vector<std::string>& more = {});
  static std::vector<std::string> Command(
      const std::string& verb, const Json& request,
      const std::vector<std::string>& more = {});

  // What the plugins wrote down, and as "ADD first".
  static std::vector<Json> Calls();
  static std::vector<std::string> CallNames();
  static void ForgetCalls();
  // Of daemons that plugins started.
  static std::vector<int> Daemons();

  static bool HasRecord(const std::string& container);
  static Json RecordOf(const std::string& container);
};

void WriteFile(const std::string& path, const std::string& text);
bool IsAlive(int pid);
// The only one.
int ChildOf(int parent);
// The one child of this test, which the shell has become.
int RunnerPid();

}  // namespace mountd::cni
