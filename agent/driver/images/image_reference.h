// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "mountd/base/result.h"

namespace mountd::driver {

// Says which root file system a task has, by a path of this machine. A
// reference never names a registry, so nothing here uses a network.
//
//   /dir, dir:/dir                     a directory that is a root file system
//   oci:/layout[:tag]                  an OCI image layout (OCI image-spec 1.0)
//   oci-archive:/file.tar[:tag]        such a layout in a tar file
//   docker-archive:/file.tar[:name:tag]  what `docker save` writes
struct ImageReference {
  enum class Kind { kDirectory, kOci, kOciArchive, kDockerArchive };

  Kind kind = Kind::kDirectory;
  std::string path;  // absolute and normalised; holds no ':' for an image
  std::string tag;   // "" for the only image of a layout or archive

  // Returns the reference in the form that skopeo(1) reads.
  std::string ToText() const;
  bool operator==(const ImageReference&) const = default;
};

// Parses a reference. InvalidArgument with the form that is wrong.
Result<ImageReference> ParseImageReference(std::string_view text);

}  // namespace mountd::driver
