// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <string>

#include "agent/driver/images/foreign_tree.h"
#include "agent/driver/images/image_layout.h"
#include "agent/driver/images/image_reference.h"
#include "mountd/base/result.h"

// Runs skopeo(1) and umoci(1) on images that others made, confined
// (confined.h) to one working directory and within bounds.
namespace mountd::driver {

struct UnpackJob {
  std::string object;  // the reference, for errors
  std::string skopeo;
  std::string umoci;
  ForeignTree work;  // an empty directory of this user's
  TreeSize most;
  int lock = -1;  // both programs inherit it
  std::chrono::steady_clock::time_point deadline;

  std::string Path(const std::string& name) const {
    return work.directory + "/" + work.name + "/" + name;
  }
};

// Copies the image to "layout" in the working directory, as an OCI layout with
// layers of tar+gzip. skopeo compares the digests of layers and configuration.
// Returns the copy's manifest.
Result<Descriptor> CopyImage(const UnpackJob& job,
                             const ImageReference& reference);

// Checks the manifest and the configuration of the copy, and unpacks it to
// "image/rootfs"; "image/config.json" is the configuration.
Result<void> MakeRootfs(const UnpackJob& job, const Descriptor& manifest);

}  // namespace mountd::driver
