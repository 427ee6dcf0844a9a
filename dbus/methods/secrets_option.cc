// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/secrets_option.h"

#include <fcntl.h>
#include <sdbus-c++/Types.h>
#include <sys/stat.h>

#include "dbus/receive/inbound.h"

namespace mountd::dbus {
namespace {

// With these seals nobody can change the secrets after this check (fcntl(2),
// "File Sealing").
constexpr int kAllSeals =
    F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

Result<std::shared_ptr<UniqueFd>> SecretsFrom(OptionReader& reader) {
  const auto given = reader.Get<sdbus::UnixFd>("secrets", sdbus::UnixFd());
  if (!given.isValid()) {
    return std::make_shared<UniqueFd>();
  }
  const std::shared_ptr<UniqueFd> secrets = TakePassed(given.get());
  // Fails for files that cannot have seals, such as those of a disk's file
  // system (fcntl(2)).
  const int seals = secrets->valid() ? fcntl(secrets->get(), F_GET_SEALS) : -1;
  if (seals < 0 || (seals & kAllSeals) != kAllSeals) {
    return MakeError(
        Code::kInvalidArgument, "check", "options[\"secrets\"]",
        "must be a memfd with the seals seal, write, shrink and grow");
  }
  return secrets;
}

std::string IdentityOf(const UniqueFd& secrets) {
  struct stat file {};
  return secrets.valid() && fstat(secrets.get(), &file) == 0
             ? std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino)
             : std::string();
}

}  // namespace mountd::dbus
