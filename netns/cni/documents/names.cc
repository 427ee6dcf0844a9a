// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/names.h"

#include <algorithm>

#include "mountd/base/names.h"

namespace mountd::cni {
namespace {

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}

bool IsWordByte(char c) {
  return IsAlphanumeric(c) || c == '_' || c == '.' || c == '-';
}

bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20U || c == 0x7f;
}

// Returns whether valid UTF-8 has a character from U+0080 to U+009F, because
// terminals obey these as well (ECMA-48).
bool HasC1Control(std::string_view text) {
  // In UTF-8 these are the byte 0xC2 and one from 0x80 to 0x9F.
  for (std::size_t at = text.find('\xc2'); at < text.size();
       at = text.find('\xc2', at + 1)) {
    if (static_cast<unsigned char>(text[at + 1]) < 0xa0U) {
      return true;
    }
  }
  return false;
}

bool IsWord(std::string_view text, std::size_t max_bytes) {
  return !text.empty() && text.size() <= max_bytes && text != "." &&
         text != ".." && std::all_of(text.begin(), text.end(), IsWordByte);
}

}  // namespace

bool IsContainerId(std::string_view text) {
  return IsWord(text, 128) && IsAlphanumeric(text.front());
}

bool IsNetworkName(std::string_view text) { return IsContainerId(text); }

bool IsInterfaceName(std::string_view text) { return IsWord(text, 15); }

bool IsPluginType(std::string_view text) { return IsWord(text, 64); }

bool IsArgumentKey(std::string_view text) { return IsWord(text, 128); }

bool IsArgumentValue(std::string_view text) {
  return text.size() <= 4096 &&
         text.find_first_of(";=") == std::string_view::npos &&
         IsPlainText(text);
}

bool IsPlainText(std::string_view text) {
  return IsValidUtf8(text) &&
         std::none_of(text.begin(), text.end(), IsControl) &&
         !HasC1Control(text);
}

bool IsMac(std::string_view text) {
  constexpr std::size_t kMacBytes = 17;
  if (text.size() != kMacBytes) {
    return false;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
                       (c >= 'A' && c <= 'F');
    if (i % 3 == 2 ? c != ':' : !digit) {
      return false;
    }
  }
  return true;
}

std::string Scrubbed(std::string_view text, std::size_t max_bytes) {
  std::string clean;
  for (const char c : text) {
    if (clean.size() == max_bytes) {
      break;
    }
    const bool space = IsControl(c) || c == ' ';
    if (space && (clean.empty() || clean.back() == ' ')) {
      continue;
    }
    const bool ascii = static_cast<unsigned char>(c) < 0x80U;
    clean.push_back(space ? ' ' : ascii ? c : '?');
  }
  while (!clean.empty() && clean.back() == ' ') {
    clean.pop_back();
  }
  return clean;
}

}  // namespace mountd::cni
