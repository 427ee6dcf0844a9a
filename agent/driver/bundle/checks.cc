// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/checks.h"

#include <linux/limits.h>

#include <algorithm>
#include <cstddef>

#include "mountd/base/names.h"
#include "mountd/base/one_line.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kMostText = std::size_t{128} << 10U;
constexpr std::size_t kMostShown = 200;

Error Refusal(const std::string& what, std::string_view text,
              std::string detail) {
  return MakeError(Code::kInvalidArgument, what,
                   OnOneLine(text.substr(0, kMostShown)), std::move(detail));
}

bool HasOddComponent(std::string_view path) {
  for (std::size_t begin = 1; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return true;
    }
    begin = end + 1;
  }
  return path.size() > 1 && path.back() == '/';
}

}  // namespace

bool IsAtOrBeneath(std::string_view path, std::string_view parent) {
  return path.substr(0, parent.size()) == parent &&
         (path.size() == parent.size() || path[parent.size()] == '/');
}

Result<void> CheckText(const std::string& what, std::string_view text) {
  if (text.size() >= kMostText) {
    return Refusal(what, text, "the text is longer than 128 KiB");
  }
  if (text.find('\0') != std::string_view::npos || !IsValidUtf8(text)) {
    return Refusal(what, text, "the text is not UTF-8, or has a NUL");
  }
  return Ok();
}

Result<void> CheckPath(const std::string& what, std::string_view path) {
  MOUNTD_TRY(CheckText(what, path));
  if (path.empty() || path.front() != '/') {
    return Refusal(what, path, "the path is not absolute");
  }
  if (path.size() >= PATH_MAX) {
    return Refusal(what, path, "the path is too long");
  }
  if (path != "/" && HasOddComponent(path)) {
    return Refusal(what, path,
                   "the path has an empty component, \".\" or \"..\"");
  }
  return Ok();
}

Result<void> CheckDestination(const std::string& what, std::string_view path) {
  MOUNTD_TRY(CheckPath(what, path));
  for (const std::string_view guarded : {"/proc", "/sys", "/dev"}) {
    if (path == "/" || IsAtOrBeneath(path, guarded)) {
      return Refusal(what, path,
                     "a task's mount may not cover /, /proc, /sys or /dev, or "
                     "anything beneath these three; choose another path");
    }
  }
  return Ok();
}

}  // namespace mountd::driver
