// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/driver/images/image_store.h"
#include "tests/agent/driver/images/image_files.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver::test {

// The user that the tests of this program become, and the first of its
// subordinate ids: container id 0 is the user, and n is kFirstSubid + n - 1.
inline constexpr unsigned kUser = 20000;
inline constexpr unsigned kFirstSubid = 100000;
inline constexpr unsigned kSubids = 65535;

// Returns the fd of that user's user namespace; -1 where root's right to map
// ids is missing. The program is that user, without any capability, from its
// first test on.
int TaskNamespace();

// Each test has an empty store and a directory for the images that it makes.
class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  ImageStoreOptions Options() const;
  ImageStore OpenStore() const { return StoreWith(Options()); }
  ImageStore StoreWith(const ImageStoreOptions& options) const;
  Result<Image> Prepare(const std::string& reference) const;
  Result<Image> PrepareWith(const ImageStoreOptions& options,
                            const std::string& reference) const;
  std::string File(const std::string& name) const {
    return directory_.File(name);
  }
  // Runs a program as 0:0 of the namespace, and returns its stdout.
  std::string InNamespace(const std::vector<std::string>& command) const;
  // "0:0 100644" and so on: owner and mode in hexadecimal, as stat(1) says.
  std::string FactsOf(const std::string& path) const;
  // The names in the store's directory work/.
  std::vector<std::string> Work() const;
  // Writes a program that does `lines` of sh and then becomes `program`.
  std::string Wrapper(const std::string& name, const std::string& lines,
                      const std::string& program) const;

  TempDirectory directory_;
};

}  // namespace mountd::driver::test
