// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>

#include <iostream>
#include <memory>

#include "agent/mountctl/commands.h"
#include "agent/mountctl/json.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

constexpr char kGroup[] = "Networks, volumes and mounts";

struct TreeArguments {
  std::string directory;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// Opens the directory, calls, prints.
template <typename Call>
int OnTree(const Context& context, const std::string& path, const char* done,
           const Call& call) {
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
      std::cout << ", " << result.left << " of other owners left";
    }
    std::cout << std::endl;
    return Ok();
  });
}

void AddDirectory(CLI::App& command, TreeArguments& arguments) {
  command
      .add_option("DIR", arguments.directory,
                  "A directory of your own beneath your alloc_roots")
      ->required();
}

}  // namespace

void AddTreeCommands(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<TreeArguments>();
  auto* remove = app.add_subcommand(
      "remove-tree", "Remove all that is in a directory, whoever owns it");
  remove->group(kGroup);
  AddDirectory(*remove, *arguments);
  remove->callback([&context, arguments] {
    context.chosen = [&context, arguments] {
      return OnTree(
          context, arguments->directory, "removed",
          [](Client& client, int fd) { return client.RemoveTree(fd); });
    };
  });
  auto* chown = app.add_subcommand(
      "chown-tree", "Give all that is in a directory to another owner");
  chown->group(kGroup);
  AddDirectory(*chown, *arguments);
  chown->add_option("UID", arguments->uid, "The owner to be")->required();
  chown->add_option("GID", arguments->gid, "The group to be")->required();
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
