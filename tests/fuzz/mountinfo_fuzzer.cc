// SPDX-License-Identifier: LGPL-2.1-or-later
// /proc/<pid>/mountinfo as libmount and the executor read it. Other users
// choose the mount points. The text may be inconsistent, because the kernel
// prints it in pieces while mounts move.
#include <algorithm>
#include <set>
#include <string>

#include "propagation/ground/mount_inspector.h"
#include "propagation/look/mountinfo_excerpt.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/refusing_kernel.h"

namespace mountd::fuzz {
namespace {

// A kernel whose only file is the input.
class MountinfoKernel final : public RefusingKernel {
 public:
  explicit MountinfoKernel(std::string text) : text_(std::move(text)) {}
  exec::Sys<std::string> ReadFile(int /*dir*/, const std::string& /*name*/,
                                  std::size_t limit) override {
    return text_.size() <= limit ? exec::Sys<std::string>(text_) : EFBIG;
  }

 private:
  const std::string text_;
};

void CheckBelow(const propagation::MountInspector& inspector,
                std::uint64_t id) {
  const auto children = inspector.Children(id);
  Require(children.has_value(), "children cannot be told");
  for (const exec::MountFacts& child : *children) {
    Require(child.parent_id == id, "a child of another mount");
  }
  const auto below = propagation::Descendants(inspector, id);
  const auto count = inspector.CountBelow(id);
  Require(below.has_value() && count.has_value(), "mounts cannot be counted");
  Require(*count == below->size(), "mounts below are not those counted");
}

void Check(const std::string& text) {
  MountinfoKernel kernel(text);
  const propagation::MountinfoInspector inspector(kernel);
  const auto parsed = propagation::ParseMountinfo(text);
  const auto all = inspector.All();
  // An excerpt has whole lines, and no more places than mounts.
  const auto excerpt = propagation::ExcerptOf(text, {0x801, 0x1f});
  Require(!excerpt || excerpt->places.size() <= excerpt->mounts.size(),
          "an excerpt has more places than mounts");
  Require(parsed.has_value() == all.has_value(), "two readings differ");
  if (!parsed) {
    return;
  }
  Require(parsed->size() == all->size(), "two readings differ in size");
  constexpr std::size_t kSome = 16;
  for (std::size_t i = 0; i < std::min(parsed->size(), kSome); ++i) {
    const auto facts = inspector.Facts(parsed->at(i).id);
    Require(facts.has_value() && facts->id == parsed->at(i).id,
            "a mount that is there is not found");
    CheckBelow(inspector, parsed->at(i).id);
  }
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  constexpr std::size_t kMost = 16384;
  if (size <= kMost) {
    mountd::fuzz::Check(std::string(mountd::fuzz::TextOf(data, size)));
  }
  return 0;
}
