// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/transport/polkit.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-bus.h>

#include <utility>

namespace mountd::dbus {
namespace {

constexpr char kPolkit[] = "org.freedesktop.PolicyKit1";
constexpr char kAuthorityPath[] = "/org/freedesktop/PolicyKit1/Authority";
constexpr char kAuthority[] = "org.freedesktop.PolicyKit1.Authority";
// A flag of CheckAuthorization (polkit's org.freedesktop.PolicyKit1.Authority).
constexpr std::uint32_t kAllowUserInteraction = 1;

// This time is long, because somebody may have to find the person who knows the
// password.
constexpr std::chrono::seconds kTimeToAuthenticate{300};
constexpr std::chrono::seconds kTimeToAnswer{10};

std::map<std::string, std::string> DetailsOf(
    const AuthorityQuestion& question) {
  return {{"method", question.method},
          {"object", question.object},
          {"polkit.message", question.message}};
}

std::string WhyNot(bool challenge, bool interactive,
                   const std::map<std::string, std::string>& details) {
  if (details.contains("polkit.dismissed")) {
    return "polkit: the user dismissed the authentication";
  }
  if (challenge) {
    return interactive
               ? "polkit: no authentication agent is running for this session"
               : "polkit: an administrator must authenticate, which the call "
                 "must allow (mountctl --interactive)";
  }
  return "polkit: the caller is not authorized";
}

}  // namespace

Polkit::Polkit(sdbus::IConnection& connection, sd_bus* bus, Identify identify)
    : bus_(bus),
      identify_(std::move(identify)),
      authority_(sdbus::createProxy(connection, sdbus::ServiceName(kPolkit),
                                    sdbus::ObjectPath(kAuthorityPath))) {}

Polkit::~Polkit() = default;

bool Polkit::IsInteractive() const {
  sd_bus_message* const message = sd_bus_get_current_message(bus_);
  return message != nullptr &&
         sd_bus_message_get_allow_interactive_authorization(message) > 0;
}

void Polkit::Ask(const AuthorityQuestion& question, OnAnswer on_answer) {
  if (++asking_[question.uid] > kMaxQuestionsOfUser) {
    Asked(question.uid);
    on_answer({std::nullopt,
               "too many polkit requests of this user are pending; call again "
               "later"});
    return;
  }
  try {
    Send(question, on_answer);
  } catch (const sdbus::Error& error) {
    Asked(question.uid);
    on_answer(Judge(question, error, {}));
  }
}

void Polkit::Send(const AuthorityQuestion& question, OnAnswer on_answer) {
  using Subject =
      sdbus::Struct<std::string, std::map<std::string, sdbus::Variant>>;
  // Names the caller by the bus's unique name, which is never given again. A
  // pid may be another process's by then.
  const Subject subject{"system-bus-name",
                        {{"name", sdbus::Variant(question.sender)}}};
  const std::chrono::microseconds patience =
      question.interactive ? kTimeToAuthenticate : kTimeToAnswer;
  authority_->callMethodAsync("CheckAuthorization")
      .onInterface(kAuthority)
      .withTimeout(patience)
      .withArguments(subject, question.action, DetailsOf(question),
                     question.interactive ? kAllowUserInteraction : 0U,
                     std::string())
      .uponReplyInvoke([this, question, on_answer = std::move(on_answer)](
                           std::optional<sdbus::Error> error, Verdict verdict) {
        Asked(question.uid);
        on_answer(Judge(question, error, verdict));
      });
}

void Polkit::Asked(std::uint32_t uid) {
  if (const auto found = asking_.find(uid); --found->second == 0) {
    asking_.erase(found);
  }
}

// Identifies the caller again after polkit has agreed, because the caller may
// have left the bus meanwhile, or be in other groups.
Authority::Answer Polkit::Judge(const AuthorityQuestion& question,
                                const std::optional<sdbus::Error>& error,
                                const Verdict& verdict) const {
  if (error) {
    spdlog::debug("polkit: {}: {}", std::string(error->getName()),
                  error->getMessage());
    return {std::nullopt, "polkit does not answer"};
  }
  if (!std::get<0>(verdict)) {
    return {std::nullopt, WhyNot(std::get<1>(verdict), question.interactive,
                                 std::get<2>(verdict))};
  }
  Result<Caller> caller = identify_(question.sender);
  if (!caller) {
    return {std::nullopt, "its sender has gone"};
  }
  caller->authority = question.action;
  caller->authority_subject = question.sender;
  return {*std::move(caller), ""};
}

}  // namespace mountd::dbus
