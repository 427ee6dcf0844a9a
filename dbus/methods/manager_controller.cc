// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/manager_serve.h"
#include "dbus/methods/secrets_option.h"

// ManagerAdaptor's methods on plugins' controllers.
namespace mountd::dbus {
namespace {

// CSI spec, NodeGetInfoResponse.node_id.
constexpr std::size_t kMaxNodeId = 256;
constexpr std::size_t kMaxToken = 1024;
constexpr std::uint32_t kMaxEntries = 1000;
constexpr std::uint32_t kUsualEntries = 100;
constexpr std::size_t kMaxUsages = 16;
constexpr std::size_t kMaxTopologies = 64;
constexpr std::size_t kMaxRequest = std::size_t{256} << 10U;

Error Invalid(std::string what, std::string why) {
  return MakeError(Code::kInvalidArgument, "check", std::move(what),
                   std::move(why));
}

Result<void> CheckText(const char* what, const std::string& text,
                       std::size_t most) {
  if (text.size() > most || !IsValidUtf8(text)) {
    return Invalid(
        what, "must be UTF-8 of at most " + std::to_string(most) + " bytes");
  }
  return Ok();
}

Result<csi::VolumeCapability> CapabilityFrom(const Dict& usage,
                                             bool* read_only = nullptr) {
  csi::PublishSpec spec;
  MOUNTD_TRY(ReadUsage(usage, spec));
  if (read_only != nullptr) {
    *read_only = spec.read_only;
  }
  return std::move(spec.capability);
}

Result<std::vector<csi::VolumeCapability>> CapabilitiesFrom(
    const std::vector<Dict>& usages) {
  if (usages.size() > kMaxUsages) {
    return Invalid("usages", "must have at most 16 entries");
  }
  std::vector<csi::VolumeCapability> all;
  for (const Dict& usage : usages) {
    MOUNTD_ASSIGN(csi::VolumeCapability capability, CapabilityFrom(usage));
    all.push_back(std::move(capability));
  }
  return all;
}

void CheckSizes(const csi::CapacityRange& range, OptionReader& reader) {
  if (range.required_bytes < 0 || range.limit_bytes < 0) {
    reader.Refuse("required_bytes",
                  "must not be negative, nor may limit_bytes");
  }
}

Result<std::vector<csi::Segments>> TopologiesFrom(OptionReader& reader,
                                                  const std::string& key) {
  const auto all = reader.Get<std::vector<csi::Segments>>(key, {});
  if (all.size() > kMaxTopologies) {
    return Invalid(key, "must have at most 64 entries");
  }
  for (const csi::Segments& segments : all) {
    MOUNTD_TRY(CheckContext(key, segments));
  }
  return all;
}

Result<csi::CreateVolumeRequest> CreationFrom(const Dict& spec) {
  OptionReader reader("spec", spec);
  csi::CreateVolumeRequest request;
  request.capacity = {reader.Get<std::int64_t>("required_bytes", 0),
                      reader.Get<std::int64_t>("limit_bytes", 0)};
  CheckSizes(request.capacity, reader);
  const auto usages = reader.Get<std::vector<Dict>>("usages", {});
  request.parameters = reader.Get<StringMap>("parameters", {});
  request.mutable_parameters = reader.Get<StringMap>("mutable_parameters", {});
  request.source_snapshot = reader.Get<std::string>("source_snapshot", "");
  request.source_volume = reader.Get<std::string>("source_volume", "");
  if (!request.source_snapshot.empty() && !request.source_volume.empty()) {
    reader.Refuse("source_volume",
                  "excludes source_snapshot; give only one of them");
  }
  MOUNTD_ASSIGN(request.requisite, TopologiesFrom(reader, "requisite"));
  MOUNTD_ASSIGN(request.preferred, TopologiesFrom(reader, "preferred"));
  if (usages.empty()) {
    reader.Refuse("usages", "must have at least one entry");
  }
  MOUNTD_TRY(reader.Finish());
  MOUNTD_TRY(CheckContext("parameters", request.parameters));
  MOUNTD_TRY(CheckContext("mutable_parameters", request.mutable_parameters));
  MOUNTD_TRY(
      CheckText("source_snapshot", request.source_snapshot, kMaxVolumeIdBytes));
  MOUNTD_TRY(
      CheckText("source_volume", request.source_volume, kMaxVolumeIdBytes));
  MOUNTD_ASSIGN(request.capabilities, CapabilitiesFrom(usages));
  return request;
}

// Names the strand by a hash, because ids are opaque bytes and a strand's name
// gets into the log.
std::string VolumeStrand(const std::string& plugin, const std::string& id) {
  return "volume " + VolumeKey::Derive(plugin, id).str();
}

const auto kAsDict = [](const auto& result) { return ToDict(result); };

}  // namespace

// The options that all controller calls have.
struct ManagerAdaptor::ControlOptions {
  std::string plugin;
  std::chrono::milliseconds patience{0};
  std::shared_ptr<UniqueFd> secrets = std::make_shared<UniqueFd>();
};

Result<ManagerAdaptor::ControlOptions> ManagerAdaptor::ReadControl(
    const std::string& plugin, OptionReader& reader) const {
  ControlOptions control;
  MOUNTD_ASSIGN(const Name id, Name::Parse("plugin", plugin));
  control.plugin = id.str();
  control.patience = Patience(reader);
  MOUNTD_ASSIGN(control.secrets, SecretsFrom(reader));
  return control;
}

template <typename T, typename Request>
ManagerAdaptor::Decoded<T> ManagerAdaptor::DecodeControl(
    const ControlOptions& options, const std::string& subject,
    const Request& request, ControlVerb<T, Request> verb) {
  Decoded<T> call;
  call.patience = options.patience;
  call.strand = subject;
  // The whole request as a text.
  call.arguments = Arguments::Of(options.plugin, csi::ToCall(request).request,
                                 IdentityOf(*options.secrets));
  call.work = [verb, request, plugin = options.plugin,
               secrets = options.secrets](Services& services,
                                          const CallContext& context) {
    return (services.controllers.*verb)(context, plugin, request, *secrets);
  };
  return call;
}

void ManagerAdaptor::ControllerPublishVolume(
    sdbus::Result<StringMap>&& answer, std::string plugin, std::string volume,
    std::string node_id, Dict usage, StringMap volume_context, Dict options) {
  using T = StringMap;
  Serve<T>(
      std::move(answer), "ControllerPublishVolume",
      [&]() -> Result<Decoded<T>> {
        OptionReader reader("options", options);
        MOUNTD_ASSIGN(const ControlOptions control,
                      ReadControl(plugin, reader));
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(CheckVolumeId(volume));
        MOUNTD_TRY(CheckText("node_id", node_id, kMaxNodeId));
        MOUNTD_TRY(CheckContext("volume_context", volume_context));
        csi::ControllerPublishRequest request;
        MOUNTD_ASSIGN(request.capability,
                      CapabilityFrom(usage, &request.read_only));
        request.volume_id = volume;
        request.node_id = node_id;
        request.volume_context = volume_context;
        return DecodeControl<T>(control, VolumeStrand(plugin, volume), request,
                                &ControllerVerbs::ControllerPublish);
      },
      [](const T& context) { return context; });
}

void ManagerAdaptor::ControllerUnpublishVolume(sdbus::Result<>&& answer,
                                               std::string plugin,
                                               std::string volume,
                                               std::string node_id,
                                               Dict options) {
  Serve<void>(
      std::move(answer), "ControllerUnpublishVolume",
      [&]() -> Result<Decoded<void>> {
        OptionReader reader("options", options);
        MOUNTD_ASSIGN(const ControlOptions control,
                      ReadControl(plugin, reader));
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(CheckVolumeId(volume));
        MOUNTD_TRY(CheckText("node_id", node_id, kMaxNodeId));
        const csi::ControllerUnpublishRequest request{volume, node_id};
        return DecodeControl<void>(control, VolumeStrand(plugin, volume),
                                   request,
                                   &ControllerVerbs::ControllerUnpublish);
      },
      NoConversion());
}

void ManagerAdaptor::ValidateVolume(sdbus::Result<Dict>&& answer,
                                    std::string plugin, std::string volume,
                                    Dict usage, StringMap volume_context,
                                    Dict options) {
  using T = csi::Validation;
  Serve<T>(
      std::move(answer), "ValidateVolume",
      [&]() -> Result<Decoded<T>> {
        OptionReader reader("options", options);
        MOUNTD_ASSIGN(const ControlOptions control,
                      ReadControl(plugin, reader));
        csi::ValidateRequest request;
        request.parameters = reader.Get<StringMap>("parameters", {});
        request.mutable_parameters =
            reader.Get<StringMap>("mutable_parameters", {});
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(CheckVolumeId(volume));
        MOUNTD_TRY(CheckContext("volume_context", volume_context));
        MOUNTD_TRY(CheckContext("parameters", request.parameters));
        MOUNTD_TRY(
            CheckContext("mutable_parameters", request.mutable_parameters));
        MOUNTD_ASSIGN(csi::VolumeCapability capability, CapabilityFrom(usage));
        request.capabilities.push_back(std::move(capability));
        request.volume_id = volume;
        request.volume_context = volume_context;
        return DecodeControl<T>(control, VolumeStrand(plugin, volume), request,
                                &ControllerVerbs::ValidateVolume);
      },
      kAsDict);
}

void ManagerAdaptor::CreateVolume(sdbus::Result<Dict>&& answer,
                                  std::string plugin, std::string name,
                                  Dict spec, Dict options) {
  using T = csi::ControllerVolume;
  Serve<T>(
      std::move(answer), "CreateVolume",
      [&]() -> Result<Decoded<T>> {
        OptionReader reader("options", options);
        MOUNTD_ASSIGN(const ControlOptions control,
                      ReadControl(plugin, reader));
        MOUNTD_TRY(reader.Finish());
        if (name.empty()) {
          return Invalid("name", "must not be empty");
        }
        MOUNTD_TRY(CheckText("name", name, kMaxNameBytes));
        MOUNTD_ASSIGN(csi::CreateVolumeRequest request, CreationFrom(spec));
        request.name = name;
        return DecodeControl<T>(control, "new " + VolumeStrand(plugin, name),
                                request, &ControllerVerbs::CreateVolume);
      },
      kAsDict);
}

void ManagerAdaptor::DeleteVolume(sdbus::Result<>&& answer, std::string plugin,
                                  std::string volume, Dict options) {
  Serve<void>(
      std::move(answer), "DeleteVolume",
      [&]() -> Result<Decoded<void>> {
        OptionReader reader("options", options);
        MOUNTD_ASSIGN(const ControlOptions control,
                      ReadControl(plugin, reader));
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(CheckVolumeId(volume));
        return DecodeControl<void>(control, VolumeStrand(plugin, volume),
                                   csi::DeleteVolumeRequest{volume},
                                   &ControllerVerbs::DeleteVolume);
      },
      NoConversion());
}

void ManagerAdaptor::ControllerExpandVolume(sdbus::Result<Dict>&& answer,
                                            std::string plugin,
                                            std::string volume,
                                            std::int64_t required_bytes,
                                            Dict options) {
  using T = csi::ControllerExpansion;
  Serve<T>(
      std::move(answer), "ControllerExpandVolume",
      [&]() -> Result<Decoded<T>> {
        OptionReader reader("options", options);
        MOUNTD_ASSIGN(const ControlOptions control,
                      ReadControl(plugin, reader));
        csi::ControllerExpandRequest request;
        request.volume_id = volume;
        request.capacity = {required_bytes,
                            reader.Get<std::int64_t>("limit_bytes", 0)};
        CheckSizes(request.capacity, reader);
        const auto usage = reader.Get<Dict>("usage", {});
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(CheckVolumeId(volume));
        if (!usage.empty()) {
          MOUNTD_ASSIGN(request.capability, CapabilityFrom(usage));
        }
        return DecodeControl<T>(control, VolumeStrand(plugin, volume), request,
                                &ControllerVerbs::ControllerExpand);
      },
      kAsDict);
}

void ManagerAdaptor::ListPluginVolumes(sdbus::Result<Dict>&& answer,
                                       std::string plugin, Dict options) {
  using T = csi::VolumePage;
  Serve<T>(
      std::move(answer), "ListPluginVolumes",
      [&]() -> Result<Decoded<T>> {
        OptionReader reader("options", options);
        // Does not call ReadControl, because this request has no secrets (CSI
        // spec, ListVolumesRequest).
        ControlOptions control;
        MOUNTD_ASSIGN(const Name id, Name::Parse("plugin", plugin));
        control.plugin = id.str();
        control.patience = Patience(reader);
        const auto entries =
            reader.Get<std::uint32_t>("max_entries", kUsualEntries);
        if (entries == 0 || entries > kMaxEntries) {
          reader.Refuse("max_entries", "must be 1 to 1000");
        }
        const csi::ListVolumesRequest request{
            static_cast<std::int32_t>(entries),
            reader.Get<std::string>("starting_token", "")};
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(CheckText("options[\"starting_token\"]",
                             request.starting_token, kMaxToken));
        return DecodeControl<T>(control, "volumes of " + plugin, request,
                                &ControllerVerbs::ListPluginVolumes);
      },
      kAsDict);
}

void ManagerAdaptor::GetCapacity(sdbus::Result<Dict>&& answer,
                                 std::string plugin, Dict options) {
  using T = csi::Capacity;
  Serve<T>(
      std::move(answer), "GetCapacity",
      [&]() -> Result<Decoded<T>> {
        OptionReader reader("options", options);
        // Does not call ReadControl, because this request has no secrets (CSI
        // spec, GetCapacityRequest).
        ControlOptions control;
        MOUNTD_ASSIGN(const Name id, Name::Parse("plugin", plugin));
        control.plugin = id.str();
        control.patience = Patience(reader);
        csi::GetCapacityRequest request;
        const auto usages = reader.Get<std::vector<Dict>>("usages", {});
        request.parameters = reader.Get<StringMap>("parameters", {});
        request.topology = reader.Get<StringMap>("topology", {});
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(CheckContext("parameters", request.parameters));
        MOUNTD_TRY(CheckContext("topology", request.topology));
        MOUNTD_ASSIGN(request.capabilities, CapabilitiesFrom(usages));
        return DecodeControl<T>(control, "capacity of " + plugin, request,
                                &ControllerVerbs::GetCapacity);
      },
      kAsDict);
}

void ManagerAdaptor::CallController(
    sdbus::Result<std::vector<std::uint8_t>>&& answer, std::string plugin,
    std::string rpc, std::vector<std::uint8_t> request, Dict options) {
  Serve<std::string>(
      std::move(answer), "CallController",
      [&]() -> Result<Decoded<std::string>> {
        OptionReader reader("options", options);
        MOUNTD_ASSIGN(const ControlOptions control,
                      ReadControl(plugin, reader));
        MOUNTD_TRY(reader.Finish());
        if (request.size() > kMaxRequest) {
          return Invalid("request", "must be at most 256 KiB");
        }
        Decoded<std::string> call;
        call.patience = control.patience;
        call.strand = "controller of " + plugin;
        const std::string bytes(request.begin(), request.end());
        call.arguments =
            Arguments::Of(plugin, rpc, bytes, IdentityOf(*control.secrets));
        call.work = [plugin, rpc, bytes, secrets = control.secrets](
                        Services& services, const CallContext& context) {
          return services.controllers.CallController(context, plugin, rpc,
                                                     bytes, *secrets);
        };
        return call;
      },
      [](const std::string& response) { return ToBytes(response); });
}

}  // namespace mountd::dbus
