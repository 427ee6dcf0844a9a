// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/fakes/fake_polkit.h"

#include <sdbus-c++/sdbus-c++.h>

#include <thread>
#include <utility>

namespace mountd::test {
namespace {

constexpr char kFailed[] = "org.freedesktop.PolicyKit1.Error.Failed";

using Details = std::map<std::string, std::string>;
using Verdict = sdbus::Struct<bool, bool, Details>;
using Subject =
    sdbus::Struct<std::string, std::map<std::string, sdbus::Variant>>;

}  // namespace

class FakePolkit::Server {
 public:
  explicit Server(FakePolkit& fake)
      : fake_(fake),
        bus_(sdbus::createSystemBusConnection()),
        object_(sdbus::createObject(
            *bus_,
            sdbus::ObjectPath("/org/freedesktop/PolicyKit1/Authority"))) {
    object_
        ->addVTable(sdbus::registerMethod("CheckAuthorization")
                        .implementedAs([this](sdbus::Result<Verdict>&& answer,
                                              const Subject& subject,
                                              const std::string& action,
                                              const Details& details,
                                              std::uint32_t flags,
                                              const std::string& /*cancel*/) {
                          Check(std::move(answer),
                                {subject.get<0>(),
                                 subject.get<1>().at("name").get<std::string>(),
                                 action, details, flags});
                        }))
        .forInterface("org.freedesktop.PolicyKit1.Authority");
    bus_->requestName(sdbus::ServiceName("org.freedesktop.PolicyKit1"));
    loop_ = std::thread([this] {
      try {
        bus_->enterEventLoop();
      } catch (const sdbus::Error&) {
        // The bus has gone.
      }
    });
  }
  ~Server() {
    bus_->leaveEventLoop();
    loop_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Answers without mutex_, because sd-bus holds its own lock around Check.
  void AnswerHeld(Says says) {
    for (sdbus::Result<Verdict>& answer : TakeHeld()) {
      Give(answer, says);
    }
  }

 private:
  std::vector<sdbus::Result<Verdict>> TakeHeld() {
    const std::lock_guard lock(fake_.mutex_);
    return std::exchange(held_, {});
  }

  void Check(sdbus::Result<Verdict>&& answer, Question question) {
    const std::lock_guard lock(fake_.mutex_);
    fake_.questions_.push_back(std::move(question));
    if (fake_.says_ == Says::kNothing) {
      held_.push_back(std::move(answer));
    } else {
      Give(answer, fake_.says_);
    }
  }

  static void Give(sdbus::Result<Verdict>& answer, Says says) {
    switch (says) {
      case Says::kYes:
        answer.returnResults(Verdict{true, false, Details()});
        return;
      case Says::kChallenge:
        answer.returnResults(Verdict{false, true, Details()});
        return;
      case Says::kDismissed:
        answer.returnResults(
            Verdict{false, true, Details{{"polkit.dismissed", "true"}}});
        return;
      case Says::kError:
        answer.returnError(
            sdbus::Error(sdbus::Error::Name(kFailed), "it was told to"));
        return;
      default:
        answer.returnResults(Verdict{false, false, Details()});
    }
  }

  FakePolkit& fake_;
  const std::unique_ptr<sdbus::IConnection> bus_;
  std::vector<sdbus::Result<Verdict>> held_;  // guarded by fake_.mutex_
  const std::unique_ptr<sdbus::IObject> object_;
  std::thread loop_;
};

FakePolkit::FakePolkit(Says says)
    : says_(says), server_(std::make_unique<Server>(*this)) {}

FakePolkit::~FakePolkit() = default;

void FakePolkit::Say(Says says) {
  const std::lock_guard lock(mutex_);
  says_ = says;
}

void FakePolkit::Answer(Says says) { server_->AnswerHeld(says); }

std::vector<FakePolkit::Question> FakePolkit::questions() const {
  const std::lock_guard lock(mutex_);
  return questions_;
}

}  // namespace mountd::test
