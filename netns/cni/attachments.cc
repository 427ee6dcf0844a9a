// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/attachments.h"

#include <optional>
#include <string>
#include <utility>

#include "netns/cni/answer.h"
#include "netns/cni/attach.h"
#include "netns/cni/chain.h"
#include "netns/cni/config_dirs.h"
#include "netns/cni/netns_path.h"

namespace mountd::cni {
namespace {

// The attachment's locks and its state.
struct Held {
  StateDir state;
  UniqueFd all;
  UniqueFd own;
};

// Checks the request and takes both locks.
Result<Held> Hold(const Context& context, const Request& request) {
  MOUNTD_TRY(CheckAttachment(request));
  MOUNTD_ASSIGN(StateDir state, StateDir::Open(context.options.state_dir,
                                               context.options.kept_dir));
  MOUNTD_ASSIGN(UniqueFd all, state.LockAll(StateDir::Share::kWithOthers,
                                            context.deadline, context.stop));
  MOUNTD_ASSIGN(UniqueFd own,
                state.Lock(request.attachment, context.deadline, context.stop));
  return Held{std::move(state), std::move(all), std::move(own)};
}

Error IsOfAnotherNetwork(const Record& record) {
  return MakeError(Code::kFailedPrecondition, "record",
                   record.attachment.ToText(),
                   "is already attached to network " + record.list.name);
}

// Returns the namespace's path for DEL and CHECK.
const std::string& NetnsOf(const Context& context, const Record& record) {
  return context.options.netns.empty() ? record.netns : context.options.netns;
}

bool IsNetnsThere(const Context& context, const Record& record) {
  const std::string& netns = NetnsOf(context, record);
  // In a later boot a namespace of the same name or inode is another one.
  return !record.earlier_boot && !netns.empty() &&
         CheckNetns(netns, record.netns_inode).has_value();
}

// Returns the record that an ADD would make now. DEL uses it if it can read no
// record and --recorded is not set.
Result<Record> RecordOfConfig(const Context& context, const Request& request) {
  Record record;
  MOUNTD_ASSIGN(record.list,
                FindNetwork(context.options.config_dirs, request.network));
  record.version =
      ChooseVersion(record.list, context.plugins, context.deadline);
  record.attachment = request.attachment;
  record.netns = context.options.netns;
  record.netns_inode = context.options.netns_inode;
  record.args = request.args;
  record.capabilities = request.capabilities;
  return record;
}

// Returns the attachment's record. A record that cannot be read counts as
// missing, so that it does not block ADD.
std::optional<Record> KnownRecord(const StateDir& state,
                                  const Attachment& attachment) {
  Result<std::optional<Record>> record = state.Load(attachment);
  return record ? std::move(*record) : std::nullopt;
}

// Runs DEL of an ADD that was cut off. A plugin that was killed half way may
// fail forever, because its DEL expects an object that ADD had not made yet
// (bridge expects its chain of iptables). So if DEL fails, this function runs
// ADD once more, because a plugin that has completed its work can undo it.
std::vector<PluginError> DetachCutOff(const Context& context,
                                      const StateDir& state, Record record) {
  const std::size_t all = record.list.plugins.size();
  auto left = Detach(context, state, record, all, context.deadline);
  record.netns = NetnsOf(context, record);
  if (left.empty() || !IsNetnsThere(context, record)) {
    return left;
  }
  std::size_t tried = 0;
  const auto completed = Chain(context.plugins, record)
                             .Add(
                                 context.deadline,
                                 [&](const Json& result) {
                                   record.result = result;
                                   return state.Save(record);
                                 },
                                 tried);
  return completed ? Detach(context, state, record, all, context.deadline)
                   : left;
}

PluginOutcome<Json> TryAdd(const Context& context, const Request& request) {
  MOUNTD_ASSIGN(const Held held, NoPlugins(Hold(context, request)));
  MOUNTD_ASSIGN(const std::uint64_t inode,
                NoPlugins(CheckNetns(context.options.netns,
                                     context.options.netns_inode)));
  const auto known = KnownRecord(held.state, request.attachment);
  if (known && known->complete) {
    return AnswerKnown(*known, request, context.options.netns, inode);
  }
  // A record that is not complete was left by an operation that was cut off.
  if (known) {
    const auto left = known->detaching
                          ? Detach(context, held.state, *known,
                                   known->list.plugins.size(), context.deadline)
                          : DetachCutOff(context, held.state, *known);
    if (!left.empty()) {
      return Failure(left.front(), left);
    }
  }
  MOUNTD_ASSIGN(Record record, NoPlugins(RecordOfConfig(context, request)));
  record.netns_inode = inode;
  return Attach(context, held.state, std::move(record));
}

// Turns the error of CHECK into FailedPrecondition if the plugin looked and
// found a difference; such a plugin mostly gives a code of its own (999). Other
// errors mean that the plugin could not look.
PluginError AsFinding(PluginError error) {
  constexpr int kFirstOwn = 100;
  const bool found =
      error.cni_code == kUnknownContainer || error.cni_code >= kFirstOwn;
  if (found) {
    error.error.code = Code::kFailedPrecondition;
  } else if (error.error.code == Code::kFailedPrecondition) {
    error.error.code = Code::kUnavailable;
  }
  return error;
}

PluginOutcome<Json> TryCheck(const Context& context, const Request& request) {
  MOUNTD_ASSIGN(const Held held, NoPlugins(Hold(context, request)));
  MOUNTD_ASSIGN(std::optional<Record> record,
                NoPlugins(held.state.Load(request.attachment)));
  if (!record || record->earlier_boot) {
    // An earlier DEL removed the lock's file and Lock made it again. Remove it
    // here, because no further DEL will.
    held.state.ForgetLock(request.attachment);
    return Failure(MakeError(Code::kNotFound, "CHECK",
                             request.attachment.ToText(), "is not attached"));
  }
  if (record->list.name != request.network) {
    return Failure(IsOfAnotherNetwork(*record));
  }
  if (!record->complete) {
    return Failure(MakeError(Code::kFailedPrecondition, "CHECK",
                             request.attachment.ToText(),
                             "was interrupted in the middle of an operation"));
  }
  if (record->list.disable_check) {
    return Success({{"checked", false}});
  }
  record->netns = NetnsOf(context, *record);
  MOUNTD_TRY(NoPlugins(CheckNetns(record->netns, record->netns_inode)));
  const auto checked = Chain(context.plugins, *record).Check(context.deadline);
  return checked ? Success({{"checked", true}})
                 : Failure(AsFinding(checked.error()));
}

PluginOutcome<Json> TryDel(const Context& context, const Request& request) {
  MOUNTD_ASSIGN(const Held held, NoPlugins(Hold(context, request)));
  // A record that cannot be read still counts as recorded. Such a record must
  // not block DEL, so DEL then uses the configuration.
  Result<std::optional<Record>> loaded = held.state.Load(request.attachment);
  const bool is_recorded = !loaded || loaded->has_value();
  std::optional<Record> record = loaded ? std::move(*loaded) : std::nullopt;
  const bool is_known = record.has_value();
  if (record && record->list.name != request.network && !record->earlier_boot) {
    return Failure(IsOfAnotherNetwork(*record));
  }
  // With --recorded there is nothing to do without a record.
  if (!is_recorded && context.options.recorded) {
    held.state.ForgetLock(request.attachment);
    return Success({{"known", false}});
  }
  if (!record) {
    Result<Record> made = RecordOfConfig(context, request);
    // Without record and configuration, nothing says what to detach.
    if (!made) {
      MOUNTD_TRY(NoPlugins(held.state.Remove(request.attachment)));
      held.state.ForgetLock(request.attachment);
      return Success({{"known", false}});
    }
    record = std::move(*made);
  }
  const bool was_cut_off = is_known && !record->complete && !record->detaching;
  if (record->complete) {
    // Save this before the first plugin runs, because an ADD after this DEL
    // must not answer that the attachment exists. If /run is full, continue
    // without it, because the attachment must be removed all the same.
    record->complete = false;
    record->detaching = true;
    IgnoreBecauseBestEffort(held.state.Save(*record));
  }
  const auto left = was_cut_off
                        ? DetachCutOff(context, held.state, *record)
                        : Detach(context, held.state, *record,
                                 record->list.plugins.size(), context.deadline);
  if (!left.empty()) {
    return Failure(left.front(), left);
  }
  held.state.ForgetLock(request.attachment);
  return Success({{"known", true}});
}

Json AnswerOf(PluginOutcome<Json> outcome) {
  return outcome ? std::move(*outcome) : Failure(outcome.error());
}

}  // namespace

std::vector<PluginError> Detach(const Context& context, const StateDir& state,
                                const Record& record, std::size_t count,
                                const Deadline& deadline) {
  const std::string netns =
      IsNetnsThere(context, record) ? NetnsOf(context, record) : "";
  std::vector<PluginError> left =
      Chain(context.plugins, record).Del(count, netns, deadline);
  if (left.empty()) {
    const Result<void> removed = state.Remove(record.attachment);
    if (!removed) {
      left.emplace_back(removed.error());
    }
  }
  return left;
}

Json Add(const Context& context, const Request& request) {
  return AnswerOf(TryAdd(context, request));
}

Json Check(const Context& context, const Request& request) {
  return AnswerOf(TryCheck(context, request));
}

Json Del(const Context& context, const Request& request) {
  return AnswerOf(TryDel(context, request));
}

}  // namespace mountd::cni
