// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nomad_hclspec.pb.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/driver/task_status.h"
#include "mountd/base/result.h"

// Configurations: their keys as Nomad's schema, and the values that Nomad read
// by that schema.
namespace mountd::nomad {

using Spec = hashicorp::nomad::plugins::shared::hclspec::Spec;
using Keys = std::vector<driver::SchemaKey>;

// Returns the schema of an object with these keys.
Spec SpecOf(const Keys& keys);

// Returns the object that the msgpack encodes, without the keys that are nil.
// No bytes are an empty object. InvalidArgument with the key for a key that is
// missing, unknown or of another type, and for bytes that are no such object.
Result<nlohmann::json> ReadValues(const std::string& msgpack, const Keys& keys);

}  // namespace mountd::nomad
