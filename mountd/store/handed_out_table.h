// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries mounts that callers have as fds. Lists them in the order in which
// mountd handed them out. Thread-safe. Never has a mount without a unique id.
class HandedOutTable {
 public:
  explicit HandedOutTable(Database& database) : database_(&database) {}

  // Each returns the mounts in the order in which mountd handed them out.
  Result<void> PutHandedOut(const HandedOutRecord& record);
  Result<std::vector<HandedOutRecord>> HandedOutOf(
      const std::string& allocation);
  Result<std::vector<HandedOutRecord>> HandedOutOfUser(std::uint32_t uid);
  Result<std::uint32_t> CountHandedOut(const std::string& allocation);
  Result<std::uint32_t> CountHandedOutOfUser(std::uint32_t uid);
  Result<void> ForgetHandedOut(const HandedOutRecord& record);

 private:
  template <typename T>
  Result<std::vector<HandedOutRecord>> SelectHandedOut(std::string_view where,
                                                       const T& argument);

  Database* const database_;
};

}  // namespace mountd::store
