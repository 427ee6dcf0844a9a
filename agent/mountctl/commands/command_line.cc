// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/command_line.h"

#include <algorithm>
#include <set>
#include <utility>

namespace mountd::agent {
namespace {

using Words = std::vector<std::string>;

// CLI11 takes a list's word "[a,b]" for two words, and "[a]" for "a". CLI11
// does not take a word apart that has this mark before it.
constexpr char kMark = '\x01';

void MarkBrackets(Words& words) {
  for (std::string& word : words) {
    if (word.starts_with('[') || word.starts_with(kMark)) {
      word.insert(word.begin(), kMark);
    }
  }
}

std::string WithoutMark(std::string word) {
  if (word.starts_with(kMark)) {
    word.erase(0, 1);
  }
  return word;
}

// Lets each option of `app` and of its commands read marked words.
void ReadMarks(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) {
      option->transform(&WithoutMark);
    }
  }
  for (CLI::App* command :
       app.get_subcommands([](CLI::App*) { return true; })) {
    ReadMarks(*command);
  }
}

// Null if `app` has no such command.
const CLI::App* Subcommand(const CLI::App& app, const std::string& name) {
  const std::vector<const CLI::App*> found = app.get_subcommands(
      [&name](const CLI::App* one) { return one->check_name(name); });
  return found.empty() ? nullptr : found.front();
}

// Returns the position of the first command of `app` from `at` on. A value of
// an option may have a command's name.
Words::const_iterator FirstCommand(const CLI::App& app, const CLI::App& options,
                                   Words::const_iterator at,
                                   Words::const_iterator end) {
  for (; at != end; ++at) {
    const CLI::Option* option = options.get_option_no_throw(*at);
    if (option != nullptr && option->get_items_expected_max() > 0) {
      if (++at == end) {
        return end;
      }
    } else if (Subcommand(app, *at) != nullptr) {
      return at;
    }
  }
  return end;
}

bool TakesACommand(const CLI::App& app, Words::const_iterator begin,
                   Words::const_iterator end) {
  static const std::set<std::string> kTaking{"exec", "open-inbox",
                                             "open-namespace", "open-tree"};
  const auto first = FirstCommand(app, app, begin, end);
  if (first == end || *first != "task") {
    return first != end && kTaking.contains(*first);
  }
  const CLI::App* task = Subcommand(app, "task");
  const auto second = FirstCommand(*task, app, first + 1, end);
  return second != end && *second == "run";
}

}  // namespace

void ReadCommandLine(CLI::App& app, Context& context, Words arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes != arguments.end() &&
      TakesACommand(app, arguments.cbegin(), dashes)) {
    context.command.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
    // CLI11 gets one word in place of these words, because it requires a
    // command.
    if (!context.command.empty()) {
      arguments.emplace_back("COMMAND");
    }
  }
  ReadMarks(app);
  MarkBrackets(arguments);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(std::move(arguments));
}

Words WholeCommand(const Context& context, Words words) {
  if (!context.command.empty() && !words.empty()) {
    words.pop_back();
  }
  words.insert(words.end(), context.command.begin(), context.command.end());
  return words;
}

}  // namespace mountd::agent
