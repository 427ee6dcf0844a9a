// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/number_range.h"
#include "mountd/base/result.h"
#include "netns/cni/request.h"

namespace mountd::cni {

// What a request may be about: decided by the one who starts the runner, as
// nobody vouches for the request.
struct RequestBounds {
  // "": any.
  std::string network;
  std::string container_id;
  // Nothing: any; empty: none.
  std::optional<std::vector<NumberRange>> host_ports;
};

// "20000-20999,8080"; "" for none. Nothing where it is not that.
std::optional<std::vector<NumberRange>> ParsePorts(std::string_view text);

// The request as `verb` may have it: GC of all networks becomes that of the
// only one. PermissionDenied if it is outside the bounds.
//
// Host ports bound ADD alone. DEL and CHECK bring the mappings of their ADD,
// open nothing by them, and must not be refused because less is granted now
// than was then.
Result<Request> Bounded(const RequestBounds& bounds, const std::string& verb,
                        Request request);

}  // namespace mountd::cni
