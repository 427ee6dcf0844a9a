// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "agent/client.h"
#include "agent/client/connection.h"

namespace mountd::agent {

// Add the option `key`, unless the value is empty, or 0.
void AddText(dbus::Dict& options, const char* key, const std::string& text);
void AddMap(dbus::Dict& options, const char* key,
            const std::map<std::string, std::string>& map);
void AddBytes(dbus::Dict& options, const char* key, std::int64_t bytes);
// Adds the option "secrets", a sealed memfd, unless there are no secrets.
Result<void> AddSecrets(const std::map<std::string, std::string>& secrets,
                        dbus::Dict& options);

class Client::Impl {
 public:
  explicit Impl(ClientOptions options)
      : options_(std::move(options)), names_(options_.names) {}

  void SetNames(CallNames names) { names_ = std::move(names); }

  Result<void> Connect();

  // Makes one method call, with its repeated joins and its one reconnect.
  // Passes the proxy and the options to `call`, which may run more than once.
  template <typename F>
  // NOLINTNEXTLINE(performance-unnecessary-value-param): moved, if F is void
  auto Call(const char* op, std::string_view object, dbus::Dict options,
            const F& call)
      -> Result<std::invoke_result_t<const F&, ManagerProxy&, dbus::Dict&>> {
    using Answer = std::invoke_result_t<const F&, ManagerProxy&, dbus::Dict&>;
    if constexpr (std::is_void_v<Answer>) {
      return Run(op, std::string(object), std::move(options), call);
    } else {
      Answer answer{};
      MOUNTD_TRY(Run(op, std::string(object), std::move(options),
                     [&](ManagerProxy& proxy, dbus::Dict& sent) {
                       answer = call(proxy, sent);
                     }));
      return answer;
    }
  }

  // Returns the options of calls that list objects, or act on all listed
  // objects.
  dbus::Dict ListOptions() const {
    return options_.all_users ? dbus::Dict{{"all_users", dbus::Value(true)}}
                              : dbus::Dict();
  }

  // Returns the options of calls that list what a user may use.
  dbus::Dict GrantOptions(const std::optional<std::uint32_t>& uid) const {
    return uid ? dbus::Dict{{"uid", dbus::Value(*uid)}} : ListOptions();
  }

 private:
  using Step = std::function<void(ManagerProxy&, dbus::Dict&)>;

  Result<void> Run(const std::string& op, const std::string& object,
                   dbus::Dict options, const Step& call);
  Result<void> RunJoining(const std::string& op, const std::string& object,
                          dbus::Dict options, const Step& call);
  void SetPatience(dbus::Dict& options,
                   std::chrono::steady_clock::duration left) const;
  Result<void> Once(const std::string& op, const std::string& object,
                    dbus::Dict& options, const Step& call);

  const ClientOptions options_;
  CallNames names_;
  bool trace_is_unknown_ = false;  // to the mountd of this connection
  std::unique_ptr<Connection> connection_;
};

}  // namespace mountd::agent
