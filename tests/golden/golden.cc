// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/golden/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

namespace mountd::test {
namespace {

constexpr char kHow[] = "UPDATE_GOLDEN=1 ctest --preset dev -R Golden";

bool MayUpdate() {
  // The tests have one thread here, and none changes its environment.
  const char* update = std::getenv("UPDATE_GOLDEN");  // NOLINT
  return update != nullptr && std::string_view(update) == "1";
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  // A last line without an end is another text than one with an end.
  if (!text.empty() && text.back() != '\n') {
    lines.back() += "\\ no newline at the end";
  }
  return lines;
}

// Returns the lines from the first to the last that differ, as diff(1) marks
// them.
std::string DifferenceOf(const std::string& golden, const std::string& text) {
  std::vector<std::string> old = LinesOf(golden);
  std::vector<std::string> now = LinesOf(text);
  while (!old.empty() && !now.empty() && old.back() == now.back()) {
    old.pop_back();
    now.pop_back();
  }
  const auto [first, other] =
      std::mismatch(old.begin(), old.end(), now.begin(), now.end());
  std::string difference =
      "@@ line " + std::to_string(first - old.begin() + 1) + "\n";
  std::for_each(first, old.end(), [&](const std::string& line) {
    difference += "-" + line + "\n";
  });
  std::for_each(other, now.end(), [&](const std::string& line) {
    difference += "+" + line + "\n";
  });
  return difference;
}

}  // namespace

std::string CompareWithGolden(const std::string& path, const std::string& text,
                              bool update) {
  if (update) {
    std::error_code error;  // the write below then fails
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path(), error);
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    return file ? "" : path + ": cannot be written";
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return path + ": is not there; " + kHow + " writes it";
  }
  const std::string golden(std::istreambuf_iterator<char>(file), {});
  return golden == text
             ? ""
             : path + ": differs; read the difference, and if it is meant, " +
                   kHow + " renews the file\n" + DifferenceOf(golden, text);
}

void ExpectGolden(const std::string& name, const std::string& text) {
  const bool update = MayUpdate();
  const std::string fault = CompareWithGolden(
      std::string(MOUNTD_GOLDEN_DIR) + "/" + name, text, update);
  EXPECT_EQ(fault, "");
  if (update) {
    GTEST_SKIP() << "wrote tests/golden/" << name;
  }
}

void ExpectGoldenFiles(const std::string& folder,
                       std::vector<std::string> names) {
  std::vector<std::string> found;
  const std::string path = std::string(MOUNTD_GOLDEN_DIR) + "/" + folder;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(found, names) << path << ": remove the files that no test names";
}

}  // namespace mountd::test
