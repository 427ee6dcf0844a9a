// SPDX-License-Identifier: LGPL-2.1-or-later
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "csi-node/ipc/message.h"
#include "mountd/base/json_bounds.h"
#include "mountd/base/names.h"

namespace mountd::csi::ipc {
namespace {

using Json = nlohmann::json;

constexpr char kTraceParent[] = "traceparent";

// Fractions are refused, because messages hold none.
constexpr JsonBounds kBounds{6, 16384, JsonBounds::Fractions::kRefused};

Error Malformed(std::string detail) {
  return MakeError(Code::kInvalidArgument, "decode", "", std::move(detail));
}

Result<Json> Parse(const std::vector<std::uint8_t>& bytes) {
  if (!IsWithin<Json>(bytes, Json::input_format_t::cbor, kBounds)) {
    return Malformed("the message is not CBOR within the limits");
  }
  // Strict, so that nothing may follow the value, and without exceptions.
  Json value = Json::from_cbor(bytes, true, false);
  if (!value.is_object()) {
    return Malformed("the message is not an object");
  }
  return value;
}

// Reads the fields of one object. Keeps the first error, and returns empty
// values after it. `Finish` also fails if a key was not read.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) {
      Fail("object");
    }
  }

  std::string Text(const char* key, std::size_t max_bytes) {
    const Json* field = Find(key);
    const auto* text =
        field == nullptr ? nullptr : field->get_ptr<const std::string*>();
    if (text == nullptr || !FitsText(*text, max_bytes)) {
      Fail(key);
      return {};
    }
    return *text;
  }

  std::string Bytes(const char* key, std::size_t max_bytes) {
    const Json* field = Find(key);
    const auto* bytes =
        field == nullptr ? nullptr : field->get_ptr<const Json::binary_t*>();
    if (bytes == nullptr || bytes->size() > max_bytes || bytes->has_subtype()) {
      Fail(key);
      return {};
    }
    return {bytes->begin(), bytes->end()};
  }

  bool Flag(const char* key) {
    const Json* field = Find(key);
    const auto* flag =
        field == nullptr ? nullptr : field->get_ptr<const bool*>();
    if (flag == nullptr) {
      Fail(key);
    }
    return flag != nullptr && *flag;
  }

  std::int64_t Number(const char* key, std::int64_t min, std::int64_t max) {
    const Json* field = Find(key);
    return field == nullptr ? 0 : ToNumber(*field, key, min, max);
  }

  std::int64_t Size(const char* key) {
    return Number(key, 0, std::numeric_limits<std::int64_t>::max());
  }

  std::uint64_t Id(const char* key) {
    const Json* field = Find(key);
    const auto* number =
        field == nullptr ? nullptr : field->get_ptr<const std::uint64_t*>();
    if (number == nullptr) {
      Fail(key);
    }
    return number == nullptr ? 0 : *number;
  }

  std::map<std::string, std::string> Map(const char* key) {
    std::map<std::string, std::string> map;
    const Json* field = Find(key);
    if (field == nullptr || !field->is_object()) {
      Fail(key);
      return map;
    }
    for (auto item = field->cbegin(); item != field->cend(); ++item) {
      const auto* value = item->get_ptr<const std::string*>();
      if (value == nullptr) {
        Fail(key);
        return {};
      }
      map.emplace(item.key(), *value);
    }
    if (!FitsMap(map)) {
      Fail(key);
      return {};
    }
    return map;
  }

  std::vector<int> Numbers(const char* key) {
    std::vector<int> numbers;
    const Json* field = Array(key, kMaxCapabilities);
    if (field != nullptr) {
      for (const Json& item : *field) {
        numbers.push_back(static_cast<int>(
            ToNumber(item, key, std::numeric_limits<int>::min(),
                     std::numeric_limits<int>::max())));
      }
    }
    return numbers;
  }

  std::vector<std::string> Texts(const char* key, std::size_t max_bytes) {
    std::vector<std::string> texts;
    const Json* field = Array(key, max_bytes);
    if (field == nullptr) {
      return texts;
    }
    for (const Json& item : *field) {
      const auto* text = item.get_ptr<const std::string*>();
      if (text == nullptr || !FitsText(*text, max_bytes)) {
        Fail(key);
        return {};
      }
      max_bytes -= text->size();
      texts.push_back(*text);
    }
    return texts;
  }

  // Returns the object at `key`; an empty one if there is none.
  const Json& Object(const char* key) {
    static const Json none = Json::object();
    const Json* field = Find(key);
    if (field == nullptr || !field->is_object()) {
      Fail(key);
      return none;
    }
    return *field;
  }

  // Returns the array at `key`; an empty one if there is none.
  const Json& Items(const char* key, std::size_t max_items) {
    static const Json none = Json::array();
    const Json* field = Array(key, max_items);
    return field == nullptr ? none : *field;
  }

  void Check(const Result<void>& nested) {
    if (!nested && wrong_.empty()) {
      wrong_ = nested.error().detail;
    }
  }

  Result<void> Finish() const {
    if (!wrong_.empty()) {
      return Malformed(wrong_);
    }
    if (object_.size() != read_) {
      return Malformed("the message has an unknown field");
    }
    return Ok();
  }

 private:
  const Json* Find(const char* key) {
    if (!object_.is_object()) {
      return nullptr;
    }
    const auto found = object_.find(key);
    if (found == object_.end()) {
      Fail(key);
      return nullptr;
    }
    ++read_;
    return &*found;
  }

  const Json* Array(const char* key, std::size_t max_items) {
    const Json* field = Find(key);
    if (field == nullptr || !field->is_array() || field->size() > max_items) {
      Fail(key);
      return nullptr;
    }
    return field;
  }

  std::int64_t ToNumber(const Json& field, const char* key, std::int64_t min,
                        std::int64_t max) {
    std::int64_t number = 0;
    if (const auto* positive = field.get_ptr<const std::uint64_t*>()) {
      if (*positive > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
        Fail(key);
        return 0;
      }
      number = static_cast<std::int64_t>(*positive);
    } else if (const auto* any = field.get_ptr<const std::int64_t*>()) {
      number = *any;
    } else {
      Fail(key);
      return 0;
    }
    if (number < min || number > max) {
      Fail(key);
      return 0;
    }
    return number;
  }

  // `what` is one of our own keys, and never a peer's text.
  void Fail(const char* what) {
    if (wrong_.empty()) {
      wrong_ = what;
    }
  }

  const Json& object_;
  std::size_t read_ = 0;
  std::string wrong_;
};

VolumeCapability ReadCapability(Fields* outer) {
  Fields fields(outer->Object("capability"));
  VolumeCapability capability;
  capability.block = fields.Flag("block");
  // Refuses 0 (UNKNOWN), because a request needs a mode (CSI spec,
  // VolumeCapability).
  capability.access_mode =
      static_cast<AccessMode>(fields.Number("access_mode", 1, 7));
  capability.fs_type = fields.Text("fs_type", kMaxText);
  capability.mount_flags = fields.Texts("mount_flags", kMaxMountFlagsBytes);
  capability.volume_mount_group = fields.Text("volume_mount_group", kMaxText);
  outer->Check(fields.Finish());
  return capability;
}

StageRequest ReadStage(Fields* fields) {
  StageRequest request;
  request.volume_id = fields->Text("volume_id", kMaxVolumeIdBytes);
  request.publish_context = fields->Map("publish_context");
  request.staging_target_path = fields->Text("staging_target_path", kMaxPath);
  request.capability = ReadCapability(fields);
  request.volume_context = fields->Map("volume_context");
  return request;
}

PublishRequest ReadPublish(Fields* fields) {
  PublishRequest request;
  request.volume_id = fields->Text("volume_id", kMaxVolumeIdBytes);
  request.publish_context = fields->Map("publish_context");
  request.staging_target_path = fields->Text("staging_target_path", kMaxPath);
  request.target_path = fields->Text("target_path", kMaxPath);
  request.capability = ReadCapability(fields);
  request.read_only = fields->Flag("read_only");
  request.volume_context = fields->Map("volume_context");
  return request;
}

ExpandRequest ReadExpand(Fields* fields) {
  ExpandRequest request;
  request.volume_id = fields->Text("volume_id", kMaxVolumeIdBytes);
  request.volume_path = fields->Text("volume_path", kMaxPath);
  request.staging_target_path = fields->Text("staging_target_path", kMaxPath);
  request.required_bytes = fields->Size("required_bytes");
  request.limit_bytes = fields->Size("limit_bytes");
  request.capability = ReadCapability(fields);
  return request;
}

ControllerCall ReadControllerCall(Fields* fields) {
  ControllerCall call;
  call.rpc = fields->Text("rpc", kMaxText);
  call.form = static_cast<ControllerCall::Form>(fields->Number("form", 0, 1));
  call.request = fields->Bytes("request", kMaxControllerRequest);
  return call;
}

Arguments ReadArguments(Method method, Fields* fields) {
  switch (method) {
    case Method::kNodeStageVolume:
      return ReadStage(fields);
    case Method::kNodePublishVolume:
      return ReadPublish(fields);
    case Method::kNodeUnstageVolume:
      return UnstageRequest{fields->Text("volume_id", kMaxVolumeIdBytes),
                            fields->Text("staging_target_path", kMaxPath)};
    case Method::kNodeUnpublishVolume:
      return UnpublishRequest{fields->Text("volume_id", kMaxVolumeIdBytes),
                              fields->Text("target_path", kMaxPath)};
    case Method::kNodeExpandVolume:
      return ReadExpand(fields);
    case Method::kNodeGetVolumeStats:
    case Method::kNodeGetVolumeHealth:
      return StatsRequest{fields->Text("volume_id", kMaxVolumeIdBytes),
                          fields->Text("volume_path", kMaxPath),
                          fields->Text("staging_target_path", kMaxPath)};
    case Method::kCallController:
      return ReadControllerCall(fields);
    case Method::kOpen:
    case Method::kClose:
    case Method::kProbe:
    case Method::kGetPluginInfo:
    case Method::kGetCapabilities:
    case Method::kNodeGetInfo:
      break;
  }
  return std::monostate{};
}

VolumeStats ReadStats(Fields* outer) {
  Fields fields(outer->Object("stats"));
  VolumeStats stats;
  for (const Json& item : fields.Items("usage", kMaxUsages)) {
    Fields usage(item);
    stats.usage.push_back({usage.Size("available"), usage.Size("total"),
                           usage.Size("used"), usage.Flag("inodes")});
    fields.Check(usage.Finish());
  }
  for (const Json& item : fields.Items("condition", 1)) {
    Fields condition(item);
    stats.condition = VolumeCondition{condition.Flag("abnormal"),
                                      condition.Text("message", kMaxMessage)};
    fields.Check(condition.Finish());
  }
  outer->Check(fields.Finish());
  return stats;
}

Answer ReadAnswer(const Json& object, Fields* outer) {
  Fields fields(object);
  Answer answer;
  if (object.contains("ready")) {
    answer = ProbeResult{fields.Flag("ready")};
  } else if (object.contains("info")) {
    Fields info(fields.Object("info"));
    answer = PluginInfo{info.Text("name", kMaxPluginName),
                        info.Text("vendor_version", kMaxText)};
    fields.Check(info.Finish());
  } else if (object.contains("capabilities")) {
    Fields all(fields.Object("capabilities"));
    answer = PluginCapabilities{all.Numbers("services"),
                                all.Numbers("controller_rpcs"),
                                all.Numbers("node_rpcs")};
    fields.Check(all.Finish());
  } else if (object.contains("node")) {
    Fields node(fields.Object("node"));
    answer = NodeInfo{node.Text("node_id", kMaxNodeId),
                      node.Size("max_volumes"), node.Map("topology")};
    fields.Check(node.Finish());
  } else if (object.contains("capacity_bytes")) {
    answer = ExpandResult{fields.Size("capacity_bytes")};
  } else if (object.contains("stats")) {
    answer = ReadStats(&fields);
  } else if (object.contains("response")) {
    answer = ControllerAnswer{fields.Bytes("response", kMaxControllerAnswer)};
  }
  outer->Check(fields.Finish());
  return answer;
}

}  // namespace

Result<Request> DecodeRequest(const std::vector<std::uint8_t>& bytes) {
  MOUNTD_ASSIGN(const Json object, Parse(bytes));
  Fields fields(object);
  Request request;
  request.id = fields.Id("id");
  request.method = static_cast<Method>(
      fields.Number("method", 1, static_cast<std::int64_t>(kLastMethod)));
  request.channel.plugin = fields.Text("plugin", kMaxText);
  request.channel.generation = fields.Id("generation");
  request.deadline_ms = fields.Size("deadline_ms");
  Fields arguments(fields.Object("arguments"));
  request.arguments = ReadArguments(request.method, &arguments);
  fields.Check(arguments.Finish());
  if (object.contains(kTraceParent)) {
    request.trace = ParseTraceParent(fields.Text(kTraceParent, kMaxText));
    fields.Check(request.trace ? Ok() : Result<void>(Malformed(kTraceParent)));
  }
  MOUNTD_TRY(fields.Finish());
  return request;
}

Result<Reply> DecodeReply(const std::vector<std::uint8_t>& bytes) {
  MOUNTD_ASSIGN(const Json object, Parse(bytes));
  Fields fields(object);
  Reply reply;
  reply.id = fields.Id("id");
  reply.code = static_cast<RpcCode>(fields.Number(
      "code", 0, static_cast<std::int64_t>(RpcCode::kUnauthenticated)));
  reply.message = fields.Text("message", kMaxMessage);
  reply.answer = ReadAnswer(fields.Object("answer"), &fields);
  MOUNTD_TRY(fields.Finish());
  return reply;
}

}  // namespace mountd::csi::ipc
