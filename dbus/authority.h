// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "mountd/caller.h"

namespace mountd::dbus {

// One refused call, and whose right to make it is asked about.
struct AuthorityQuestion {
  std::string action;   // org.mountd1.release
  std::string message;  // for who authenticates; may contain "$(object)"
  std::string method;
  std::string object;
  std::string sender;        // the connection's unique name
  std::uint32_t uid = 0;     // who that is
  bool interactive = false;  // its message lets somebody be asked
};

// Whom else to ask when a caller is no administrator by the configuration.
//
// On the loop's thread.
class Authority {
 public:
  // The caller as it may go on: Caller::authority is set. Or why not, in the
  // words for the end of the refusal.
  struct Answer {
    std::optional<Caller> caller;
    std::string why_not;
  };
  using OnAnswer = std::function<void(const Answer&)>;

  virtual ~Authority() = default;
  // Of the message that is being handled.
  virtual bool IsInteractive() const = 0;
  // Never waits. `on_answer` is called once, perhaps at once; not after this
  // was taken down.
  virtual void Ask(const AuthorityQuestion& question, OnAnswer on_answer) = 0;
};

}  // namespace mountd::dbus
