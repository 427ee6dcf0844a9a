// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/manager_serve.h"
#include "dbus/methods/secrets_option.h"

// ManagerAdaptor's methods on volumes.
namespace mountd::dbus {

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
            .Add(std::to_string(static_cast<int>(spec.capability.block)))
            .Add(spec.capability.volume_mount_group)
            .Add(spec.capability.fs_type)
            .Add(spec.capability.mount_flags);
        arguments.Add(publish_context).Add(volume_context);
        arguments.Add(IdentityOf(*secrets));
        call.arguments = arguments.text();
        call.work = [spec, secrets](Services& services,
                                    const CallContext& context) {
          return services.volumes.PublishVolume(context, spec, *secrets);
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
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        const auto tasks = reader.Get<std::string>("tasks", "");
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const OnTasks on_tasks, ParseOnTasks(tasks));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_ASSIGN(const Name name, Name::Parse("alias", alias));
        call.strand = AllocationStrand(id.str());
        call.arguments = Arguments::Of(allocation, alias, tasks);
        call.work = [id, name, on_tasks](Services& services,
                                         const CallContext& context) {
          return services.volumes.UnpublishVolume(context, id, name, on_tasks);
        };
        return call;
      },
      NoConversion());
}

void ManagerAdaptor::ExpandVolume(sdbus::Result<std::int64_t>&& answer,
                                  std::string allocation, std::string alias,
                                  std::int64_t required_bytes, Dict options) {
  using T = std::int64_t;
  Serve<T>(
      std::move(answer), "ExpandVolume",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        MOUNTD_ASSIGN(const std::shared_ptr<UniqueFd> secrets,
                      SecretsFrom(reader));
        csi::Volumes::ExpandSpec spec;
        spec.limit_bytes = reader.Get<std::int64_t>("limit_bytes", 0);
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(Name::Parse("allocation", allocation));
        MOUNTD_TRY(Name::Parse("alias", alias));
        spec.allocation = allocation;
        spec.alias = alias;
        spec.required_bytes = required_bytes;
        call.strand = AllocationStrand(allocation);
        call.arguments = Arguments::Of(
            allocation, alias, std::to_string(required_bytes),
            std::to_string(spec.limit_bytes), IdentityOf(*secrets));
        call.work = [spec, secrets](Services& services,
                                    const CallContext& context) {
          return services.volumes.ExpandVolume(context, spec, *secrets);
        };
        return call;
      },
      [](T bytes) { return bytes; });
}

void ManagerAdaptor::GetVolumeStats(sdbus::Result<Dict>&& answer,
                                    std::string allocation, std::string alias,
                                    Dict options) {
  using T = csi::VolumeStats;
  Serve<T>(
      std::move(answer), "GetVolumeStats",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_ASSIGN(const Name name, Name::Parse("alias", alias));
        // A strand of its own, because the plugin may take long to answer and
        // other calls must not wait.
        call.strand = "stats of " + allocation + "/" + alias;
        call.arguments = Arguments::Of(allocation, alias);
        call.work = [id, name](Services& services, const CallContext& context) {
          return services.volumes.GetVolumeStats(context, id, name);
        };
        return call;
      },
      [](const T& stats) { return ToDict(stats); });
}

void ManagerAdaptor::ListVolumes(sdbus::Result<std::vector<Dict>>&& answer,
                                 Dict options) {
  using T = std::vector<VolumeStatus>;
  Serve<T>(
      std::move(answer), "ListVolumes",
      [&]() -> Result<Decoded<T>> {
        return DecodeListing<T>(
            options, [](Services& services, const CallContext& context) {
              return services.volumes.ListVolumes(context);
            });
      },
      [](const T& volumes) { return ToDicts(volumes); });
}

}  // namespace mountd::dbus
