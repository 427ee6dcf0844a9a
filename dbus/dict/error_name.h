// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/Error.h>

#include <string>
#include <string_view>

#include "mountd/base/error.h"

namespace mountd::dbus {

inline constexpr char kErrorPrefix[] = "org.mountd1.Error.";

// "org.mountd1.Error.NotFound" and so on.
inline std::string ErrorName(const Error& error) {
  return kErrorPrefix + std::string(CodeName(error.code));
}

// The first words of an Unavailable's message, if mountd knows who is away. The
// words are no part of the error's name, because an older client takes a name
// that it does not know for Internal. No other message begins with them,
// because an operation's name has no colon.
inline constexpr std::string_view kRestartingWords = "restarting: ";
inline constexpr std::string_view kPluginAwayWords = "plugin away: ";

// Returns the message that goes with ErrorName.
inline std::string WireMessage(const Error& error) {
  std::string_view words;
  if (error.code == Code::kUnavailable && error.away == Away::kRestarting) {
    words = kRestartingWords;
  } else if (error.code == Code::kUnavailable && error.away == Away::kPlugin) {
    words = kPluginAwayWords;
  }
  return std::string(words) + error.Message();
}

// Returns who is away by the message of an Unavailable of mountd.
inline Away AwayOfText(std::string_view message) {
  if (message.starts_with(kRestartingWords)) {
    return Away::kRestarting;
  }
  return message.starts_with(kPluginAwayWords) ? Away::kPlugin : Away::kNone;
}

inline sdbus::Error ToDbus(const Error& error) {
  return {sdbus::Error::Name(ErrorName(error)), WireMessage(error)};
}

}  // namespace mountd::dbus
