// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace mountd::exec {

// Carries names from a forked child to its parent in one shared page. Names
// beyond the page are dropped.
class CallsOfChild {
 public:
  CallsOfChild()
      : page_(static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~CallsOfChild() { ::munmap(page_, kBytes); }
  CallsOfChild(const CallsOfChild&) = delete;
  CallsOfChild& operator=(const CallsOfChild&) = delete;

  void Write(std::span<const std::string> names) {
    std::string text;
    for (const std::string& name : names) {
      text += name + "\n";
    }
    std::copy_n(text.begin(), std::min(text.size(), kBytes), page_);
  }
  std::vector<std::string> Read() const {
    std::vector<std::string> names;
    const char* const end = page_ + kBytes;
    for (const char* at = page_; at != end && *at != '\0';) {
      const char* const line = std::find(at, end, '\n');
      names.emplace_back(at, line);
      at = line == end ? end : line + 1;
    }
    return names;
  }

 private:
  static constexpr std::size_t kBytes = 65536;
  char* page_;
};

}  // namespace mountd::exec
