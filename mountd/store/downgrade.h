// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

// Turns the stores into stores of the last release, so that an operator can
// install that release's package again. mountd itself never does this.
namespace mountd::store {

// Undoes one step of a schema.
struct StepDown {
  // The schema that this step undoes. 0: no schema has such a step. Instead,
  // columns of the last release have values that the last release's mountd does
  // not know. Such a StepDown runs last.
  std::size_t schema = 0;
  // Selects one text for each fact that the older schema cannot hold. Reads the
  // tables of the newest schema.
  std::string_view lost;
  // The statements that undo the step.
  std::string_view sql;
};

// The schema of a store in a release, and the steps that lead back to it, the
// newest first. If a schema has got a step and no StepDown here, its store
// cannot be downgraded. A test fails then (tests/unit/mountd/store).
struct ReleasedSchema {
  std::size_t schema = 0;
  std::span<const StepDown> steps;
};

// The last release in CHANGELOG.md. Each new release sets this to its own
// version and removes all steps.
extern const std::string_view kLastRelease;
extern const ReleasedSchema kReleasedBoot;
extern const ReleasedSchema kReleasedState;

struct DowngradedStore {
  std::string path;
  std::size_t from = 0;  // 0: there is no store
  std::size_t to = 0;
  std::string copy;               // of the store as it was; "" if unchanged
  std::vector<std::string> lost;  // each on one line
};

class Database;

// Owns one store that no other process has open, until the store is downgraded.
class Downgrade {
 public:
  // Opens the store. Unavailable while another process has it open.
  // FailedPrecondition if its schema cannot be downgraded, or the store is
  // damaged. NotFound if there is no store.
  static Result<Downgrade> Take(const std::string& path,
                                const ReleasedSchema& released);

  // Copies the store to "<path>.schema-<number>", and then brings it to the
  // released schema, wholly or not at all. A store that has this schema, or an
  // older one, stays as it is.
  Result<DowngradedStore> Run();

  Downgrade(Downgrade&&) noexcept;
  ~Downgrade();

 private:
  Downgrade(std::string path, ReleasedSchema released,
            std::unique_ptr<Database> database, std::size_t found);

  Result<std::string> Copy();

  std::string path_;
  ReleasedSchema released_;
  std::unique_ptr<Database> database_;
  std::size_t found_ = 0;
};

struct StoreToDowngrade {
  std::string path;
  ReleasedSchema released;
};

// Opens all of these stores before it changes one, and calls `report` for each
// store that is done. Skips a store that does not exist, as after a reboot.
Result<void> DowngradeStores(
    std::span<const StoreToDowngrade> stores,
    const std::function<void(const DowngradedStore&)>& report);

}  // namespace mountd::store
