// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/Message.h>

#include <memory>
#include <string>

#include "dbus/methods/authority.h"
#include "mountd/base/caller.h"
#include "mountd/base/result.h"

namespace mountd::dbus {

// Identifies the sender of the message that is being handled, and keeps the
// subscriptions to signals. A connection of the socket has one peer, the system
// bus has many senders.
class CallerSource {
 public:
  virtual ~CallerSource() = default;
  virtual Result<Caller> CallerOf(const sdbus::Message& message) = 0;
  // Identifies a caller by the message's sender. `sender` is null on the
  // socket, because only a bus names senders.
  virtual Result<Caller> CallerOfSender(const char* sender) = 0;
  virtual Result<void> Subscribe(const sdbus::Message& message) = 0;
  // Returns the Authority that decides about refused callers. Null on the
  // socket, where the peer's credentials alone decide.
  virtual std::shared_ptr<Authority> authority() const { return nullptr; }
  virtual void Unsubscribe(const sdbus::Message& message) = 0;
};

}  // namespace mountd::dbus
