// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/iptables_answers.h"

#include <algorithm>
#include <string_view>

namespace mountd::nomad {
namespace {

using Words = std::vector<std::string>;

// iptables exits with 4 for a resource problem and for a missing right. 1 would
// say that a rule is missing.
constexpr int kRefused = 4;
// go-iptables derives from the version that "-C" and "--wait" are known.
constexpr char kVersion[] = " v1.8.9 (nf_tables), mountd's stand-in\n";
constexpr char kFilterChains[] =
    "-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n-N NOMAD-ADMIN\n";
constexpr char kNatChain[] = "-P POSTROUTING ACCEPT\n";

bool IsNumber(std::string_view word) {
  return !word.empty() &&
         word.find_first_not_of("0123456789") == std::string_view::npos;
}

void DropWait(Words* words) {
  const std::size_t count = words->size();
  if (count >= 2 && (*words)[count - 2] == "--wait" &&
      IsNumber(words->back())) {
    words->resize(count - 2);
  } else if (count >= 1 && words->back() == "--wait") {
    words->resize(count - 1);
  }
}

// Compares word by word; "" in the pattern is any word but an option.
bool Matches(const Words& words, const Words& pattern) {
  return std::equal(words.begin(), words.end(), pattern.begin(), pattern.end(),
                    [](const std::string& word, const std::string& wanted) {
                      return wanted.empty()
                                 ? !word.empty() && !word.starts_with('-')
                                 : word == wanted;
                    });
}

}  // namespace

IptablesReply AnswerIptables(const std::string& name, Words arguments) {
  if (Matches(arguments, {"--version"})) {
    return {0, name + kVersion};
  }
  DropWait(&arguments);
  if (Matches(arguments, {"-t", "filter", "-S"})) {
    return {0, kFilterChains};
  }
  if (Matches(arguments, {"-t", "filter", "-C", "NOMAD-ADMIN", "-o", "", "-d",
                          "", "-j", "ACCEPT"})) {
    return {};
  }
  if (Matches(arguments, {"-t", "nat", "-S", "POSTROUTING"})) {
    return {0, kNatChain};
  }
  return {
      kRefused, "",
      name +
          ": mountd's stand-in answers only what a Nomad client asks before "
          "it runs CNI plugins, and changes nothing. Run /usr/sbin/" +
          name + " for anything else.\n"};
}

}  // namespace mountd::nomad
