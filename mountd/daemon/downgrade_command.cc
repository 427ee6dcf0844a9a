// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/daemon/downgrade_command.h"

#include <spdlog/spdlog.h>
#include <sysexits.h>

#include <array>
#include <cstdlib>
#include <iostream>

#include "mountd/store/downgrade.h"

namespace mountd {
namespace {

void PrintDowngraded(const store::DowngradedStore& store) {
  if (store.from == 0) {
    std::cout << store.path << ": there is no store\n";
    return;
  }
  if (store.from == store.to) {
    std::cout << store.path << ": has schema " << store.from
              << ", which mountd " << store::kLastRelease << " reads\n";
    return;
  }
  std::cout << store.path << ": schema " << store.from << " became schema "
            << store.to << " of mountd " << store::kLastRelease << "\n"
            << "  copy: " << store.copy << "\n";
  for (const std::string& fact : store.lost) {
    std::cout << "  lost: " << fact << "\n";
  }
}

}  // namespace

int DowngradeTheStores(const std::string& boot, const std::string& state) {
  const std::array stores = {
      store::StoreToDowngrade{boot, store::kReleasedBoot},
      store::StoreToDowngrade{state, store::kReleasedState}};
  const Result<void> done = store::DowngradeStores(stores, PrintDowngraded);
  std::cout.flush();
  if (!done) {
    spdlog::error("{}", done.error().Message());
    return done.error().code == Code::kUnavailable ? EX_TEMPFAIL : EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

}  // namespace mountd
