// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "mountd/base/result.h"
#include "mountd/plan/message.h"

// Writes an Error into a Reply and reads it back. Cuts texts that are too long.
namespace mountd::exec {

template <std::size_t kSize>
void CopyText(const std::string& text, std::array<char, kSize>* into) {
  const std::size_t size = std::min(text.size(), kSize - 1);
  std::copy_n(text.begin(), size, into->begin());
  into->at(size) = '\0';
}

template <std::size_t kSize>
std::string FixedText(const std::array<char, kSize>& text) {
  return {text.data(), ::strnlen(text.data(), kSize)};
}

inline void SetError(const Error& error, Reply* reply) {
  reply->code = static_cast<std::uint32_t>(error.code);
  reply->sys_errno = error.sys_errno;
  CopyText(error.op, &reply->op);
  CopyText(error.object, &reply->object);
  CopyText(error.detail, &reply->detail);
}

// Reads the error of a reply whose code is not 0.
inline Error ToError(const Reply& reply) {
  Error error;
  error.code = reply.code <= static_cast<std::uint32_t>(kLastCode)
                   ? static_cast<Code>(reply.code)
                   : Code::kInternal;
  error.op = FixedText(reply.op);
  error.object = FixedText(reply.object);
  error.detail = FixedText(reply.detail);
  error.sys_errno = reply.sys_errno;
  return error;
}

}  // namespace mountd::exec
