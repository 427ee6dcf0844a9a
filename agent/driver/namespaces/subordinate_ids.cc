// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/namespaces/subordinate_ids.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <utility>

#include "mountd/base/number.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {
namespace {

// The largest uint32_t is no id, because chown(2) reads it as "unchanged".
constexpr std::uint64_t kEndOfIds = std::numeric_limits<std::uint32_t>::max();

// A range whose end is excluded. The end does not fit into 32 bits for a range
// that reaches too far.
struct Span {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

std::optional<Span> SpanOfLine(std::string_view line, const IdOwner& owner,
                               std::string_view owner_uid) {
  const std::size_t first_colon = line.find(':');
  const std::size_t second_colon = line.find(':', first_colon + 1);
  if (first_colon == std::string_view::npos ||
      second_colon == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view named = line.substr(0, first_colon);
  // An empty name of the owner must not match a line without a name.
  if (named.empty() || (named != owner.name && named != owner_uid)) {
    return std::nullopt;
  }
  const auto first = ParseNumber<std::uint32_t>(
      line.substr(first_colon + 1, second_colon - first_colon - 1));
  const auto count = ParseNumber<std::uint32_t>(line.substr(second_colon + 1));
  if (!first || !count || *count == 0 ||
      std::uint64_t{*first} + *count > kEndOfIds) {
    return std::nullopt;
  }
  return Span{*first, std::uint64_t{*first} + *count};
}

std::vector<Span> Joined(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.first < b.first; });
  std::vector<Span> joined;
  for (const Span& span : spans) {
    if (!joined.empty() && span.first <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, span.end);
    } else {
      joined.push_back(span);
    }
  }
  return joined;
}

std::vector<Span> Without(const std::vector<Span>& spans, std::uint32_t id) {
  std::vector<Span> rest;
  for (const Span& span : spans) {
    if (id < span.first || id >= span.end) {
      rest.push_back(span);
      continue;
    }
    if (span.first < id) {
      rest.push_back({span.first, id});
    }
    if (std::uint64_t{id} + 1 < span.end) {
      rest.push_back({std::uint64_t{id} + 1, span.end});
    }
  }
  return rest;
}

Result<std::string> ReadRegularFile(const std::string& path) {
  const UniqueFd file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) {
    if (errno == ENOENT) {
      return std::string();
    }
    return ErrnoError(errno, "open", path);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return MakeError(Code::kInvalidArgument, "open", path,
                     "the file is not a regular file");
  }
  std::string text;
  std::string part(std::size_t{64} << 10U, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return ErrnoError(errno, "read", path);
    }
    if (got == 0) {
      return text;
    }
    text.append(part, 0, static_cast<std::size_t>(got));
    if (text.size() > kMostBytes) {
      return MakeError(Code::kResourceExhausted, "read", path,
                       "the file has more than 16 MiB");
    }
  }
}

}  // namespace

std::vector<IdRange> SubordinateRanges(std::string_view text,
                                       const IdOwner& owner,
                                       std::uint32_t own) {
  const std::string owner_uid = std::to_string(owner.uid);
  std::vector<Span> spans;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto span = SpanOfLine(text.substr(0, end), owner, owner_uid)) {
      spans.push_back(*span);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  spans = Without(Without(Joined(std::move(spans)), own), 0);
  spans.resize(std::min(spans.size(), kMostRanges));
  std::vector<IdRange> ranges;
  ranges.reserve(spans.size());
  for (const Span& span : spans) {
    ranges.push_back({static_cast<std::uint32_t>(span.first),
                      static_cast<std::uint32_t>(span.end - span.first)});
  }
  return ranges;
}

Result<std::vector<IdRange>> ReadSubordinateRanges(const std::string& path,
                                                   const IdOwner& owner,
                                                   std::uint32_t own) {
  MOUNTD_ASSIGN(const std::string text, ReadRegularFile(path));
  return SubordinateRanges(text, owner, own);
}

}  // namespace mountd::driver
