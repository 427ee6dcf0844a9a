// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "mountd/base/unique_fd.h"
#include "mountd/base/write_all.h"

namespace mountd::agent {
namespace {

// All users may read the file, because a collector runs as a user of its own.
constexpr mode_t kReadableByAll = 0644;

// The new file lies beside the old one, because a rename stays within one file
// system. Its name is hidden and has another ending, so that no collector reads
// it.
std::string TemplateBeside(const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;  // 0 if there is no slash
  return path.substr(0, name) + "." + path.substr(name) + ".XXXXXX";
}

Result<void> Fill(const UniqueFd& file, const std::string& made,
                  const std::string& path, std::string_view text) {
  MOUNTD_TRY(WriteAll(file.get(), text, path));
  // mkostemp creates the file with mode 0600 (mkstemp(3)).
  if (::fchmod(file.get(), kReadableByAll) < 0) {
    return ErrnoError(errno, "chmod", path);
  }
  if (::rename(made.c_str(), path.c_str()) < 0) {
    return ErrnoError(errno, "rename", path);
  }
  return Ok();
}

}  // namespace

Result<void> ReplaceFile(const std::string& path, std::string_view text) {
  std::string made = TemplateBeside(path);
  const UniqueFd file(::mkostemp(made.data(), O_CLOEXEC));
  if (!file.valid()) {
    return ErrnoError(errno, "create", path);
  }
  Result<void> done = Fill(file, made, path, text);
  if (!done) {
    ::unlink(made.c_str());
  }
  return done;
}

}  // namespace mountd::agent
