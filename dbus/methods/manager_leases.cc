// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/manager_serve.h"
#include "dbus/receive/inbound.h"
#include "mountd/closer/passed_fd.h"

// ManagerAdaptor's methods on leases and fences.
namespace mountd::dbus {
namespace {

Error BadOption(const std::string& key, const std::string& why) {
  return MakeError(Code::kInvalidArgument, "check", "options[\"" + key + "\"]",
                   why);
}

struct LeaseArguments {
  LeaseRecord lease;
  std::shared_ptr<UniqueFd> pipe;
  std::string pipe_identity;
};

// Reads "allocation" or "scope".
Result<void> ReadSubject(OptionReader& reader, LeaseRecord* lease) {
  lease->allocation = reader.Get<std::string>("allocation", "");
  lease->scope = reader.Get<std::string>("scope", "");
  if (lease->allocation.empty() == lease->scope.empty()) {
    return BadOption("allocation",
                     "give either allocation or scope, and not both");
  }
  MOUNTD_TRY(
      Name::Parse(lease->scope.empty() ? "allocation" : "scope",
                  lease->scope.empty() ? lease->allocation : lease->scope));
  return Ok();
}

// Takes only the read end of a pipe. A write end here would keep the lease's
// own pipe alive, and reading from any other file could wait for its server.
Result<void> ReadKind(OptionReader& reader, LeaseArguments* arguments) {
  const auto given = reader.Get<sdbus::UnixFd>("pipe", sdbus::UnixFd());
  LeaseRecord& lease = arguments->lease;
  const bool has_timeout = reader.Has("timeout_ms");
  lease.timeout_ms = reader.Get<std::uint64_t>("timeout_ms", 0);
  if (given.isValid() == has_timeout) {
    return BadOption("pipe", "give either pipe or timeout_ms, and not both");
  }
  if (has_timeout) {
    lease.kind = LeaseKind::kHeartbeat;
    return lease.timeout_ms >= LeaseVerbs::kMinTimeoutMs &&
                   lease.timeout_ms <= LeaseVerbs::kMaxTimeoutMs
               ? Ok()
               : Result<void>(
                     BadOption("timeout_ms", "must be from 1000 to 86400000"));
  }
  lease.kind = LeaseKind::kPipe;
  arguments->pipe = TakePassed(given.get());
  if (!arguments->pipe->valid() || !IsPipeReadEnd(arguments->pipe->get())) {
    return BadOption("pipe", "must be the read end of a pipe");
  }
  if (!HasWriter(arguments->pipe->get())) {
    return BadOption("pipe", "nobody has the write end of the pipe open");
  }
  arguments->pipe_identity = FileIdentityOf(arguments->pipe->get());
  return Ok();
}

Result<void> ReadLapse(OptionReader& reader, LeaseRecord* lease) {
  const auto on_lapse = reader.Get<std::string>("on_lapse", "release");
  const auto stop = reader.Get<std::string>("stop_tasks", "no");
  if (on_lapse != "release" && on_lapse != "keep") {
    return BadOption("on_lapse", "must be release or keep");
  }
  lease->on_lapse = on_lapse == "keep" ? OnLapse::kKeep : OnLapse::kRelease;
  if (stop != "no" && stop != "freeze" && stop != "kill") {
    return BadOption("stop_tasks", "must be no, freeze or kill");
  }
  lease->stop_tasks = stop == "kill"     ? exec::TaskStop::kKill
                      : stop == "freeze" ? exec::TaskStop::kFreeze
                                         : exec::TaskStop::kNo;
  return Ok();
}

std::string ArgumentsText(const LeaseArguments& arguments) {
  const LeaseRecord& lease = arguments.lease;
  return Arguments::Of(lease.key.name, lease.allocation, lease.scope,
                       std::to_string(lease.timeout_ms),
                       std::to_string(static_cast<int>(lease.on_lapse)),
                       std::to_string(static_cast<int>(lease.stop_tasks)),
                       arguments.pipe_identity);
}

}  // namespace

void ManagerAdaptor::AcquireLease(sdbus::Result<Dict>&& answer,
                                  std::string lease, Dict options) {
  Serve<LeaseRecord>(
      std::move(answer), "AcquireLease",
      [&]() -> Result<Decoded<LeaseRecord>> {
        Decoded<LeaseRecord> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        LeaseArguments arguments;
        const Result<void> subject = ReadSubject(reader, &arguments.lease);
        const Result<void> kind = ReadKind(reader, &arguments);
        const Result<void> lapse = ReadLapse(reader, &arguments.lease);
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(Name::Parse("lease", lease));
        MOUNTD_TRY(subject);
        MOUNTD_TRY(kind);
        MOUNTD_TRY(lapse);
        arguments.lease.key.name = lease;
        // One user's calls come one after the other, because one name has one
        // lease, and so has one subject.
        call.strand = "leases";
        call.strand_is_callers = true;
        call.arguments = ArgumentsText(arguments);
        call.work = [arguments](Services& services,
                                const CallContext& context) {
          return services.lease_verbs.AcquireLease(context, arguments.lease,
                                                   arguments.pipe);
        };
        return call;
      },
      [](const LeaseRecord& record) { return ToDict(record); });
}

void ManagerAdaptor::RenewLease(sdbus::Result<Dict>&& answer, std::string lease,
                                Dict options) {
  Serve<LeaseRecord>(
      std::move(answer), "RenewLease",
      [&]() -> Result<Decoded<LeaseRecord>> {
        Decoded<LeaseRecord> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name name, Name::Parse("lease", lease));
        call.arguments = Arguments::Of(lease);
        // Each call moves the deadline, so no call joins an earlier call.
        call.joins = false;
        call.work = [name](Services& services, const CallContext& context) {
          return services.lease_verbs.RenewLease(context, name);
        };
        return call;
      },
      [](const LeaseRecord& record) { return ToDict(record); });
}

void ManagerAdaptor::ReleaseLease(sdbus::Result<>&& answer, std::string lease,
                                  Dict options) {
  Serve<void>(
      std::move(answer), "ReleaseLease",
      [&]() -> Result<Decoded<void>> {
        Decoded<void> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        std::optional<std::uint32_t> uid;
        if (reader.Has("uid")) {
          uid = reader.Get<std::uint32_t>("uid", 0);
        }
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(Name::Parse("lease", lease));
        call.strand = "leases";
        call.strand_is_callers = true;
        call.arguments = Arguments::Of(lease, uid ? std::to_string(*uid) : "");
        call.work = [lease, uid](Services& services,
                                 const CallContext& context) {
          return services.lease_verbs.ReleaseLease(
              context, {uid.value_or(context.caller.uid), lease});
        };
        return call;
      },
      NoConversion());
}

void ManagerAdaptor::ListLeases(sdbus::Result<std::vector<Dict>>&& answer,
                                Dict options) {
  using T = std::vector<LeaseRecord>;
  Serve<T>(
      std::move(answer), "ListLeases",
      [&]() -> Result<Decoded<T>> {
        return DecodeListing<T>(
            options, [](Services& services, const CallContext& context) {
              return services.lease_verbs.ListLeases(context);
            });
      },
      [](const T& leases) { return ToDicts(leases); });
}

void ManagerAdaptor::GetFence(sdbus::Result<Dict>&& answer,
                              std::string allocation, Dict options) {
  Serve<FenceRecord>(
      std::move(answer), "GetFence",
      [&]() -> Result<Decoded<FenceRecord>> {
        Decoded<FenceRecord> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        call.arguments = Arguments::Of(allocation);
        call.work = [id](Services& services, const CallContext& context) {
          return services.lease_verbs.GetFence(context, id);
        };
        return call;
      },
      [](const FenceRecord& fence) { return ToDict(fence); });
}

}  // namespace mountd::dbus
