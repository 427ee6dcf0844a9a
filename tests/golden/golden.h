// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

// Golden files: texts that mountd shows to people and programs, as files of
// tests/golden/. A test compares the text of now with its file. There is one
// way to renew the files:
//
//   UPDATE_GOLDEN=1 ctest --preset dev -R Golden
//
// A test then writes its file and counts as skipped. CI fails on a skipped
// test, so CI cannot pass by writing the files.
namespace mountd::test {

// Expects that `text` is the content of tests/golden/<name>. The failure shows
// the difference, or says that there is no such file. The name of the calling
// suite ends in "Golden", because the command above selects it by that.
void ExpectGolden(const std::string& name, const std::string& text);

// Expects that tests/golden/<folder> has these files and no other, so that no
// file stays behind when its test goes.
void ExpectGoldenFiles(const std::string& folder,
                       std::vector<std::string> names);

// Does the work of ExpectGolden in any folder, for golden.cc and its test.
// Returns "" if the file at `path` holds `text`, else what to tell a person.
// With `update` writes the file instead, in directories that it makes.
std::string CompareWithGolden(const std::string& path, const std::string& text,
                              bool update);

}  // namespace mountd::test
