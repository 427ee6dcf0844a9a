// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mountd::test {

// Owns an org.freedesktop.PolicyKit1 on $DBUS_SYSTEM_BUS_ADDRESS that gives
// scripted answers. Runs on a thread of its own.
class FakePolkit {
 public:
  enum class Says {
    kYes,
    kNo,
    kChallenge,  // a yes once somebody has authenticated
    kDismissed,
    kError,
    kNothing  // no answer before Answer
  };
  struct Question {
    std::string subject_kind;
    std::string sender;
    std::string action;
    std::map<std::string, std::string> details;
    std::uint32_t flags = 0;
  };

  explicit FakePolkit(Says says);
  ~FakePolkit();
  FakePolkit(const FakePolkit&) = delete;
  FakePolkit& operator=(const FakePolkit&) = delete;

  void Say(Says says);
  // Answers all questions that wait.
  void Answer(Says says);
  std::vector<Question> questions() const;

 private:
  class Server;

  mutable std::mutex mutex_;
  Says says_;                        // guarded by mutex_
  std::vector<Question> questions_;  // guarded by mutex_
  std::unique_ptr<Server> server_;
};

}  // namespace mountd::test
