// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mountd::cni {

using Json = nlohmann::json;

// Makes CNI networks and plugins on a private /run: /run/networks, and in
// /run/plugins "first", "second" and "third". These plugins do what their
// configuration says (fake_plugin.cc).
class CniWorld {
 protected:
  static void Make();

  // Returns a plugin's entry of a list; `what` says by verb what it does.
  static Json Plugin(const std::string& type, const Json& what = {});
  static Json Network(const std::string& name,
                      const std::vector<Json>& plugins);
  static void WriteNetwork(const std::string& file, const Json& network);
  static void InstallPlugin(const std::string& type);

  // Return the calls that the plugins recorded, whole and as "ADD first".
  static std::vector<Json> Calls();
  static std::vector<std::string> CallNames();
  static void ForgetCalls();
  // Returns the pids of daemons that plugins started.
  static std::vector<int> Daemons();
};

void WriteFile(const std::string& path, const std::string& text);
bool IsAlive(int pid);

}  // namespace mountd::cni
