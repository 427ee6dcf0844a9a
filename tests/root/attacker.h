// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace mountd::testing {

inline constexpr uid_t kAttacker = 1234;  // the gid, too

// Owns a second process, of another unprivileged user, that repeats `step` as
// fast as it can until this object is destroyed.
class Attacker {
 public:
  explicit Attacker(const std::function<void()>& step);
  ~Attacker();
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

 private:
  pid_t pid_ = -1;
};

// Exchanges the two by renameat2(2) RENAME_EXCHANGE, so neither is ever
// missing.
void Exchange(const std::string& one, const std::string& other);

void Give(const std::string& path);  // to the attacker

// Tries until `attack` succeeds or half a minute is over, because an attack
// needs luck.
bool Within(const std::function<bool()>& attack);

bool IsDirectory(const std::string& path);   // no link to one
bool IsMountPoint(const std::string& path);  // no link to one

// Binds as a naive daemon does, which only checks first that `target` is no
// link.
bool NaiveBind(const std::string& source, const std::string& target);

// Runs `body` in a child of the attacker. Returns its exit status.
int AsAttacker(const std::function<int()>& body);

// Runs `body` in a child with user and mount namespaces of its own and every
// capability there, because any user can get those.
int AsRootOfOwnNamespaces(const std::function<int()>& body);

// Forks a child with this pid, which must be free. The child waits once `body`
// has succeeded.
pid_t SpawnAs(pid_t number, const std::function<bool()>& body);

}  // namespace mountd::testing
