// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/mman.h>

#include "tests/contract/machine.h"
#include "tests/support/fakes/fake_executor.h"

namespace mountd::testing {
namespace {

class FakeMachine final : public Machine {
 public:
  exec::Executor& executor() override { return fake_; }

  std::set<std::string> Made() override {
    const std::vector<std::string> all = fake_.Existing();
    return {all.begin(), all.end()};
  }

  Held UseTarget(const std::string& name) override {
    return Busy("web/app/" + name);
  }
  Held UseVolume(const std::string& volume) override { return Busy(volume); }
  Held Listen(std::uint16_t port) override {
    fake_.PutHostSocket(port);
    return std::make_shared<std::uint16_t>(port);
  }

  void LoseTarget(const std::string& name) override {
    fake_.LoseMount("web/app/" + name);
  }
  void CoverTarget(const std::string& name) override {
    fake_.ReplaceMount("web/app/" + name);
  }
  void LoseNamespace(const std::string& allocation) override {
    fake_.TakeNamespace(allocation);
  }

  UniqueFd Tree(std::uint64_t files) override {
    fake_.SetTree(files);
    return UniqueFd(::memfd_create("tree", MFD_CLOEXEC));
  }

 private:
  Held Busy(const std::string& object) {
    fake_.SetBusy(object);
    return {nullptr, [this, object](void*) { fake_.SetBusy(object, false); }};
  }

  exec::FakeExecutor fake_;
};

}  // namespace

std::unique_ptr<Machine> MakeMachine() {
  return std::make_unique<FakeMachine>();
}

}  // namespace mountd::testing
