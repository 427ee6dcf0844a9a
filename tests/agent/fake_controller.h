// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/sdbus-c++.h>
#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dbus/generated/manager_adaptor.h"
#include "tests/agent/fake_answers.h"
#include "tests/agent/script.h"

namespace mountd::agent::test {

// The part of the fake Manager that answers for plugins' controllers, and the
// helpers that it shares with the rest.
class FakeController : public org::mountd1::Manager_adaptor {
 protected:
  using Texts = std::map<std::string, std::string>;

  using Manager_adaptor::Manager_adaptor;
  ~FakeController() = default;

  virtual Script& script() = 0;
  // Returns the socket to hang up; -1 on a bus.
  virtual int socket() const = 0;

  template <typename... T>
  void Answer(const std::string& method, const std::string& arguments,
              sdbus::Result<T...>&& reply, const T&... values) {
    script().Record(method + " " + arguments);
    script().Hold(method);
    Failure failure;
    if (!script().Next(method, failure)) {
      reply.returnResults(values...);
    } else if (failure.hang_up) {
      ::shutdown(socket(), SHUT_RDWR);
    } else {
      reply.returnError(
          sdbus::Error(sdbus::Error::Name(failure.error), failure.message));
    }
  }

  void KeepSecrets(const dbus::Dict& options);

 private:
  void ControllerPublishVolume(sdbus::Result<Texts>&& reply, std::string plugin,
                               std::string volume, std::string node_id,
                               dbus::Dict usage, Texts volume_context,
                               dbus::Dict options) override;
  void ControllerUnpublishVolume(sdbus::Result<>&& reply, std::string plugin,
                                 std::string volume, std::string node_id,
                                 dbus::Dict options) override;
  void ValidateVolume(MapReply&& reply, std::string plugin, std::string volume,
                      dbus::Dict usage, Texts volume_context,
                      dbus::Dict options) override;
  void CreateVolume(MapReply&& reply, std::string plugin, std::string name,
                    dbus::Dict spec, dbus::Dict options) override;
  void DeleteVolume(sdbus::Result<>&& reply, std::string plugin,
                    std::string volume, dbus::Dict options) override;
  void ControllerExpandVolume(MapReply&& reply, std::string plugin,
                              std::string volume, std::int64_t required_bytes,
                              dbus::Dict options) override;
  // Answers two pages; the token of the second one is "page-2".
  void ListPluginVolumes(MapReply&& reply, std::string plugin,
                         dbus::Dict options) override;
  void GetCapacity(MapReply&& reply, std::string plugin,
                   dbus::Dict options) override;
  // Records the request in hexadecimal. Answers a real response for snapshots.
  void CallController(sdbus::Result<std::vector<std::uint8_t>>&& reply,
                      std::string plugin, std::string rpc,
                      std::vector<std::uint8_t> request,
                      dbus::Dict options) override;
};

}  // namespace mountd::agent::test
