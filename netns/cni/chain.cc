// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/chain.h"

#include <algorithm>
#include <utility>

#include "netns/cni/documents/plugin_result.h"

namespace mountd::cni {
namespace {

// Returns the answer with its version. Internal if it is not a result that may
// be passed on.
PluginOutcome<Json> CheckedResult(Json answer, const std::string& version,
                                  const std::string& type) {
  const Result<PluginResult> result =
      answer.is_object()
          ? ReadPluginResult(answer, version)
          : MakeError(Code::kInvalidArgument, "", "", "the answer is empty");
  if (!result) {
    PluginError error(MakeError(
        Code::kInternal, "ADD", type,
        "its answer is not a valid result: " + result.error().Message()));
    error.plugin = type;
    return error;
  }
  answer["cniVersion"] = version;
  return answer;
}

}  // namespace

Json PluginConfig(const Record& record, const Json& plugin,
                  const Json& previous) {
  Json config = plugin;
  Json runtime = Json::object();
  if (const Json* declared = FindMember(plugin, "capabilities")) {
    for (const auto& [name, value] : record.capabilities.items()) {
      const Json* wanted = FindMember(*declared, name.c_str());
      if (wanted != nullptr && wanted->is_boolean() && wanted->get<bool>()) {
        runtime[name] = value;
      }
    }
  }
  // Only the runner sets these members.
  for (const char* ours : {"capabilities", "runtimeConfig", "prevResult"}) {
    config.erase(ours);
  }
  config["name"] = record.list.name;
  config["cniVersion"] = record.version;
  if (!runtime.empty()) {
    config["runtimeConfig"] = std::move(runtime);
  }
  if (!previous.is_null()) {
    config["prevResult"] = previous;
  }
  return config;
}

std::string ChooseVersion(const NetworkList& list,
                          const PluginPrograms& plugins,
                          const Deadline& deadline) {
  std::vector<std::string> left = list.versions;
  for (const Json& plugin : list.plugins) {
    if (left.size() <= 1) {
      break;
    }
    const auto spoken = plugins.Versions(TypeOf(plugin), deadline);
    // A plugin that does not say which versions it speaks rules out none.
    if (!spoken) {
      continue;
    }
    std::erase_if(left, [&](const std::string& version) {
      return std::find(spoken->begin(), spoken->end(), version) ==
             spoken->end();
    });
  }
  return left.empty() ? list.Version() : left.back();
}

PluginPrograms::Call Chain::CallOf(std::string verb, std::string netns) const {
  return {std::move(verb), record_.attachment, std::move(netns), record_.args};
}

PluginOutcome<void> Chain::Add(const Deadline& deadline,
                               const Progress& progress,
                               std::size_t& tried) const {
  const PluginPrograms::Call call = CallOf("ADD", record_.netns);
  Json previous;
  tried = 0;
  for (const Json& plugin : record_.list.plugins) {
    ++tried;
    PluginOutcome<Json> answer =
        plugins_.Run(call, PluginConfig(record_, plugin, previous), deadline);
    if (!answer) {
      return answer.error();
    }
    PluginOutcome<Json> result =
        CheckedResult(std::move(*answer), record_.version, TypeOf(plugin));
    if (!result) {
      return result.error();
    }
    previous = std::move(*result);
    MOUNTD_TRY(NoPlugins(progress(previous)));
  }
  return {};
}

PluginOutcome<void> Chain::Check(const Deadline& deadline) const {
  const PluginPrograms::Call call = CallOf("CHECK", record_.netns);
  for (const Json& plugin : record_.list.plugins) {
    PluginOutcome<Json> answer = plugins_.Run(
        call, PluginConfig(record_, plugin, record_.result), deadline);
    if (!answer) {
      return answer.error();
    }
  }
  return {};
}

std::vector<PluginError> Chain::Del(std::size_t count, const std::string& netns,
                                    const Deadline& deadline) const {
  const PluginPrograms::Call call = CallOf("DEL", netns);
  std::vector<PluginError> errors;
  for (std::size_t left = count; left > 0; --left) {
    const Json& plugin = record_.list.plugins[left - 1];
    // Each plugin gets an equal part of the time that is left.
    const Deadline share = Deadline::After(
        deadline.Left() / static_cast<std::chrono::milliseconds::rep>(left));
    PluginOutcome<Json> answer = plugins_.Run(
        call, PluginConfig(record_, plugin, record_.result), share);
    // A plugin that does not know the container has nothing to undo.
    if (!answer && answer.error().cni_code != kUnknownContainer) {
      errors.push_back(answer.error());
    }
  }
  return errors;
}

}  // namespace mountd::cni
