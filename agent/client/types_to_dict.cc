// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client/types_to_dict.h"

namespace mountd::agent {

std::string ToWire(SourceType type) {
  return std::string(SourceTypeName(type));
}

std::string ToWire(Propagation propagation) {
  switch (propagation) {
    case Propagation::kPrivate:
      return "private";
    case Propagation::kHostToTask:
      return "host-to-task";
    case Propagation::kBidirectional:
      return "bidirectional";
  }
  return {};
}

std::string ToWire(UnmountMode mode) {
  switch (mode) {
    case UnmountMode::kDetach:
      return "detach";
    case UnmountMode::kForce:
      return "force";
    case UnmountMode::kAbort:
      return "abort";
    case UnmountMode::kPlain:
      break;
  }
  return "plain";
}

dbus::Dict ToOptions(OnTasks on_tasks) {
  switch (on_tasks) {
    case OnTasks::kWait:
      return {{"tasks", dbus::Value(std::string("wait"))}};
    case OnTasks::kIgnore:
      return {{"tasks", dbus::Value(std::string("ignore"))}};
    case OnTasks::kRefuse:
      break;
  }
  return {};
}

dbus::Dict ToOptions(OnTasks on_tasks, OnlyIf only_if) {
  dbus::Dict options = ToOptions(on_tasks);
  if (only_if != OnlyIf::kAny) {
    options.emplace("only_if",
                    dbus::Value(std::string(
                        only_if == OnlyIf::kEmpty ? "empty" : "unused")));
  }
  return options;
}

std::string ToWire(PluginType type) {
  switch (type) {
    case PluginType::kNode:
      return "node";
    case PluginType::kController:
      return "controller";
    case PluginType::kMonolith:
      return "monolith";
  }
  return {};
}

}  // namespace mountd::agent
