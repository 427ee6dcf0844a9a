// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "csi-node/ipc/message.h"
#include "csi-node/types/csi_controller.h"
#include "mountd/base/json_bounds.h"
#include "mountd/base/number.h"

namespace mountd::csi {
namespace {

using Json = nlohmann::json;
using Texts = std::map<std::string, std::string>;

// Fractions are refused, because answers hold none.
constexpr JsonBounds kBounds{12, 262'144, JsonBounds::Fractions::kRefused};

// ---- Requests ----

Json ToJson(const VolumeCapability& capability) {
  Json json = {
      {"access_mode", {{"mode", static_cast<int>(capability.access_mode)}}}};
  if (capability.block) {
    json["block"] = Json::object();
  } else {
    json["mount"] = {{"fs_type", capability.fs_type},
                     {"mount_flags", capability.mount_flags},
                     {"volume_mount_group", capability.volume_mount_group}};
  }
  return json;
}

Json ToJson(const std::vector<VolumeCapability>& capabilities) {
  Json json = Json::array();
  for (const VolumeCapability& capability : capabilities) {
    json.push_back(ToJson(capability));
  }
  return json;
}

Json ToJson(const CapacityRange& range) {
  return {{"required_bytes", range.required_bytes},
          {"limit_bytes", range.limit_bytes}};
}

Json ToJson(const std::vector<Segments>& topologies) {
  Json json = Json::array();
  for (const Segments& segments : topologies) {
    json.push_back({{"segments", segments}});
  }
  return json;
}

ControllerCall Call(const char* rpc, const Json& request) {
  // Never throws: error_handler_t::replace handles text that is not UTF-8,
  // which has been refused before.
  return {rpc, ControllerCall::Form::kJson,
          request.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

// ---- Answers ----

// Reads one object of an answer. An absent field has its default, as in
// protobuf. A field of another type makes the whole answer wrong.
class Reader {
 public:
  Reader(const Json& object, bool* right) : object_(object), right_(right) {
    if (!object.is_object()) {
      *right_ = false;
    }
  }

  bool Has(const char* key) const {
    return object_.is_object() && object_.contains(key);
  }

  std::string Text(const char* key) const {
    const Json* field = Find(key);
    if (field == nullptr) {
      return {};
    }
    const auto* text = field->get_ptr<const std::string*>();
    *right_ = *right_ && text != nullptr;
    return text == nullptr ? std::string() : *text;
  }

  // Reads a text, because protobuf writes 64 bits as a text; never below 0.
  std::int64_t Size(const char* key) const {
    if (Find(key) == nullptr) {
      return 0;
    }
    const auto number = ParseNumber<std::int64_t>(Text(key));
    *right_ = *right_ && number && *number >= 0;
    return number.value_or(0);
  }

  int Number(const char* key) const {
    const Json* field = Find(key);
    const bool right = field == nullptr || field->is_number_integer();
    *right_ = *right_ && right;
    return field != nullptr && right ? field->get<int>() : 0;
  }

  bool Flag(const char* key) const {
    const Json* field = Find(key);
    const auto* flag =
        field == nullptr ? nullptr : field->get_ptr<const bool*>();
    *right_ = *right_ && (field == nullptr || flag != nullptr);
    return flag != nullptr && *flag;
  }

  Texts Map(const char* key) const {
    Texts map;
    const Json& field = Inner(key, Json::value_t::object);
    for (auto item = field.cbegin(); item != field.cend(); ++item) {
      const auto* text = item->get_ptr<const std::string*>();
      *right_ = *right_ && text != nullptr;
      if (text != nullptr) {
        map.emplace(item.key(), *text);
      }
    }
    return map;
  }

  std::vector<std::string> List(const char* key) const {
    std::vector<std::string> list;
    for (const Json& item : Items(key)) {
      const auto* text = item.get_ptr<const std::string*>();
      *right_ = *right_ && text != nullptr;
      if (text != nullptr) {
        list.push_back(*text);
      }
    }
    return list;
  }

  const Json& Items(const char* key) const {
    return Inner(key, Json::value_t::array);
  }
  Reader Object(const char* key) const {
    return Reader(Inner(key, Json::value_t::object), right_);
  }
  Reader At(const Json& item) const { return Reader(item, right_); }
  void Require(bool condition) const { *right_ = *right_ && condition; }

 private:
  const Json* Find(const char* key) const {
    if (!Has(key)) {
      return nullptr;
    }
    return &*object_.find(key);
  }

  const Json& Inner(const char* key, Json::value_t type) const {
    static const Json no_object = Json::object();
    static const Json no_array = Json::array();
    const Json* field = Find(key);
    if (field != nullptr && field->type() == type) {
      return *field;
    }
    *right_ = *right_ && field == nullptr;
    return type == Json::value_t::object ? no_object : no_array;
  }

  const Json& object_;
  bool* right_;
};

// Parses the text and reads it by `read`.
template <typename T, typename Read>
std::optional<T> ReadAnswer(const std::string& text, Read read) {
  if (!IsWithin<Json>(text, Json::input_format_t::json, kBounds)) {
    return std::nullopt;
  }
  const Json json = Json::parse(text, nullptr, false);
  bool right = true;
  T answer = read(Reader(json, &right));
  return right ? std::optional<T>(std::move(answer)) : std::nullopt;
}

ControllerVolume ReadVolume(const Reader& reader) {
  ControllerVolume volume;
  volume.volume_id = reader.Text("volume_id");
  // The only field that is required (CSI spec, Volume).
  reader.Require(!volume.volume_id.empty());
  volume.capacity_bytes = reader.Size("capacity_bytes");
  volume.volume_context = reader.Map("volume_context");
  const Reader source = reader.Object("content_source");
  volume.source_snapshot = source.Object("snapshot").Text("snapshot_id");
  volume.source_volume = source.Object("volume").Text("volume_id");
  for (const Json& topology : reader.Items("accessible_topology")) {
    volume.topology.push_back(reader.At(topology).Map("segments"));
  }
  return volume;
}

ListedVolume ReadListed(const Reader& reader) {
  ListedVolume listed;
  listed.volume = ReadVolume(reader.Object("volume"));
  const Reader status = reader.Object("status");
  listed.published_node_ids = status.List("published_node_ids");
  if (status.Has("volume_condition")) {
    const Reader condition = status.Object("volume_condition");
    listed.condition =
        VolumeCondition{condition.Flag("abnormal"), condition.Text("message")};
  }
  return listed;
}

// Returns why the confirmed values do not cover `wanted`; null if they do. A
// value that the plugin leaves out counts as confirmed.
const char* Missing(const Reader& confirmed, const VolumeCapability& wanted) {
  const int mode = confirmed.Object("access_mode").Number("mode");
  // 0 is UNKNOWN: the plugin has left the mode out.
  if (mode != 0 && mode != static_cast<int>(wanted.access_mode)) {
    return "the plugin does not confirm the access mode";
  }
  const bool told = confirmed.Has("block") || confirmed.Has("mount");
  if (told && confirmed.Has("block") != wanted.block) {
    return "the plugin does not confirm the attachment mode";
  }
  const Reader mount = confirmed.Object("mount");
  const std::string fs_type = mount.Text("fs_type");
  if (!fs_type.empty() && fs_type != wanted.fs_type) {
    return "the plugin does not confirm the file system";
  }
  const std::vector<std::string> flags = mount.List("mount_flags");
  const bool all_flags = std::all_of(
      wanted.mount_flags.begin(), wanted.mount_flags.end(),
      [&](const std::string& flag) {
        return std::find(flags.begin(), flags.end(), flag) != flags.end();
      });
  return flags.empty() || all_flags
             ? nullptr
             : "the plugin does not confirm the mount flags";
}

const char* Missing(const Reader& confirmed,
                    const std::vector<VolumeCapability>& wanted) {
  const Json& all = confirmed.Items("volume_capabilities");
  const char* why = nullptr;
  for (const VolumeCapability& capability : wanted) {
    why = nullptr;
    for (const Json& one : all) {
      why = Missing(confirmed.At(one), capability);
      if (why == nullptr) {
        break;
      }
    }
    if (why != nullptr) {
      return why;
    }
  }
  return nullptr;
}

}  // namespace

ControllerCall ToCall(const ControllerPublishRequest& request) {
  return Call("ControllerPublishVolume",
              {{"volume_id", request.volume_id},
               {"node_id", request.node_id},
               {"volume_capability", ToJson(request.capability)},
               {"readonly", request.read_only},
               {"volume_context", request.volume_context}});
}

ControllerCall ToCall(const ControllerUnpublishRequest& request) {
  return Call("ControllerUnpublishVolume",
              {{"volume_id", request.volume_id}, {"node_id", request.node_id}});
}

ControllerCall ToCall(const ValidateRequest& request) {
  return Call("ValidateVolumeCapabilities",
              {{"volume_id", request.volume_id},
               {"volume_context", request.volume_context},
               {"volume_capabilities", ToJson(request.capabilities)},
               {"parameters", request.parameters},
               {"mutable_parameters", request.mutable_parameters}});
}

ControllerCall ToCall(const CreateVolumeRequest& request) {
  Json json = {{"name", request.name},
               {"volume_capabilities", ToJson(request.capabilities)},
               {"parameters", request.parameters},
               {"mutable_parameters", request.mutable_parameters}};
  if (request.capacity.required_bytes != 0 ||
      request.capacity.limit_bytes != 0) {
    json["capacity_range"] = ToJson(request.capacity);
  }
  if (!request.source_snapshot.empty()) {
    json["volume_content_source"] = {
        {"snapshot", {{"snapshot_id", request.source_snapshot}}}};
  } else if (!request.source_volume.empty()) {
    json["volume_content_source"] = {
        {"volume", {{"volume_id", request.source_volume}}}};
  }
  if (!request.requisite.empty() || !request.preferred.empty()) {
    json["accessibility_requirements"] = {
        {"requisite", ToJson(request.requisite)},
        {"preferred", ToJson(request.preferred)}};
  }
  return Call("CreateVolume", json);
}

ControllerCall ToCall(const DeleteVolumeRequest& request) {
  return Call("DeleteVolume", {{"volume_id", request.volume_id}});
}

ControllerCall ToCall(const ControllerExpandRequest& request) {
  Json json = {{"volume_id", request.volume_id},
               {"capacity_range", ToJson(request.capacity)}};
  if (request.capability) {
    json["volume_capability"] = ToJson(*request.capability);
  }
  return Call("ControllerExpandVolume", json);
}

ControllerCall ToCall(const ListVolumesRequest& request) {
  return Call("ListVolumes", {{"max_entries", request.max_entries},
                              {"starting_token", request.starting_token}});
}

ControllerCall ToCall(const GetCapacityRequest& request) {
  Json json = {{"volume_capabilities", ToJson(request.capabilities)},
               {"parameters", request.parameters}};
  if (!request.topology.empty()) {
    json["accessible_topology"] = {{"segments", request.topology}};
  }
  return Call("GetCapacity", json);
}

std::optional<Texts> ReadPublishContext(const std::string& json) {
  return ReadAnswer<Texts>(
      json, [](const Reader& reader) { return reader.Map("publish_context"); });
}

std::optional<Validation> ReadValidation(const std::string& json,
                                         const ValidateRequest& request) {
  return ReadAnswer<Validation>(json, [&](const Reader& reader) {
    Validation validation;
    // A plugin sets "confirmed" only if the plugin supports all that was asked
    // (CSI spec, ValidateVolumeCapabilitiesResponse).
    validation.confirmed = reader.Has("confirmed");
    validation.message = reader.Text("message");
    if (const char* why =
            Missing(reader.Object("confirmed"), request.capabilities)) {
      validation = {false, why};
    }
    return validation;
  });
}

std::optional<ControllerVolume> ReadCreatedVolume(const std::string& json) {
  return ReadAnswer<ControllerVolume>(json, [](const Reader& reader) {
    return ReadVolume(reader.Object("volume"));
  });
}

std::optional<ControllerExpansion> ReadExpansion(const std::string& json) {
  return ReadAnswer<ControllerExpansion>(json, [](const Reader& reader) {
    return ControllerExpansion{reader.Size("capacity_bytes"),
                               reader.Flag("node_expansion_required")};
  });
}

std::optional<VolumePage> ReadVolumePage(const std::string& json) {
  return ReadAnswer<VolumePage>(json, [](const Reader& reader) {
    VolumePage page;
    for (const Json& entry : reader.Items("entries")) {
      page.volumes.push_back(ReadListed(reader.At(entry)));
    }
    page.next_token = reader.Text("next_token");
    return page;
  });
}

std::optional<Capacity> ReadCapacity(const std::string& json) {
  return ReadAnswer<Capacity>(json, [](const Reader& reader) {
    Capacity capacity;
    capacity.available_bytes = reader.Size("available_capacity");
    if (reader.Has("maximum_volume_size")) {
      capacity.maximum_volume_bytes = reader.Size("maximum_volume_size");
    }
    if (reader.Has("minimum_volume_size")) {
      capacity.minimum_volume_bytes = reader.Size("minimum_volume_size");
    }
    return capacity;
  });
}

}  // namespace mountd::csi
