// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "agent/mountctl/commands/command_line.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/job/job.h"
#include "agent/mountctl/output/json.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

struct TreeArguments {
  std::string directory;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// Opens the directory, calls `call`, prints the result.
template <typename Call>
int OnTree(const Context& context, const std::string& path, const char* done,
           const Call& call) {
  // O_NOFOLLOW, because a symbolic link would lead to another directory.
  const UniqueFd directory(
      open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.valid()) {
    return Fail(ErrnoError(errno, "open", path));
  }
  return WithClient(context, [&](Client& client) -> Result<void> {
    MOUNTD_ASSIGN(const TreeResult result, call(client, directory.get()));
    if (context.json) {
      std::cout << Dump(ToJson(result)) << std::endl;
      return Ok();
    }
    std::cout << result.done << " " << done;
    if (result.left > 0) {
      std::cout << ", " << result.left << " left, which others own";
    }
    std::cout << std::endl;
    return Ok();
  });
}

void AddDirectory(CLI::App& command, TreeArguments& arguments) {
  command
      .add_option("DIR", arguments.directory,
                  "A directory that you own, below your alloc_roots")
      ->required();
}

struct OpenArguments {
  std::string allocation;
  BindMountSpec spec;
  std::string propagation = "private";
  std::vector<std::string> command;
};

// Replaces this process by the command, with the fd that `open` returns, of a
// mount or of a namespace, as fd 3.
int RunWithTree(const Context& context, const OpenArguments& arguments,
                const std::function<Result<UniqueFd>(Client&)>& open) {
  constexpr int kTree = 3;
  UniqueFd tree;
  const int status = WithClient(context, [&](Client& client) -> Result<void> {
    MOUNTD_ASSIGN(tree, open(client));
    return Ok();
  });
  if (status != kExitOk) {
    return status;
  }
  std::vector<char*> words;
  for (const std::string& word : arguments.command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  // dup2 of an fd onto itself would leave close-on-exec set.
  const bool passed = tree.get() == kTree ? ::fcntl(kTree, F_SETFD, 0) == 0
                                          : ::dup2(tree.get(), kTree) == kTree;
  if (passed) {
    ::execvp(words.front(), words.data());
  }
  return Fail(ErrnoError(errno, "execvp", arguments.command.front()));
}

// Adds the first argument of each command that opens a mount or a namespace of
// an allocation. Returns the object that holds all arguments of the command.
std::shared_ptr<OpenArguments> ForAllocation(CLI::App& command) {
  command.group(kPartsGroup);
  auto arguments = std::make_shared<OpenArguments>();
  command.add_option("ALLOC", arguments->allocation, "The allocation's id")
      ->required();
  return arguments;
}

// Adds the last arguments: the program that gets the fd.
void AddProgram(CLI::App& command, OpenArguments& arguments) {
  command
      .add_option("COMMAND", arguments.command,
                  "The command and its arguments, after --")
      ->required();
}

void AddOpenTree(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "open-tree",
      "Run a command that gets a source as a detached mount in fd 3");
  const auto arguments = ForAllocation(*command);
  command
      ->add_option_function<std::string>(
          "--source",
          [arguments](const std::string& text) {
            ParseSource(text, arguments->spec);
          },
          "The source: host:NAME or volume:ALIAS")
      ->required()
      ->check([](const std::string& text) -> std::string {
        BindMountSpec ignored;
        return ParseSource(text, ignored) ? ""
                                          : "must be host:NAME or volume:ALIAS";
      });
  command
      ->add_option(
          "--propagation", arguments->propagation,
          "Choose whether it receives later mounts (default private: no)")
      ->check(CLI::IsMember({"private", "host-to-task"}));
  AddProgram(*command, *arguments);
  command->callback([&context, arguments] {
    arguments->command = WholeCommand(context, std::move(arguments->command));
    context.chosen = [&context, arguments] {
      arguments->spec.propagation =
          ParsePropagation(arguments->propagation).value();
      return RunWithTree(context, *arguments, [&](Client& client) {
        return client.OpenTree(arguments->allocation, arguments->spec);
      });
    };
  });
}

void AddOpenInbox(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "open-inbox",
      "Run a command that gets a task's inbox as a detached mount in fd 3");
  const auto arguments = ForAllocation(*command);
  command->add_option("TASK", arguments->spec.task, "The task's name")
      ->required();
  AddProgram(*command, *arguments);
  command->callback([&context, arguments] {
    arguments->command = WholeCommand(context, std::move(arguments->command));
    context.chosen = [&context, arguments] {
      return RunWithTree(context, *arguments, [&](Client& client) {
        return client.OpenInbox(arguments->allocation, arguments->spec.task);
      });
    };
  });
}

void AddOpenNamespace(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "open-namespace",
      "Run a command that gets an allocation's network namespace in fd 3");
  const auto arguments = ForAllocation(*command);
  AddProgram(*command, *arguments);
  command->callback([&context, arguments] {
    arguments->command = WholeCommand(context, std::move(arguments->command));
    context.chosen = [&context, arguments] {
      return RunWithTree(
          context, *arguments, [&](Client& client) -> Result<UniqueFd> {
            // All networks are in one namespace, so any
            // network's interface will do.
            MOUNTD_ASSIGN(const AllocationStatus allocation,
                          client.GetAllocation(arguments->allocation));
            return client.OpenNamespace(
                arguments->allocation,
                allocation.networks.empty()
                    ? ""
                    : allocation.networks.front().interface);
          });
    };
  });
}

}  // namespace

void AddFileTreeCommands(CLI::App& app, Context& context) {
  AddOpenTree(app, context);
  AddOpenInbox(app, context);
  AddOpenNamespace(app, context);
  auto arguments = std::make_shared<TreeArguments>();
  auto* remove = app.add_subcommand(
      "remove-tree", "Remove everything in a directory, whoever owns it");
  remove->group(kPartsGroup);
  AddDirectory(*remove, *arguments);
  remove->callback([&context, arguments] {
    context.chosen = [&context, arguments] {
      return OnTree(
          context, arguments->directory, "removed",
          [](Client& client, int fd) { return client.RemoveTree(fd); });
    };
  });
  auto* chown = app.add_subcommand(
      "chown-tree", "Give everything in a directory to another owner");
  chown->group(kPartsGroup);
  AddDirectory(*chown, *arguments);
  chown->add_option("UID", arguments->uid, "The uid of the new owner")
      ->required();
  chown->add_option("GID", arguments->gid, "The gid of the new owner")
      ->required();
  chown->callback([&context, arguments] {
    context.chosen = [&context, arguments] {
      return OnTree(context, arguments->directory, "given",
                    [arguments](Client& client, int fd) {
                      return client.ChownTree(fd, arguments->uid,
                                              arguments->gid);
                    });
    };
  });
}

}  // namespace mountd::agent
