// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

namespace mountd {

// Gives both stores the schemas of the last release, and prints on stdout for
// each store its schemas, its copy and each fact that is lost. Returns the exit
// status; EX_TEMPFAIL while another process has a store open.
int DowngradeTheStores(const std::string& boot, const std::string& state);

}  // namespace mountd
