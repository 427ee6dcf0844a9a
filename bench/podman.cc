// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/podman.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "bench/network_way.h"
#include "bench/programs.h"
#include "tests/support/node/node.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;
using testing::kAgentUid;

constexpr char kHome[] = "/run/bench/podman";
constexpr char kRuntimeDirectory[] = "/run/bench/podman/run";
constexpr char kImage[] = "localhost/bench";
constexpr char kPodman[] = "/usr/bin/podman";

// Without fuse-overlayfs podman takes vfs, which copies the whole image for
// each container. The kernel's overlay is what the driver has, too.
constexpr char kStorage[] = "[storage]\ndriver = \"overlay\"\n";
// The kernel gives an ordinary user 200 keys (keyrings(7)), so no more
// containers with a keyring of their own could be present.
constexpr char kContainers[] = "[containers]\nkeyring = false\n";

Result<void> GiveToUser(const std::string& path, mode_t mode) {
  if (::chmod(path.c_str(), mode) != 0 ||
      ::chown(path.c_str(), kAgentUid, kAgentUid) != 0) {
    return ErrnoError(errno, "chown", path);
  }
  return Ok();
}

// Lets each user open /dev/net/tun, as udev does.
Result<void> MakeTun() {
  constexpr char kTun[] = "/dev/net/tun";
  constexpr unsigned kMisc = 10;
  constexpr unsigned kTunMinor = 200;
  const std::string node = "/run/bench/tun";
  if (::mknod(node.c_str(), S_IFCHR, ::makedev(kMisc, kTunMinor)) != 0 ||
      ::chmod(node.c_str(), 0666) != 0 ||
      ::mount(node.c_str(), kTun, nullptr, MS_BIND, nullptr) != 0) {
    return ErrnoError(errno, "make", kTun);
  }
  return Ok();
}

Result<std::string> Run(std::vector<std::string> words) {
  words.insert(words.begin(), kPodman);
  return RunProgram(
      {.command = std::move(words),
       .environment = {std::string("HOME=") + kHome,
                       std::string("TMPDIR=") + kHome,
                       std::string("XDG_RUNTIME_DIR=") + kRuntimeDirectory}});
}

Result<void> RunSilently(std::vector<std::string> words) {
  MOUNTD_TRY(Run(std::move(words)));
  return Ok();
}

std::string VolumeOf(const std::string& container) {
  return "volume-of-" + container;
}

}  // namespace

Result<void> Podman::MakeHost() {
  for (const char* program :
       {kPodman, "/usr/bin/slirp4netns", "/usr/lib/podman/rootlessport"}) {
    if (!IsProgram(program)) {
      return MakeError(Code::kNotSupported, "find", program,
                       "is not installed");
    }
  }
  const std::string configuration = std::string(kHome) + "/.config/containers";
  fs::create_directories(kRuntimeDirectory);
  fs::create_directories(configuration);
  std::ofstream(configuration + "/storage.conf") << kStorage;
  std::ofstream(configuration + "/containers.conf") << kContainers;
  MOUNTD_TRY(GiveToUser(kHome, 0755));
  MOUNTD_TRY(GiveToUser(kRuntimeDirectory, 0700));
  if (::mount("podman-locks", "/dev/shm", "tmpfs", 0, "mode=1777") != 0) {
    return ErrnoError(errno, "mount", "/dev/shm");
  }
  return MakeTun();
}

Result<std::unique_ptr<Podman>> Podman::Make() {
  const std::string archive = std::string(kHome) + "/image.tar";
  MOUNTD_TRY(
      RunProgram({.command = {"/usr/bin/tar", "--create", "--file=" + archive,
                              "--directory=/run/bench/image", "."}}));
  MOUNTD_TRY(Run({"import", archive, kImage}));
  return std::unique_ptr<Podman>(new Podman);
}

Podman::~Podman() {
  IgnoreBecauseBestEffort(StopAll());
  IgnoreBecauseBestEffort(RunSilently({"system", "migrate"}));
}

Result<void> Podman::Start(const std::string& container,
                           const std::vector<std::uint16_t>& ports) const {
  std::vector<std::string> words = {"run", "--detach", "--name=" + container};
  for (const std::uint16_t port : ports) {
    for (const char* protocol : {"tcp", "udp"}) {
      words.push_back("--publish=" + std::to_string(port) + ":" +
                      std::to_string(ContainerPort(port)) + "/" + protocol);
    }
  }
  for (const char* path : {"/data", "/more"}) {
    words.push_back("--volume=" + VolumeOf(container) + ":" + path);
  }
  words.insert(words.end(),
               {"--volume=/usr:/usr:ro", kImage, "/bin/sleep", "1000000"});
  return RunSilently(std::move(words));
}

Result<void> Podman::Stop(const std::string& container) const {
  MOUNTD_TRY(Run({"rm", "--force", "--time=0", container}));
  return RunSilently({"volume", "rm", VolumeOf(container)});
}

Result<void> Podman::StopAll() const {
  MOUNTD_TRY(Run({"rm", "--all", "--force", "--time=0"}));
  return RunSilently({"volume", "prune", "--force"});
}

std::string Podman::Version() {
  const Result<std::string> told = Run({"--version"});
  return told ? told->substr(0, told->find('\n')) : "podman";
}

}  // namespace mountd::bench
