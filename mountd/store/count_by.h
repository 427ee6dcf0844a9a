// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string_view>

#include "mountd/base/result.h"
#include "mountd/store/database.h"

namespace mountd::store {

// Returns the number that `sql`, a SELECT count(*) with one argument, finds.
template <typename T>
Result<std::uint32_t> CountBy(Database& database, std::string_view sql,
                              const T& argument) {
  std::uint32_t count = 0;
  MOUNTD_TRY(database.Query(
      sql,
      [&](const Row& row) { count = static_cast<std::uint32_t>(row.Int(0)); },
      argument));
  return count;
}

}  // namespace mountd::store
