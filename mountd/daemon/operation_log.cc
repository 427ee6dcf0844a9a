// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/daemon/operation_log.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/one_line.h"

namespace mountd {
namespace {

constexpr char kMessageId[] = "c1d4a86a5b7f4b0e9f5e3c0a7d2b6e48";

// systemd names the stream of the journal in JOURNAL_STREAM (systemd.exec(5)).
bool StderrIsJournal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  return stream != nullptr && fstat(STDERR_FILENO, &status) == 0 &&
         std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) ==
             stream;
}

bool OnlyLooks(std::string_view method) {
  return method.starts_with("Get") || method.starts_with("List") ||
         method.starts_with("Verify") || method.starts_with("Validate") ||
         method == "Introspect";
}

spdlog::level::level_enum LevelOf(const OperationSummary& summary) {
  if (summary.error != nullptr) {
    return spdlog::level::warn;
  }
  return OnlyLooks(summary.method) && summary.others.empty()
             ? spdlog::level::debug
             : spdlog::level::info;
}

int PriorityOf(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::warn:
      return LOG_WARNING;
    case spdlog::level::info:
      return LOG_INFO;
    default:
      return LOG_DEBUG;
  }
}

std::string NamesOf(const CallTrace* call) {
  return call == nullptr ? "" : ToLogText(*call);
}

const CallTrace* FirstCallOf(const OperationSummary& summary) {
  return summary.trace == nullptr ? nullptr : &summary.trace->call();
}

std::string TextOf(const OperationSummary& summary, const CallTrace* call) {
  return OnOneLine(fmt::format(
      "{} {} uid={}{}{}{}{}{}{}{}{} {}", summary.method, summary.object,
      summary.uid,
      summary.pid == 0 ? "" : " pid=" + std::to_string(summary.pid),
      summary.id.empty()
          ? ""
          : fmt::format(" id={} us={}", summary.id, summary.duration.count()),
      summary.rules.empty() ? "" : " rules=", summary.rules,
      summary.others.empty() ? "" : " others=", summary.others,
      call == FirstCallOf(summary) ? "" : " joined", NamesOf(call),
      summary.error == nullptr
          ? "ok"
          : fmt::format("{}: {}", CodeName(summary.error->code),
                        summary.error->Message())));
}

bool SendToJournal(const std::vector<std::string>& fields) {
  std::vector<iovec> parts;
  for (const std::string& field : fields) {
    // iovec wants non-const bytes, but sendmsg(2) only reads them.
    parts.push_back({const_cast<char*>(field.data()), field.size()});
  }
  return sd_journal_sendv(parts.data(), static_cast<int>(parts.size())) >= 0;
}

}  // namespace

std::vector<std::string> JournalFieldsOf(const OperationSummary& summary) {
  return JournalFieldsOf(summary, FirstCallOf(summary));
}

std::vector<std::string> JournalFieldsOf(const OperationSummary& summary,
                                         const CallTrace* call) {
  std::vector<std::string> fields = {
      "MESSAGE=" + TextOf(summary, call),
      "PRIORITY=" + std::to_string(PriorityOf(LevelOf(summary))),
      std::string("MESSAGE_ID=") + kMessageId,
      "MOUNTD_METHOD=" + summary.method,
      "MOUNTD_OBJECT=" + summary.object,
      "MOUNTD_OPERATION=" + summary.id,
      "MOUNTD_UID=" + std::to_string(summary.uid),
      "MOUNTD_DURATION_USEC=" + std::to_string(summary.duration.count()),
      "MOUNTD_RULES=" + summary.rules};
  for (const auto& [kind, field] :
       {std::pair("allocation ", "MOUNTD_ALLOCATION="),
        std::pair("plugin ", "MOUNTD_PLUGIN="),
        std::pair("controller of ", "MOUNTD_PLUGIN=")}) {
    if (summary.object.starts_with(kind)) {
      fields.push_back(field +
                       summary.object.substr(std::string_view(kind).size()));
    }
  }
  if (!summary.others.empty()) {
    fields.push_back("MOUNTD_OTHERS=" + summary.others);
  }
  if (summary.pid != 0) {
    fields.push_back("MOUNTD_PID=" + std::to_string(summary.pid));
  }
  if (call != nullptr && call->parent) {
    fields.push_back("MOUNTD_TRACE_ID=" + ToHex(call->parent->trace_id));
  }
  if (call != nullptr && !call->request_id.empty()) {
    fields.push_back("MOUNTD_REQUEST_ID=" + call->request_id);
  }
  if (summary.error != nullptr) {
    fields.push_back(
        fmt::format("MOUNTD_ERROR={}", CodeName(summary.error->code)));
    fields.push_back("ERRNO=" + std::to_string(summary.error->sys_errno));
  }
  for (std::string& field : fields) {
    field = OnOneLine(field);
  }
  return fields;
}

void OperationLog::Log(const OperationSummary& summary,
                       LogBudget::Clock::time_point now) {
  LogCall(summary, FirstCallOf(summary), now);
  for (const CallTrace& call : summary.joined) {
    LogCall(summary, &call, now);
  }
}

void OperationLog::LogCall(const OperationSummary& summary,
                           const CallTrace* call,
                           LogBudget::Clock::time_point now) {
  static const bool to_journal = StderrIsJournal();
  const spdlog::level::level_enum level = LevelOf(summary);
  if (!spdlog::should_log(level)) {
    return;
  }
  const bool refused = summary.error != nullptr;
  const bool looked =
      !refused && OnlyLooks(summary.method) && !summary.others.empty();
  const char* const what = refused  ? "failed"
                           : looked ? "reading"
                                    : "successful";
  // Three budgets, so that lines of refused calls and of an administrator's
  // reads do not use up the lines of calls that change something.
  LogBudget& budget = refused ? refused_ : looked ? looked_ : done_;
  const LogBudget::Verdict verdict = budget.Take(summary.uid, now);
  if (verdict == LogBudget::Verdict::kLeaveOut) {
    return;
  }
  if (const std::uint64_t left_out = budget.TakeLeftOut(summary.uid)) {
    spdlog::warn("uid {}: mountd left out {} lines of {} operations",
                 summary.uid, left_out, what);
  }
  if (!to_journal || !SendToJournal(JournalFieldsOf(summary, call))) {
    spdlog::log(level, "{}", TextOf(summary, call));
  }
  if (verdict == LogBudget::Verdict::kLogLast) {
    spdlog::warn(
        "uid {}: too many {} operations; mountd leaves out some of their lines "
        "from now on",
        summary.uid, what);
  }
}

}  // namespace mountd
