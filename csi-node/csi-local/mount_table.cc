// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/mount_table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <optional>

#include "csi-node/csi-local/files.h"
#include "mountd/base/number.h"

namespace mountd::csi_local {
namespace {

// This bound is enough for 10,000 mounts with long paths.
constexpr std::size_t kMaxTable = 64 << 20;

Error Malformed() {
  return MakeError(Code::kInternal, "mountinfo", "", "is not readable");
}

// Removes the word before the next separator, and the separator, from `text`.
// Returns the word.
std::string_view Next(std::string_view* text, char separator) {
  const std::size_t end = std::min(text->find(separator), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

// mountinfo writes space, tab, newline and backslash as a backslash and three
// octal digits.
std::string Unescape(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const auto code = text[0] == '\\' && text.size() >= 4
                          ? ParseNumber<unsigned char>(text.substr(1, 3), 8)
                          : std::nullopt;
    plain += code ? static_cast<char>(*code) : text[0];
    text.remove_prefix(code ? 4 : 1);
  }
  return plain;
}

}  // namespace

bool MountEntry::HasSuperOption(std::string_view option) const {
  for (std::string_view rest = super_options; !rest.empty();) {
    if (Next(&rest, ',') == option) {
      return true;
    }
  }
  return false;
}

Result<MountEntry> ParseMountEntry(std::string_view line) {
  MountEntry entry;
  const auto id = ParseNumber<std::uint64_t>(Next(&line, ' '));
  Next(&line, ' ');  // the parent's id
  std::string_view device = Next(&line, ' ');
  const auto major_number = ParseNumber<unsigned>(Next(&device, ':'));
  const auto minor_number = ParseNumber<unsigned>(device);
  if (!id || !major_number || !minor_number) {
    return Malformed();
  }
  entry.id = *id;
  entry.device = makedev(*major_number, *minor_number);
  entry.root = Unescape(Next(&line, ' '));
  entry.point = Unescape(Next(&line, ' '));
  Next(&line, ' ');  // the mount's own options
  while (!line.empty() && Next(&line, ' ') != "-") {
  }
  entry.fs_type = Next(&line, ' ');
  entry.source = Unescape(Next(&line, ' '));
  entry.super_options = line;
  return entry.fs_type.empty() ? Result<MountEntry>(Malformed())
                               : Result<MountEntry>(std::move(entry));
}

Result<std::vector<MountEntry>> ReadMountTable(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return ErrnoError(errno, "open", path);
  }
  MOUNTD_ASSIGN(const std::string text,
                ReadAll(file.get(), kMaxTable, "mountinfo"));
  std::vector<MountEntry> entries;
  for (std::string_view rest = text; !rest.empty();) {
    MOUNTD_ASSIGN(MountEntry entry, ParseMountEntry(Next(&rest, '\n')));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<MountEntry> MountOf(const UniqueFd& fd) {
  struct statx status {};
  // STATX_MNT_ID is the reusable id, which mountinfo shows.
  if (::statx(fd.get(), "", AT_EMPTY_PATH, STATX_MNT_ID, &status) != 0) {
    return ErrnoError(errno, "statx", "");
  }
  MOUNTD_ASSIGN(std::vector<MountEntry> entries, ReadMountTable());
  for (MountEntry& entry : entries) {
    if (entry.id == status.stx_mnt_id) {
      return std::move(entry);
    }
  }
  return MakeError(Code::kNotFound, "mountinfo", "",
                   "the mount does not exist");
}

}  // namespace mountd::csi_local
