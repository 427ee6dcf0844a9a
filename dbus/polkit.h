// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/IConnection.h>
#include <sdbus-c++/IProxy.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dbus/authority.h"
#include "mountd/base/result.h"

struct sd_bus;

namespace mountd::dbus {

// polkit (org.freedesktop.PolicyKit1.Authority), about callers on the system
// bus. Its subject is the connection's unique name, which is nobody else's
// ever: neither a pid, which may be another process's, nor what a message says.
//
//   asked --CheckAuthorization answered--> not authorized, or an error: refused
//     |                                --> authorized: the bus is asked again
//     who |                                    the sender is; one that has gone
//     is |                                    refused
//     +--too slow: refused
//
// Whatever is not a clear yes is a no. Of one user so many questions are under
// way at most, as each may wait for somebody to type.
//
// Lives on the loop's thread, and no longer than the connection.
class Polkit final : public Authority {
 public:
  static constexpr std::uint32_t kMaxQuestionsOfUser = 8;
  using Identify = std::function<Result<Caller>(const std::string& sender)>;

  // `bus` is the connection's own. `identify` asks the bus.
  Polkit(sdbus::IConnection& connection, sd_bus* bus, Identify identify);
  ~Polkit() override;
  Polkit(const Polkit&) = delete;
  Polkit& operator=(const Polkit&) = delete;

  bool IsInteractive() const override;
  void Ask(const AuthorityQuestion& question, OnAnswer on_answer) override;

  // Whether somebody's answer is waited for.
  bool IsAsking() const { return !asking_.empty(); }

 private:
  // What CheckAuthorization answers: authorized, challenge, details.
  using Verdict = sdbus::Struct<bool, bool, std::map<std::string, std::string>>;

  void Send(const AuthorityQuestion& question, OnAnswer on_answer);
  void Asked(std::uint32_t uid);
  Answer Judge(const AuthorityQuestion& question,
               const std::optional<sdbus::Error>& error,
               const Verdict& verdict) const;

  sd_bus* const bus_;
  const Identify identify_;
  std::map<std::uint32_t, std::uint32_t> asking_;  // under way, by uid
  // Last: what it still waits for goes first.
  const std::unique_ptr<sdbus::IProxy> authority_;
};

}  // namespace mountd::dbus
