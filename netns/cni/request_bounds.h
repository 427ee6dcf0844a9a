// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/number_range.h"
#include "mountd/base/result.h"
#include "netns/cni/documents/request.h"

namespace mountd::cni {

// The bounds of a request. The program that starts the runner sets them,
// because the request itself is not trusted.
struct RequestBounds {
  // "": any.
  std::string network;
  std::string container_id;
  // No value: any port; an empty list: none.
  std::optional<std::vector<NumberRange>> host_ports;
};

// Parses a list such as "20000-20999,8080"; "" means none. Returns nothing if
// the text is no such list.
std::optional<std::vector<NumberRange>> ParsePorts(std::string_view text);

// Returns the request within the bounds. A GC of all networks becomes a GC of
// the one network. PermissionDenied if the request is outside the bounds.
//
// The host ports bound only ADD. DEL and CHECK contain the mappings of their
// ADD, and open no port. Refusing them because the rules now grant fewer ports
// would be wrong.
Result<Request> Bounded(const RequestBounds& bounds, const std::string& verb,
                        Request request);

}  // namespace mountd::cni
