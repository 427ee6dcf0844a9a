// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace mountd::testing {

// The answer of one plugin.
struct PluginAnswer {
  int status = 0;
  nlohmann::json json;  // null if nothing was printed
  std::string err;
};

// Runs the chain of CNI plugins that Nomad 2.0 writes for `network { mode =
// "bridge" }`, as libcni runs it, with mountd-cni as each plugin. The group has
// a port: 8080 of the host is 80 of the container.
class NomadChain {
 public:
  // Loopback, bridge, firewall and portmap, in this order.
  static const std::vector<std::string>& Plugins();

  // Copies mountd-cni into `directory`, with a link for each plugin.
  static void Install(const std::string& program, const std::string& directory);

  // `directory` has the plugins, and `inputs` is a directory for their stdin.
  // `as` is the beginning of each command, such as one of setpriv(1).
  NomadChain(std::string directory, std::string inputs, std::string container,
             std::vector<std::string> as = {})
      : directory_(std::move(directory)),
        inputs_(std::move(inputs)),
        container_(std::move(container)),
        as_(std::move(as)) {}

  void set_netns(const std::string& path) { netns_ = path; }
  // The result of the last AddAll that succeeded; otherwise that of its last
  // plugin that succeeded.
  const nlohmann::json& result() const { return result_; }

  // Calls one plugin. `prev` is the prevResult, or null; `more` has members of
  // the configuration. A DEL gets no CNI_NETNS.
  PluginAnswer Call(
      const std::string& plugin, const std::string& verb,
      const nlohmann::json& prev,
      const nlohmann::json& more = nlohmann::json::object()) const;

  // Ends at the first error, and returns it, with all lines of stderr.
  PluginAnswer AddAll();
  // These return the names of the plugins that fail or print anything, with
  // their output; "" for none.
  std::string CheckAll() const;
  std::string DelAll() const;

 private:
  const std::string directory_;
  const std::string inputs_;
  const std::string container_;
  const std::vector<std::string> as_;
  std::string netns_;
  nlohmann::json result_;
};

}  // namespace mountd::testing
