// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The free() and realloc() of the whole of mountd-csi: what is given back to
// the heap is overwritten first. gRPC copies a request with its secrets, and an
// answer that quotes them, into buffers of its own, which nobody else can wipe.
//
// glibc documents that a program may replace these ("Replacing malloc"), all
// or, as here, some by functions that call its own; operator delete ends here,
// too. A sanitizer brings its own.
#ifndef MOUNTD_SANITIZED

#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern "C" void __libc_free(void* memory);

extern "C" void free(void* memory) {
  if (memory != nullptr) {
    const int error = errno;
    explicit_bzero(memory, malloc_usable_size(memory));
    __libc_free(memory);
    errno = error;
  }
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

// glibc's own would move a block and leave the old one as it was.
extern "C" void* realloc(void* memory, std::size_t size) {
  if (memory != nullptr && size == 0) {
    free(memory);
    return nullptr;
  }
  void* const moved = std::malloc(size);
  if (memory != nullptr && moved != nullptr) {
    std::memcpy(moved, memory, std::min(size, malloc_usable_size(memory)));
    free(memory);
  }
  return moved;
}

#endif
