// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/manager_serve.h"
#include "dbus/receive/inbound.h"
#include "mountd/closer/passed_fd.h"

// ManagerAdaptor's methods on allocations.
namespace mountd::dbus {
namespace {

// Returns the id of the cgroup whose directory "cgroup" is an fd of, 0 if there
// is none. Uses the id, because nobody can reliably find the path of an fd.
Result<std::uint64_t> CgroupFrom(OptionReader& reader) {
  const auto given = reader.Get<sdbus::UnixFd>("cgroup", sdbus::UnixFd());
  if (!given.isValid()) {
    return std::uint64_t{0};
  }
  const std::optional<std::uint64_t> id =
      CgroupIdOf(TakePassed(given.get())->get());
  if (!id) {
    return MakeError(
        Code::kInvalidArgument, "check", "options[\"cgroup\"]",
        "must be an fd of a directory in the cgroup hierarchy (version 2)");
  }
  return *id;
}

Result<ReconcileSpec> ReconcileSpecFrom(std::string scope, std::uint64_t epoch,
                                        std::vector<std::string> wanted,
                                        bool dry_run) {
  if (!scope.empty()) {
    MOUNTD_TRY(Name::Parse("scope", scope));
  }
  if (wanted.size() > kMaxWanted) {
    return MakeError(Code::kInvalidArgument, "check", "wanted",
                     "has more than " + std::to_string(kMaxWanted) + " names");
  }
  ReconcileSpec spec{std::move(scope), epoch, {}, dry_run};
  for (std::string& name : wanted) {
    MOUNTD_TRY(Name::Parse("wanted", name));
    if (!spec.wanted.insert(std::move(name)).second) {
      return MakeError(Code::kInvalidArgument, "check", "wanted",
                       "must have each name only once");
    }
  }
  return spec;
}

}  // namespace

void ManagerAdaptor::PrepareAllocation(sdbus::Result<Dict>&& answer,
                                       std::string allocation, Dict options) {
  Serve<std::string>(
      std::move(answer), "PrepareAllocation",
      [&]() -> Result<Decoded<std::string>> {
        Decoded<std::string> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        const auto scope = reader.Get<std::string>("scope", "");
        if (!scope.empty() && !IsValidName(scope)) {
          reader.Refuse("scope", "must be a valid name");
        }
        MOUNTD_ASSIGN(const std::uint64_t cgroup, CgroupFrom(reader));
        const auto group = reader.Get<std::uint32_t>("group", 0);
        if (group == 0 && reader.Has("group")) {
          reader.Refuse("group", "must not be root's; leave it out");
        }
        const bool lease_required = reader.Get<bool>("lease_required", false);
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        call.strand = AllocationStrand(id.str());
        call.arguments = Arguments::Of(
            allocation, scope, std::to_string(cgroup), std::to_string(group),
            std::string(lease_required ? "lease" : ""));
        call.work = [id, scope, cgroup, group, lease_required](
                        Services& services, const CallContext& context) {
          return services.allocations.PrepareAllocation(
              context, id, scope, cgroup, group, lease_required);
        };
        return call;
      },
      [where = parts_.services.capabilities.MountNamespace()](
          const std::string& path) {
        return WithNamespace(where, {{"host_path", Value(ToBytes(path))}});
      });
}

void ManagerAdaptor::ReleaseAllocation(sdbus::Result<Dict>&& answer,
                                       std::string allocation, Dict options) {
  Serve<ReceiptRecord>(
      std::move(answer), "ReleaseAllocation",
      [&]() -> Result<Decoded<ReceiptRecord>> {
        Decoded<ReceiptRecord> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        const auto tasks = reader.Get<std::string>("tasks", "");
        const auto only = reader.Get<std::string>("only_if", "");
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const OnTasks on_tasks, ParseOnTasks(tasks));
        MOUNTD_ASSIGN(const OnlyIf only_if, ParseOnlyIf(only));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        call.strand = AllocationStrand(id.str());
        call.arguments = Arguments::Of(allocation, tasks, only);
        call.work = [id, on_tasks, only_if](Services& services,
                                            const CallContext& context) {
          return services.allocations.ReleaseAllocation(context, id, on_tasks,
                                                        only_if);
        };
        return call;
      },
      [](const ReceiptRecord& receipt) { return ToDict(receipt); });
}

void ManagerAdaptor::GetReceipt(sdbus::Result<Dict>&& answer,
                                std::string allocation, Dict options) {
  Serve<ReceiptRecord>(
      std::move(answer), "GetReceipt",
      [&]() -> Result<Decoded<ReceiptRecord>> {
        Decoded<ReceiptRecord> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        call.arguments = Arguments::Of(allocation);
        call.work = [id](Services& services, const CallContext& context) {
          return services.allocations.GetReceipt(context, id);
        };
        return call;
      },
      [](const ReceiptRecord& receipt) { return ToDict(receipt); });
}

void ManagerAdaptor::GetAllocation(sdbus::Result<Dict>&& answer,
                                   std::string allocation, Dict options) {
  Serve<AllocationStatus>(
      std::move(answer), "GetAllocation",
      [&]() -> Result<Decoded<AllocationStatus>> {
        Decoded<AllocationStatus> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        call.arguments = Arguments::Of(allocation);
        call.work = [id](Services& services, const CallContext& context) {
          return services.allocations.GetAllocation(context, id);
        };
        return call;
      },
      [](const AllocationStatus& status) { return ToDict(status); });
}

void ManagerAdaptor::ListAllocations(
    sdbus::Result<std::vector<AllocationStruct>>&& answer, Dict options) {
  using T = std::vector<AllocationRecord>;
  Serve<T>(
      std::move(answer), "ListAllocations",
      [&]() -> Result<Decoded<T>> {
        return DecodeListing<T>(
            options, [](Services& services, const CallContext& context) {
              return services.allocations.ListAllocations(context);
            });
      },
      [](const T& records) {
        std::vector<AllocationStruct> all;
        for (const AllocationRecord& record : records) {
          all.emplace_back(record.id, record.uid, record.scope,
                           AllocationStateName(record.state));
        }
        return all;
      });
}

void ManagerAdaptor::Reconcile(sdbus::Result<std::vector<Dict>>&& answer,
                               std::string scope, std::uint64_t epoch,
                               std::vector<std::string> wanted, bool dry_run,
                               Dict options) {
  using T = std::vector<ReconcileEntry>;
  Serve<T>(
      std::move(answer), "Reconcile",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(ReconcileSpec spec,
                      ReconcileSpecFrom(std::move(scope), epoch,
                                        std::move(wanted), dry_run));
        // One strand for each user, because a Reconcile waits for all that it
        // releases.
        MOUNTD_ASSIGN(
            const Caller caller,
            callers_.CallerOf(getObject().getCurrentlyProcessedMessage()));
        call.strand = "reconcile " + std::to_string(caller.uid);
        call.arguments = Arguments::Of(
            spec.scope, std::to_string(epoch), dry_run ? "dry" : "",
            std::vector<std::string>(spec.wanted.begin(), spec.wanted.end()));
        call.work = [&strands = parts_.strands, spec = std::move(spec)](
                        Services& services, const CallContext& context) {
          return services.reconciler.Reconcile(context, spec, strands);
        };
        return call;
      },
      [](const T& entries) { return ToDicts(entries); });
}

}  // namespace mountd::dbus
