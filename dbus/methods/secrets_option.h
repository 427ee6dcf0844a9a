// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "dbus/dict/options.h"
#include "mountd/base/unique_fd.h"

namespace mountd::dbus {

// Reads "secrets" of a call's options. Takes only a memfd with all seals,
// because the RPC host must read what the agent wrote. An absent key means no
// secrets. InvalidArgument if the fd is not such a memfd.
Result<std::shared_ptr<UniqueFd>> SecretsFrom(OptionReader& reader);

// Returns a text that identifies a memfd, so that a call does not join a call
// with other secrets.
std::string IdentityOf(const UniqueFd& secrets);

}  // namespace mountd::dbus
