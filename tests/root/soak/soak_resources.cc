// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/soak/soak_resources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "mountd/base/number.h"
#include "tests/support/node/node.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

// Returns the number after "Name:" in /proc/<pid>/status.
long StatusOf(const fs::path& process, const std::string& name) {
  std::ifstream status(process / "status");
  for (std::string word; status >> word;) {
    long value = 0;
    if (word == name + ":" && status >> value) {
      return value;
    }
  }
  return 0;
}

// Leaves out the network namespaces that an executor keeps ready, each with one
// socket, because a busy machine makes it keep more of them for a while.
long FdsOf(const fs::path& process) {
  std::error_code gone;
  long fds = 0;
  for (fs::directory_iterator it(process / "fd", gone), end; !gone && it != end;
       it.increment(gone)) {
    std::error_code closed;
    const std::string target = fs::read_symlink(it->path(), closed).string();
    fds += target.starts_with("net:") ? -1 : 1;
  }
  return fds;
}

void AddProcesses(const std::string& name, SoakResources* into) {
  for (const UniqueFd& pidfd : Node::Processes(name)) {
    const fs::path process = "/proc/" + std::to_string(Node::PidOf(pidfd));
    SoakResources& all = *into;
    // The largest process counts, because the number of processes is a figure
    // of its own.
    const auto most = [&](const char* what, long value) {
      long& place = all[name + " " + what];
      place = std::max(place, value);
    };
    most("rss_kb", StatusOf(process, "VmRSS"));
    most("threads", StatusOf(process, "Threads"));
    most("fds", FdsOf(process));
    ++all[name + " processes"];
  }
}

// Adds the size of a store with its write-ahead log.
void AddStore(const std::string& path, SoakResources* into) {
  long bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code none;
    const auto size = fs::file_size(path + suffix, none);
    bytes += none ? 0 : static_cast<long>(size);
  }
  (*into)[fs::path(path).filename().string() + " kb"] = bytes / 1024;
}

long Median(std::vector<long> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A thread has at most two fds of its own, and so has an idle executor.
long SlackOf(const std::string& what, long first) {
  if (what.ends_with("rss_kb")) {
    return 1024 + first / 10;
  }
  if (what.ends_with(" kb")) {
    return 64 + first / 4;
  }
  return what.ends_with("fds") ? 6 : 4;
}

}  // namespace

SoakResources TakeSoakResources() {
  SoakResources sample;
  for (const char* name :
       {"mountd", "mountd-closer", "mountd-exec", "mountd-csi", "csi-local"}) {
    AddProcesses(name, &sample);
  }
  AddStore("/run/mountd/state/boot.db", &sample);
  AddStore("/var/lib/mountd/state.db", &sample);
  return sample;
}

std::string SoakSeries::Growth() const {
  const std::size_t begin = samples_.size() / 4;
  const std::size_t third = (samples_.size() - begin) / 3;
  if (third == 0) {
    return "there are too few samples\n";
  }
  std::set<std::string> names;
  for (const SoakResources& sample : samples_) {
    for (const auto& [name, unused] : sample) {
      names.insert(name);
    }
  }
  const auto median_from = [&](std::size_t from, const std::string& name) {
    std::vector<long> values;
    for (std::size_t i = from; i < from + third; ++i) {
      const auto found = samples_[i].find(name);
      values.push_back(found == samples_[i].end() ? 0 : found->second);
    }
    return Median(values);
  };
  std::string text;
  for (const std::string& name : names) {
    const long first = median_from(begin, name);
    const long last = median_from(samples_.size() - third, name);
    if (last > first + SlackOf(name, first)) {
      text += name + " grew from " + std::to_string(first) + " to " +
              std::to_string(last) + "\n";
    }
  }
  return text;
}

std::string SoakSeries::Text() const {
  std::string text;
  for (const SoakResources& sample : samples_) {
    for (const auto& [name, value] : sample) {
      text += name + "=" + std::to_string(value) + "; ";
    }
    text += "\n";
  }
  return text;
}

}  // namespace mountd::testing
