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

// Owns the records of attachments, on a file system that goes with the boot:
//
//   records/<container id>@<ifname>   one Record, replaced as a whole
//   locks/<container id>@<ifname>     held while an operation is about it
//   locks/@                           shared by all operations on attachments,
//                                     held alone by GC (CNI 1.1, section 2)
//
// A second directory outlives the boot, because some plugins keep things on
// disk (host-local its leases):
//
//   <container id>@<ifname>           the Record before its first plugin ran
//
// The runner writes this second record once, and syncs it to the disk. The
// record does not contain plugins' answers, because these describe objects that
// end with the boot.
class StateDir {
 public:
  // Makes both directories, mode 0700. If `kept` is "", nothing outlives the
  // boot. PermissionDenied if others than root have access.
  static Result<StateDir> Open(const std::string& path,
                               const std::string& kept);

  // Returns the record; nothing if there is none. InvalidArgument if it cannot
  // be read.
  Result<std::optional<Record>> Load(const Attachment& attachment) const;
  bool IsOfEarlierBoot(const Attachment& attachment) const;
  Result<void> Save(const Record& record) const;
  // Writes the second record. Call this before the first Save and before any
  // plugin runs.
  Result<void> Keep(const Record& record) const;
  // Removes both records. Missing ones are success.
  Result<void> Remove(const Attachment& attachment) const;
  // Returns all attachments, sorted, also those of an earlier boot.
  Result<std::vector<Attachment>> List() const;

  // Locks the attachment until the fd is closed. DeadlineExceeded if the lock
  // is not free in time. Aborted once `stop` is readable.
  Result<UniqueFd> Lock(const Attachment& attachment, const Deadline& deadline,
                        int stop) const;
  enum class Share { kWithOthers, kAlone };
  Result<UniqueFd> LockAll(Share share, const Deadline& deadline,
                           int stop) const;

  // Removes the lock's file. The caller holds the lock.
  void ForgetLock(const Attachment& attachment) const;
  // Removes locks without a record, whose holders were killed. The caller holds
  // the shared lock alone.
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
