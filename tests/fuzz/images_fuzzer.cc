// SPDX-License-Identifier: LGPL-2.1-or-later
// Image references, the documents of images, and the accounts of their root
// file systems. The first byte says which of them the rest is. Each accepted
// value keeps the rules that a task's start relies on.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "agent/driver/images/digest.h"
#include "agent/driver/images/image_config.h"
#include "agent/driver/images/image_layout.h"
#include "agent/driver/images/image_reference.h"
#include "agent/driver/images/task_user.h"
#include "mountd/base/paths.h"
#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {
namespace {

// Owns a directory that is a layout and a root file system, for all inputs.
class Tree {
 public:
  Tree() {
    Require(::mkdtemp(path_.data()) != nullptr, "no directory");
    fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char* name : {"etc", "blobs", "blobs/sha256"}) {
      Require(::mkdirat(fd_, name, 0700) == 0, "no directory");
    }
  }
  ~Tree() {
    for (const char* name : {"index.json", "etc/passwd", "etc/group"}) {
      ::unlinkat(fd_, name, 0);
    }
    for (const char* name : {"blobs/sha256", "blobs", "etc"}) {
      ::unlinkat(fd_, name, AT_REMOVEDIR);
    }
    ::rmdir(path_.c_str());
    ::close(fd_);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void Write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }
  void Remove(const std::string& name) const {
    ::unlinkat(fd_, name.c_str(), 0);
  }
  int fd() const { return fd_; }

 private:
  std::string path_ = "/tmp/mountd-fuzz-images-XXXXXX";
  int fd_ = -1;
};

const Tree& TheTree() {
  static const Tree tree;
  return tree;
}

bool HasZero(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

void CheckReference(std::string_view text) {
  const auto reference = driver::ParseImageReference(text);
  if (!reference) {
    return;
  }
  Require(paths::IsNormalised(reference->path), "a path has a meaning");
  Require(reference->kind == driver::ImageReference::Kind::kDirectory ||
              reference->path.find(':') == std::string::npos,
          "an image's path has a ':'");
  Require(reference->tag.find_first_of("@ ,") == std::string::npos,
          "a tag is more than a tag");
  const auto again = driver::ParseImageReference(reference->ToText());
  Require(again && *again == *reference, "a reference is another one");
}

void CheckConfig(std::string_view text) {
  const auto config = driver::ParseImageConfig(text, "image");
  if (!config) {
    return;
  }
  for (const auto* texts :
       {&config->entrypoint, &config->command, &config->environment}) {
    Require(std::none_of(texts->begin(), texts->end(), HasZero),
            "an argument ends before its text");
  }
  for (const std::string& variable : config->environment) {
    const std::size_t equals = variable.find('=');
    Require(equals != std::string::npos && equals > 0,
            "a variable has no name");
  }
  Require(config->working_directory.empty() ||
              config->working_directory.front() == '/',
          "a working directory is relative");
  Require(config->stop_signal >= 0 && config->stop_signal <= 64,
          "a signal is none");
}

void CheckIndex(std::string_view text) {
  TheTree().Write("index.json", text);
  for (const char* tag : {"", "v1"}) {
    const auto found = driver::FindImage(TheTree().fd(), tag, "image");
    Require(!found || driver::IsSha256Hex(found->digest),
            "a digest is no file name");
  }
}

void CheckManifest(std::string_view text) {
  const driver::Descriptor blob{"", driver::Sha256Hex(text), text.size()};
  TheTree().Write("blobs/sha256/" + blob.digest, text);
  const auto manifest = driver::ReadManifest(TheTree().fd(), blob, "image");
  TheTree().Remove("blobs/sha256/" + blob.digest);
  if (!manifest) {
    return;
  }
  Require(manifest->layers.size() <= driver::kMaxLayers, "too many layers");
  Require(driver::IsSha256Hex(manifest->config.digest),
          "a digest is no file name");
  for (const driver::Descriptor& layer : manifest->layers) {
    Require(driver::IsSha256Hex(layer.digest), "a digest is no file name");
  }
}

// A user, /etc/passwd and /etc/group, with a line "--" before each of the
// files.
void CheckUser(std::string_view text) {
  constexpr std::string_view kMark = "\n--\n";
  const std::size_t first = std::min(text.find(kMark), text.size());
  const std::string_view user = text.substr(0, first);
  text.remove_prefix(std::min(first + kMark.size(), text.size()));
  const std::size_t second = std::min(text.find(kMark), text.size());
  TheTree().Write("etc/passwd", text.substr(0, second));
  text.remove_prefix(std::min(second + kMark.size(), text.size()));
  TheTree().Write("etc/group", text);
  const auto found = driver::ResolveUser(TheTree().fd(), user);
  if (!found) {
    return;
  }
  constexpr unsigned kMost = 0x7fffffff;
  Require(found->uid <= kMost && found->gid <= kMost, "an id is too large");
  Require(found->home.front() == '/' && !HasZero(found->home),
          "a home is no path");
  Require(found->additional_gids.size() <= 1024, "too many groups");
}

void CheckSignal(std::string_view text) {
  const auto number = driver::ParseSignal(text);
  Require(!number || (*number >= 1 && *number <= 64), "a signal is none");
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using Check = void (*)(std::string_view);
  static constexpr Check kChecks[] = {
      mountd::fuzz::CheckReference, mountd::fuzz::CheckConfig,
      mountd::fuzz::CheckIndex,     mountd::fuzz::CheckManifest,
      mountd::fuzz::CheckUser,      mountd::fuzz::CheckSignal};
  mountd::fuzz::Input input(data, size);
  // The digits '0' to '5' choose the checks in this order.
  const Check check = input.OneOf(kChecks);
  check(input.Rest());
  return 0;
}
