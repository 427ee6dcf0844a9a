// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace mountd {

// Owns an empty directory. Removes it with its content.
class TempDirectory {
 public:
  explicit TempDirectory(const std::filesystem::path& beneath =
                             std::filesystem::temp_directory_path()) {
    std::string name = (beneath / "mountd-test-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) {
      path_ = name;
    }
  }
  ~TempDirectory() {
    std::error_code ignored;
    if (!path_.empty()) {
      std::filesystem::remove_all(path_, ignored);
    }
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace mountd
