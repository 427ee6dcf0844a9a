// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The conformance script's runner in C++, by the client library.
//
//   conformance_runner ADDRESS
#include <fcntl.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "agent/fields/grant_fields.h"
#include "agent/fields/lease_fields.h"
#include "agent/mountctl/output/json.h"
#include "tests/conformance/runner_signals.h"

namespace mountd::agent {
namespace {

using Arguments = const Json&;

// Returns {"result": ...} or {"error": ..., "message": ...}.
template <typename T>
Json Answer(const Result<T>& result) {
  if (!result) {
    return {{"error", CodeName(result.error().code)},
            {"message", result.error().Message()}};
  }
  return {{"result", MemberToJson(*result)}};
}

Json AnswerPath(const Result<std::string>& path) {
  return path ? Json{{"result", {{"host_path", *path}}}} : Answer(path);
}

Json AnswerNothing(const Result<void>& result) {
  return result ? Json{{"result", nullptr}}
                : Json{{"error", CodeName(result.error().code)},
                       {"message", result.error().Message()}};
}

// An fd is open if it is there; the client closes it.
Json AnswerFd(const Result<UniqueFd>& fd) {
  return fd ? Json{{"result",
                    ::fcntl(fd->get(), F_GETFD) >= 0 ? "open" : "closed"}}
            : Answer(Result<bool>(fd.error()));
}

std::map<std::string, std::string> TextsOf(const Json& object) {
  return object.get<std::map<std::string, std::string>>();
}

std::string Text(const Json& value) { return value.get<std::string>(); }

SourceType SourceTypeOf(const std::string& name) {
  for (const SourceType type :
       {SourceType::kHostVolume, SourceType::kTmpfs, SourceType::kFilesystem}) {
    if (SourceTypeName(type) == name) {
      return type;
    }
  }
  return SourceType::kVolume;
}

Propagation PropagationOf(const std::string& name) {
  if (name == "host-to-task") {
    return Propagation::kHostToTask;
  }
  return name == "bidirectional" ? Propagation::kBidirectional
                                 : Propagation::kPrivate;
}

OnlyIf OnlyIfOf(const Json& options) {
  const std::string name = options.value("only_if", "");
  if (name == "empty") {
    return OnlyIf::kEmpty;
  }
  return name == "unused" ? OnlyIf::kUnused : OnlyIf::kAny;
}

void ReadMountOptions(const Json& options, BindMountSpec* spec) {
  spec->task_path = options.value("task_path", "");
  spec->noexec = options.value("noexec", false);
  if (options.contains("size")) {
    spec->tmpfs = TmpfsOptions{};
    spec->tmpfs->size = options["size"].get<std::uint64_t>();
  }
}

// Reads BindMount's arguments, from those of the call.
BindMountSpec MountOf(Arguments a) {
  BindMountSpec spec;
  spec.task = a[1];
  spec.name = a[2];
  spec.source_type = SourceTypeOf(a[3]);
  spec.source = a[4];
  spec.read_only = a[5];
  spec.propagation = PropagationOf(a[6]);
  ReadMountOptions(a[7], &spec);
  return spec;
}

std::vector<BindMountSpec> MountsOf(const Json& list) {
  std::vector<BindMountSpec> specs;
  for (const Json& one : list) {
    BindMountSpec spec;
    spec.task = one["task"];
    spec.name = one["name"];
    spec.source_type = SourceTypeOf(one["source_type"]);
    spec.source = one["source"];
    ReadMountOptions(one, &spec);
    specs.push_back(spec);
  }
  return specs;
}

NetworkSpec NetworkOf(Arguments a) {
  NetworkSpec spec;
  spec.mode = a[1];
  for (const Json& one : a[2]) {
    Port port;
    port.label = one["label"];
    port.host_address = one["host_address"];
    port.host = one["host"];
    port.container = one["container"];
    port.count = one["count"];
    port.protocols = one["protocols"];
    spec.ports.push_back(port);
  }
  const Json& options = a[3];
  spec.hostname = options.value("hostname", "");
  spec.dns_servers = options.value("dns_servers", std::vector<std::string>());
  if (options.contains("hosts")) {
    for (const Json& one : options["hosts"]) {
      spec.hosts.push_back({one["address"], one["names"]});
    }
  }
  return spec;
}

VolumeSpec VolumeOf(Arguments a) {
  VolumeSpec spec;
  spec.alias = a[1];
  spec.volume = a[2];
  spec.plugin = a[3];
  spec.usage.access_mode = a[4].value("access_mode", "");
  spec.publish_context = TextsOf(a[5]);
  spec.volume_context = TextsOf(a[6]);
  spec.secrets = TextsOf(a[7].value("secrets", Json::object()));
  return spec;
}

PluginSpec PluginOf(Arguments a) {
  PluginSpec spec;
  spec.plugin = a[0];
  spec.type = a[1] == "monolith" ? PluginType::kMonolith : PluginType::kNode;
  spec.allocation = a[2];
  spec.health_timeout =
      std::chrono::milliseconds(a[3].value("health_timeout_ms", 0));
  return spec;
}

Reconciliation ReconciliationOf(Arguments a) {
  Reconciliation spec;
  spec.scope = a[0];
  spec.epoch = a[1];
  spec.wanted = a[2].get<std::vector<std::string>>();
  spec.dry_run = a[3];
  return spec;
}

UnmountMode UnmountModeOf(const Json& options) {
  return options.value("mode", "plain") == "detach" ? UnmountMode::kDetach
                                                    : UnmountMode::kPlain;
}

VolumeUsage UsageOf(const Json& keys) {
  VolumeUsage usage;
  usage.read_only = keys.value("read_only", false);
  usage.fs_type = keys.value("fs_type", "");
  usage.mount_flags = keys.value("mount_flags", std::vector<std::string>());
  return usage;
}

std::map<std::string, std::string> TextsAt(const Json& keys, const char* key) {
  return TextsOf(keys.value(key, Json::object()));
}

VolumeCreation CreationOf(Arguments a) {
  VolumeCreation spec;
  spec.plugin = a[0];
  spec.name = a[1];
  spec.required_bytes = a[2].value("required_bytes", std::int64_t{0});
  spec.usages.clear();
  for (const Json& one : a[2]["usages"]) {
    spec.usages.push_back(UsageOf(one));
  }
  spec.parameters = TextsAt(a[2], "parameters");
  for (const Json& one : a[2].value("preferred", Json::array())) {
    spec.preferred.push_back(TextsOf(one));
  }
  return spec;
}

ControllerPublishSpec ControllerPublishOf(Arguments a) {
  ControllerPublishSpec spec;
  spec.plugin = a[0];
  spec.volume = a[1];
  spec.node_id = a[2];
  spec.usage = UsageOf(a[3]);
  spec.volume_context = TextsOf(a[4]);
  spec.secrets = TextsAt(a[5], "secrets");
  return spec;
}

VolumeValidationSpec ValidationOf(Arguments a) {
  VolumeValidationSpec spec;
  spec.plugin = a[0];
  spec.volume = a[1];
  spec.usage = UsageOf(a[2]);
  spec.volume_context = TextsOf(a[3]);
  spec.parameters = TextsAt(a[4], "parameters");
  return spec;
}

ControllerExpansionSpec ControllerExpansionOf(Arguments a) {
  ControllerExpansionSpec spec;
  spec.plugin = a[0];
  spec.volume = a[1];
  spec.required_bytes = a[2];
  spec.limit_bytes = a[3].value("limit_bytes", std::int64_t{0});
  return spec;
}

VolumeExpansion ExpansionOf(Arguments a) {
  VolumeExpansion spec;
  spec.required_bytes = a[2];
  spec.limit_bytes = a[3].value("limit_bytes", std::int64_t{0});
  return spec;
}

BindMountSpec TreeOf(Arguments a) {
  BindMountSpec spec;
  spec.source_type = SourceTypeOf(a[1]);
  spec.source = a[2];
  spec.propagation = PropagationOf(a[3]);
  return spec;
}

// With "open" the client answers the fd alone.
Json AnswerInbox(Client& c, Arguments a) {
  if (!a[2].value("open", false)) {
    return Answer(c.PrepareInbox(Text(a[0]), Text(a[1])));
  }
  Json answer = AnswerFd(c.OpenInbox(Text(a[0]), Text(a[1])));
  if (answer.contains("result")) {
    answer["result"] = {{"tree", answer["result"]}};
  }
  return answer;
}

using Method = std::function<Json(Client&, Arguments)>;

const std::map<std::string, Method>& MethodsOfMounts() {
  static const std::map<std::string, Method> all = {
      {"ReplaceMount",
       [](Client& c, Arguments a) {
         return Answer(c.ReplaceMount(Text(a[0]), MountOf(a)));
       }},
      {"OpenTree",
       [](Client& c, Arguments a) {
         return AnswerFd(c.OpenTree(Text(a[0]), TreeOf(a)));
       }},
      {"PrepareInbox", AnswerInbox},
      {"RemoveInbox",
       [](Client& c, Arguments a) {
         return AnswerNothing(c.RemoveInbox(Text(a[0]), Text(a[1])));
       }},
      {"ExpandVolume",
       [](Client& c, Arguments a) {
         return Answer(c.ExpandVolume(Text(a[0]), Text(a[1]), ExpansionOf(a)));
       }},
  };
  return all;
}

// Opens the file that stands for an fd in the call's arguments.
UniqueFd Opened(const Json& path) {
  return UniqueFd(::open(Text(path).c_str(), O_RDONLY | O_CLOEXEC));
}

const std::map<std::string, Method>& MethodsOfTasks() {
  static const std::map<std::string, Method> all = {
      {"RepairMount",
       [](Client& c, Arguments a) {
         return Answer(c.RepairMount(Text(a[0]), Text(a[1]), Text(a[2])));
       }},
      {"RemoveTree",
       [](Client& c, Arguments a) {
         return Answer(c.RemoveTree(Opened(a[0]).get()));
       }},
      {"ChownTree",
       [](Client& c, Arguments a) {
         return Answer(c.ChownTree(Opened(a[0]).get(), a[1], a[2]));
       }},
      {"ListHandedOut",
       [](Client& c, Arguments a) {
         return Answer(c.ListHandedOut(Text(a[0])));
       }},
      {"VerifyTask",
       [](Client& c, Arguments a) {
         return Answer(
             c.VerifyTask(Text(a[0]), Text(a[1]), Opened(a[2]).get()));
       }},
  };
  return all;
}

const std::map<std::string, Method>& MethodsOfNode() {
  static const std::map<std::string, Method> all = {
      {"GetVolumeStats",
       [](Client& c, Arguments a) {
         return Answer(c.GetVolumeStats(Text(a[0]), Text(a[1])));
       }},
      {"ListPlugins",
       [](Client& c, Arguments) { return Answer(c.ListPlugins()); }},
      {"ListOperations",
       [](Client& c, Arguments) { return Answer(c.ListOperations()); }},
      {"GetStatistics",
       [](Client& c, Arguments) { return Answer(c.GetStatistics()); }},
      {"Reload", [](Client& c, Arguments) { return Answer(c.Reload()); }},
  };
  return all;
}

const std::map<std::string, Method>& MethodsOfControllers() {
  static const std::map<std::string, Method> all = {
      {"ControllerPublishVolume",
       [](Client& c, Arguments a) {
         return Answer(c.ControllerPublishVolume(ControllerPublishOf(a)));
       }},
      {"ControllerUnpublishVolume",
       [](Client& c, Arguments a) {
         return AnswerNothing(
             c.ControllerUnpublishVolume(Text(a[0]), Text(a[1]), Text(a[2])));
       }},
      {"ValidateVolume",
       [](Client& c, Arguments a) {
         return Answer(c.ValidateVolume(ValidationOf(a)));
       }},
      {"CreateVolume",
       [](Client& c, Arguments a) {
         return Answer(c.CreateVolume(CreationOf(a)));
       }},
      {"DeleteVolume",
       [](Client& c, Arguments a) {
         return AnswerNothing(c.DeleteVolume(Text(a[0]), Text(a[1])));
       }},
      {"ControllerExpandVolume",
       [](Client& c, Arguments a) {
         return Answer(c.ControllerExpandVolume(ControllerExpansionOf(a)));
       }},
      {"ListPluginVolumes",
       [](Client& c, Arguments a) {
         return Answer(c.ListPluginVolumes(
             Text(a[0]), {a[1].value("max_entries", std::uint32_t{0}), ""}));
       }},
      {"GetCapacity",
       [](Client& c, Arguments a) {
         return Answer(c.GetCapacity(Text(a[0])));
       }},
      {"CallController",
       [](Client& c, Arguments a) {
         return Answer(
             c.CallController({Text(a[0]), Text(a[1]), Text(a[2]), {}}));
       }},
  };
  return all;
}

const std::map<std::string, Method>& Methods() {
  static const std::map<std::string, Method> all = {
      {"GetCapabilities",
       [](Client& c, Arguments) { return Answer(c.GetCapabilities()); }},
      {"PrepareAllocation",
       [](Client& c, Arguments a) {
         AllocationOptions options;
         options.scope = a[1].value("scope", "");
         c.SetNames(
             {a[1].value("traceparent", ""), a[1].value("request_id", "")});
         const Result<std::string> path =
             c.PrepareAllocation(Text(a[0]), options);
         c.SetNames({});
         return AnswerPath(path);
       }},
      {"GetAllocation",
       [](Client& c, Arguments a) {
         return Answer(c.GetAllocation(Text(a[0])));
       }},
      {"ListAllocations",
       [](Client& c, Arguments) { return Answer(c.ListAllocations()); }},
      {"GetReceipt",
       [](Client& c, Arguments a) { return Answer(c.GetReceipt(Text(a[0]))); }},
      {"ReleaseAllocation",
       [](Client& c, Arguments a) {
         return Answer(
             c.ReleaseAllocation(Text(a[0]), OnTasks::kRefuse, OnlyIfOf(a[1])));
       }},
      {"BindMount",
       [](Client& c, Arguments a) {
         return Answer(c.BindMount(Text(a[0]), MountOf(a)));
       }},
      {"BindMounts",
       [](Client& c, Arguments a) {
         return Answer(c.BindMounts(Text(a[0]), MountsOf(a[1])));
       }},
      {"Unmount",
       [](Client& c, Arguments a) {
         return AnswerNothing(c.Unmount(Text(a[0]), Text(a[1]), Text(a[2]),
                                        UnmountModeOf(a[3])));
       }},
      {"ListHolders",
       [](Client& c, Arguments a) {
         return Answer(c.ListHolders(Text(a[0]), Text(a[1]), Text(a[2])));
       }},
      {"SetupNetwork",
       [](Client& c, Arguments a) {
         return Answer(c.SetupNetwork(Text(a[0]), NetworkOf(a)));
       }},
      {"TeardownNetwork",
       [](Client& c, Arguments a) {
         return AnswerNothing(c.TeardownNetwork(Text(a[0])));
       }},
      {"RegisterPlugin",
       [](Client& c, Arguments a) {
         return Answer(c.RegisterPlugin(PluginOf(a)));
       }},
      {"GetPlugin",
       [](Client& c, Arguments a) { return Answer(c.GetPlugin(Text(a[0]))); }},
      {"UnregisterPlugin",
       [](Client& c, Arguments a) {
         return AnswerNothing(c.UnregisterPlugin(Text(a[0])));
       }},
      {"PublishVolume",
       [](Client& c, Arguments a) {
         return Answer(c.PublishVolume(Text(a[0]), VolumeOf(a)));
       }},
      {"UnpublishVolume",
       [](Client& c, Arguments a) {
         return AnswerNothing(c.UnpublishVolume(Text(a[0]), Text(a[1])));
       }},
      {"UpdatePorts",
       [](Client& c, Arguments a) {
         return Answer(c.UpdatePorts(
             Text(a[0]), NetworkOf({a[0], "bridge", a[1], a[2]}).ports));
       }},
      {"GetNetwork",
       [](Client& c, Arguments a) { return Answer(c.GetNetwork(Text(a[0]))); }},
      {"AcquireLease",
       [](Client& c, Arguments a) {
         LeaseSpec spec;
         spec.allocation = a[1].value("allocation", "");
         spec.timeout_ms = a[1].value("timeout_ms", std::uint64_t{0});
         c.SetNames(
             {a[1].value("traceparent", ""), a[1].value("request_id", "")});
         const Result<Lease> lease = c.AcquireLease(Text(a[0]), spec);
         c.SetNames({});
         return Answer(lease);
       }},
      {"RenewLease",
       [](Client& c, Arguments a) { return Answer(c.RenewLease(Text(a[0]))); }},
      {"ReleaseLease",
       [](Client& c, Arguments a) {
         return AnswerNothing(c.ReleaseLease(Text(a[0])));
       }},
      {"ListLeases",
       [](Client& c, Arguments) { return Answer(c.ListLeases()); }},
      {"GetFence",
       [](Client& c, Arguments a) { return Answer(c.GetFence(Text(a[0]))); }},
      {"ListHostVolumes",
       [](Client& c, Arguments) { return Answer(c.ListHostVolumes()); }},
      {"ListFilesystems",
       [](Client& c, Arguments) { return Answer(c.ListFilesystems()); }},
      {"ListNetworks",
       [](Client& c, Arguments) { return Answer(c.ListNetworks()); }},
      {"ListVolumes",
       [](Client& c, Arguments) { return Answer(c.ListVolumes()); }},
      {"ListOwed", [](Client& c, Arguments) { return Answer(c.ListOwed()); }},
      {"RetryOwed", [](Client& c, Arguments) { return Answer(c.RetryOwed()); }},
      {"Cancel",
       [](Client& c, Arguments a) {
         return AnswerNothing(c.Cancel(Text(a[0])));
       }},
      {"Reconcile",
       [](Client& c, Arguments a) {
         return Answer(c.Reconcile(ReconciliationOf(a)));
       }},
  };
  return all;
}

// Returns an empty function for a method that the runner does not know.
Method FindMethod(const std::string& name) {
  for (const auto* methods : {&Methods(), &MethodsOfMounts(), &MethodsOfTasks(),
                              &MethodsOfNode(), &MethodsOfControllers()}) {
    if (const auto found = methods->find(name); found != methods->end()) {
      return found->second;
    }
  }
  return nullptr;
}

Json TakeSignal(Signals& signals, const std::string& name) {
  std::optional<Json> arguments = signals.Take(name);
  return arguments
             ? Json{{"result", std::move(*arguments)}}
             : Json{{"error", "runner"}, {"message", "there was no " + name}};
}

// A step with a patience of its own is made by a client of its own. A
// Subscriber makes Subscribe.
Json Make(const std::string& address, Client& client, const Json& step) {
  if (step["call"] == "Subscribe") {
    return AnswerNothing(Signals().Subscribe(address));
  }
  const Method method = FindMethod(Text(step["call"]));
  if (method == nullptr) {
    return {{"error", "runner"}, {"message", "the runner has no such method"}};
  }
  if (!step.contains("patience_ms")) {
    return method(client, step["arguments"]);
  }
  ClientOptions options;
  options.address = address;
  options.patience = std::chrono::milliseconds(step["patience_ms"].get<int>());
  Result<Client> patient = Client::Connect(options);
  return patient ? method(*patient, step["arguments"])
                 : Json{{"error", "connect"},
                        {"message", patient.error().Message()}};
}

int RunSteps(const std::string& address) {
  ClientOptions options;
  options.address = address;
  Result<Client> client = Client::Connect(options);
  if (!client) {
    std::cerr << client.error().Message() << "\n";
    return 1;
  }
  Signals signals;
  for (std::string line; std::getline(std::cin, line);) {
    const Json step = Json::parse(line);
    const Json answer =
        step.contains("signals")  ? AnswerNothing(signals.Subscribe(address))
        : step.contains("signal") ? TakeSignal(signals, Text(step["signal"]))
                                  : Make(address, *client, step);
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace mountd::agent

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: conformance_runner ADDRESS\n";
    return 2;
  }
  return mountd::agent::RunSteps(argv[1]);
}
