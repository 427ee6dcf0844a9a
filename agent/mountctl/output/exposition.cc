// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/exposition.h"

#include <array>
#include <charconv>

#include "mountd/base/names.h"

namespace mountd::agent {
namespace {

// Returns a label's value with backslash, quote and newline escaped. If the
// value is not UTF-8, replaces each byte from 0x80 up with "?", because the
// collector rejects a file that is not UTF-8.
std::string Escaped(std::string_view text) {
  const bool utf8 = IsValidUtf8(text);
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\\\";
    } else if (c == '"') {
      escaped += "\\\"";
    } else if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += !utf8 && static_cast<unsigned char>(c) >= 0x80 ? '?' : c;
    }
  }
  return escaped;
}

// Returns the shortest text that reads back as this number, independent of the
// locale.
std::string Shown(double value) {
  std::array<char, 32> text{};
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::string(text.data(), end) : "NaN";
}

}  // namespace

void Exposition::Family(std::string_view name, std::string_view type,
                        std::string_view help) {
  family_ = name;
  text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
  text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

void Exposition::Sample(double value, const Labels& labels) {
  text_ += family_;
  char before = '{';
  for (const auto& [name, text] : labels) {
    text_ += before;
    text_.append(name).append("=\"").append(Escaped(text)).append("\"");
    before = ',';
  }
  text_.append(labels.empty() ? " " : "} ").append(Shown(value)).append("\n");
}

}  // namespace mountd::agent
