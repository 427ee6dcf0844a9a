// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/image_layout.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/driver/images/beneath.h"
#include "agent/driver/images/digest.h"
#include "agent/driver/images/json_document.h"
#include "mountd/base/one_line.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kMaxDocumentBytes = std::size_t{4} << 20U;
constexpr char kRefName[] = "org.opencontainers.image.ref.name";
constexpr std::string_view kSha256 = "sha256:";
// umoci 0.4 unpacks tar and gzip.
constexpr std::array<std::string_view, 4> kLayerTypes{
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip"};

Error BadLayout(const std::string& object, Code code, std::string why) {
  return MakeError(code, "read", object, std::move(why));
}

Result<Descriptor> ReadDescriptor(const Json& value,
                                  const std::string& object) {
  Descriptor descriptor;
  MOUNTD_ASSIGN(descriptor.media_type, TextMember(value, "mediaType", object));
  MOUNTD_ASSIGN(const std::string digest, TextMember(value, "digest", object));
  const std::string_view hex =
      std::string_view(digest).substr(std::min(kSha256.size(), digest.size()));
  const Json* size = FindMember(value, "size");
  // The digest becomes a file's name, so only hexadecimal digits are allowed.
  if (!digest.starts_with(kSha256) || !IsSha256Hex(hex)) {
    return BadLayout(object, Code::kInvalidArgument,
                     "has a digest that is not sha256: and 64 hexadecimal "
                     "digits");
  }
  if (size == nullptr || !size->is_number_unsigned()) {
    return BadLayout(object, Code::kInvalidArgument,
                     "has a descriptor without a size");
  }
  descriptor.digest = hex;
  descriptor.size = size->get<std::uint64_t>();
  return descriptor;
}

std::string RefNameOf(const Json& entry) {
  const Json* annotations = FindMember(entry, "annotations");
  const Json* name =
      annotations == nullptr ? nullptr : FindMember(*annotations, kRefName);
  const auto* text =
      name == nullptr ? nullptr : name->get_ptr<const std::string*>();
  return text == nullptr ? "" : *text;
}

Result<std::string> CheckedBytes(std::string bytes, const Descriptor& blob,
                                 const std::string& object) {
  if (bytes.size() != blob.size || Sha256Hex(bytes) != blob.digest) {
    return BadLayout(object, Code::kAborted,
                     "blob sha256:" + blob.digest +
                         " has other bytes than its descriptor says; copy the "
                         "image again");
  }
  return bytes;
}

Result<void> CheckLayer(const Descriptor& layer, const std::string& object) {
  if (std::find(kLayerTypes.begin(), kLayerTypes.end(), layer.media_type) ==
      kLayerTypes.end()) {
    return BadLayout(object, Code::kNotSupported,
                     "has a layer of the type \"" +
                         OnOneLine(layer.media_type.substr(0, 200)) +
                         "\"; write the image with layers of tar or tar+gzip");
  }
  return Ok();
}

Result<const Json*> ListMember(const Json& parent, const char* key,
                               const std::string& object) {
  const Json* list = FindMember(parent, key);
  if (list == nullptr || !list->is_array()) {
    return BadLayout(object, Code::kInvalidArgument,
                     "has no list \"" + std::string(key) + "\"");
  }
  return list;
}

}  // namespace

Result<Descriptor> FindImage(int layout, const std::string& tag,
                             const std::string& object) {
  const std::string index = "index.json of " + object;
  MOUNTD_ASSIGN(const std::string text,
                ReadBeneath(layout, "index.json", kMaxDocumentBytes, index));
  MOUNTD_ASSIGN(const Json document, ParseJsonObject(text, index));
  MOUNTD_ASSIGN(const Json* const entries,
                ListMember(document, "manifests", index));
  std::optional<Descriptor> found;
  for (const Json& entry : *entries) {
    if (!tag.empty() && RefNameOf(entry) != tag) {
      continue;
    }
    if (found) {
      return BadLayout(index, Code::kInvalidArgument,
                       tag.empty() ? "has several images; name one by :tag"
                                   : "has several images of that tag; write "
                                     "the layout with one");
    }
    MOUNTD_ASSIGN(found, ReadDescriptor(entry, index));
  }
  if (!found) {
    return BadLayout(index, Code::kNotFound,
                     tag.empty() ? "has no image"
                                 : "has no image of that tag; name another");
  }
  return *found;
}

Result<std::string> ReadBlob(int layout, const Descriptor& blob,
                             const std::string& object) {
  if (blob.size > kMaxDocumentBytes) {
    return BadLayout(object, Code::kInvalidArgument,
                     "has a manifest or configuration of more than 4 MiB");
  }
  MOUNTD_ASSIGN(std::string bytes,
                ReadBeneath(layout, "blobs/sha256/" + blob.digest,
                            kMaxDocumentBytes, object));
  return CheckedBytes(std::move(bytes), blob, object);
}

Result<ImageManifest> ReadManifest(int layout, const Descriptor& manifest,
                                   const std::string& object) {
  const std::string name = "the manifest of " + object;
  MOUNTD_ASSIGN(const std::string text, ReadBlob(layout, manifest, name));
  MOUNTD_ASSIGN(const Json document, ParseJsonObject(text, name));
  const Json* config = FindMember(document, "config");
  if (config == nullptr) {
    return BadLayout(name, Code::kInvalidArgument,
                     "has no configuration; give an image");
  }
  ImageManifest result;
  MOUNTD_ASSIGN(result.config, ReadDescriptor(*config, name));
  MOUNTD_ASSIGN(const Json* const layers, ListMember(document, "layers", name));
  if (layers->size() > kMaxLayers) {
    return BadLayout(name, Code::kResourceExhausted,
                     "has " + std::to_string(layers->size()) +
                         " layers; at most " + std::to_string(kMaxLayers) +
                         " are unpacked, so squash the image");
  }
  for (const Json& entry : *layers) {
    MOUNTD_ASSIGN(Descriptor layer, ReadDescriptor(entry, name));
    MOUNTD_TRY(CheckLayer(layer, name));
    result.layers.push_back(std::move(layer));
  }
  return result;
}

}  // namespace mountd::driver
