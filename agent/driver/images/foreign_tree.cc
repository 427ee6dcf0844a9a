// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/foreign_tree.h"

#include <optional>
#include <string>
#include <string_view>

#include "agent/driver/images/confined.h"
#include "mountd/base/number.h"
#include "mountd/base/one_line.h"

namespace mountd::driver {
namespace {

constexpr std::uint64_t kBlock = 512;

// Sums up the lines "<blocks> <links>" of find.
class SizeLines {
 public:
  SizeLines(const TreeSize& most, TreeSize& sum) : most_(most), sum_(sum) {}

  // Returns false once the sum is beyond the bound.
  bool Take(std::string_view bytes) {
    rest_ += bytes;
    std::size_t begin = 0;
    for (std::size_t end = rest_.find('\n'); end != std::string::npos;
         end = rest_.find('\n', begin)) {
      Add(std::string_view(rest_).substr(begin, end - begin));
      begin = end + 1;
    }
    rest_.erase(0, begin);
    return !IsBeyond(sum_, most_);
  }

 private:
  void Add(std::string_view line) {
    const std::size_t space = line.find(' ');
    const auto blocks = ParseNumber<std::uint64_t>(line.substr(0, space));
    const auto links = space == std::string_view::npos
                           ? std::nullopt
                           : ParseNumber<std::uint64_t>(line.substr(space + 1));
    ++sum_.files;
    if (blocks && links && *links > 0) {
      // Counts a share of the file for each of its names, so that the shares of
      // all its names add up to the file's size.
      sum_.bytes += *blocks * kBlock / *links;
    }
  }

  const TreeSize most_;
  TreeSize& sum_;
  std::string rest_;
};

// Says why a program failed, or that somebody has killed it.
Error ProgramFailure(const char* program, const ForeignTree& tree,
                     const ProgramEnd& end) {
  if (end.status < 0) {
    return MakeError(
        Code::kUnavailable, program, tree.name,
        "was killed by signal " + std::to_string(-end.status) + "; call again");
  }
  return MakeError(Code::kInternal, program, tree.name, OnOneLine(end.text));
}

}  // namespace

Result<TreeSize> MeasureTree(const ForeignTree& tree, const TreeSize& most,
                             std::chrono::steady_clock::time_point deadline) {
  TreeSize sum;
  SizeLines lines(most, sum);
  Confinement confinement;
  confinement.user_namespace = tree.user_namespace;
  Supervision supervision;
  supervision.deadline = deadline;
  supervision.output = [&lines](std::string_view bytes) {
    return lines.Take(bytes);
  };
  // "%b %n" prints blocks and the number of links. A directory counts its
  // subdirectories as links, so find prints 1 for it instead (-type d).
  MOUNTD_ASSIGN(const ProgramEnd end,
                RunConfined(confinement,
                            {"/usr/bin/find", tree.directory + "/" + tree.name,
                             "-xdev", "(", "-type", "d", "-printf", "%b 1\\n",
                             ")", "-o", "-printf", "%b %n\\n"},
                            supervision));
  // Status 1: somebody removed a file during the walk.
  if (!end.stopped && end.status != 0 && end.status != 1) {
    return ProgramFailure("find", tree, end);
  }
  return sum;
}

Result<void> RemoveTree(const ForeignTree& tree, int inherited,
                        std::chrono::steady_clock::time_point deadline) {
  Confinement confinement;
  confinement.user_namespace = tree.user_namespace;
  confinement.writable = tree.directory;
  confinement.inherited = inherited;
  Supervision supervision;
  supervision.deadline = deadline;
  MOUNTD_ASSIGN(
      const ProgramEnd end,
      RunConfined(confinement,
                  {"/usr/bin/rm", "-rf", "--one-file-system", "--", tree.name},
                  supervision));
  if (end.status != 0) {
    return ProgramFailure("rm", tree, end);
  }
  return Ok();
}

}  // namespace mountd::driver
