// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <string>

// Looks through any message of CSI, field by field.
namespace mountd::csi {

inline constexpr std::size_t kMaxResponse = std::size_t{1} << 20U;
inline constexpr int kMaxListed = 10'000;

// Returns null if a message from a plugin is within its bounds, otherwise the
// part that is not. The bounds are 1 MiB in all, 10,000 items a list, and
// ipc/message.h's bounds of maps and, for every other text, of volume ids.
// Ignores fields named "message", because those have been cleaned.
const char* BeyondBounds(const google::protobuf::Message& message);

// True if the message or a message in it has fields that its type does not
// have.
bool HasUnknownFields(const google::protobuf::Message& message);

// Calls `change` for every text in a field of that name, at any depth.
void ForEachText(google::protobuf::Message* message, const char* field,
                 const std::function<std::string(const std::string&)>& change);

}  // namespace mountd::csi
