// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/downgrade.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "mountd/base/one_line.h"
#include "mountd/base/unique_fd.h"
#include "mountd/store/damaged_store.h"
#include "mountd/store/database.h"

namespace mountd::store {
namespace {

namespace fs = std::filesystem;

Error Refusal(const std::string& path, std::string why) {
  return MakeError(Code::kFailedPrecondition, "downgrade", path,
                   std::move(why));
}

// Fails unless there is a StepDown for each step from `found` down to the
// released schema.
Result<void> CheckSteps(const std::string& path, std::size_t found,
                        const ReleasedSchema& released) {
  std::size_t next = found;
  for (const StepDown& step : released.steps) {
    if (step.schema == next && next > released.schema) {
      --next;
    }
  }
  if (next <= released.schema) {
    return Ok();
  }
  return Refusal(path, "has schema " + std::to_string(found) +
                           ", and this mountd knows no step down from schema " +
                           std::to_string(next) +
                           "; use the mountd that made the store");
}

// Returns a name for the copy that no file has yet.
std::string NameOfCopy(const std::string& path, std::size_t schema) {
  const std::string name = path + ".schema-" + std::to_string(schema);
  std::string free = name;
  std::error_code ignored;
  for (int i = 2; fs::exists(free, ignored); ++i) {
    free = name + "-" + std::to_string(i);
  }
  return free;
}

// If root made the copy, gives it to the owner of the store. Then syncs it.
Result<void> Finish(const std::string& copy, const std::string& path) {
  const UniqueFd file(::open(copy.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat store {};
  if (!file.valid() || ::stat(path.c_str(), &store) != 0 ||
      (::geteuid() == 0 &&
       ::fchown(file.get(), store.st_uid, store.st_gid) != 0) ||
      ::fsync(file.get()) != 0) {
    return ErrnoError(errno, "copy store", copy);
  }
  return Ok();
}

}  // namespace

Downgrade::Downgrade(std::string path, ReleasedSchema released,
                     std::unique_ptr<Database> database, std::size_t found)
    : path_(std::move(path)),
      released_(released),
      database_(std::move(database)),
      found_(found) {}

Downgrade::Downgrade(Downgrade&&) noexcept = default;
Downgrade::~Downgrade() = default;

Result<Downgrade> Downgrade::Take(const std::string& path,
                                  const ReleasedSchema& released) {
  Result<std::unique_ptr<Database>> opened = Database::OpenAsItIs(path);
  if (!opened && IsDamage(opened.error())) {
    return Refusal(path,
                   "is damaged: " + opened.error().Message() +
                       "; start this mountd once, which sets the file aside");
  }
  if (!opened && opened.error().code == Code::kUnavailable) {
    return MakeError(Code::kUnavailable, "downgrade", path,
                     "another process may have it open; stop mountd.socket and "
                     "mountd.service first (" +
                         opened.error().Message() + ")");
  }
  if (!opened) {
    return std::move(opened).error();
  }
  MOUNTD_ASSIGN(const std::size_t found, (*opened)->SchemaVersion());
  MOUNTD_TRY(CheckSteps(path, found, released));
  return Downgrade(path, released, *std::move(opened), found);
}

// Makes the copy under another name first, so that a copy that was cut off
// never has the final name.
Result<std::string> Downgrade::Copy() {
  const std::string copy = NameOfCopy(path_, found_);
  const std::string partial = path_ + ".schema-copy";
  ::unlink(partial.c_str());
  Result<void> copied = database_->CopyTo(partial);
  if (copied) {
    copied = Finish(partial, path_);
  }
  if (copied && ::rename(partial.c_str(), copy.c_str()) != 0) {
    copied = ErrnoError(errno, "copy store", copy);
  }
  if (!copied) {
    ::unlink(partial.c_str());
    return std::move(copied).error();
  }
  return copy;
}

Result<DowngradedStore> Downgrade::Run() {
  DowngradedStore done{path_, found_, found_, "", {}};
  if (found_ <= released_.schema) {
    return done;
  }
  MOUNTD_ASSIGN(done.copy, Copy());
  std::string script;
  for (const StepDown& step : released_.steps) {
    if (step.schema > found_) {
      continue;  // an earlier build made the store
    }
    MOUNTD_TRY(database_->Query(step.lost, [&](const Row& row) {
      done.lost.push_back(OnOneLine(row.Text(0)));
    }));
    script.append(step.sql);
  }
  MOUNTD_TRY(database_->Migrate(script, released_.schema));
  done.to = released_.schema;
  return done;
}

Result<void> DowngradeStores(
    std::span<const StoreToDowngrade> stores,
    const std::function<void(const DowngradedStore&)>& report) {
  std::vector<Downgrade> taken;
  for (const StoreToDowngrade& store : stores) {
    Result<Downgrade> one = Downgrade::Take(store.path, store.released);
    if (one) {
      taken.push_back(*std::move(one));
    } else if (one.error().code == Code::kNotFound) {
      report({store.path, 0, 0, "", {}});
    } else {
      return std::move(one).error();
    }
  }
  for (Downgrade& one : taken) {
    MOUNTD_ASSIGN(const DowngradedStore store, one.Run());
    report(store);
  }
  return Ok();
}

}  // namespace mountd::store
