// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mountd/base/result.h"

// Reads OCI image layouts (OCI image-spec 1.0: image-layout.md, manifest.md).
// Every number and name in them is the image author's, so each has a bound.
namespace mountd::driver {

// A blob of a layout: what it is, and which bytes it must have.
struct Descriptor {
  std::string media_type;
  std::string digest;  // the 64 hexadecimal digits of its SHA-256
  std::uint64_t size = 0;

  bool operator==(const Descriptor&) const = default;
};

struct ImageManifest {
  Descriptor config;
  std::vector<Descriptor> layers;
};

// More layers than any builder makes; Docker has at most 127.
inline constexpr std::size_t kMaxLayers = 256;

// Returns the image that has the tag in the index of `layout`, a directory's
// fd. Without a tag, returns the only image. NotFound if there is none,
// InvalidArgument if several fit.
Result<Descriptor> FindImage(int layout, const std::string& tag,
                             const std::string& object);

// Reads a JSON blob. Aborted if its size or digest is not the descriptor's.
Result<std::string> ReadBlob(int layout, const Descriptor& blob,
                             const std::string& object);

// Reads the manifest. NotSupported for a compression that umoci does not read.
// ResourceExhausted for more than kMaxLayers layers.
Result<ImageManifest> ReadManifest(int layout, const Descriptor& manifest,
                                   const std::string& object);

}  // namespace mountd::driver
