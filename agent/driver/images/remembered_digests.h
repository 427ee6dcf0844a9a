// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <set>
#include <string>

#include "agent/driver/images/image_reference.h"
#include "mountd/base/result.h"

namespace mountd::driver {

// Returns a text that changes when the reference's image does: the digest that
// a layout's index has, or an archive's inode, size and times. NotFound if
// there is no such image. InvalidArgument if an archive is no regular file.
Result<std::string> IdentityOf(const ImageReference& reference);

// Remembers each reference's digest together with the identity that the
// reference had, in one file each, so that an archive is read again only after
// a change. A file that is missing, cut off or of another release counts as
// unknown.
class RememberedDigests {
 public:
  explicit RememberedDigests(std::string directory)
      : directory_(std::move(directory)) {}

  // `key` is the SHA-256 of the reference's text.
  std::optional<std::string> Find(const std::string& key,
                                  const std::string& identity) const;

  // Writes the file `beside`, which must not exist yet, and renames it. One
  // caller at a time for each key.
  Result<void> Put(const std::string& key, const std::string& identity,
                   const std::string& digest, const std::string& beside) const;

  // Forgets the references whose digest is not in `kept`.
  void KeepOnly(const std::set<std::string>& kept) const;

 private:
  std::string directory_;
};

}  // namespace mountd::driver
