// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// Owns a process that has made namespaces with `unshare`, and waits.
class Unshared {
 public:
  explicit Unshared(const std::function<bool()>& unshare);
  ~Unshared();
  Unshared(const Unshared&) = delete;
  Unshared& operator=(const Unshared&) = delete;

  bool valid() const { return valid_; }  // true if `unshare` has succeeded
  std::string proc() const { return "/proc/" + std::to_string(pid_); }

 private:
  pid_t pid_ = -1;
  bool valid_ = false;
};

// Returns a network namespace in a new user namespace of the user, as rootless
// containers have them. Invalid if the kernel lets no user make one.
UniqueFd UsersNetns(uid_t uid);

}  // namespace mountd::testing
