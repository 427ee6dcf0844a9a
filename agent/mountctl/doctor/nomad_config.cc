// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sstream>

#include "agent/mountctl/doctor/nomad_checks.h"

namespace mountd::agent {
namespace {

constexpr char kBlanks[] = " \t\r";

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos
             ? ""
             : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool IsComment(std::string_view line) {
  return line.starts_with('#') || line.starts_with("//");
}

Check CheckValue(const std::string& text, const std::string& key,
                 const std::string& wanted) {
  const std::string what = "Nomad's " + key;
  const std::string value = ValueInHcl(text, key);
  if (value == wanted) {
    return Fine(what, value);
  }
  return {
      Verdict::kFailed, what,
      value.empty() ? "is not in the client's configuration" : "is " + value,
      "write " + key + " = \"" + wanted +
          "\", as in /usr/share/mountd-nomad/nomad.hcl"};
}

// A plugin's file is loaded since Nomad 1.7 only if a block names it.
bool HasPluginBlock(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view words = Trimmed(line);
    if (words.starts_with("plugin ") &&
        words.find("\"mountd\"") != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string ValueInHcl(std::string_view text, std::string_view key) {
  std::string value;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::string_view rest = Trimmed(line);
    // The key may be in a block of one line.
    if (const std::size_t brace = rest.find('{');
        brace != std::string_view::npos && !IsComment(rest)) {
      rest = Trimmed(rest.substr(brace + 1));
    }
    if (!rest.starts_with(key)) {
      continue;
    }
    rest = Trimmed(rest.substr(key.size()));
    if (!rest.starts_with('=')) {
      continue;
    }
    rest = Trimmed(rest.substr(1));
    if (const std::size_t end = rest.find('"', 1);
        rest.starts_with('"') && end != std::string_view::npos) {
      value = rest.substr(1, end - 1);
    }
  }
  return value;
}

std::vector<Check> CheckNomadConfig(const std::string& text,
                                    const NomadDirectories& directories) {
  std::vector<Check> checks = {
      CheckValue(text, "plugin_dir", directories.plugins),
      CheckValue(text, "cni_path", directories.cni)};
  checks.push_back(
      HasPluginBlock(text)
          ? Fine("Nomad's plugin \"mountd\"", "is in the configuration")
          : Check{Verdict::kFailed, "Nomad's plugin \"mountd\"",
                  "is not in the client's configuration",
                  "write plugin \"mountd\" { config { ... } }, as in "
                  "/usr/share/mountd-nomad/nomad.hcl"});
  return checks;
}

}  // namespace mountd::agent
