// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-csi-proxy as an orchestrator without root uses it: with a whole mountd
// and a plugin that fails as the test says.
#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include "tests/root/node/csi_proxy_fixture.h"

namespace mountd::testing {
namespace {

using ::testing::HasSubstr;

// Returns "Ok", or the code's number and the text.
std::string Told(const grpc::Status& status) {
  return status.ok() ? "Ok"
                     : std::to_string(status.error_code()) + " " +
                           status.error_message();
}

TEST_F(CsiProxyNode, AVolumeIsAtItsTargetUntilItIsUnpublished) {
  const std::string target = Target("a");
  ASSERT_EQ(Told(PublishAt(target)), "Ok");
  EXPECT_EQ(MountsOn(target), 1U);
  std::ofstream(target + "/file") << "text";
  EXPECT_TRUE(std::filesystem::exists(std::string(kFaults) + "/data/76/file"));
  ASSERT_EQ(Told(PublishAt(target)), "Ok") << "the same call again";
  EXPECT_EQ(MountsOn(target), 1U);
  ASSERT_EQ(Told(UnpublishAt(target)), "Ok");
  ExpectNoPublication();
  ASSERT_EQ(Told(UnpublishAt(target)), "Ok") << "the same call again";
  ASSERT_EQ(Told(PublishAt(target)), "Ok") << "the same path again";
  ASSERT_EQ(Told(UnpublishAt(target)), "Ok");
  ExpectNoPublication();
}

}  // namespace
}  // namespace mountd::testing
