// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace mountd::testing {

inline constexpr uid_t kAttacker = 1234;  // and gid

// A second process, of another user without privilege, that does the same over
// and over as fast as it can until this is destroyed.
class Attacker {
 public:
  explicit Attacker(const std::function<void()>& step);
  ~Attacker();
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

 private:
  pid_t pid_ = -1;
};

// renameat2(2) RENAME_EXCHANGE: there is no moment when either is missing.
void Exchange(const std::string& one, const std::string& other);

void Give(const std::string& path);  // to the attacker

// Tries until it is true, or half a minute is over: an attack needs luck.
bool Within(const std::function<bool()>& attack);

bool IsDirectory(const std::string& path);   // itself, not a link to one
bool IsMountPoint(const std::string& path);  // the same

// A naive daemon looks before it mounts: no link, so all is well.
bool NaiveBind(const std::string& source, const std::string& target);

// In a child of that user; its exit status.
int AsAttacker(const std::function<int()>& body);

// In a child of its own user and mount namespaces, with every capability there:
// what anybody can be.
int AsRootOfOwnNamespaces(const std::function<int()>& body);

// A child with this number, which must be free, that waits once `body` has
// succeeded.
pid_t SpawnAs(pid_t number, const std::function<bool()>& body);

}  // namespace mountd::testing
