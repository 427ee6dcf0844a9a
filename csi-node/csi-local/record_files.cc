// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/record_files.h"

#include <fcntl.h>
#include <google/protobuf/text_format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "csi-node/csi-local/files.h"
#include "mountd/base/names.h"
#include "mountd/base/write_all.h"

namespace mountd::csi_local {
namespace {

using google::protobuf::TextFormat;

constexpr std::size_t kMaxRecord = 64 * 1024;
// No valid name has this character (IsValidName), so a file that is being
// written never hides a record.
constexpr char kTemporary = '~';

}  // namespace

Result<void> RecordFiles::Sync() {
  return ::fsync(directory_.get()) == 0
             ? Ok()
             : Result<void>(ErrnoError(errno, "fsync", "records"));
}

Result<void> RecordFiles::Put(const std::string& id,
                              const google::protobuf::Message& record) {
  std::string text;
  TextFormat::PrintToString(record, &text);
  const std::string temporary = id + kTemporary;
  {
    // O_TRUNC and not O_EXCL, because a crash before the rename leaves this
    // file.
    const UniqueFd file(
        ::openat(directory_.get(), temporary.c_str(),
                 O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) {
      return ErrnoError(errno, "openat", id);
    }
    MOUNTD_TRY(WriteAll(file.get(), text, id));
    // Syncs the file before the rename, so that a power cut never leaves an
    // empty record.
    if (::fsync(file.get()) != 0) {
      return ErrnoError(errno, "fsync", id);
    }
  }
  if (::renameat(directory_.get(), temporary.c_str(), directory_.get(),
                 id.c_str()) != 0) {
    return ErrnoError(errno, "renameat", id);
  }
  return Sync();
}

Result<void> RecordFiles::Get(const std::string& id,
                              google::protobuf::Message* record) const {
  const UniqueFd file(IsValidName(id)
                          ? ::openat(directory_.get(), id.c_str(),
                                     O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
                          : -1);
  if (!file.valid() && (!IsValidName(id) || errno == ENOENT)) {
    return MakeError(Code::kNotFound, "record", id, "no record has this id");
  }
  if (!file.valid()) {
    return ErrnoError(errno, "openat", id);
  }
  MOUNTD_ASSIGN(const std::string text, ReadAll(file.get(), kMaxRecord, id));
  TextFormat::Parser parser;
  // A later release may have written more fields.
  parser.AllowUnknownField(true);
  record->Clear();
  if (!parser.ParseFromString(text, record)) {
    return MakeError(Code::kInternal, "record", id, "is not readable");
  }
  return Ok();
}

Result<void> RecordFiles::Remove(const std::string& id) {
  // ENOENT: an earlier try has removed it.
  if (::unlinkat(directory_.get(), id.c_str(), 0) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "unlinkat", id);
  }
  return Sync();
}

Result<void> RecordFiles::RemoveUnfinished() {
  MOUNTD_ASSIGN(const auto names, ListNames(directory_.get()));
  for (const std::string& name : names) {
    if (name.back() == kTemporary) {
      MOUNTD_TRY(Remove(name));
    }
  }
  return Ok();
}

Result<std::vector<std::string>> RecordFiles::List() const {
  MOUNTD_ASSIGN(std::vector<std::string> names, ListNames(directory_.get()));
  names.erase(
      std::remove_if(names.begin(), names.end(),
                     [](const auto& name) { return !IsValidName(name); }),
      names.end());
  return names;
}

}  // namespace mountd::csi_local
