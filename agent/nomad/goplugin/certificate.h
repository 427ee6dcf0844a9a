// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

namespace mountd::goplugin {

// A certificate that signs itself, for one run of the plugin. It names
// "localhost", because hosts ask for that name.
struct Certificate {
  std::string pem;
  std::string der;
  std::string key_pem;
};

Result<Certificate> MakeCertificate();

}  // namespace mountd::goplugin
