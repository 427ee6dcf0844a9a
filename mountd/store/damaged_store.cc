// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/damaged_store.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <utility>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "mountd/base/wall_clock.h"

namespace mountd::store {
namespace {

namespace fs = std::filesystem;

constexpr char kNote[] = ".damaged";
constexpr char kAside[] = ".corrupt-";
constexpr char kLog[] = "-wal";

// Returns a text that sorts by time: "20260130T235959.000001Z".
std::string Timestamp() {
  constexpr std::uint64_t kSecond = 1'000'000;
  const std::uint64_t now = NowMicroseconds();
  const auto seconds = static_cast<std::time_t>(now / kSecond);
  std::tm parts{};
  std::array<char, 32> text{};
  gmtime_r(&seconds, &parts);
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%S.", &parts);
  const std::string micros = std::to_string(kSecond + now % kSecond);
  return text.data() + micros.substr(1) + "Z";
}

std::string FreeName(const std::string& path) {
  std::string name;
  std::error_code ignored;
  do {
    name = path + kAside + Timestamp();
  } while (fs::exists(name, ignored));
  return name;
}

// Removes all but kMostSetAside stores. Always keeps `latest`, the store just
// set aside, because the clock may have jumped back.
void KeepTheLatest(const std::string& path, const std::string& latest) {
  const std::string prefix = fs::path(path).filename().string() + kAside;
  std::vector<fs::path> stores;
  std::error_code ignored;
  for (const auto& entry :
       fs::directory_iterator(fs::path(path).parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && !name.ends_with(kLog) &&
        entry.path() != latest) {
      stores.push_back(entry.path());
    }
  }
  std::sort(stores.begin(), stores.end());
  for (std::size_t i = 0; i + kMostSetAside - 1 < stores.size(); ++i) {
    fs::remove(stores[i], ignored);
    fs::remove(stores[i].string() + kLog, ignored);
  }
}

}  // namespace

Error Damage(std::string op, std::string what) {
  Error error = MakeError(Code::kInternal, std::move(op), "", std::move(what));
  // EUCLEAN is the errno by which file systems report that they are damaged.
  error.sys_errno = EUCLEAN;
  return error;
}

bool IsDamage(const Error& error) { return error.sys_errno == EUCLEAN; }

void NoteDamaged(const std::string& path) {
  const UniqueFd note(
      ::open((path + kNote).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

bool WasFoundDamaged(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path + kNote, ignored);
}

// Renames the log last. If mountd is killed in between, the log remains without
// its store, and SQLite deletes such a log.
Result<std::string> SetAside(const std::string& path) {
  const std::string name = FreeName(path);
  std::error_code error;
  for (const char* part : {"", kLog}) {
    if (fs::exists(path + part, error) && !error) {
      fs::rename(path + part, name + part, error);
    }
    if (error) {
      return MakeError(Code::kUnavailable, "set aside", path,
                       "is damaged but cannot be renamed: " + error.message());
    }
  }
  fs::remove(path + kNote, error);
  if (error) {
    return MakeError(
        Code::kUnavailable, "set aside", path,
        "the note beside it cannot be removed: " + error.message());
  }
  KeepTheLatest(path, name);
  return name;
}

}  // namespace mountd::store
