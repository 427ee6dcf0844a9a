// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/plugin_error.h"

#include "netns/cni/documents/names.h"

namespace mountd::cni {
namespace {

Code CodeOf(int cni_code) {
  switch (cni_code) {
    case kIncompatibleVersion:
      return Code::kNotSupported;
    case kUnsupportedField:
    case kInvalidConfig:
      return Code::kFailedPrecondition;
    case kUnknownContainer:
      return Code::kNotFound;
    case kInvalidEnvironment:
      return Code::kInvalidArgument;
    case kTryAgainLater:
    case kPluginNotAvailable:
    case kLimitedConnectivity:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

// Returns whether another attempt may succeed. A wrong input stays wrong. All
// other codes may be temporary: most plugins report 999 for everything, even
// for a lock that is taken.
bool MayGoWellLater(int cni_code) {
  switch (cni_code) {
    case kIncompatibleVersion:
    case kUnsupportedField:
    case kUnknownContainer:
    case kInvalidEnvironment:
    case kUndecodable:
    case kInvalidConfig:
      return false;
    default:
      return true;
  }
}

}  // namespace

PluginError ReadPluginError(const Json& answer, const std::string& verb,
                            const std::string& plugin) {
  int code = 0;
  if (const Json* member = FindMember(answer, "code")) {
    const auto* number = member->get_ptr<const Json::number_unsigned_t*>();
    constexpr Json::number_unsigned_t kMaxCode = 1000000;
    code =
        number == nullptr || *number > kMaxCode ? 0 : static_cast<int>(*number);
  }
  std::string words = FindText(answer, "msg").value_or("");
  const std::string details = FindText(answer, "details").value_or("");
  if (!details.empty()) {
    words += (words.empty() ? "" : "; ") + details;
  }
  PluginError error(MakeError(CodeOf(code), verb, plugin, Scrubbed(words)));
  error.plugin = plugin;
  error.cni_code = code;
  error.may_retry = MayGoWellLater(code);
  return error;
}

}  // namespace mountd::cni
