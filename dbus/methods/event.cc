// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/event.h"

#include <memory>

#include "dbus/dict/error_name.h"
#include "dbus/methods/plugin_object.h"

namespace mountd::dbus {
namespace {

struct UnrefMessage {
  void operator()(sd_bus_message* message) const {
    sd_bus_message_unref(message);
  }
};

// Appends {`key`: `items`}. `type` is the signature of an item in sd-bus's
// form, a dict entry's in braces, and `append` appends one.
template <typename Items, typename AppendItem>
int AppendArray(sd_bus_message* message, const char* key, const char* type,
                const Items& items, AppendItem append) {
  int status = sd_bus_message_open_container(message, 'e', "sv");
  status = status < 0 ? status : sd_bus_message_append(message, "s", key);
  status = status < 0 ? status
                      : sd_bus_message_open_container(
                            message, 'v', (std::string("a") + type).c_str());
  status =
      status < 0 ? status : sd_bus_message_open_container(message, 'a', type);
  for (const auto& item : items) {
    status = status < 0 ? status : append(item);
  }
  for (int container = 0; container < 3; ++container) {
    status = status < 0 ? status : sd_bus_message_close_container(message);
  }
  return status;
}

// Appends an entry of one of the types that EventRow and EventDict share.
template <typename Entry>
int AppendPlain(sd_bus_message* message, const Entry& entry) {
  const char* const key = entry.first.c_str();
  if (const auto* text = std::get_if<std::string>(&entry.second)) {
    return sd_bus_message_append(message, "{sv}", key, "s", text->c_str());
  }
  if (const auto* yes = std::get_if<bool>(&entry.second)) {
    // sd-bus takes a boolean as an int (sd_bus_message_append_basic(3)).
    return sd_bus_message_append(message, "{sv}", key, "b", *yes ? 1 : 0);
  }
  if (const auto* number = std::get_if<std::uint64_t>(&entry.second)) {
    return sd_bus_message_append(message, "{sv}", key, "t", *number);
  }
  return sd_bus_message_append(message, "{sv}", key, "u",
                               std::get<std::uint32_t>(entry.second));
}

int AppendRow(sd_bus_message* message, const EventRow& row) {
  int status = sd_bus_message_open_container(message, 'a', "{sv}");
  for (const auto& entry : row) {
    status = status < 0 ? status : AppendPlain(message, entry);
  }
  return status < 0 ? status : sd_bus_message_close_container(message);
}

int AppendValue(sd_bus_message* message, const EventDict::value_type& entry) {
  const char* const key = entry.first.c_str();
  if (const auto* number = std::get_if<std::int64_t>(&entry.second)) {
    return sd_bus_message_append(message, "{sv}", key, "x", *number);
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&entry.second)) {
    return AppendArray(message, key, "s", *list, [&](const std::string& text) {
      return sd_bus_message_append_basic(message, 's', text.c_str());
    });
  }
  if (const auto* map = std::get_if<StringMap>(&entry.second)) {
    return AppendArray(message, key, "{ss}", *map, [&](const auto& one) {
      return sd_bus_message_append(message, "{ss}", one.first.c_str(),
                                   one.second.c_str());
    });
  }
  if (const auto* rows = std::get_if<std::vector<EventRow>>(&entry.second)) {
    return AppendArray(message, key, "a{sv}", *rows, [&](const EventRow& row) {
      return AppendRow(message, row);
    });
  }
  return AppendPlain(message, entry);
}

int Append(sd_bus_message* message, const EventDict& dict) {
  int status = sd_bus_message_open_container(message, 'a', "{sv}");
  for (const auto& entry : dict) {
    status = status < 0 ? status : AppendValue(message, entry);
  }
  return status < 0 ? status : sd_bus_message_close_container(message);
}

int AppendArgument(sd_bus_message* message, const EventArgument& argument) {
  if (const auto* dict = std::get_if<EventDict>(&argument)) {
    return Append(message, *dict);
  }
  if (const auto* text = std::get_if<std::string>(&argument)) {
    return sd_bus_message_append_basic(message, 's', text->c_str());
  }
  if (const auto* object = std::get_if<ObjectPathText>(&argument)) {
    return sd_bus_message_append_basic(message, 'o', object->path.c_str());
  }
  if (const auto* number = std::get_if<std::uint64_t>(&argument)) {
    return sd_bus_message_append_basic(message, 't', number);
  }
  return sd_bus_message_append_basic(message, 'u',
                                     std::get_if<std::uint32_t>(&argument));
}

}  // namespace

namespace {

EventRow ToRow(const Span& span) {
  EventRow row = {{"name", span.name},
                  {"kind", std::string(SpanKindName(span.kind))},
                  {"span_id", ToHex(span.id)},
                  {"parent_span_id", ToHex(span.parent)},
                  {"start_ns", span.start_ns},
                  {"end_ns", span.end_ns}};
  if (span.error) {
    row.emplace_back("error", std::string(CodeName(*span.error)));
  }
  return row;
}

// Adds the caller's names of the operation, and the spans of an operation that
// has ended.
void AddTrace(const OperationTrace& trace, const std::vector<Span>& spans,
              EventDict& dict) {
  if (trace.traced()) {
    dict.emplace_back("traceparent", ToText(*trace.call().parent));
    dict.emplace_back("span_id", ToHex(trace.span_id()));
  }
  if (!trace.call().request_id.empty()) {
    dict.emplace_back("request_id", trace.call().request_id);
  }
  if (!spans.empty()) {
    std::vector<EventRow> rows;
    rows.reserve(spans.size());
    for (const Span& span : spans) {
      rows.push_back(ToRow(span));
    }
    dict.emplace_back("spans", std::move(rows));
    dict.emplace_back("spans_left_out", trace.left_out());
  }
}

}  // namespace

Event OperationDone(const OperationSummary& summary) {
  const Error* const error = summary.error;
  return {
      "OperationDone",
      {summary.id, error == nullptr ? std::string() : ErrorName(*error),
       error == nullptr ? std::string() : WireMessage(*error)},
      [uid = summary.uid](const Caller& caller) { return caller.uid == uid; }};
}

std::vector<Event> OperationChanged(const CallerAccess& access,
                                    const OperationStatus& status) {
  std::vector<Event> all;
  all.push_back({"OperationStep",
                 {status.id, ToEventDict(status)},
                 [&access, uid = status.uid,
                  alone = status.is_callers_alone](const Caller& caller) {
                   return caller.uid == uid ||
                          (!alone && access.Sees(caller, uid));
                 }});
  if (status.progress.step == Step::kTree) {
    all.push_back({"OperationProgress",
                   {status.id, status.method, status.progress.done},
                   [uid = status.uid](const Caller& caller) {
                     return caller.uid == uid;
                   }});
  }
  return all;
}

EventDict ToEventDict(const OperationStatus& status) {
  const Progress::Status& progress = status.progress;
  EventDict dict = {
      {"id", status.id},
      {"method", status.method},
      {"object", status.object},
      {"uid", status.uid},
      {"elapsed_ms", static_cast<std::uint64_t>(status.elapsed.count())},
      {"waiters", status.waiters},
      {"cancelled", status.cancelled},
      {"step", std::string(StepName(progress.step))}};
  if (progress.done != 0 || progress.total > 1) {
    dict.emplace_back("done", progress.done);
  }
  if (progress.total > 1) {
    dict.emplace_back("total", progress.total);
  }
  if (progress.attempt != 0) {
    dict.emplace_back("attempt", progress.attempt);
  }
  if (progress.error) {
    dict.emplace_back("error", std::string(CodeName(*progress.error)));
  }
  if (status.trace != nullptr) {
    AddTrace(*status.trace, status.spans, dict);
  }
  return dict;
}

Event MountLost(const CallerAccess& access, std::uint32_t uid,
                const MountRecord& record, const std::string& reason) {
  return {"MountLost",
          {record.allocation, record.task, record.name, reason},
          [&access, uid](const Caller& caller) {
            return access.Sees(caller, uid);
          }};
}

Event MountHealthChanged(const CallerAccess& access, std::uint32_t uid,
                         const MountRecord& record, exec::MountHealth health,
                         const std::string& reason) {
  return {"MountHealth",
          {record.allocation, record.task, record.name,
           std::string(MountHealthName(health)), reason},
          [&access, uid](const Caller& caller) {
            return access.Sees(caller, uid);
          }};
}

Event VolumeHealthChanged(const CallerAccess& access,
                          const VolumeRecord& volume, exec::MountHealth health,
                          const std::string& reason) {
  return {"VolumeHealth",
          {volume.plugin, volume.volume_id,
           std::string(MountHealthName(health)), reason},
          [&access, uid = volume.uid](const Caller& caller) {
            return access.Sees(caller, uid);
          }};
}

Event VolumeConditionChanged(const CallerAccess& access,
                             const VolumeRecord& volume,
                             const csi::VolumeCondition& condition) {
  return {"VolumeHealth",
          {volume.plugin, volume.volume_id,
           std::string(condition.abnormal ? "abnormal" : "normal"),
           condition.message},
          [&access, uid = volume.uid](const Caller& caller) {
            return access.Sees(caller, uid);
          }};
}

Event SecretsNeeded(const CallerAccess& access, const VolumeRecord& volume,
                    const PublicationRecord& publication) {
  return {"SecretsNeeded",
          {publication.allocation, publication.alias, volume.plugin,
           volume.volume_id},
          [&access, uid = volume.uid](const Caller& caller) {
            return access.Sees(caller, uid);
          }};
}

Event PluginChanged(const CallerAccess& access,
                    const csi::PluginChange& change) {
  using Kind = csi::PluginChange::Kind;
  const csi::PluginInstance& now = change.now;
  Event event;
  event.may_see = [&access, record = now.record](const Caller& caller) {
    return access.SeesPlugin(caller, record);
  };
  switch (change.kind) {
    case Kind::kPlugin:
      event.member = "PluginChanged";
      event.arguments = {now.record.id,
                         std::string(csi::PluginStateName(now.state)),
                         now.reason};
      return event;
    case Kind::kChanged:
      event.properties_of = std::make_shared<const csi::PluginInstance>(now);
      return event;
    case Kind::kAdded:
    case Kind::kRemoved:
      break;
  }
  event.member = change.kind == Kind::kAdded ? "PluginAdded" : "PluginRemoved";
  event.arguments = {now.record.id, now.record.type, now.record.allocation,
                     ObjectPathText{PluginObjectPath(now)}};
  return event;
}

Event TaskEventOfPlugin(const CallerAccess& access,
                        const csi::PluginInstance& instance,
                        const csi::PluginEvent& event) {
  return {"PluginEvent",
          {instance.record.id, instance.record.type, instance.record.allocation,
           event.event, event.message},
          [&access, record = instance.record](const Caller& caller) {
            return access.SeesPlugin(caller, record);
          }};
}

Event NodeInfoChanged(const CallerAccess& access,
                      const csi::PluginInstance& instance,
                      const csi::NodeInfoChange& change) {
  std::vector<std::string> changed;
  for (const auto& [name, is_changed] :
       {std::pair("node_id", change.node_id),
        std::pair("max_volumes", change.max_volumes),
        std::pair("topology", change.topology)}) {
    if (is_changed) {
      changed.emplace_back(name);
    }
  }
  const EventDict node = {{"node_id", instance.node.node_id},
                          {"max_volumes", instance.node.max_volumes},
                          {"topology", instance.node.topology},
                          {"changed", changed}};
  return {"NodeInfoChanged",
          {instance.record.id, instance.record.type, instance.record.allocation,
           node, change.text},
          [&access, record = instance.record](const Caller& caller) {
            return access.SeesPlugin(caller, record);
          }};
}

namespace {

using MaySee = std::function<bool(const Caller&)>;

std::vector<Event> FenceDoneTo(const FenceRecord& fence,
                               const MaySee& may_see) {
  return {{"FenceDone", {fence.allocation, fence.lease.name}, may_see},
          {"LeaseChanged",
           {fence.lease.name, fence.lease.uid,
            EventDict{{"change", std::string("fenced")},
                      {"reason", fence.lapse_reason},
                      {"allocation", fence.allocation},
                      {"traceparent", fence.traceparent},
                      {"request_id", fence.request_id}}},
           may_see}};
}

}  // namespace

std::vector<Event> LeaseLapsed(const CallerAccess& access,
                               const LeaseRecord& lease) {
  const MaySee may_see = [&access, uid = lease.key.uid](const Caller& caller) {
    return access.Sees(caller, uid);
  };
  return {
      {"LeaseLapsed", {lease.key.name, lease.key.uid, lease.reason}, may_see},
      {"LeaseChanged",
       {lease.key.name, lease.key.uid,
        EventDict{{"change", std::string("lapsed")},
                  {"reason", lease.reason},
                  {"allocation", std::string()},
                  {"traceparent", lease.traceparent},
                  {"request_id", lease.request_id}}},
       may_see}};
}

std::vector<Event> FenceDone(const CallerAccess& access,
                             const FenceRecord& fence) {
  return FenceDoneTo(fence,
                     [&access, uid = fence.lease.uid](const Caller& caller) {
                       return access.Sees(caller, uid);
                     });
}

std::vector<Event> FenceDoneForUser(const FenceRecord& fence) {
  return FenceDoneTo(fence, [uid = fence.lease.uid](const Caller& caller) {
    return caller.uid == uid;
  });
}

Event OwedChanged(std::uint32_t count) {
  return {"OwedChanged", {count}, [](const Caller&) { return true; }};
}

Event OwedOverdue(const OwedSummary& owed) {
  return {"OwedOverdue", {owed.count, owed.since_us}, [](const Caller&) {
            return true;
          }};
}

Event StuckChanged(std::uint32_t count) {
  return {"StuckChanged", {count}, [](const Caller&) { return true; }};
}

Event AddressesScarce(const CallerAccess& access, const std::string& network,
                      const Networks::Usage& usage) {
  return {"AddressesScarce",
          {network, usage.capacity, usage.free},
          [&access, network](const Caller& caller) {
            return access.SeesNetwork(caller, network);
          }};
}

namespace {

Event OfNetwork(const char* member, const CallerAccess& access,
                std::uint32_t uid, const NetworkRecord& record,
                const std::string& text) {
  return {member,
          {record.allocation, record.interface, text},
          [&access, uid](const Caller& caller) {
            return access.Sees(caller, uid);
          }};
}

}  // namespace

Event NetworkRepaired(const CallerAccess& access, std::uint32_t uid,
                      const NetworkRecord& record, const std::string& what) {
  return OfNetwork("NetworkRepaired", access, uid, record, what);
}

Event NetworkLost(const CallerAccess& access, std::uint32_t uid,
                  const NetworkRecord& record, const std::string& reason) {
  return OfNetwork("NetworkLost", access, uid, record, reason);
}

Event RulesetRestored() {
  return {"RulesetRestored", {}, [](const Caller&) { return true; }};
}

void Emit(sd_bus* bus, const char* destination, const Event& event) {
  sd_bus_message* raw = nullptr;
  const bool properties = event.properties_of != nullptr;
  const std::string path = properties ? PluginObjectPath(*event.properties_of)
                                      : std::string("/org/mountd1");
  if (sd_bus_message_new_signal(
          bus, &raw, path.c_str(),
          properties ? "org.freedesktop.DBus.Properties"
                     : "org.mountd1.Manager",
          properties ? "PropertiesChanged" : event.member.c_str()) < 0) {
    return;
  }
  const std::unique_ptr<sd_bus_message, UnrefMessage> message(raw);
  // A peer connection needs no destination, because it has no other receiver.
  if (destination != nullptr &&
      sd_bus_message_set_destination(raw, destination) < 0) {
    return;
  }
  if (properties && AppendChanged(raw, *event.properties_of) < 0) {
    return;
  }
  for (const auto& argument : event.arguments) {
    if (AppendArgument(raw, argument) < 0) {
      return;
    }
  }
  sd_bus_send(bus, raw, nullptr);
}

bool IsOpen(sd_bus* bus) { return sd_bus_is_open(bus) > 0; }

bool HasTakenAll(sd_bus* bus) {
  std::uint64_t queued = 0;
  return IsOpen(bus) && sd_bus_get_n_queued_write(bus, &queued) >= 0 &&
         queued == 0;
}

}  // namespace mountd::dbus
