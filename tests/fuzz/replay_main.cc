// SPDX-License-Identifier: LGPL-2.1-or-later
// Runs a fuzz target without libFuzzer, once with each file of its corpus.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"

namespace {

int Replay(const std::filesystem::path& corpus) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    if (entry.is_regular_file()) {
      files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    std::fprintf(stderr, "%s is empty\n", corpus.c_str());
    return EXIT_FAILURE;
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    // The name is printed first, so it is the last line if the target crashes.
    std::fprintf(stderr, "%s\n", file.filename().c_str());
    std::ifstream stream(file, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(stream)),
                            std::istreambuf_iterator<char>());
    if (!stream) {
      std::fprintf(stderr, "%s cannot be read\n", file.c_str());
      return EXIT_FAILURE;
    }
    // The buffer has exactly the input's size, so that a sanitizer sees a read
    // beyond it.
    const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::fprintf(stderr, "%zu inputs\n", files.size());
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "Usage: %s CORPUS_DIRECTORY\n", argv[0]);
    return EXIT_FAILURE;
  }
  try {
    return Replay(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
