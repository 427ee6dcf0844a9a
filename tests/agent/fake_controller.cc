// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/fake_controller.h"

namespace mountd::agent::test {
namespace {

using Dicts = std::vector<dbus::Dict>;

std::string Hex(const std::vector<std::uint8_t>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace

void FakeController::KeepSecrets(const dbus::Dict& options) {
  if (const auto secrets = options.find("secrets"); secrets != options.end()) {
    script().KeepSecrets(
        UniqueFd(secrets->second.get<sdbus::UnixFd>().release()));
  }
}

void FakeController::ControllerPublishVolume(
    sdbus::Result<Texts>&& reply, std::string plugin, std::string volume,
    std::string node_id, dbus::Dict usage, Texts volume_context,
    dbus::Dict options) {
  KeepSecrets(options);
  Answer("ControllerPublishVolume",
         plugin + " " + volume + " " + node_id + " " + Show(usage) + " " +
             Show(volume_context) + " " + Show(options),
         std::move(reply), Texts{{"device", "/dev/sdb"}});
}

void FakeController::ControllerUnpublishVolume(sdbus::Result<>&& reply,
                                               std::string plugin,
                                               std::string volume,
                                               std::string node_id,
                                               dbus::Dict options) {
  KeepSecrets(options);
  Answer("ControllerUnpublishVolume",
         plugin + " " + volume + " " + node_id + " " + Show(options),
         std::move(reply));
}

void FakeController::ValidateVolume(MapReply&& reply, std::string plugin,
                                    std::string volume, dbus::Dict usage,
                                    Texts volume_context, dbus::Dict options) {
  Answer("ValidateVolume",
         plugin + " " + volume + " " + Show(usage) + " " +
             Show(volume_context) + " " + Show(options),
         std::move(reply),
         {{"confirmed", V(false)}, {"message", Text("no blocks here")}});
}

void FakeController::CreateVolume(MapReply&& reply, std::string plugin,
                                  std::string name, dbus::Dict spec,
                                  dbus::Dict options) {
  KeepSecrets(options);
  Answer("CreateVolume",
         plugin + " " + name + " " + Show(spec) + " " + Show(options),
         std::move(reply), CreatedVolume("id-of-" + name));
}

void FakeController::DeleteVolume(sdbus::Result<>&& reply, std::string plugin,
                                  std::string volume, dbus::Dict options) {
  KeepSecrets(options);
  Answer("DeleteVolume", plugin + " " + volume + " " + Show(options),
         std::move(reply));
}

void FakeController::ControllerExpandVolume(MapReply&& reply,
                                            std::string plugin,
                                            std::string volume,
                                            std::int64_t required_bytes,
                                            dbus::Dict options) {
  Answer("ControllerExpandVolume",
         plugin + " " + volume + " " + std::to_string(required_bytes) + " " +
             Show(options),
         std::move(reply),
         {{"capacity_bytes", V(required_bytes)},
          {"node_expansion_required", V(true)}});
}

void FakeController::ListPluginVolumes(MapReply&& reply, std::string plugin,
                                       dbus::Dict options) {
  const bool second = options.contains("starting_token");
  dbus::Dict volume = CreatedVolume(second ? "web-data" : "vol-1");
  volume.emplace("published_node_ids", V(std::vector<std::string>{"n1", "n2"}));
  if (second) {
    volume.emplace("abnormal", V(true));
    volume.emplace("condition", Text("its disk is slow"));
  }
  Answer("ListPluginVolumes", plugin + " " + Show(options), std::move(reply),
         {{"volumes", V(Dicts{volume})},
          {"next_token", Text(second ? "" : "page-2")}});
}

void FakeController::GetCapacity(MapReply&& reply, std::string plugin,
                                 dbus::Dict options) {
  Answer("GetCapacity", plugin + " " + Show(options), std::move(reply),
         {{"available_bytes", V(std::int64_t{1} << 40U)},
          {"maximum_volume_bytes", V(std::int64_t{1} << 30U)}});
}

void FakeController::CallController(
    sdbus::Result<std::vector<std::uint8_t>>&& reply, std::string plugin,
    std::string rpc, std::vector<std::uint8_t> request, dbus::Dict options) {
  KeepSecrets(options);
  Answer("CallController",
         plugin + " " + rpc + " " + Hex(request) + " " + Show(options),
         std::move(reply), SnapshotResponse(rpc));
}

}  // namespace mountd::agent::test
