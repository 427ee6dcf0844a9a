// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/out_of_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

namespace mountd {
namespace {

const char* g_program = "";

// Allocates nothing, because there is no memory left.
[[noreturn]] void End() {
  constexpr char kText[] = ": out of memory\n";
  const std::array<iovec, 2> line = {
      {{const_cast<char*>(g_program), std::strlen(g_program)},
       {const_cast<char*>(kText), sizeof(kText) - 1}}};
  [[maybe_unused]] const ssize_t told =
      ::writev(STDERR_FILENO, line.data(), static_cast<int>(line.size()));
  std::abort();
}

}  // namespace

void EndWhenOutOfMemory(const char* program) {
  g_program = program;
  std::set_new_handler(End);
}

}  // namespace mountd
