// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/network_verbs.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netns/cni/answer.h"
#include "netns/cni/attachments.h"
#include "netns/cni/chain.h"
#include "netns/cni/config_dirs.h"
#include "netns/cni/state_dir.h"

namespace mountd::cni {
namespace {

// Nomad gives a plugin the same time to report its version.
constexpr std::chrono::milliseconds kVersionTime(3000);

// Returns whether the request is about this network.
bool Wants(const Request& request, const std::string& network) {
  return request.network.empty() || request.network == network;
}

// Returns a record without an attachment, which is the same for all plugins of
// the network.
Record RecordOf(const Context& context, const NetworkList& list) {
  Record record;
  record.list = list;
  record.version = ChooseVersion(list, context.plugins, context.deadline);
  return record;
}

struct Collected {
  std::vector<std::string> removed;
  std::vector<PluginError> left;
};

// Detaches the recorded attachments that the request does not list as valid.
void DetachInvalid(const Context& context, const StateDir& state,
                   const Request& request,
                   const std::vector<Attachment>& attachments,
                   Collected& collected) {
  for (const Attachment& attachment : attachments) {
    // With earlier_boots all attachments of this boot count as valid.
    const bool is_valid = request.earlier_boots ||
                          std::binary_search(request.valid.begin(),
                                             request.valid.end(), attachment);
    if (is_valid && !state.IsOfEarlierBoot(attachment)) {
      continue;
    }
    const Result<std::optional<Record>> record = state.Load(attachment);
    if (!record) {
      collected.left.emplace_back(record.error());
      continue;
    }
    if (!*record || !Wants(request, (*record)->list.name)) {
      continue;
    }
    auto left = Detach(context, state, **record, (*record)->list.plugins.size(),
                       context.deadline);
    if (left.empty()) {
      state.ForgetLock(attachment);
      collected.removed.push_back(attachment.ToText());
    }
    collected.left.insert(collected.left.end(), left.begin(), left.end());
  }
}

using NetworkNames = std::set<std::string>;

// Returns the networks of the attachments.
NetworkNames NetworksOf(const StateDir& state,
                        const std::vector<Attachment>& attachments) {
  NetworkNames names;
  for (const Attachment& attachment : attachments) {
    const Result<std::optional<Record>> record = state.Load(attachment);
    if (record && *record) {
      names.insert((*record)->list.name);
    }
  }
  return names;
}

// Runs GC of the networks' plugins, with the list of valid attachments.
void TellPlugins(const Context& context, const Request& request,
                 const NetworkNames& recorded, Collected& collected) {
  Json valid = Json::array();
  for (const Attachment& attachment : request.valid) {
    valid.push_back({{"containerID", attachment.container_id},
                     {"ifname", attachment.ifname}});
  }
  for (const auto& network : LoadNetworks(context.options.config_dirs).usable) {
    const std::string& name = network.list.name;
    // Other programs may have attachments of a network that has none here.
    const bool is_others = context.options.recorded && !recorded.contains(name);
    if (!Wants(request, name) || network.list.disable_gc || is_others) {
      continue;
    }
    const Record record = RecordOf(context, network.list);
    if (!HasStatusAndGc(record.version)) {
      continue;
    }
    for (const Json& plugin : record.list.plugins) {
      Json config = PluginConfig(record, plugin, nullptr);
      config["cni.dev/valid-attachments"] = valid;
      const auto answer =
          context.plugins.Run({"GC", {}, "", ""}, config, context.deadline);
      if (!answer) {
        collected.left.push_back(answer.error());
      }
    }
  }
}

// Returns how long GC waits for the lock. With --recorded it does not wait,
// because the caller has just made its list. If an attachment were made while
// GC waits, the list would not have it, and GC would remove it.
Deadline TimeForLock(const Context& context) {
  return context.options.recorded
             ? Deadline::After(std::chrono::milliseconds(0))
             : context.deadline;
}

PluginOutcome<Json> TryCollect(const Context& context, const Request& request) {
  MOUNTD_ASSIGN(const StateDir state,
                NoPlugins(StateDir::Open(context.options.state_dir,
                                         context.options.kept_dir)));
  MOUNTD_ASSIGN(const UniqueFd lock,
                NoPlugins(state.LockAll(StateDir::Share::kAlone,
                                        TimeForLock(context), context.stop)));
  MOUNTD_ASSIGN(const std::vector<Attachment> attachments,
                NoPlugins(state.List()));
  const NetworkNames recorded = NetworksOf(state, attachments);
  Collected collected;
  DetachInvalid(context, state, request, attachments, collected);
  // GC of earlier boots is not about valid attachments, so plugins get no list.
  if (!request.earlier_boots) {
    TellPlugins(context, request, recorded, collected);
  }
  MOUNTD_TRY(NoPlugins(state.ForgetLocksWithoutRecords()));
  Json answer = collected.left.empty()
                    ? Success(Json::object())
                    : Failure(collected.left.front(), collected.left);
  answer["removed"] = collected.removed;
  return answer;
}

PluginOutcome<Json> TryStatus(const Context& context, const Request& request) {
  MOUNTD_ASSIGN(
      const NetworkList list,
      NoPlugins(FindNetwork(context.options.config_dirs, request.network)));
  for (const Json& plugin : list.plugins) {
    MOUNTD_TRY(context.plugins.CheckInstalled(plugin));
  }
  const Record record = RecordOf(context, list);
  if (!HasStatusAndGc(record.version)) {
    return Success({{"checked", false}});
  }
  for (const Json& plugin : list.plugins) {
    MOUNTD_TRY(context.plugins.Run({"STATUS", {}, "", ""},
                                   PluginConfig(record, plugin, nullptr),
                                   context.deadline));
  }
  return Success({{"checked", true}});
}

void AddCapabilities(const Json& plugin, std::set<std::string>& names) {
  const Json* declared = FindMember(plugin, "capabilities");
  if (declared == nullptr) {
    return;
  }
  for (const auto& [name, wanted] : declared->items()) {
    if (wanted.is_boolean() && wanted.get<bool>()) {
      names.insert(name);
    }
  }
}

Json Describe(const FoundNetwork& network, const Context& context,
              std::set<std::string>& types) {
  Json json = {{"name", network.list.name},
               {"file", network.path},
               {"cniVersion", network.list.Version()},
               {"cniVersions", network.list.versions},
               {"hasStatus", HasStatusAndGc(network.list.Version())},
               {"disableCheck", network.list.disable_check},
               {"disableGC", network.list.disable_gc},
               {"plugins", Json::array()},
               {"capabilities", Json::array()},
               {"usable", true}};
  std::set<std::string> capabilities;
  for (const Json& plugin : network.list.plugins) {
    json["plugins"].push_back(TypeOf(plugin));
    types.insert(TypeOf(plugin));
    types.insert(IpamTypeOf(plugin));
    AddCapabilities(plugin, capabilities);
    const auto installed = context.plugins.CheckInstalled(plugin);
    if (!installed && json["usable"] == true) {
      json["usable"] = false;
      json["reason"] = installed.error().error.Message();
    }
  }
  json["capabilities"] = capabilities;
  return json;
}

Json DescribePlugin(const Context& context, const std::string& type) {
  Json json = {{"type", type}};
  const Result<std::string> path = context.plugins.Find(type);
  if (!path) {
    json["reason"] = path.error().Message();
    return json;
  }
  const auto time = [&] {
    return Deadline::After(kVersionTime).OrEarlier(context.deadline);
  };
  json["path"] = *path;
  const auto versions = context.plugins.Versions(type, time());
  if (versions) {
    json["supportedVersions"] = *versions;
  } else {
    json["reason"] = versions.error().error.Message();
  }
  json["release"] = context.plugins.Release(type, time());
  return json;
}

}  // namespace

Json CollectGarbage(const Context& context, const Request& request) {
  PluginOutcome<Json> outcome = TryCollect(context, request);
  return outcome ? std::move(*outcome) : Failure(outcome.error());
}

Json Status(const Context& context, const Request& request) {
  PluginOutcome<Json> outcome = TryStatus(context, request);
  return outcome ? std::move(*outcome) : Failure(outcome.error());
}

Json List(const Context& context) {
  const Networks networks = LoadNetworks(context.options.config_dirs);
  std::set<std::string> types;
  Json answer = {{"networks", Json::array()},
                 {"plugins", Json::array()},
                 {"unusable", Json::array()}};
  for (const FoundNetwork& network : networks.usable) {
    answer["networks"].push_back(Describe(network, context, types));
  }
  for (const Unusable& file : networks.unusable) {
    answer["unusable"].push_back(
        {{"file", file.path}, {"reason", file.reason.Message()}});
  }
  // Plugins without IPAM have the type "".
  types.erase("");
  for (const std::string& type : types) {
    answer["plugins"].push_back(DescribePlugin(context, type));
  }
  return Success(std::move(answer));
}

}  // namespace mountd::cni
