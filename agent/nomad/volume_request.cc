// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/volume_request.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "mountd/base/names.h"
#include "mountd/base/number.h"

namespace mountd::nomad {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostParameters = 64 * 1024;  // bytes of JSON
constexpr std::size_t kMostKeys = 64;
constexpr std::size_t kMostPath = 1024;
constexpr mode_t kModes = 01777;  // no set-user-ID, no set-group-ID

Error Invalid(const std::string& variable, std::string why) {
  return MakeError(Code::kInvalidArgument, "read", variable, std::move(why));
}

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// True for a text such as "02eb1d8e-945e-50ee-7640-68b92f622870".
bool IsUuid(std::string_view text) {
  constexpr std::string_view kForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  return std::equal(
      text.begin(), text.end(), kForm.begin(), kForm.end(),
      [](char c, char form) { return form == 'x' ? IsHex(c) : c == form; });
}

bool IsAbsolute(std::string_view path) {
  return !path.empty() && path.front() == '/' && path.size() <= kMostPath;
}

std::string TextOf(const Variables& variables, const char* name) {
  const char* value = variables(name);
  return value == nullptr ? "" : value;
}

Result<std::int64_t> BytesOf(const Variables& variables, const char* name) {
  const std::string text = TextOf(variables, name);
  const auto bytes = ParseNumber<std::int64_t>(text.empty() ? "0" : text);
  if (!bytes || *bytes < 0) {
    return Invalid(name, "must be a number of bytes");
  }
  return *bytes;
}

// Takes a known parameter out of the map; nothing if there is none.
std::optional<std::string> Take(std::map<std::string, std::string>& all,
                                const char* key) {
  auto node = all.extract(key);
  return node.empty() ? std::optional<std::string>() : std::move(node.mapped());
}

template <typename Number>
Result<std::optional<Number>> TakeNumber(
    std::map<std::string, std::string>& all, const char* key, int base,
    Number most, const char* must) {
  const std::optional<std::string> text = Take(all, key);
  if (!text) {
    return std::optional<Number>();
  }
  const auto number = ParseNumber<Number>(*text, base);
  if (!number || *number > most) {
    return Invalid(std::string("parameter ") + key, must);
  }
  return std::optional<Number>(*number);
}

Result<std::map<std::string, std::string>> ParseParameters(
    const std::string& text) {
  constexpr char kName[] = "DHV_PARAMETERS";
  std::map<std::string, std::string> all;
  if (text.empty()) {
    return all;
  }
  if (text.size() > kMostParameters) {
    return Invalid(kName, "must have at most 64 KiB");
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_null()) {
    return all;  // Nomad's word for no parameters
  }
  if (!json.is_object() || json.size() > kMostKeys) {
    return Invalid(kName, "must be a JSON object of at most 64 texts");
  }
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return Invalid(kName, "must have texts alone as values");
    }
    all.emplace(key, value.get<std::string>());
  }
  return all;
}

// A declared host volume is the administrator's. It has its size and its owners
// already.
Result<void> CheckDeclared(const HostVolumeRequest& request,
                           bool names_a_plugin) {
  if (request.host_volume.empty()) {
    return Ok();
  }
  MOUNTD_TRY(Name::Parse("host_volume", request.host_volume));
  if (request.least_bytes != 0 || request.most_bytes != 0) {
    return Invalid("DHV_CAPACITY_MIN_BYTES",
                   "a declared host volume has no size of its own; leave out "
                   "capacity_min and capacity_max, or the parameter "
                   "host_volume");
  }
  if (names_a_plugin || request.uid || request.gid || request.mode ||
      !request.fs_type.empty() || !request.parameters.empty()) {
    return Invalid("DHV_PARAMETERS",
                   "the parameter host_volume stands alone, because a declared "
                   "host volume keeps its owner and its kind");
  }
  return Ok();
}

// A volume of csi-local is an image unless the parameter "kind" says something
// else, because only an image and a tmpfs bound what tasks write.
Result<void> ChooseKind(HostVolumeRequest* request) {
  if (request->plugin != "csi-local") {
    return Ok();
  }
  const std::string& kind =
      request->parameters.emplace("kind", "image").first->second;
  if (kind == "directory" &&
      (request->least_bytes != 0 || request->most_bytes != 0)) {
    return Invalid("parameter kind",
                   "a directory has no bound; leave out capacity_min and "
                   "capacity_max, or ask for an image");
  }
  return Ok();
}

Result<void> ReadParameters(const std::string& text,
                            HostVolumeRequest* request) {
  MOUNTD_ASSIGN(auto all, ParseParameters(text));
  constexpr std::uint32_t kMostId = 0xFFFFFFFEU;
  request->host_volume = Take(all, "host_volume").value_or("");
  const std::optional<std::string> plugin = Take(all, "plugin");
  request->plugin = plugin.value_or(request->plugin);
  MOUNTD_TRY(Name::Parse("plugin", request->plugin));
  request->fs_type = Take(all, "fs_type").value_or("");
  MOUNTD_ASSIGN(request->uid, TakeNumber<uid_t>(all, "uid", 10, kMostId,
                                                "must be the id of a user"));
  MOUNTD_ASSIGN(request->gid, TakeNumber<gid_t>(all, "gid", 10, kMostId,
                                                "must be the id of a group"));
  MOUNTD_ASSIGN(request->mode, TakeNumber<mode_t>(all, "mode", 8, kModes,
                                                  "must be octal, 0 to 1777"));
  request->parameters = std::move(all);
  MOUNTD_TRY(CheckDeclared(*request, plugin.has_value()));
  return request->host_volume.empty() ? ChooseKind(request) : Ok();
}

Result<void> ReadSizes(const Variables& variables, HostVolumeRequest* request) {
  MOUNTD_ASSIGN(request->least_bytes,
                BytesOf(variables, "DHV_CAPACITY_MIN_BYTES"));
  MOUNTD_ASSIGN(request->most_bytes,
                BytesOf(variables, "DHV_CAPACITY_MAX_BYTES"));
  if (request->most_bytes != 0 && request->least_bytes > request->most_bytes) {
    return Invalid("DHV_CAPACITY_MIN_BYTES",
                   "is more than DHV_CAPACITY_MAX_BYTES");
  }
  return Ok();
}

}  // namespace

Result<HostVolumeRequest> ReadHostVolumeRequest(const std::string& operation,
                                                const Variables& variables) {
  HostVolumeRequest request;
  request.operation = operation;
  const std::string said = TextOf(variables, "DHV_OPERATION");
  if (operation != "fingerprint" && operation != "create" &&
      operation != "delete") {
    return Invalid("the operation", "must be fingerprint, create or delete");
  }
  if (!said.empty() && said != operation) {
    return Invalid("DHV_OPERATION", "is another operation than the argument");
  }
  if (operation == "fingerprint") {
    return request;
  }
  request.id = TextOf(variables, "DHV_VOLUME_ID");
  if (!IsUuid(request.id)) {
    return Invalid("DHV_VOLUME_ID", "must be a UUID in lower case");
  }
  request.volumes_dir = TextOf(variables, "DHV_VOLUMES_DIR");
  if (!IsAbsolute(request.volumes_dir)) {
    return Invalid("DHV_VOLUMES_DIR", "must be an absolute path");
  }
  request.created_path = TextOf(variables, "DHV_CREATED_PATH");
  MOUNTD_TRY(ReadSizes(variables, &request));
  MOUNTD_TRY(ReadParameters(TextOf(variables, "DHV_PARAMETERS"), &request));
  return request;
}

}  // namespace mountd::nomad
