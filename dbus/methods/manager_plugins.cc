// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/manager_serve.h"

// ManagerAdaptor's methods on plugins.
namespace mountd::dbus {
namespace {

// Reads a directory's path in the view of the plugin's task.
std::string ViewPath(OptionReader& reader, const std::string& key) {
  std::string path = reader.Get<std::string>(key, "");
  const bool absolute = path.empty() || path.front() == '/';
  if (!absolute || path.find("/..") != std::string::npos ||
      path.find('\0') != std::string::npos || !IsValidUtf8(path)) {
    reader.Refuse(key, "must be an absolute path without ..");
  }
  return path;
}

PluginRecord ReadRegistration(OptionReader& reader) {
  PluginRecord record;
  record.mount_dir = ViewPath(reader, "mount_dir");
  record.stage_publish_base_dir = ViewPath(reader, "stage_publish_base_dir");
  record.bare_directories = reader.Get<bool>("bare_directories", false);
  record.health_timeout_ms = reader.Get<std::uint32_t>("health_timeout_ms", 0);
  return record;
}

csi::PluginSelection ReadSelection(const Dict& options, OptionReader& reader) {
  csi::PluginSelection which;
  const std::string type = reader.Get<std::string>("type", "");
  const std::string allocation = reader.Get<std::string>("allocation", "");
  if (options.contains("type")) {
    which.type = type;
  }
  if (options.contains("allocation")) {
    which.allocation = allocation;
  }
  which.force = reader.Get<bool>("force", false);
  return which;
}

}  // namespace

void ManagerAdaptor::RegisterPlugin(sdbus::Result<Dict>&& answer,
                                    std::string plugin, std::string type,
                                    std::string allocation, Dict options) {
  using T = csi::PluginRegistration;
  Serve<T>(
      std::move(answer), "RegisterPlugin",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        PluginRecord record = ReadRegistration(reader);
        MOUNTD_TRY(reader.Finish());
        record.id = plugin;
        record.type = type;
        record.allocation = allocation;
        MOUNTD_ASSIGN(const Name id, Name::Parse("plugin", plugin));
        if (!allocation.empty()) {
          MOUNTD_TRY(Name::Parse("allocation", allocation));
        }
        call.strand = "plugin " + id.str();
        call.arguments = Arguments::Of(
            plugin, type, allocation, record.mount_dir,
            record.stage_publish_base_dir,
            std::to_string(static_cast<int>(record.bare_directories)),
            std::to_string(record.health_timeout_ms));
        call.work = [record](Services& services, const CallContext& context) {
          return services.plugins.RegisterPlugin(context, record);
        };
        return call;
      },
      [](const T& registration) { return ToDict(registration); });
}

void ManagerAdaptor::UnregisterPlugin(sdbus::Result<>&& answer,
                                      std::string plugin, Dict options) {
  Serve<void>(
      std::move(answer), "UnregisterPlugin",
      [&]() -> Result<Decoded<void>> {
        Decoded<void> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        const csi::PluginSelection which = ReadSelection(options, reader);
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const Name id, Name::Parse("plugin", plugin));
        call.strand = "plugin " + id.str();
        call.arguments =
            Arguments::Of(plugin, which.type ? "t" + *which.type : "",
                          which.allocation ? "a" + *which.allocation : "",
                          std::to_string(static_cast<int>(which.force)));
        call.work = [id, which](Services& services,
                                const CallContext& context) {
          return services.plugins.UnregisterPlugin(context, id, which);
        };
        return call;
      },
      NoConversion());
}

void ManagerAdaptor::GetPlugin(sdbus::Result<Dict>&& answer, std::string plugin,
                               Dict options) {
  Serve<csi::PluginStatus>(
      std::move(answer), "GetPlugin",
      [&]() -> Result<Decoded<csi::PluginStatus>> {
        Decoded<csi::PluginStatus> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("plugin", plugin));
        call.arguments = Arguments::Of(plugin);
        call.work = [id](Services& services, const CallContext& context) {
          return services.plugins.GetPlugin(context, id);
        };
        return call;
      },
      [](const csi::PluginStatus& status) { return ToDict(status); });
}

void ManagerAdaptor::ListPlugins(sdbus::Result<std::vector<Dict>>&& answer,
                                 Dict options) {
  using T = std::vector<csi::PluginStatus>;
  Serve<T>(
      std::move(answer), "ListPlugins",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        call.work = [](Services& services, const CallContext& context) {
          return services.plugins.ListPlugins(context);
        };
        return call;
      },
      [](const T& plugins) { return ToDicts(plugins); });
}

}  // namespace mountd::dbus
