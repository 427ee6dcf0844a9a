// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "mountd/base/caller.h"

namespace mountd::dbus {

// One refused call, with the caller whose right to make it is in question.
struct AuthorityQuestion {
  std::string action;  // org.mountd1.release
  // For the person who authenticates; may contain "$(object)".
  std::string message;
  std::string method;
  std::string object;
  std::string sender;        // the connection's unique name
  std::uint32_t uid = 0;     // the sender's user
  bool interactive = false;  // the message allows interactive authorization
};

// Decides whether a caller that the configuration does not name as an
// administrator may act as one for a single call. Runs on the loop's thread.
class Authority {
 public:
  // `caller` is set if the call may continue, with Caller::authority filled in.
  // Otherwise `why_not` is the reason, as text for the end of the refusal.
  struct Answer {
    std::optional<Caller> caller;
    std::string why_not;
  };
  using OnAnswer = std::function<void(const Answer&)>;

  virtual ~Authority() = default;
  // True if the message that is being handled allows interactive authorization.
  virtual bool IsInteractive() const = 0;
  // Never waits. Calls `on_answer` once, perhaps before it returns; never after
  // this object is destroyed.
  virtual void Ask(const AuthorityQuestion& question, OnAnswer on_answer) = 0;
};

}  // namespace mountd::dbus
