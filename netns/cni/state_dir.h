// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "netns/cni/deadline.h"
#include "netns/cni/record.h"

namespace mountd::cni {

// What is known of attachments, on a file system that goes with the boot:
//
//   records/<container id>@<ifname>   one Record, replaced as a whole
//   locks/<container id>@<ifname>     held while an operation is about it
//   locks/@                           shared by all operations on attachments,
//                                     held alone by GC (CNI 1.1, section 2)
//
// and, as plugins keep some things on disk (host-local its leases), in a
// directory that does not:
//
//   <container id>@<ifname>           the Record before its first plugin ran
//
// This is written once and to the disk, as an answer of a plugin tells of what
// goes with the boot.
class StateDir {
 public:
  // Makes both, mode 0700; `kept` may be "", and then nothing outlives the
  // boot. PermissionDenied where others than root have access.
  static Result<StateDir> Open(const std::string& path,
                               const std::string& kept);

  // Nothing where there is none; InvalidArgument for one that cannot be read.
  Result<std::optional<Record>> Load(const Attachment& attachment) const;
  bool IsOfEarlierBoot(const Attachment& attachment) const;
  Result<void> Save(const Record& record) const;
  // Before the first Save, and any plugin.
  Result<void> Keep(const Record& record) const;
  // None there is fine.
  Result<void> Remove(const Attachment& attachment) const;
  // In their order, those of an earlier boot among them.
  Result<std::vector<Attachment>> List() const;

  // Until the fd is closed. DeadlineExceeded, or Aborted once `stop` is
  // readable.
  Result<UniqueFd> Lock(const Attachment& attachment, const Deadline& deadline,
                        int stop) const;
  enum class Share { kWithOthers, kAlone };
  Result<UniqueFd> LockAll(Share share, const Deadline& deadline,
                           int stop) const;

  // The lock's file, too, while it is held.
  void ForgetLock(const Attachment& attachment) const;
  // Those that nobody came to: their holders were killed. While all is locked
  // alone.
  Result<void> ForgetLocksWithoutRecords() const;

 private:
  StateDir(UniqueFd records, UniqueFd locks, UniqueFd kept);
  bool IsRecorded(const Attachment& attachment) const;
  Result<UniqueFd> LockFile(const std::string& name, int operation,
                            const Deadline& deadline, int stop) const;

  UniqueFd records_;
  UniqueFd locks_;
  UniqueFd kept_;  // -1: none
};

}  // namespace mountd::cni
