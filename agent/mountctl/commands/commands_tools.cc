// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/commands/polkit_agent.h"
#include "agent/mountctl/commands/raw_call.h"
#include "agent/mountctl/commands/soak.h"
#include "agent/mountctl/commands/span_export.h"
#include "agent/mountctl/commands/waiting_line.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"
#include "agent/subscriber.h"

namespace mountd::agent {
namespace {

constexpr char kToolsGroup[] = "Tools";

void PrintEvent(bool json, const Json& event) {
  if (json) {
    std::cout << Dump(event, -1) << std::endl;
    return;
  }
  std::string line;
  for (const auto& [key, value] : event.items()) {
    const std::string text =
        value.is_string() ? value.get<std::string>() : Dump(value, -1);
    line +=
        line.empty() ? text : "  " + key + " " + (text.empty() ? "-" : text);
  }
  std::cout << Printable(line) << std::endl;
}

void AddNetworkHandlers(bool json, SignalHandlers& handlers) {
  const auto of_network = [json](const char* signal, const char* key) {
    return [json, signal, key](const std::string& allocation,
                               const std::string& interface,
                               const std::string& text) {
      PrintEvent(json, {{"signal", signal},
                        {"allocation", allocation},
                        {"interface", interface},
                        {key, text}});
    };
  };
  handlers.network_repaired = of_network("NetworkRepaired", "what");
  handlers.network_lost = of_network("NetworkLost", "reason");
  handlers.ruleset_restored = [json] {
    PrintEvent(json, {{"signal", "RulesetRestored"}});
  };
  handlers.addresses_scarce = [json](const std::string& network,
                                     const AddressUsage& usage) {
    PrintEvent(json, {{"signal", "AddressesScarce"},
                      {"network", network},
                      {"capacity", usage.capacity},
                      {"free", usage.free}});
  };
}

void AddOperationHandlers(bool json, SignalHandlers& handlers) {
  handlers.operation_done = [json](const SignalHandlers::Outcome& outcome) {
    const std::string error =
        outcome.failed
            ? "org.mountd1.Error." + std::string(CodeName(outcome.error.code))
            : "";
    PrintEvent(json, {{"signal", "OperationDone"},
                      {"operation", outcome.operation},
                      {"error", error},
                      {"message", outcome.error.detail}});
  };
  handlers.operation_step = [json](const OperationStatus& operation) {
    Json event = {{"signal", "OperationStep"}};
    event.update(ToJson(operation));
    PrintEvent(json, event);
  };
  handlers.operation_progress = [json](const std::string& operation,
                                       const std::string& method,
                                       std::uint64_t done) {
    PrintEvent(json, {{"signal", "OperationProgress"},
                      {"operation", operation},
                      {"method", method},
                      {"done", done}});
  };
}

void AddPluginHandlers(bool json, SignalHandlers& handlers) {
  handlers.plugin_changed = [json](const std::string& plugin,
                                   const std::string& state,
                                   const std::string& reason) {
    PrintEvent(json, {{"signal", "PluginChanged"},
                      {"plugin", plugin},
                      {"state", state},
                      {"reason", reason}});
  };
  const auto instance = [json](const char* signal) {
    return [json, signal](const SignalHandlers::PluginInstance& one) {
      PrintEvent(json, {{"signal", signal},
                        {"plugin", one.plugin},
                        {"type", one.type},
                        {"allocation", one.allocation}});
    };
  };
  handlers.plugin_added = instance("PluginAdded");
  handlers.plugin_removed = instance("PluginRemoved");
  handlers.plugin_event = [json](const SignalHandlers::PluginEvent& one) {
    PrintEvent(json, {{"signal", "PluginEvent"},
                      {"plugin", one.plugin},
                      {"type", one.type},
                      {"allocation", one.allocation},
                      {"event", one.event},
                      {"message", one.message}});
  };
  handlers.node_info_changed =
      [json](const SignalHandlers::NodeInfoChange& change) {
        Json event = {{"signal", "NodeInfoChanged"},
                      {"plugin", change.plugin},
                      {"type", change.type},
                      {"allocation", change.allocation},
                      {"text", change.text}};
        event.update(ToJson(change.node));
        PrintEvent(json, event);
      };
}

void AddNodeHandlers(bool json, SignalHandlers& handlers) {
  handlers.owed_changed = [json](std::uint32_t count) {
    PrintEvent(json, {{"signal", "OwedChanged"}, {"count", count}});
  };
  handlers.owed_overdue = [json](const OwedSummary& owed) {
    PrintEvent(json, {{"signal", "OwedOverdue"},
                      {"count", owed.count},
                      {"since", owed.since.time_since_epoch().count()}});
  };
  handlers.stuck_changed = [json](std::uint32_t count) {
    PrintEvent(json, {{"signal", "StuckChanged"}, {"count", count}});
  };
}

void AddMountHandlers(bool json, SignalHandlers& handlers) {
  handlers.mount_lost = [json](const SignalHandlers::Mount& mount,
                               const std::string& reason) {
    PrintEvent(json, {{"signal", "MountLost"},
                      {"allocation", mount.allocation},
                      {"task", mount.task},
                      {"name", mount.name},
                      {"reason", reason}});
  };
  handlers.mount_health = [json](const SignalHandlers::Mount& mount,
                                 const std::string& state,
                                 const std::string& reason) {
    PrintEvent(json, {{"signal", "MountHealth"},
                      {"allocation", mount.allocation},
                      {"task", mount.task},
                      {"name", mount.name},
                      {"state", state},
                      {"reason", reason}});
  };
}

void AddVolumeHandlers(bool json, SignalHandlers& handlers) {
  handlers.volume_health = [json](const SignalHandlers::Volume& volume,
                                  const std::string& state,
                                  const std::string& reason) {
    PrintEvent(json, {{"signal", "VolumeHealth"},
                      {"plugin", volume.plugin},
                      {"volume", volume.volume},
                      {"state", state},
                      {"reason", reason}});
  };
  handlers.secrets_needed = [json](const std::string& allocation,
                                   const std::string& alias,
                                   const SignalHandlers::Volume& volume) {
    PrintEvent(json, {{"signal", "SecretsNeeded"},
                      {"allocation", allocation},
                      {"alias", alias},
                      {"plugin", volume.plugin},
                      {"volume", volume.volume}});
  };
}

void AddLeaseHandlers(bool json, SignalHandlers& handlers) {
  handlers.lease_lapsed = [json](const std::string& lease, std::uint32_t uid,
                                 const std::string& reason) {
    PrintEvent(json, {{"signal", "LeaseLapsed"},
                      {"lease", lease},
                      {"uid", uid},
                      {"reason", reason}});
  };
  handlers.fence_done = [json](const std::string& allocation,
                               const std::string& lease) {
    PrintEvent(json, {{"signal", "FenceDone"},
                      {"allocation", allocation},
                      {"lease", lease}});
  };
  handlers.lease_changed = [json](const std::string& lease, std::uint32_t uid,
                                  const LeaseChange& change) {
    Json event = {{"signal", "LeaseChanged"}, {"lease", lease}, {"uid", uid}};
    event.update(ToJson(change));
    PrintEvent(json, event);
  };
}

SignalHandlers PrintingHandlers(bool json, std::optional<Error>& lost) {
  SignalHandlers handlers;
  AddOperationHandlers(json, handlers);
  AddPluginHandlers(json, handlers);
  AddNodeHandlers(json, handlers);
  AddMountHandlers(json, handlers);
  AddVolumeHandlers(json, handlers);
  AddNetworkHandlers(json, handlers);
  AddLeaseHandlers(json, handlers);
  handlers.lost = [&lost](const Error& error) {
    lost = error;
    ::kill(::getpid(), SIGUSR1);
  };
  return handlers;
}

// Ends the command if the file cannot be written.
SignalHandlers ExportingHandlers(const Context& context, SpanExporter& exporter,
                                 std::optional<Error>& lost) {
  const auto end = [&lost](const Error& error) {
    if (!lost) {
      lost = error;
      ::kill(::getpid(), SIGUSR1);
    }
  };
  SignalHandlers handlers;
  handlers.operation_step = [&exporter, end](const OperationStatus& operation) {
    if (const Result<void> done = exporter.Export(operation); !done) {
      end(done.error());
    }
  };
  // The system bus has the caller's own spans alone.
  handlers.spans = !context.options.system_bus;
  handlers.lost = end;
  return handlers;
}

// Blocks the signals in every thread and fetches them here, so that nothing
// runs in a signal handler. The subscriber sends SIGUSR1 when it has ended.
int FollowEvents(
    const Context& context,
    const std::function<SignalHandlers(std::optional<Error>&)>& handlers) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
    ::sigaddset(&signals, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::optional<Error> lost;
  int received = 0;
  {
    Result<Subscriber> subscriber =
        Subscriber::Start(context.options, handlers(lost));
    if (!subscriber) {
      return Fail(subscriber.error());
    }
    ::sigwait(&signals, &received);
  }
  return lost ? Fail(*lost) : kExitOk;
}

int PrintEvents(const Context& context) {
  return FollowEvents(context, [&](std::optional<Error>& lost) {
    return PrintingHandlers(context.json, lost);
  });
}

int ExportSpans(const Context& context, const std::string& path,
                bool unsampled) {
  Result<SpanExporter> exporter = SpanExporter::To(path, unsampled);
  if (!exporter) {
    return Fail(exporter.error());
  }
  return FollowEvents(context, [&](std::optional<Error>& lost) {
    return ExportingHandlers(context, *exporter, lost);
  });
}

void AddEvents(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("events", "Print mountd's signals until interrupted");
  command->group(kToolsGroup);
  auto path = std::make_shared<std::string>();
  auto unsampled = std::make_shared<bool>(false);
  CLI::Option* const otlp =
      command
          ->add_option(
              "--otlp", *path,
              "Export the spans of sampled traces as OTLP/JSON instead: "
              "append to a file, or send to a collector's socket by HTTP")
          ->type_name("FILE|SOCKET");
  command
      ->add_flag("--unsampled", *unsampled,
                 "Also export the spans of traces that are not sampled")
      ->needs(otlp);
  command->callback([&context, path, unsampled] {
    context.chosen = [&context, path, unsampled] {
      return path->empty() ? PrintEvents(context)
                           : ExportSpans(context, *path, *unsampled);
    };
  });
}

int Call(const Context& context, const std::string& method,
         const std::string& text) {
  const Json args = Json::parse(text, nullptr, false);
  if (args.is_discarded()) {
    std::cerr << "mountctl: the arguments must be a JSON array" << std::endl;
    return kExitUsage;
  }
  const WaitingLine line(context);
  const auto& on_call = line.options().on_call;
  if (on_call) {
    on_call(method);
  }
  const Result<Json> answer = RawCall(context.options, method, args);
  if (on_call) {
    on_call("");
  }
  if (!answer) {
    if (answer.error().op == "call") {
      std::cerr << "mountctl: " << answer.error().Message() << std::endl;
      return kExitUsage;
    }
    return Fail(answer.error());
  }
  if (!answer->is_null()) {
    std::cout << Dump(*answer) << std::endl;
  }
  return kExitOk;
}

void AddCall(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "call", "Call a method of org.mountd1.Manager directly, to try things");
  command->group(kToolsGroup);
  auto method = std::make_shared<std::string>();
  auto args = std::make_shared<std::string>("[]");
  command->add_option("METHOD", *method, "The method's name")->required();
  command->add_option("JSON-ARGS", *args,
                      "The method's arguments as a JSON array, with or without "
                      "the options at the end. In options, {\"@t\": 5} names a "
                      "D-Bus type; {\"@h\": \"FILE\"} opens a file");
  command->callback([&context, method, args] {
    context.chosen = [&context, method, args] {
      return Call(context, *method, *args);
    };
  });
}

void AddSoak(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("soak",
                         "Run short allocations one after the other, and print "
                         "how long each operation takes, socket included");
  command->group(kToolsGroup);
  auto options = std::make_shared<SoakOptions>();
  command
      ->add_option("--allocations", options->allocations,
                   "Run so many allocations (default 100)")
      ->check(CLI::Range(1U, 1'000'000U).description(""));
  command
      ->add_option("--mounts", options->mounts,
                   "Make so many mounts in each (default 1)")
      ->check(CLI::Range(0U, 1'000U).description(""));
  command
      ->add_option("--ports", options->ports,
                   "Map so many ports in each (default 1)")
      ->check(CLI::Range(0U, 1'000U).description(""));
  command
      ->add_option("--first-port", options->first_port,
                   "Start at this host port (default 20000)")
      ->check(CLI::Range(1U, 64'000U).description(""));
  command->add_option("--host-volume", options->host_volume,
                      "Mount this host volume (default shared)");
  command->add_option("--prefix", options->prefix,
                      "Begin the allocations' ids with this (default soak)");
  command->callback([&context, options] {
    context.chosen = [&context, options] {
      options->json = context.json;
      return WithClient(context, [&](Client& client) {
        return Soak(client, *options, std::cout);
      });
    };
  });
}

}  // namespace

Result<UniqueFd> OpenPidfd(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  if (!fd.valid()) {
    return ErrnoError(errno, "pidfd_open", std::to_string(pid));
  }
  return fd;
}

int Fail(const Error& error) {
  std::cout.flush();
  PrintError(error);
  return kExitError;
}

int WithClient(const Context& context,
               const std::function<Result<void>(Client&)>& body) {
  // Makes the agent before WaitingLine, because WaitingLine's thread must not
  // exist at the fork (fork(2)).
  std::optional<PolkitAgent> polkit_agent;
  if (context.options.interactive) {
    polkit_agent.emplace();
  }
  const WaitingLine line(context);
  Result<Client> client = Client::Connect(line.options());
  if (!client) {
    // An invalid address is a mistake on the command line.
    const bool usage = client.error().code == Code::kInvalidArgument;
    const int status = Fail(client.error());
    return usage ? kExitUsage : status;
  }
  const Result<void> done = body(*client);
  return done ? kExitOk : Fail(done.error());
}

void AddToolCommands(CLI::App& app, Context& context) {
  AddEvents(app, context);
  AddCall(app, context);
  AddSoak(app, context);
}

}  // namespace mountd::agent
