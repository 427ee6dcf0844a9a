// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/scrub.h"

#include <algorithm>
#include <array>

#include "csi-node/ipc/message.h"
#include "mountd/base/names.h"

namespace mountd::csi {
namespace {

constexpr std::string_view kRedacted = "[REDACTED]";

// Words that reveal nothing beyond a request's other fields. Hiding "ro" in
// every message would make all of them unreadable.
constexpr std::array<std::string_view, 16> kPlainFlags = {
    "ro",      "rw",         "exec",     "noexec",    "suid", "nosuid",
    "dev",     "nodev",      "atime",    "noatime",   "sync", "async",
    "dirsync", "nodiratime", "relatime", "norelatime"};

bool IsPlain(std::string_view flag) {
  return std::find(kPlainFlags.begin(), kPlainFlags.end(), flag) !=
         kPlainFlags.end();
}

std::vector<bool> Mark(std::string_view text,
                       const std::vector<std::string_view>& hidden) {
  std::vector<bool> marks(text.size(), false);
  for (const std::string_view secret : hidden) {
    if (secret.empty()) {
      continue;
    }
    std::size_t marked_to = 0;
    // Overlapping occurrences count, too, because a part of a secret would
    // otherwise stay readable. No place is marked twice, because that takes
    // long for a secret that repeats itself.
    for (std::size_t at = text.find(secret); at != std::string_view::npos;
         at = text.find(secret, at + 1)) {
      for (std::size_t i = std::max(at, marked_to); i < at + secret.size();
           ++i) {
        marks[i] = true;
      }
      marked_to = at + secret.size();
    }
  }
  return marks;
}

// Returns the length of the valid UTF-8 character at the start of `text`, 0 if
// there is none.
std::size_t CharacterSize(std::string_view text) {
  for (std::size_t size = 1; size <= std::min<std::size_t>(4, text.size());
       ++size) {
    if (IsValidUtf8(text.substr(0, size))) {
      return size;
    }
  }
  return 0;
}

std::string Clean(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t size = CharacterSize(text);
    const bool control =
        size == 1 &&
        (text[0] == '\x7f' || static_cast<unsigned char>(text[0]) < 0x20U);
    const std::string_view character =
        size == 0 ? "?" : (control ? " " : text.substr(0, size));
    if (clean.size() + character.size() > ipc::kMaxMessage) {
      break;
    }
    clean += character;
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return clean;
}

}  // namespace

std::vector<std::string_view> HiddenTexts(
    const Secrets& secrets, const std::vector<std::string>& mount_flags) {
  std::vector<std::string_view> hidden;
  for (const auto& [key, value] : secrets.entries()) {
    hidden.push_back(value);
  }
  for (const std::string& flag : mount_flags) {
    if (IsPlain(flag)) {
      continue;
    }
    hidden.push_back(flag);
    const std::size_t equals = flag.find('=');
    if (equals != std::string::npos) {
      // The plugin's text may name the value alone.
      hidden.push_back(std::string_view(flag).substr(equals + 1));
    }
  }
  return hidden;
}

std::string Scrub(std::string_view text,
                  const std::vector<std::string_view>& hidden) {
  const std::vector<bool> marks = Mark(text, hidden);
  std::string scrubbed;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!marks[i]) {
      scrubbed += text[i];
    } else if (i == 0 || !marks[i - 1]) {
      scrubbed += kRedacted;
    }
  }
  return Clean(scrubbed);
}

}  // namespace mountd::csi
