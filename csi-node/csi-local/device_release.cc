// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/device_release.h"

#include <chrono>
#include <thread>
#include <utility>

#include "csi-node/csi-local/contents.h"
#include "csi-node/csi-local/device_holders.h"

namespace mountd::csi_local {
namespace {

constexpr int kReleaseTries = 100;
constexpr std::chrono::milliseconds kReleasePause(20);
// AddAnyLoop tries several numbers, because another program may have devices of
// these numbers.
constexpr int kNumberTries = 32;

Result<int> AddAnyLoop(Store* store) {
  for (int i = 0; i < kNumberTries; ++i) {
    MOUNTD_ASSIGN(const int number, store->data().loop_numbers().Take());
    const Result<void> added = AddLoop(number);
    if (added) {
      return number;
    }
    if (added.error().code != Code::kAlreadyExists) {
      return added.error();
    }
  }
  return MakeError(Code::kUnavailable, "LOOP_CTL_ADD", "",
                   "other programs use the loop devices of all numbers that "
                   "csi-local may take");
}

Result<void> SetNumber(Store* store, VolumeRecord* record, int number) {
  record->set_loop_number(number);
  record->set_releasing(false);
  return store->PutVolume(*record);
}

Error StillOpen(const VolumeRecord& record) {
  const int number = record.loop_number();
  return MakeError(
      Code::kFailedPrecondition, "release", record.id(),
      "its device /dev/loop" + std::to_string(number) + " is still used by " +
          DescribeHolders(LoopDeviceId(number)) + "; end these and call again");
}

}  // namespace

Result<LoopDevice> TakeDevice(Store* store, VolumeRecord* record, LoopUse use) {
  MOUNTD_ASSIGN(const UniqueFd image,
                OpenImage(store->data().volumes(), record->id()));
  MOUNTD_ASSIGN(const int number, AddAnyLoop(store));
  // Writes the number into the record before it binds the device, so that a
  // kill in between leaves no bound device without a record.
  if (Result<void> noted = SetNumber(store, record, number); !noted) {
    // No record names the device, so nothing else would remove it.
    record->set_loop_number(0);
    IgnoreBecauseBestEffort(RemoveLoop(number));
    return std::move(noted).error();
  }
  Result<LoopDevice> loop =
      BindLoop(number, image, store->data().LabelOf(record->id()), use);
  if (!loop) {
    // If this fails as well, the next use or the next start removes the device.
    IgnoreBecauseBestEffort(ReleaseDevice(store, record));
  }
  return loop;
}

Result<void> ReleaseDevice(Store* store, VolumeRecord* record) {
  if (record->loop_number() == 0) {
    return Ok();
  }
  if (!record->releasing()) {
    // Writes this first, so that csi-local does not hold the device again after
    // a restart.
    record->set_releasing(true);
    MOUNTD_TRY(store->PutVolume(*record));
  }
  // This process's own descriptor would keep the device.
  store->holds().Drop(record->id());
  for (int i = 0; i < kReleaseTries; ++i) {
    MOUNTD_ASSIGN(const bool removed, RemoveLoop(record->loop_number()));
    if (removed) {
      return SetNumber(store, record, 0);
    }
    std::this_thread::sleep_for(kReleasePause);
  }
  return StillOpen(*record);
}

}  // namespace mountd::csi_local
