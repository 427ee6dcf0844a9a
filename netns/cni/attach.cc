// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/attach.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "netns/cni/answer.h"
#include "netns/cni/attachments.h"
#include "netns/cni/chain.h"
#include "netns/cni/documents/plugin_result.h"

namespace mountd::cni {
namespace {

using std::chrono::milliseconds;

// The part of the whole time that stays for the undo.
constexpr milliseconds kMostForUndo(10000);
constexpr int kShareForUndo = 4;

Result<Json> AnswerOfResult(const Record& record, bool existing) {
  MOUNTD_ASSIGN(const PluginResult result,
                ReadPluginResult(record.result, record.version));
  MOUNTD_ASSIGN(const NetworkStatus status,
                StatusOf(result, record.attachment.ifname));
  return Success({{"result", ToJson(result)},
                  {"interface", status.interface},
                  {"address", status.address},
                  {"address6", status.address6},
                  {"existing", existing}});
}

// Fails before the first plugin runs if a program of the list is missing.
PluginOutcome<void> CheckAllInstalled(const PluginPrograms& plugins,
                                      const NetworkList& list) {
  for (const Json& plugin : list.plugins) {
    MOUNTD_TRY(plugins.CheckInstalled(plugin));
  }
  return {};
}

milliseconds WithJitter(milliseconds time) {
  // Add a random time, so that runs that failed at the same moment do not
  // collide again.
  std::random_device random;
  std::uniform_int_distribution<milliseconds::rep> jitter(0, time.count());
  return time + milliseconds(jitter(random));
}

// Runs the attempts of one ADD. Owns the record that they write.
class Attaching {
 public:
  Attaching(const Context& context, const StateDir& state, Record record)
      : context_(context),
        state_(state),
        record_(std::move(record)),
        // ADD ends early enough to leave time for the undo.
        add_deadline_(context.deadline.Before(
            std::min(kMostForUndo, context.deadline.Left() / kShareForUndo))) {}

  Json Run() {
    const PluginOutcome<void> installed =
        CheckAllInstalled(context_.plugins, record_.list);
    if (!installed) {
      return Failure(installed.error());
    }
    std::optional<PluginError> first;
    milliseconds pause = context_.options.backoff;
    for (unsigned attempt = 1;; ++attempt) {
      PluginOutcome<Json> answer = Attempt();
      if (answer) {
        return std::move(*answer);
      }
      const PluginError error = answer.error();
      // Report the first error, because later errors may only follow from it.
      first = first.value_or(error);
      // The runner has to end now. The record stays, so that DEL can undo the
      // attempt.
      if (error.error.code == Code::kAborted) {
        return Failure(error, {Interrupted()});
      }
      const auto left = Undo();
      if (!left.empty() || !error.may_retry ||
          attempt >= context_.options.attempts || !Pause(pause)) {
        return Failure(*first, left);
      }
      pause *= 2;
    }
  }

 private:
  PluginOutcome<Json> Attempt() {
    tried_ = 0;
    record_.result = nullptr;
    // The record that outlives the boot comes first (state_dir.h).
    MOUNTD_TRY(NoPlugins(state_.Keep(record_)));
    MOUNTD_TRY(NoPlugins(state_.Save(record_)));
    MOUNTD_TRY(Chain(context_.plugins, record_)
                   .Add(
                       add_deadline_,
                       [&](const Json& result) {
                         record_.result = result;
                         return state_.Save(record_);
                       },
                       tried_));
    MOUNTD_ASSIGN(Json answer, NoPlugins(AnswerOfResult(record_, false)));
    record_.complete = true;
    const Result<void> saved = state_.Save(record_);
    record_.complete = saved.has_value();
    MOUNTD_TRY(NoPlugins(saved));
    return answer;
  }

  // Undoes the attempt, with the last known result, because a plugin such as
  // firewall needs the result to undo its work.
  std::vector<PluginError> Undo() {
    return Detach(context_, state_, record_, tried_, context_.deadline);
  }

  PluginError Interrupted() const {
    return MakeError(
        Code::kAborted, "ADD", record_.attachment.ToText(),
        "was interrupted and is not undone; mountd deletes it first");
  }

  // Waits before the next attempt. Returns false if no time is left for one.
  bool Pause(milliseconds time) const {
    const milliseconds pause = WithJitter(time);
    return pause < add_deadline_.Left() && context_.plugins.Sleep(pause);
  }

  const Context& context_;
  const StateDir& state_;
  Record record_;
  Deadline add_deadline_;
  std::size_t tried_ = 0;
};

}  // namespace

Json Attach(const Context& context, const StateDir& state, Record record) {
  return Attaching(context, state, std::move(record)).Run();
}

Json AnswerKnown(const Record& known, const Request& request,
                 const std::string& netns, std::uint64_t netns_inode) {
  if (known.list.name != request.network || known.netns != netns ||
      known.netns_inode != netns_inode || known.args != request.args ||
      known.capabilities != request.capabilities) {
    return Failure(MakeError(Code::kAlreadyExists, "ADD",
                             request.attachment.ToText(),
                             "is already attached with another request"));
  }
  Result<Json> answer = AnswerOfResult(known, true);
  return answer ? std::move(*answer) : Failure(answer.error());
}

}  // namespace mountd::cni
