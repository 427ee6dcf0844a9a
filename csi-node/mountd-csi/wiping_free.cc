// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Defines free() and realloc() for the whole of mountd-csi, so that memory is
// overwritten before it goes back to the heap. gRPC copies a request with its
// secrets, and an answer that quotes them, into buffers of its own, which
// nothing else can wipe.
//
// malloc() and calloc() stay glibc's. free() here gives its memory to glibc's
// __libc_free, so all four functions use one heap. operator delete calls this
// free(), too. A build with a sanitizer leaves this file out, because the
// sanitizer has a free() of its own.
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

// glibc's own realloc would move a block and leave the old bytes unwiped.
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
