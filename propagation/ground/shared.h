// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/mman.h>

#include <memory>
#include <type_traits>

namespace mountd::propagation {

// Owns memory with one T in it that the executor shares with its child. The
// child leaves its answer there. On failure valid() is false and errno says
// why.
template <typename T>
class Shared {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  Shared()
      : page_(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (valid()) {
      std::construct_at(static_cast<T*>(page_));
    }
  }
  ~Shared() {
    if (valid()) {
      ::munmap(page_, sizeof(T));
    }
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  bool valid() const { return page_ != MAP_FAILED; }
  T& operator*() const { return *static_cast<T*>(page_); }
  T* operator->() const { return static_cast<T*>(page_); }

 private:
  void* page_;
};

}  // namespace mountd::propagation
