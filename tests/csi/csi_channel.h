// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csi-node/client/csi_channel_client.h"
#include "tests/csi/process.h"
#include "tests/csi/sandbox.h"

namespace mountd::csi {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ConnectNow;
using testing::ConnectWithin;
using testing::Process;

inline Clock::time_point In(milliseconds time) { return Clock::now() + time; }
inline Clock::time_point Soon() { return In(seconds(20)); }

template <typename T>
RpcCode CodeOf(const RpcResult<T>& result) {
  return result ? RpcCode::kOk : result.error().code;
}

// Runs the whole way: CsiChannelClient, the process mountd-csi, a plugin's
// process.
class CsiChannel : public testing::Sandbox {
 protected:
  void SetUp() override {
    Sandbox::SetUp();
    if (IsSkipped()) {
      return;
    }
    fs::create_directories(root() + "/staging/v");
    fs::create_directory(root() + "/publish");
    csi_socket_ = root() + "/mountd-csi.sock";
    listener_ = testing::Listen(csi_socket_);
    StartMountdCsi();
    StartPlugin({CSI_LOCAL, "--endpoint", Socket(), "--data-dir",
                 root() + "/data", "--node-id", "node-1", "--create-on-stage"});
    client_ = MakeClient();
    ASSERT_EQ(RpcCode::kOk, CodeOf(client_->Open(ref_, ToPlugin())));
  }

  void TearDown() override {
    client_.reset();
    plugin_ = Process();
    mountd_csi_ = Process();
    Sandbox::TearDown();
  }

  std::string Socket() const { return root() + "/csi.sock"; }

  void StartMountdCsi() {
    mountd_csi_ = Process({MOUNTD_CSI, "--peer-user",
                           std::to_string(::getuid()), "--listen-fd", "3"},
                          listener_);
  }
  void StartPlugin(const std::vector<std::string>& argv) {
    plugin_ = Process(argv);
    ASSERT_TRUE(ToPlugin().valid());
  }
  UniqueFd ToPlugin() const { return ConnectWithin(Socket(), 20); }

  std::unique_ptr<CsiChannelClient> MakeClient() {
    return std::make_unique<CsiChannelClient>(
        [this]() -> Result<UniqueFd> {
          UniqueFd fd = ConnectNow(csi_socket_);
          if (!fd.valid()) {
            return MakeError(Code::kUnavailable, "connect", "mountd-csi");
          }
          return fd;
        },
        [this] {
          const std::lock_guard lock(mutex_);
          ++disconnects_;
          changed_.notify_all();
        });
  }
  bool WaitForDisconnects(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20),
                             [&] { return disconnects_ >= count; });
  }

  // Starts the fake plugin in place of csi-local, as the channel `fake_`.
  void UseFakePlugin() {
    fake_socket_ = root() + "/fake.sock";
    fake_plugin_ = Process({FAKE_PLUGIN, fake_socket_});
    ASSERT_EQ(RpcCode::kOk,
              CodeOf(client_->Open(fake_, ConnectWithin(fake_socket_, 20))));
  }

  StageRequest Stage(const std::string& volume = "v") const {
    StageRequest request;
    request.volume_id = volume;
    request.staging_target_path = root() + "/staging/v";
    return request;
  }
  PublishRequest Publish() const {
    PublishRequest request;
    request.volume_id = "v";
    request.staging_target_path = root() + "/staging/v";
    request.target_path = root() + "/publish/a";
    return request;
  }
  void UndoAll(const ChannelRef& ref) {
    EXPECT_EQ(RpcCode::kOk, CodeOf(client_->NodeUnpublishVolume(
                                ref, "v", root() + "/publish/a", Soon())));
    EXPECT_EQ(RpcCode::kOk, CodeOf(client_->NodeUnstageVolume(
                                ref, "v", root() + "/staging/v", Soon())));
  }

  const ChannelRef ref_{"local", 1};
  const ChannelRef next_{"local", 2};
  const ChannelRef fake_{"fake", 1};
  std::string csi_socket_;
  std::string fake_socket_;
  UniqueFd listener_;
  Process mountd_csi_;
  Process plugin_;
  Process fake_plugin_;
  std::unique_ptr<CsiChannelClient> client_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int disconnects_ = 0;  // guarded by mutex_
};

}  // namespace mountd::csi
