// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/image_reference.h"

#include <algorithm>
#include <array>
#include <optional>

#include "mountd/base/one_line.h"
#include "mountd/base/paths.h"

namespace mountd::driver {
namespace {

using Kind = ImageReference::Kind;

constexpr std::size_t kMaxReference = 4096;
// OCI's annotation org.opencontainers.image.ref.name has no bound of its own; a
// name of Docker has at most 255 bytes before the ':' and 128 after it.
constexpr std::size_t kMaxTag = 384;

struct Transport {
  Kind kind;
  std::string_view prefix;
};
constexpr std::array kTransports{
    Transport{Kind::kDirectory, "dir:"}, Transport{Kind::kOci, "oci:"},
    Transport{Kind::kOciArchive, "oci-archive:"},
    Transport{Kind::kDockerArchive, "docker-archive:"}};

Error BadReference(std::string_view text, std::string why) {
  return MakeError(Code::kInvalidArgument, "parse image",
                   OnOneLine(text.substr(0, kMaxReference)), std::move(why));
}

// The characters of a ref.name (OCI image-spec, annotations.md). '@' is
// missing, because skopeo reads "@0" as an index and "@sha256:" as a digest.
bool IsTagCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') ||
         std::string_view("-._:+/").find(c) != std::string_view::npos;
}

bool IsTag(std::string_view tag) {
  return !tag.empty() && tag.size() <= kMaxTag && tag.front() != '-' &&
         std::all_of(tag.begin(), tag.end(), IsTagCharacter);
}

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

std::optional<Kind> TakeTransport(std::string_view& rest) {
  if (rest.starts_with('/')) {
    return Kind::kDirectory;
  }
  for (const Transport& transport : kTransports) {
    if (rest.starts_with(transport.prefix)) {
      rest.remove_prefix(transport.prefix.size());
      return transport.kind;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string ImageReference::ToText() const {
  const auto* const transport =
      std::find_if(kTransports.begin(), kTransports.end(),
                   [this](const Transport& one) { return one.kind == kind; });
  std::string text = std::string(transport->prefix) + path;
  return tag.empty() ? text : text + ":" + tag;
}

Result<ImageReference> ParseImageReference(std::string_view text) {
  if (text.size() > kMaxReference || HasControlCharacter(text)) {
    return BadReference(
        text, "must have at most 4096 bytes and no control character");
  }
  std::string_view rest = text;
  const std::optional<Kind> kind = TakeTransport(rest);
  if (!kind) {
    return BadReference(text,
                        "must begin with /, dir:/, oci:/, oci-archive:/ or "
                        "docker-archive:/, because images come from files of "
                        "this machine");
  }
  ImageReference reference;
  reference.kind = *kind;
  if (*kind != Kind::kDirectory) {
    // skopeo splits at the first ':', too.
    const std::size_t colon = rest.find(':');
    if (colon != std::string_view::npos) {
      reference.tag = rest.substr(colon + 1);
      rest = rest.substr(0, colon);
      if (!IsTag(reference.tag)) {
        return BadReference(text,
                            "has a tag that is empty, longer than 384 bytes or "
                            "has other characters than letters, digits and "
                            "-._:+/");
      }
    }
  }
  reference.path = rest;
  if (!paths::IsNormalised(rest)) {
    return BadReference(text,
                        "must have an absolute path without ., .. or a "
                        "trailing /");
  }
  return reference;
}

}  // namespace mountd::driver
