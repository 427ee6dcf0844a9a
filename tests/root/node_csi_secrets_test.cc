// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Where a secret and a mount flag could be found.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/root/node_csi_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

// A sanitizer's shadow of the memory: terabytes.
#ifdef MOUNTD_SANITIZED
constexpr bool kHasShadow = true;
#else
constexpr bool kHasShadow = false;
#endif

constexpr char kCanary[] = "canary-5f0e7b21d4";

// Whether the text is in any file below it.
bool IsInFiles(const std::string& directory, const std::string& text) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) {
      continue;
    }
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(file)),
                              std::istreambuf_iterator<char>());
    if (content.find(text) != std::string::npos) {
      ADD_FAILURE() << entry.path();
      return true;
    }
  }
  return false;
}

pid_t PidOf(const UniqueFd& pidfd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(pidfd.get()));
  std::string line;
  while (std::getline(info, line)) {
    if (line.starts_with("Pid:")) {
      return std::stoi(line.substr(4));
    }
  }
  return -1;
}

// Whether the text is in this part of a process's memory; in chunks that
// overlap, as reserved memory is larger than what is there.
bool IsInRange(int memory, unsigned long begin, unsigned long end,
               const std::string& text) {
  constexpr std::size_t kChunk = std::size_t{1} << 20U;
  std::string chunk(kChunk, '\0');
  for (unsigned long at = begin; at < end; at += kChunk - text.size()) {
    const ssize_t got =
        ::pread(memory, chunk.data(), std::min<std::size_t>(kChunk, end - at),
                static_cast<off_t>(at));
    if (got <= 0) {
      return false;
    }
    if (std::string_view(chunk.data(), static_cast<std::size_t>(got))
            .find(text) != std::string_view::npos) {
      return true;
    }
    if (end - at <= kChunk) {
      return false;
    }
  }
  return false;
}

// Whether the text is in the writable memory of a process: what a core of it
// would hold.
bool IsInMemory(pid_t pid, const std::string& text) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::ifstream maps(process + "/maps");
  const UniqueFd memory(
      ::open((process + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(memory.valid());
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long begin = 0;
    unsigned long end = 0;
    std::array<char, 5> mode{};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode.data()) ==
            3 &&
        mode[1] == 'w' && IsInRange(memory.get(), begin, end, text)) {
      ADD_FAILURE() << process << ": " << line;
      return true;
    }
  }
  return false;
}

TEST_F(NodeCsi, ASecretIsFoundNowhere) {
  const std::string secret = std::string(kCanary) + "-secret";
  const std::string flag = std::string(kCanary) + "-flag";
  agent::VolumeSpec spec = Volume();
  spec.secrets = {{"password", secret}};
  spec.usage.mount_flags = {flag};
  std::string texts;
  for (const char* action : {"code 3", "code 14", ""}) {
    Tell("NodeStageVolume", action);
    const auto published = client_->PublishVolume("web", spec);
    texts += published ? "" : published.error().Message();
  }
  const auto published = client_->PublishVolume("web", spec);
  ASSERT_EQ(MessageOf(published), "Ok");
  spec.usage.mount_flags = {flag + "2"};
  const auto other = client_->PublishVolume("web", spec);
  texts += other ? "" : other.error().Message();
  const auto volumes = client_->ListVolumes();
  ASSERT_TRUE(volumes) << volumes.error().Message();
  for (const agent::StagedVolume& volume : *volumes) {
    texts += volume.plugin + volume.volume + volume.state + volume.fs_type;
  }
  texts += node_->Log();
  EXPECT_EQ(texts.find(kCanary), std::string::npos) << texts;
  EXPECT_FALSE(IsInFiles("/var/lib", kCanary));
  EXPECT_FALSE(IsInFiles("/run/mountd/state", kCanary));
  for (const char* name : {"mountd", "mountd-exec", "mountd-csi"}) {
    for (const UniqueFd& process : Node::Processes(name)) {
      const std::string proc = "/proc/" + std::to_string(PidOf(process));
      for (const char* file : {"/cmdline", "/environ"}) {
        std::ifstream in(proc + file, std::ios::binary);
        const std::string content((std::istreambuf_iterator<char>(in)),
                                  std::istreambuf_iterator<char>());
        EXPECT_EQ(content.find(kCanary), std::string::npos) << proc << file;
      }
    }
  }
  // The secret is the plugin's host's to read; mountd never has it. The flags
  // come to it in a message, but no core of it can be.
  for (const UniqueFd& process : Node::Processes("mountd")) {
    EXPECT_FALSE(!kHasShadow && IsInMemory(PidOf(process), secret));
    std::ifstream limits("/proc/" + std::to_string(PidOf(process)) + "/limits");
    const std::string text((std::istreambuf_iterator<char>(limits)),
                           std::istreambuf_iterator<char>());
    EXPECT_NE(text.find("Max core file size        0 "), std::string::npos)
        << text;
  }
  ExpectReleased();
}

}  // namespace
}  // namespace mountd::testing
