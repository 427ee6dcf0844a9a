// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/stat.h>

#include "dbus/manager_serve.h"

// ManagerAdaptor's methods on volumes.
namespace mountd::dbus {
namespace {

constexpr int kAllSeals =
    F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

// Only a memfd that nobody can change any more, so that what the RPC host reads
// is what the agent wrote. An absent key is no secrets.
Result<std::shared_ptr<UniqueFd>> SecretsFrom(OptionReader& reader) {
  const auto given = reader.Get<sdbus::UnixFd>("secrets", sdbus::UnixFd());
  auto secrets = std::make_shared<UniqueFd>();
  if (!given.isValid()) {
    return secrets;
  }
  secrets->reset(fcntl(given.get(), F_DUPFD_CLOEXEC, 3));
  const int seals = secrets->valid() ? fcntl(secrets->get(), F_GET_SEALS) : -1;
  if (seals < 0 || (seals & kAllSeals) != kAllSeals) {
    return MakeError(Code::kInvalidArgument, "check", "options[\"secrets\"]",
                     "must be a memfd sealed against sealing, writing, "
                     "shrinking and growing");
  }
  return secrets;
}

// Tells memfds apart, so that a call with other secrets does not join one that
// is under way.
std::string IdentityOf(const UniqueFd& secrets) {
  struct stat file {};
  return secrets.valid() && fstat(secrets.get(), &file) == 0
             ? std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino)
             : std::string();
}

}  // namespace

void ManagerAdaptor::PublishVolume(sdbus::Result<Dict>&& answer,
                                   std::string allocation, std::string alias,
                                   std::string volume, std::string plugin,
                                   Dict usage, StringMap publish_context,
                                   StringMap volume_context, Dict options) {
  using T = csi::PublishedVolume;
  Serve<T>(
      std::move(answer), "PublishVolume",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        MOUNTD_ASSIGN(const std::shared_ptr<UniqueFd> secrets,
                      SecretsFrom(reader));
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_TRY(Name::Parse("alias", alias));
        MOUNTD_TRY(Name::Parse("plugin", plugin));
        MOUNTD_TRY(CheckVolumeId(volume));
        MOUNTD_TRY(CheckContext("publish_context", publish_context));
        MOUNTD_TRY(CheckContext("volume_context", volume_context));
        csi::PublishSpec spec{allocation,      alias,         plugin,
                              volume,          false,         {},
                              publish_context, volume_context};
        MOUNTD_TRY(ReadUsage(usage, spec));
        call.strand = AllocationStrand(id.str());
        Arguments arguments;
        arguments.Add(allocation).Add(alias).Add(plugin).Add(volume);
        arguments.Add(std::to_string(static_cast<int>(spec.read_only)))
            .Add(std::to_string(static_cast<int>(spec.capability.access_mode)))
            .Add(spec.capability.fs_type)
            .Add(spec.capability.mount_flags);
        arguments.Add(publish_context).Add(volume_context);
        arguments.Add(IdentityOf(*secrets));
        call.arguments = arguments.text();
        call.work = [spec, secrets](Service& service,
                                    const CallContext& context) {
          return service.PublishVolume(context, spec, *secrets);
        };
        return call;
      },
      [](const T& published) { return ToDict(published); });
}

void ManagerAdaptor::UnpublishVolume(sdbus::Result<>&& answer,
                                     std::string allocation, std::string alias,
                                     Dict options) {
  Serve<void>(
      std::move(answer), "UnpublishVolume",
      [&]() -> Result<Decoded<void>> {
        Decoded<void> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_ASSIGN(const Name name, Name::Parse("alias", alias));
        call.strand = AllocationStrand(id.str());
        call.arguments = Arguments::Of(allocation, alias);
        call.work = [id, name](Service& service, const CallContext& context) {
          return service.UnpublishVolume(context, id, name);
        };
        return call;
      },
      NoConversion());
}

void ManagerAdaptor::ListVolumes(sdbus::Result<std::vector<Dict>>&& answer,
                                 Dict options) {
  using T = std::vector<VolumeStatus>;
  Serve<T>(
      std::move(answer), "ListVolumes",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        call.work = [](Service& service, const CallContext& context) {
          return service.ListVolumes(context);
        };
        return call;
      },
      [](const T& volumes) { return ToDicts(volumes); });
}

}  // namespace mountd::dbus
