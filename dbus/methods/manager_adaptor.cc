// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/manager_adaptor.h"

#include <algorithm>
#include <future>

#include "dbus/methods/manager_serve.h"

// ManagerAdaptor's methods on the node: subscriptions, pending tear-downs,
// operations, capabilities.
namespace mountd::dbus {
namespace {

// Retries each tear-down on its own strand, like any call for its object.
// Returns how many are left.
Result<std::uint32_t> RetryAllOwed(NodeVerbs& node, Strands& strands,
                                   const CallContext& context) {
  MOUNTD_ASSIGN(const std::vector<OwedRecord> owed, node.ListOwed(context));
  context.progress.At(Step::kRetry);
  context.progress.Expect(owed.size());
  for (const OwedRecord& one : owed) {
    std::promise<void> done;
    strands.Submit(StrandOf(one), [&] {
      const CurrentTrace trace(context.trace.get());
      IgnoreBecauseBestEffort(node.RetryOwed(one));
      done.set_value();
    });
    done.get_future().wait();
    context.progress.Advance();
  }
  MOUNTD_ASSIGN(const std::vector<OwedRecord> left, node.ListOwed(context));
  return static_cast<std::uint32_t>(left.size());
}

}  // namespace

ManagerAdaptor::ManagerAdaptor(
    const std::shared_ptr<sdbus::IConnection>& connection,
    const ApiParts& parts, CallerSource& callers)
    : AdaptorInterfaces(*connection, sdbus::ObjectPath(kManagerPath)),
      connection_(connection),
      parts_(parts),
      callers_(callers) {
  registerAdaptor();
}

ManagerAdaptor::~ManagerAdaptor() { unregisterAdaptor(); }

std::chrono::milliseconds ManagerAdaptor::Patience(OptionReader& reader) const {
  const std::chrono::milliseconds asked(
      reader.Get<std::uint32_t>("patience_ms", 0));
  names_ = ReadCallTrace(reader);
  return asked.count() == 0 ? parts_.timeouts.patience
                            : std::min(asked, parts_.timeouts.patience);
}

Result<std::chrono::milliseconds> ManagerAdaptor::OnlyPatience(
    const Dict& options) const {
  OptionReader reader("options", options);
  const std::chrono::milliseconds patience = Patience(reader);
  MOUNTD_TRY(reader.Finish());
  return patience;
}

void ManagerAdaptor::RefuseUndecodable(const char* method, const Error& error) {
  const Result<Caller> caller =
      callers_.CallerOf(getObject().getCurrentlyProcessedMessage());
  if (caller) {
    AuditUndecodable(parts_, *caller, method, error);
  }
  throw ToDbus(error);
}

// Returns whether the caller asks for spans. Refuses that on the system bus,
// because one adaptor serves all senders there and keeps one wish.
Result<bool> ManagerAdaptor::ReadSubscription(
    const Dict& options, const sdbus::Message& message) const {
  OptionReader reader("options", options);
  Patience(reader);
  const bool spans = reader.Get<bool>("spans", false);
  MOUNTD_TRY(reader.Finish());
  if (spans && message.getSender() != nullptr) {
    return MakeError(Code::kNotSupported, "subscribe", "options[\"spans\"]",
                     "is for the socket alone; connect to /run/mountd/bus");
  }
  return spans;
}

void ManagerAdaptor::Subscribe(const Dict& options) {
  const auto& message = getObject().getCurrentlyProcessedMessage();
  const auto spans = ReadSubscription(options, message);
  if (!spans) {
    RefuseUndecodable("Subscribe", spans.error());
  }
  const auto subscribed = callers_.Subscribe(message);
  if (!subscribed) {
    throw ToDbus(subscribed.error());
  }
  const Result<Caller> caller = callers_.CallerOf(message);
  CallContext context;
  if (caller) {
    context.caller = *caller;
  }
  const bool sees_all = caller && parts_.services.access.SeesAll(context);
  // The wish lasts as long as this object, which serves one peer. An ordinary
  // user gets the user's own spans alone, because the spans of all users would
  // fill the administrators' queues.
  SpanWish& wish = parts_.operations.span_wish();
  span_wish_ = !*spans || !caller ? nullptr
               : sees_all         ? wish.Make()
                                  : wish.MakeOf(caller->uid);
  // An administrator gets the signals about all users.
  if (sees_all) {
    AuditRead(parts_, context, "Subscribe", "signals", "all");
  }
  if (caller) {
    parts_.on_subscribe(caller->uid);
  }
}

void ManagerAdaptor::Unsubscribe(const Dict& options) {
  if (const auto patience = OnlyPatience(options); !patience) {
    RefuseUndecodable("Unsubscribe", patience.error());
  }
  span_wish_.reset();
  callers_.Unsubscribe(getObject().getCurrentlyProcessedMessage());
}

void ManagerAdaptor::ListOwed(sdbus::Result<std::vector<OwedStruct>>&& answer,
                              Dict options) {
  using T = std::vector<OwedRecord>;
  Serve<T>(
      std::move(answer), "ListOwed",
      [&]() -> Result<Decoded<T>> {
        return DecodeListing<T>(
            options, [](Services& services, const CallContext& context) {
              return services.node.ListOwed(context);
            });
      },
      [](const T& owed) {
        std::vector<OwedStruct> all;
        for (const OwedRecord& one : owed) {
          all.emplace_back(one.id, std::string(OwedKindName(one.kind)),
                           one.object, one.reason, one.attempts, one.since_us);
        }
        return all;
      });
}

void ManagerAdaptor::RetryOwed(sdbus::Result<std::uint32_t>&& answer,
                               Dict options) {
  Serve<std::uint32_t>(
      std::move(answer), "RetryOwed",
      [&]() -> Result<Decoded<std::uint32_t>> {
        MOUNTD_ASSIGN(
            Decoded<std::uint32_t> call,
            DecodeListing<std::uint32_t>(
                options, [&strands = parts_.strands](
                             Services& services, const CallContext& context) {
                  return RetryAllOwed(services.node, strands, context);
                }));
        call.strand = "retry owed";
        call.strand_is_callers = true;
        return call;
      },
      [](std::uint32_t left) { return left; });
}

void ManagerAdaptor::Cancel(sdbus::Result<>&& answer, std::string operation,
                            Dict options) {
  ServeNow(std::move(answer), options,
           [&](const Caller& caller, PendingAnswer<>& pending) {
             const auto cancelled = parts_.operations.Cancel(caller, operation);
             if (cancelled) {
               pending.Succeed();
             } else {
               pending.Fail(cancelled.error());
             }
           });
}

// Answers on the loop, because a caller must learn why all workers are busy
// while they are.
void ManagerAdaptor::ListOperations(sdbus::Result<std::vector<Dict>>&& answer,
                                    Dict options) {
  ServeNow(
      std::move(answer), options, [&](const Caller& caller, auto& pending) {
        CallContext context;
        context.caller = caller;
        std::vector<Dict> all;
        for (const OperationStatus& one : parts_.operations.List()) {
          if (parts_.services.access.Sees(context, one.uid)) {
            all.push_back(ToDict(one));
          }
        }
        if (const std::string others = context.decisions->Others();
            !others.empty()) {
          AuditRead(parts_, context, "ListOperations", "operations", others);
        }
        pending.Succeed(all);
      });
}

void ManagerAdaptor::GetCapabilities(sdbus::Result<Dict>&& answer,
                                     Dict options) {
  Serve<Capabilities>(
      std::move(answer), "GetCapabilities",
      [&]() -> Result<Decoded<Capabilities>> {
        Decoded<Capabilities> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        // Gives the call a strand, because CNI's plugins take long to say their
        // releases.
        call.strand =
            parts_.services.capabilities.HasCni() ? "capabilities" : "";
        call.work = [](Services& services, const CallContext& context) {
          return services.capabilities.GetCapabilities(context);
        };
        return call;
      },
      [](const Capabilities& capabilities) { return ToDict(capabilities); });
}

void ManagerAdaptor::GetStatistics(
    sdbus::Result<std::vector<StatisticsStruct>>&& answer, Dict options) {
  ServeNow(
      std::move(answer), options, [&](const Caller& /*caller*/, auto& pending) {
        std::vector<StatisticsStruct> all;
        for (const MethodStatistics& one : parts_.operations.GetStatistics()) {
          all.emplace_back(one.method, one.calls, one.errors, one.median_us,
                           one.p99_us);
        }
        pending.Succeed(all);
      });
}

void ManagerAdaptor::Reload(sdbus::Result<std::vector<std::string>>&& answer,
                            Dict options) {
  using T = std::vector<std::string>;
  Serve<T>(
      std::move(answer), "Reload",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        call.strand = "reload";
        call.joins = false;  // one under way may have read an older file
        call.work = [](Services& services, const CallContext& context) {
          return services.node.Reload(context);
        };
        return call;
      },
      [](const T& sections) { return sections; });
}

std::string ManagerAdaptor::Version() { return MOUNTD_VERSION; }

AddressesMap ManagerAdaptor::Addresses() {
  return ToAddresses(parts_.services.capabilities.GetAddressUsage());
}

sdbus::Struct<std::uint32_t, std::uint64_t> ManagerAdaptor::Owed() {
  const OwedSummary& owed = parts_.owed.last();
  return {owed.count, owed.since_us};
}

std::uint32_t ManagerAdaptor::FreeHostPorts() {
  return parts_.services.capabilities.CountFreeHostPorts();
}

std::uint32_t ManagerAdaptor::StuckExecutors() {
  return parts_.services.capabilities.CountStuckExecutors();
}

std::map<std::string, std::uint64_t> ManagerAdaptor::DroppedPeers() {
  return parts_.drops.All();
}

}  // namespace mountd::dbus
