// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dbus/generated/manager_proxy.h"
#include "dbus/generated/plugin_proxy.h"

// A client of the last release: the proxies that sdbus-c++ generates from
// dbus/released/0.1.0, and nothing that is newer.
namespace mountd::test {

// Names the method that it calls, so that a test can tell which methods of the
// release it has called.
#define MOUNTD_RELEASED(client, method, ...) \
  ((client).Called(#method), (client).method(__VA_ARGS__))

// Keeps the names of the signals that have arrived.
class ReleasedManager final
    : public sdbus::ProxyInterfaces<org::mountd1::Manager_proxy> {
 public:
  explicit ReleasedManager(sdbus::IConnection& bus)
      : ProxyInterfaces(bus, sdbus::ServiceName(""),
                        sdbus::ObjectPath("/org/mountd1")) {
    registerProxy();
  }
  virtual ~ReleasedManager() { unregisterProxy(); }
  ReleasedManager(const ReleasedManager&) = delete;
  ReleasedManager& operator=(const ReleasedManager&) = delete;

  void Called(const std::string& method) { called_.insert(method); }
  const std::set<std::string>& called() const { return called_; }

  // Returns the arguments of the first signal of that name; "" if none comes
  // within half a minute.
  std::string Await(const std::string& signal) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::seconds(30),
                      [&] { return signals_.contains(signal); });
    const auto found = signals_.find(signal);
    return found == signals_.end() ? "" : found->second;
  }

 private:
  using Text = const std::string&;

  void Keep(const std::string& signal, const std::string& arguments) {
    const std::lock_guard lock(mutex_);
    signals_.emplace(signal, arguments);
    arrived_.notify_all();
  }
  void onOperationDone(Text operation, Text error, Text /*message*/) override {
    Keep("OperationDone", operation + " " + error);
  }
  void onOperationProgress(Text operation, Text method,
                           const std::uint64_t& /*done*/) override {
    Keep("OperationProgress", operation + " " + method);
  }
  void onOperationStep(
      Text operation,
      const std::map<std::string, dbus::Value>& status) override {
    Keep("OperationStep",
         operation + " " + status.at("method").get<std::string>());
  }
  void onMountLost(Text allocation, Text task, Text name,
                   Text /*reason*/) override {
    Keep("MountLost", allocation + "/" + task + "/" + name);
  }
  void onMountHealth(Text allocation, Text task, Text name, Text state,
                     Text /*reason*/) override {
    Keep("MountHealth", allocation + "/" + task + "/" + name + " " + state);
  }
  void onPluginAdded(Text plugin, Text type, Text /*allocation*/,
                     const sdbus::ObjectPath& object) override {
    Keep("PluginAdded", plugin + " " + type + " " + object);
  }
  void onPluginRemoved(Text plugin, Text type, Text /*allocation*/,
                       const sdbus::ObjectPath& object) override {
    Keep("PluginRemoved", plugin + " " + type + " " + object);
  }
  void onVolumeHealth(Text plugin, Text volume, Text state,
                      Text /*reason*/) override {
    Keep("VolumeHealth", plugin + " " + volume + " " + state);
  }
  void onSecretsNeeded(Text allocation, Text alias, Text /*plugin*/,
                       Text /*volume*/) override {
    Keep("SecretsNeeded", allocation + " " + alias);
  }
  void onPluginChanged(Text plugin, Text state, Text /*reason*/) override {
    Keep("PluginChanged", plugin + " " + state);
  }
  void onAddressesScarce(Text network, const std::uint32_t& /*capacity*/,
                         const std::uint32_t& /*free*/) override {
    Keep("AddressesScarce", network);
  }
  void onNetworkRepaired(Text allocation, Text interface,
                         Text /*what*/) override {
    Keep("NetworkRepaired", allocation + " " + interface);
  }
  void onNetworkLost(Text allocation, Text interface,
                     Text /*reason*/) override {
    Keep("NetworkLost", allocation + " " + interface);
  }
  void onRulesetRestored() override { Keep("RulesetRestored", "restored"); }
  void onOwedChanged(const std::uint32_t& count) override {
    Keep("OwedChanged", std::to_string(count));
  }
  void onOwedOverdue(const std::uint32_t& count,
                     const std::uint64_t& /*since*/) override {
    Keep("OwedOverdue", std::to_string(count));
  }
  void onStuckChanged(const std::uint32_t& count) override {
    Keep("StuckChanged", std::to_string(count));
  }

  std::set<std::string> called_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::string, std::string> signals_;  // guarded by mutex_
};

class ReleasedPlugin final
    : public sdbus::ProxyInterfaces<org::mountd1::Plugin_proxy> {
 public:
  ReleasedPlugin(sdbus::IConnection& bus, const std::string& object)
      : ProxyInterfaces(bus, sdbus::ServiceName(""),
                        sdbus::ObjectPath(object)) {
    registerProxy();
  }
  virtual ~ReleasedPlugin() { unregisterProxy(); }
  ReleasedPlugin(const ReleasedPlugin&) = delete;
  ReleasedPlugin& operator=(const ReleasedPlugin&) = delete;
};

}  // namespace mountd::test
