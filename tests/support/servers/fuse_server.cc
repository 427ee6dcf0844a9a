// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/servers/fuse_server.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "mountd/base/unique_fd.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

constexpr std::string_view kContent = "content";

// How the server treats requests. A signal to the server changes it.
enum Way { kAnswers, kFailsOneRead, kSwallows };
volatile std::sig_atomic_t way = kAnswers;

struct Node {
  std::uint64_t id;
  std::uint64_t parent;
  std::string_view name;
  std::uint32_t mode;
};

constexpr std::array<Node, 4> kNodes = {{
    {FUSE_ROOT_ID, FUSE_ROOT_ID, "", S_IFDIR | 0755},
    {2, FUSE_ROOT_ID, "file", S_IFREG | 0644},
    {3, FUSE_ROOT_ID, "dir", S_IFDIR | 0755},
    {4, 3, "inner", S_IFDIR | 0755},
}};

fuse_attr AttributesOf(const Node& node) {
  fuse_attr attributes = {};
  attributes.ino = node.id;
  attributes.mode = node.mode;
  attributes.nlink = 1;
  attributes.size = S_ISREG(node.mode) ? kContent.size() : 0;
  attributes.blksize = 4096;
  return attributes;
}

// Serves one request after the other, in the child, until the file system is
// gone.
class Session {
 public:
  Session(int fd, FuseServer::Writes writes,
          std::atomic<std::uint32_t>* swallowed)
      : fd_(fd), writes_(writes), swallowed_(swallowed) {}

  void Run() {
    for (;;) {
      const ssize_t size = ::read(fd_, buffer_.data(), buffer_.size());
      if (size < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) {
        continue;  // ENOENT: interrupted before it could be read
      }
      if (size < static_cast<ssize_t>(sizeof(fuse_in_header))) {
        return;
      }
      std::memcpy(&in_, buffer_.data(), sizeof(in_));
      // The mount itself waits for the answer to FUSE_INIT.
      if (way == kSwallows && in_.opcode != FUSE_INIT) {
        swallowed_->fetch_add(HasAnswer() ? 1 : 0);
      } else if (way == kFailsOneRead && in_.opcode == FUSE_READ) {
        Fail(EIO);
        way = kSwallows;
      } else {
        Serve();
      }
    }
  }

 private:
  bool HasAnswer() const {
    return in_.opcode != FUSE_FORGET && in_.opcode != FUSE_BATCH_FORGET &&
           in_.opcode != FUSE_INTERRUPT;
  }

  void Serve() {
    switch (in_.opcode) {
      case FUSE_INIT:
        return Init();
      case FUSE_LOOKUP:
        return Lookup();
      case FUSE_GETATTR: {
        fuse_attr_out out = {};
        const Node* node = Find(in_.nodeid);
        out.attr = AttributesOf(node != nullptr ? *node : kNodes.front());
        return node != nullptr ? Answer(out) : Fail(ENOENT);
      }
      case FUSE_OPEN:
      case FUSE_OPENDIR:
        return Answer(fuse_open_out{});
      case FUSE_READ: {
        const auto from = std::min<std::size_t>(
            Arguments<fuse_read_in>().offset, kContent.size());
        return Answer(kContent.data() + from, kContent.size() - from);
      }
      case FUSE_WRITE: {
        fuse_write_out out = {};
        out.size = Arguments<fuse_write_in>().size;
        return Answer(out);
      }
      case FUSE_SETATTR: {
        fuse_attr_out out = {};
        const Node* node = Find(in_.nodeid);
        out.attr = AttributesOf(node != nullptr ? *node : kNodes.front());
        return Answer(out);
      }
      case FUSE_STATFS:
        return Answer(fuse_statfs_out{});
      case FUSE_READDIR:  // empty, because tests know the names
      case FUSE_RELEASE:
      case FUSE_RELEASEDIR:
      case FUSE_FLUSH:
        return Answer(nullptr, 0);
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:
        return;  // these requests have no answer
      default:
        return Fail(ENOSYS);
    }
  }

  void Init() {
    fuse_init_out out = {};
    out.major = FUSE_KERNEL_VERSION;
    out.minor = FUSE_KERNEL_MINOR_VERSION;
    out.max_write = 4096;
    out.time_gran = 1;
    if (writes_ == FuseServer::Writes::kWriteback) {
      out.flags = FUSE_WRITEBACK_CACHE;
      out.max_background = 64;
      out.congestion_threshold = 64;
    }
    Answer(out);
  }

  void Lookup() {
    const std::string_view name(buffer_.data() + sizeof(in_));
    for (const Node& node : kNodes) {
      if (node.parent == in_.nodeid && node.name == name && !name.empty()) {
        // The entry's validity is 0, so the kernel asks each time.
        fuse_entry_out out = {};
        out.nodeid = node.id;
        out.attr = AttributesOf(node);
        return Answer(out);
      }
    }
    Fail(ENOENT);
  }

  static const Node* Find(std::uint64_t id) {
    const auto* found =
        std::find_if(kNodes.begin(), kNodes.end(),
                     [id](const Node& node) { return node.id == id; });
    return found != kNodes.end() ? found : nullptr;
  }

  template <typename T>
  T Arguments() const {
    T arguments = {};
    std::memcpy(&arguments, buffer_.data() + sizeof(in_), sizeof(arguments));
    return arguments;
  }

  template <typename T>
  void Answer(const T& out) {
    Answer(&out, sizeof(out));
  }
  void Answer(const void* out, std::size_t size) { Write(0, out, size); }
  void Fail(int error) { Write(-error, nullptr, 0); }

  // Ignores errors, because the kernel reports one only if nobody waits any
  // more.
  void Write(int error, const void* out, std::size_t size) const {
    fuse_out_header header = {};
    header.len = static_cast<std::uint32_t>(sizeof(header) + size);
    header.error = error;
    header.unique = in_.unique;
    const std::array<iovec, 2> parts = {
        {{&header, sizeof(header)}, {const_cast<void*>(out), size}}};
    (void)!::writev(fd_, parts.data(), size == 0 ? 1 : 2);
  }

  const int fd_;
  const FuseServer::Writes writes_;
  std::atomic<std::uint32_t>* const swallowed_;
  fuse_in_header in_ = {};
  // Room for one written page and its header.
  std::array<char, 2 * FUSE_MIN_READ_BUFFER> buffer_{};
};

[[noreturn]] void RunServer(int fd, pid_t parent, FuseServer::Writes writes,
                            std::atomic<std::uint32_t>* swallowed) {
  constexpr int kOnly = 0;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent || ::dup2(fd, kOnly) < 0 ||
      ::close_range(kOnly + 1, ~0U, 0) != 0) {
    ::_exit(1);
  }
  Session(kOnly, writes, swallowed).Run();
  ::_exit(0);
}

}  // namespace

FuseServer::FuseServer(const std::string& path, Writes writes) {
  const UniqueFd fd(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!fd.valid()) {
    return;
  }
  const std::string options =
      "fd=" + std::to_string(fd.get()) +
      ",rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions";
  if (::mount("mountd-test", path.c_str(), "fuse", MS_NOSUID | MS_NODEV,
              options.c_str()) != 0) {
    return;
  }
  void* const page =
      ::mmap(nullptr, sizeof(*swallowed_), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return;
  }
  swallowed_ =
      std::construct_at(static_cast<std::atomic<std::uint32_t>*>(page));
  // The server inherits the handlers, so no signal comes too early.
  const auto before =
      std::pair(std::signal(SIGUSR1, [](int) { way = kSwallows; }),
                std::signal(SIGUSR2, [](int) { way = kFailsOneRead; }));
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    RunServer(fd.get(), parent, writes, swallowed_);
  }
  std::signal(SIGUSR1, before.first);
  std::signal(SIGUSR2, before.second);
}

FuseServer::~FuseServer() {
  Die();
  if (swallowed_ != nullptr) {
    ::munmap(swallowed_, sizeof(*swallowed_));
  }
}

void FuseServer::Hang() {
  int status = 0;
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, &status, WUNTRACED);
}

void FuseServer::GoOn() { ::kill(pid_, SIGCONT); }

// The server reads the request of a later call with the new way, because the
// kernel runs a handler before a system call returns.
void FuseServer::Swallow() { ::kill(pid_, SIGUSR1); }

void FuseServer::FailReadAndSwallow() { ::kill(pid_, SIGUSR2); }

bool FuseServer::AwaitSwallowed() const {
  return Eventually([&] { return swallowed_->load() != 0; });
}

void FuseServer::Die() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
}

pid_t StatInChild(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    struct stat st = {};
    ::_exit(::stat(path.c_str(), &st) == 0 ? 0 : errno);
  }
  return child;
}

bool AwaitWaiting(pid_t child) {
  for (int i = 0; i < 5000; ++i) {
    std::ifstream file("/proc/" + std::to_string(child) + "/wchan");
    std::string where;
    file >> where;
    if (where.find("request_wait_answer") != std::string::npos) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

bool AwaitUnkillable(pid_t process) {
  for (int i = 0; i < 5000; ++i) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    std::getline(file, line);
    // The line is "<pid> (<name>) <state> …", and a name may contain anything.
    const std::size_t at = line.rfind(") ");
    if (at != std::string::npos && line.compare(at + 2, 1, "D") == 0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

int ExitOf(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace mountd::testing
