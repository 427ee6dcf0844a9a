// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::agent::test {

// The failure that the next call of a method gets instead of its answer.
struct Failure {
  std::string error;  // an error's full name; "" with `hang_up`
  std::string message{};
  bool hang_up = false;  // closes the connection without an answer
};

// Holds the script of a fake Manager. Shared by every connection and by the
// test's thread.
class Script {
 public:
  void Fail(const std::string& method, Failure failure);
  // Makes the method's answer invalid: one key has another type than the
  // contract says.
  void Garble(const std::string& method);
  // Makes the list that the method answers empty from now on.
  void Empty(const std::string& method);
  // Holds calls of the method until there were so many calls of the other one,
  // or until so much time has passed.
  void HoldUntil(const std::string& method, const std::string& other,
                 std::size_t count,
                 std::chrono::milliseconds most = std::chrono::seconds(30));
  // Sets the answer of ListAllocations, which is "web" alone at first.
  void SetAllocations(std::vector<std::string> allocations);

  // Returns the calls so far, one line each: method, arguments, options.
  std::vector<std::string> calls();
  std::string last_call();
  // Returns the number of calls of one method.
  std::size_t count(const std::string& method);
  // Returns the "secrets" of the last PublishVolume; invalid if there were
  // none.
  UniqueFd TakeSecrets();

  // These functions are the fake's.
  void Record(const std::string& line);
  bool Next(const std::string& method, Failure& failure);
  void Hold(const std::string& method);
  bool garbled(const std::string& method);
  bool emptied(const std::string& method);
  std::vector<std::string> allocations();
  void KeepSecrets(UniqueFd fd);

 private:
  std::mutex mutex_;
  std::vector<std::string> calls_;
  std::map<std::string, std::deque<Failure>> failures_;
  struct Held {
    std::string other;
    std::size_t count = 0;
    std::chrono::milliseconds most{0};
  };
  std::map<std::string, Held> held_;
  std::condition_variable recorded_;
  std::map<std::string, bool> garbled_;
  std::map<std::string, bool> emptied_;
  std::vector<std::string> allocations_{"web"};
  UniqueFd secrets_;
};

}  // namespace mountd::agent::test
