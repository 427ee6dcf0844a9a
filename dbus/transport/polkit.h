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

#include "dbus/methods/authority.h"
#include "mountd/base/result.h"

struct sd_bus;

namespace mountd::dbus {

// Asks polkit (org.freedesktop.PolicyKit1.Authority) about callers on the
// system bus. Names the caller by the connection's unique name, because the bus
// never gives that name to another connection. A pid could be another process's
// by then, and a message can say anything.
//
//   asked --CheckAuthorization answered--> not authorized, or an error: refused
//     |                                --> authorized: the sender's identity is
//     |                                    looked up once more; refused if the
//     |                                    sender has gone
//     +--too slow: refused
//
// Refuses unless polkit's answer says "authorized". Has at most
// kMaxQuestionsOfUser questions of one user under way, because each question
// may wait for somebody to type.
//
// Runs on the loop's thread. Never outlives the connection.
class Polkit final : public Authority {
 public:
  static constexpr std::uint32_t kMaxQuestionsOfUser = 8;
  using Identify = std::function<Result<Caller>(const std::string& sender)>;

  // `bus` is the bus of `connection`. `identify` asks the bus daemon who a
  // sender is.
  Polkit(sdbus::IConnection& connection, sd_bus* bus, Identify identify);
  ~Polkit() override;
  Polkit(const Polkit&) = delete;
  Polkit& operator=(const Polkit&) = delete;

  bool IsInteractive() const override;
  void Ask(const AuthorityQuestion& question, OnAnswer on_answer) override;

  // True while a question waits for its answer.
  bool IsAsking() const { return !asking_.empty(); }

 private:
  // The answer of CheckAuthorization: authorized, challenge, details.
  using Verdict = sdbus::Struct<bool, bool, std::map<std::string, std::string>>;

  void Send(const AuthorityQuestion& question, OnAnswer on_answer);
  void Asked(std::uint32_t uid);
  Answer Judge(const AuthorityQuestion& question,
               const std::optional<sdbus::Error>& error,
               const Verdict& verdict) const;

  sd_bus* const bus_;
  const Identify identify_;
  std::map<std::uint32_t, std::uint32_t> asking_;  // under way, by uid
  // The last member, so that it is destroyed first, with the replies it still
  // waits for.
  const std::unique_ptr<sdbus::IProxy> authority_;
};

}  // namespace mountd::dbus
