// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/exec/plan.h"

// What of a host is whose, as SECURITY.md has it.
namespace mountd::fuzz {

std::string PlaceOfPlugin(const std::string& plugin);
std::string PlaceOfFilesystem(const std::string& filesystem);
std::string PlaceOfAllocation(const std::string& allocation);

// The source that a plan names; null if it names none.
const exec::SourcePlan* SourceOf(const exec::Request& plan);

// Whether an executor may open the path to write to it: a network file of an
// allocation, or what cuts a FUSE connection in a mount of its own.
bool IsWritable(const std::string& path);

// Whether nft's text changes nothing but the table inet mountd, and rules for
// links "md*" in the chain FORWARD.
bool AreOwnRules(const std::string& commands);

}  // namespace mountd::fuzz
