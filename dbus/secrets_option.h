// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "dbus/options.h"
#include "mountd/base/unique_fd.h"

namespace mountd::dbus {

// "secrets" of a call's options. Only a memfd that nobody can change any more,
// so that what the RPC host reads is what the agent wrote. An absent key is no
// secrets.
Result<std::shared_ptr<UniqueFd>> SecretsFrom(OptionReader& reader);

// Tells memfds apart, so that a call with other secrets does not join one that
// is under way.
std::string IdentityOf(const UniqueFd& secrets);

}  // namespace mountd::dbus
