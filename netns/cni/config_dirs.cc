// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/config_dirs.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "netns/cni/trusted_files.h"

namespace mountd::cni {
namespace {

constexpr std::array<std::string_view, 3> kEndings = {".conf", ".conflist",
                                                      ".json"};

bool IsConfigFile(std::string_view name) {
  return std::any_of(
      kEndings.begin(), kEndings.end(),
      [&](std::string_view ending) { return name.ends_with(ending); });
}

// Appends the plugins in the directory of the network's name.
Result<void> AddPluginFiles(const std::string& directory, NetworkList& list) {
  const Result<UniqueFd> opened =
      OpenTrustedDirectory(directory + "/" + list.name);
  if (!opened) {
    return opened.error().code == Code::kNotFound
               ? Ok()
               : Result<void>(opened.error());
  }
  MOUNTD_ASSIGN(const std::vector<std::string> names, ListNames(opened->get()));
  for (const std::string& name : names) {
    if (!name.ends_with(".conf")) {
      continue;
    }
    MOUNTD_ASSIGN(
        const std::string text,
        ReadTrustedFile(opened->get(), name, kConfigBounds.max_bytes));
    MOUNTD_ASSIGN(Json plugin, ParsePluginConfig(text, name));
    list.plugins.push_back(std::move(plugin));
  }
  return Ok();
}

// Adds the plugins of the network's own directory, and checks their number.
Result<void> Complete(const std::string& directory, const std::string& file,
                      NetworkList& list) {
  if (!list.only_inlined_plugins) {
    MOUNTD_TRY(AddPluginFiles(directory, list));
  }
  if (list.plugins.empty() || list.plugins.size() > kMaxPlugins) {
    return MakeError(Code::kInvalidArgument, "config", file,
                     "must have at least one plugin, and at most " +
                         std::to_string(kMaxPlugins));
  }
  return Ok();
}

bool Has(const std::vector<FoundNetwork>& networks, const std::string& name) {
  return std::any_of(
      networks.begin(), networks.end(),
      [&](const FoundNetwork& network) { return network.list.name == name; });
}

// Reads one file into the usable or the unusable networks.
void AddFile(const std::string& directory, int fd, const std::string& name,
             Networks& networks) {
  const std::string path = directory + "/" + name;
  const Result<std::string> text =
      ReadTrustedFile(fd, name, kConfigBounds.max_bytes);
  if (!text) {
    networks.unusable.push_back({path, "", text.error()});
    return;
  }
  Result<NetworkList> list = ParseNetworkList(*text, name);
  if (!list) {
    networks.unusable.push_back({path, "", list.error()});
    return;
  }
  const Result<void> complete = Complete(directory, name, *list);
  if (!complete) {
    networks.unusable.push_back({path, list->name, complete.error()});
  } else if (Has(networks.usable, list->name)) {
    networks.unusable.push_back(
        {path, list->name,
         MakeError(Code::kAlreadyExists, "config", name,
                   "an earlier file already has a network of this name")});
  } else {
    networks.usable.push_back({path, std::move(*list)});
  }
}

// Reads a directory's files in the order of their names.
void AddDirectory(const std::string& directory, Networks& networks) {
  const Result<UniqueFd> opened = OpenTrustedDirectory(directory);
  if (!opened) {
    if (opened.error().code != Code::kNotFound) {
      networks.unusable.push_back({directory, "", opened.error()});
    }
    return;
  }
  const Result<std::vector<std::string>> names = ListNames(opened->get());
  if (!names) {
    networks.unusable.push_back({directory, "", names.error()});
    return;
  }
  std::size_t files = 0;
  for (const std::string& name : *names) {
    if (!IsConfigFile(name)) {
      continue;
    }
    if (++files > kMaxConfigFiles) {
      networks.unusable.push_back(
          {directory, "",
           MakeError(Code::kResourceExhausted, "config", directory,
                     "has more files than mountd reads")});
      return;
    }
    AddFile(directory, opened->get(), name, networks);
  }
}

}  // namespace

Networks LoadNetworks(const std::vector<std::string>& directories) {
  Networks networks;
  for (const std::string& directory : directories) {
    AddDirectory(directory, networks);
  }
  return networks;
}

Result<NetworkList> FindNetwork(const std::vector<std::string>& directories,
                                const std::string& name) {
  Networks networks = LoadNetworks(directories);
  for (FoundNetwork& network : networks.usable) {
    if (network.list.name == name) {
      return std::move(network.list);
    }
  }
  for (const Unusable& file : networks.unusable) {
    if (file.network == name) {
      return file.reason;
    }
  }
  return MakeError(Code::kNotFound, "config", name,
                   networks.unusable.empty()
                       ? "no file has a network of this name"
                       : "no valid file has a network of this name; " +
                             networks.unusable.front().reason.Message());
}

}  // namespace mountd::cni
