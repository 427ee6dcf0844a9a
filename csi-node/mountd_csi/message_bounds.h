// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <string>

// Any message of CSI's, gone through field by field.
namespace mountd::csi {

inline constexpr std::size_t kMaxResponse = std::size_t{1} << 20U;
inline constexpr int kMaxListed = 10'000;

// Null if the message, as it came from a plugin, is within its bounds; else
// what is not: 1 MiB in all, 10,000 items a list, ipc/message.h's bounds of
// maps and of volume ids for every other text. What has been cleaned is not
// looked at: fields named "message".
const char* BeyondBounds(const google::protobuf::Message& message);

// Whether the message or one in it has fields that its type has not.
bool HasUnknownFields(const google::protobuf::Message& message);

// Calls `change` with every text of a field of that name, however deep.
void ForEachText(google::protobuf::Message* message, const char* field,
                 const std::function<std::string(const std::string&)>& change);

}  // namespace mountd::csi
