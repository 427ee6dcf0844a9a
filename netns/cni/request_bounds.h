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
// because nobody vouches for the request.
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

// Returns the request as `verb` may have it: GC of all networks becomes GC of
// the one network. PermissionDenied if the request is outside the bounds.
//
// The host ports bound ADD only. DEL and CHECK bring the mappings of their ADD
// and open no port by them. They must not be refused because the rules grant
// fewer ports now.
Result<Request> Bounded(const RequestBounds& bounds, const std::string& verb,
                        Request request);

}  // namespace mountd::cni
