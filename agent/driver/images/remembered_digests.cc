// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/remembered_digests.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "agent/driver/images/beneath.h"
#include "agent/driver/images/digest.h"
#include "agent/driver/images/image_layout.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/write_all.h"

namespace mountd::driver {
namespace {

constexpr std::string_view kFirstLine = "mountd-image 1\n";
constexpr std::size_t kMaxFile = 4096;
constexpr std::size_t kDigestLine = 65;  // 64 digits and the end of the line

std::string TimeText(const timespec& time) {
  return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
}

Result<std::string> IdentityOfFile(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    return ErrnoError(errno, "stat", path);
  }
  if (!S_ISREG(facts.st_mode)) {
    return MakeError(Code::kInvalidArgument, "stat", path,
                     "must be a regular file");
  }
  return "file " + std::to_string(facts.st_dev) + " " +
         std::to_string(facts.st_ino) + " " + std::to_string(facts.st_size) +
         " " + TimeText(facts.st_mtim) + " " + TimeText(facts.st_ctim);
}

Result<std::string> IdentityInLayout(const ImageReference& reference) {
  MOUNTD_ASSIGN(const UniqueFd layout, OpenTree(reference.path));
  const std::string object = reference.ToText();
  MOUNTD_ASSIGN(const Descriptor found,
                FindImage(layout.get(), reference.tag, object));
  // Checks the manifest's digest here, because skopeo checks only the digests
  // of the layers and of the configuration.
  MOUNTD_TRY(ReadBlob(layout.get(), found, "the manifest of " + object));
  return "descriptor " + found.digest;
}

// Returns the file's content; "" if there is none.
std::string ReadKnown(const std::string& directory, const std::string& key) {
  const Result<UniqueFd> opened = OpenTree(directory);
  if (!opened) {
    return "";
  }
  Result<std::string> text = ReadBeneath(opened->get(), key, kMaxFile, key);
  return text ? std::move(text).value() : "";
}

// Returns the digest at the end of a complete file; "" if the file is not
// complete.
std::string DigestIn(const std::string& text) {
  if (!text.starts_with(kFirstLine) || text.size() < kDigestLine ||
      text.back() != '\n') {
    return "";
  }
  std::string digest = text.substr(text.size() - kDigestLine, kDigestLine - 1);
  return IsSha256Hex(digest) ? digest : "";
}

std::string Content(const std::string& identity, const std::string& digest) {
  return std::string(kFirstLine) + identity + "\n" + digest + "\n";
}

}  // namespace

Result<std::string> IdentityOf(const ImageReference& reference) {
  return reference.kind == ImageReference::Kind::kOci
             ? IdentityInLayout(reference)
             : IdentityOfFile(reference.path);
}

std::optional<std::string> RememberedDigests::Find(
    const std::string& key, const std::string& identity) const {
  const std::string text = ReadKnown(directory_, key);
  std::string digest = DigestIn(text);
  if (digest.empty() || text != Content(identity, digest)) {
    return std::nullopt;
  }
  return digest;
}

Result<void> RememberedDigests::Put(const std::string& key,
                                    const std::string& identity,
                                    const std::string& digest,
                                    const std::string& beside) const {
  const std::string path = directory_ + "/" + key;
  {
    const UniqueFd file(::open(beside.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                               S_IRUSR | S_IWUSR));
    if (!file.valid()) {
      return ErrnoError(errno, "open", beside);
    }
    MOUNTD_TRY(WriteAll(file.get(), Content(identity, digest), beside));
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    return ErrnoError(errno, "rename", path);
  }
  return Ok();
}

void RememberedDigests::KeepOnly(const std::set<std::string>& kept) const {
  std::error_code failed;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory_, failed)) {
    const std::string name = entry.path().filename();
    if (IsSha256Hex(name) &&
        kept.count(DigestIn(ReadKnown(directory_, name))) == 0) {
      std::error_code ignored;
      std::filesystem::remove(entry.path(), ignored);
    }
  }
}

}  // namespace mountd::driver
