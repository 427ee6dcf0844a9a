// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/plan/message.h"

// The owners of a host's places, as SECURITY.md says.
namespace mountd::fuzz {

std::string PlaceOfPlugin(const std::string& plugin);
std::string PlaceOfFilesystem(const std::string& filesystem);
std::string PlaceOfAllocation(const std::string& allocation);

// Returns the source that a plan names, or null.
const exec::SourcePlan* SourceOf(const exec::Request& plan);

// True if an executor may open the path for writing: a network file of an
// allocation, or the file that aborts a FUSE connection, in a mount of the
// executor's own.
bool IsWritable(const std::string& path);

// True if nft's text changes nothing but the table inet mountd, and rules for
// links "md*" in the chain FORWARD.
bool AreOwnRules(const std::string& commands);

}  // namespace mountd::fuzz
