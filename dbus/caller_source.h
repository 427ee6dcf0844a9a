// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/Message.h>

#include <memory>
#include <string>

#include "dbus/authority.h"
#include "mountd/base/result.h"
#include "mountd/caller.h"

namespace mountd::dbus {

// Who sent the message that is being handled, and who of a connection listens
// to signals: on the socket the one peer, on the bus many.
class CallerSource {
 public:
  virtual ~CallerSource() = default;
  virtual Result<Caller> CallerOf(const sdbus::Message& message) = 0;
  // By the message's sender, which only a bus has; null on the socket.
  virtual Result<Caller> CallerOfSender(const char* sender) = 0;
  virtual Result<void> Subscribe(const sdbus::Message& message) = 0;
  // Who is asked about a caller that is refused; null where what the
  // credentials say is all, as on the socket.
  virtual std::shared_ptr<Authority> authority() const { return nullptr; }
  virtual void Unsubscribe(const sdbus::Message& message) = 0;
};

}  // namespace mountd::dbus
