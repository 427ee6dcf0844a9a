// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <systemd/sd-bus.h>

#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dbus/dict/error_name.h"
#include "dbus/methods/administrator_actions.h"
#include "dbus/methods/audit.h"
#include "dbus/methods/manager_adaptor.h"

// Templates with which ManagerAdaptor serves any call; only its .cc files
// include this.
namespace mountd::dbus {

inline bool IsNoMemory(const sdbus::Error& error) {
  return error.getName() == SD_BUS_ERROR_NO_MEMORY;
}

// An answer that is still pending. `answer` points into the connection, and
// members die in reverse order, so `connection` is released after `answer`.
template <typename... Out>
struct PendingAnswer {
  std::shared_ptr<sdbus::IConnection> connection;
  sdbus::Result<Out...> answer;

  // Ignores a failed send, because a peer that has gone is no error of the
  // operation. Ends the process if memory is short, because a peer that is
  // still there and gets no answer would wait for ever.
  void Fail(const Error& error) noexcept {
    try {
      answer.returnError(ToDbus(error));
    } catch (const sdbus::Error& failed) {
      if (IsNoMemory(failed)) {
        std::terminate();
      }
    }
  }
  template <typename... Values>
  void Succeed(const Values&... values) noexcept {
    try {
      answer.returnResults(values...);
    } catch (const sdbus::Error& failed) {
      if (IsNoMemory(failed)) {
        std::terminate();
      }
    }
  }
};

// Builds an operation's canonical arguments. Puts each part's length before the
// part, so that no two different lists give the same text.
class Arguments {
 public:
  Arguments& Add(const std::string& text) {
    text_ += std::to_string(text.size()) + ":" + text;
    return *this;
  }
  Arguments& Add(const std::vector<std::string>& list) {
    Add(std::to_string(list.size()));
    for (const std::string& text : list) {
      Add(text);
    }
    return *this;
  }
  Arguments& Add(const StringMap& map) {
    Add(std::to_string(map.size()));
    for (const auto& [key, value] : map) {
      Add(key).Add(value);
    }
    return *this;
  }
  template <typename... Parts>
  static std::string Of(const Parts&... parts) {
    Arguments all;
    (all.Add(parts), ...);
    return std::move(all.text_);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

template <typename T, typename Decode, typename Convert, typename... Out>
void ManagerAdaptor::Serve(sdbus::Result<Out...>&& answer,
                           const std::string& method, Decode decode,
                           Convert convert) {
  auto pending = std::make_shared<PendingAnswer<Out...>>(
      PendingAnswer<Out...>{connection_.lock(), std::move(answer)});
  const Result<Caller> caller =
      callers_.CallerOf(getObject().getCurrentlyProcessedMessage());
  if (!caller) {
    pending->Fail(caller.error());
    return;
  }
  names_.reset();
  Result<Decoded<T>> decoded = decode();
  if (!decoded) {
    AuditUndecodable(parts_, *caller, method, decoded.error());
    pending->Fail(decoded.error());
    return;
  }
  if (decoded->strand_is_callers) {
    decoded->strand += " of user " + std::to_string(caller->uid);
  }
  auto work = [&services = parts_.services,
               work = std::move(decoded->work)](const CallContext& context) {
    return work(services, context);
  };
  Operations::Call<T> call{method,
                           std::move(decoded->arguments),
                           std::move(decoded->strand),
                           decoded->joins,
                           *caller,
                           decoded->patience,
                           std::move(work),
                           [pending, convert](Result<T> result) {
                             if (!result) {
                               pending->Fail(result.error());
                             } else if constexpr (std::is_void_v<T>) {
                               static_cast<void>(convert);  // else unused
                               pending->Succeed();
                             } else {
                               pending->Succeed(convert(*result));
                             }
                           },
                           std::move(names_)};
  AskIfRefused(call);
  parts_.operations.Run<T>(std::move(call));
}

// Sets up `call` so that the Authority decides about a refusal that an
// administrator could lift. If the Authority agrees, makes the call again from
// its beginning, so that all checks run again with the caller's new authority.
template <typename T>
void ManagerAdaptor::AskIfRefused(Operations::Call<T>& call) {
  const std::shared_ptr<Authority> authority = callers_.authority();
  const AdministratorAction* const action =
      authority == nullptr ? nullptr : FindAdministratorAction(call.method);
  if (action == nullptr) {
    return;
  }
  const char* const sender =
      getObject().getCurrentlyProcessedMessage().getSender();
  // If this connection has already begun the same call with this authority,
  // joins that call, and does not ask polkit a second time.
  auto allowed = std::make_shared<Operations::Call<T>>(call);
  allowed->caller.authority = action->id;
  allowed->caller.authority_subject = sender == nullptr ? "" : sender;
  if (parts_.operations.IsUnderWay(*allowed)) {
    call.caller = allowed->caller;
    return;
  }
  AuthorityQuestion question{std::string(action->id),
                             std::string(action->message),
                             call.method,
                             "",
                             allowed->caller.authority_subject,
                             call.caller.uid,
                             authority->IsInteractive()};
  call.reply = [&operations = parts_.operations, question, allowed,
                authority = std::weak_ptr(authority)](Result<T> result) {
    const auto asked = authority.lock();
    if (result || !result.error().administrator_may || asked == nullptr) {
      allowed->reply(std::move(result));
      return;
    }
    AuthorityQuestion about = question;
    about.object = result.error().object;
    asked->Ask(about, [&operations, allowed, refusal = result.error()](
                          const Authority::Answer& answer) {
      if (answer.caller) {
        allowed->caller = *answer.caller;
        operations.Run<T>(std::move(*allowed));
        return;
      }
      Error error = refusal;
      error.detail += " (" + answer.why_not + ")";
      allowed->reply(std::move(error));
    });
  };
}

template <typename T>
Result<ManagerAdaptor::Decoded<T>> ManagerAdaptor::DecodeListing(
    const Dict& options,
    std::function<Result<T>(Services&, const CallContext&)> list) const {
  Decoded<T> call;
  OptionReader reader("options", options);
  call.patience = Patience(reader);
  const bool all_users = reader.Get<bool>("all_users", false);
  MOUNTD_TRY(reader.Finish());
  call.arguments = Arguments::Of(std::string(all_users ? "all users" : ""));
  call.work = [all_users, list = std::move(list)](
                  Services& services, const CallContext& context) -> Result<T> {
    if (all_users) {
      MOUNTD_TRY(services.access.SeesAll(context));
    }
    return list(services, context);
  };
  return call;
}

template <typename Body, typename... Out>
void ManagerAdaptor::ServeNow(sdbus::Result<Out...>&& answer,
                              const Dict& options, Body body) {
  PendingAnswer<Out...> pending{connection_.lock(), std::move(answer)};
  const Result<Caller> caller =
      callers_.CallerOf(getObject().getCurrentlyProcessedMessage());
  if (!caller) {
    pending.Fail(caller.error());
    return;
  }
  if (const auto patience = OnlyPatience(options); !patience) {
    const char* const member =
        getObject().getCurrentlyProcessedMessage().getMemberName();
    AuditUndecodable(parts_, *caller, member == nullptr ? "" : member,
                     patience.error());
    pending.Fail(patience.error());
    return;
  }
  body(*caller, pending);
}

// The conversion for results that need none.
struct NoConversion {};

template <typename T>
std::vector<Dict> ToDicts(const std::vector<T>& values) {
  std::vector<Dict> dicts;
  dicts.reserve(values.size());
  for (const T& value : values) {
    dicts.push_back(ToDict(value));
  }
  return dicts;
}

}  // namespace mountd::dbus
