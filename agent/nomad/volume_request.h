// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "mountd/base/result.h"

// The request of a Nomad client to a plugin for dynamic host volumes, in the
// variables DHV_… of the environment (Nomad 1.10, "Create a host volume
// plugin").
namespace mountd::nomad {

struct HostVolumeRequest {
  std::string operation;         // "fingerprint", "create" or "delete"
  std::string volumes_dir;       // an absolute path
  std::string id;                // of the form of a UUID
  std::string created_path;      // of "delete"; "": unknown
  std::int64_t least_bytes = 0;  // 0: not specified
  std::int64_t most_bytes = 0;   // 0: no limit

  // The parameters that the job of this program knows. All others go to the CSI
  // plugin.
  std::string host_volume;  // "": a new volume of a CSI plugin
  std::string plugin = "csi-local";
  std::string fs_type;
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  std::optional<mode_t> mode;
  std::map<std::string, std::string> parameters;
};

// Returns the value of a variable; nullptr if there is none.
using Variables = std::function<const char*(const char* name)>;

// Reads the request. `operation` is the program's argument, which has to agree
// with DHV_OPERATION. A fingerprint has no other variable. InvalidArgument in
// words for each value that no Nomad client sends, or that means nothing.
Result<HostVolumeRequest> ReadHostVolumeRequest(const std::string& operation,
                                                const Variables& variables);

}  // namespace mountd::nomad
