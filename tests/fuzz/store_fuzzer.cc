// SPDX-License-Identifier: LGPL-2.1-or-later
// The stores: columns that contain JSON, and whole files, as a failing disk or
// another program may have left them. Either opening fails, or the store works.
// The first byte says which: c a column; b and s a file of the boot's and of
// the state's store with bytes written over it; B and S all of such a file.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "mountd/store/boot_store.h"
#include "mountd/store/columns.h"
#include "mountd/store/state_store.h"
#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {
namespace {

constexpr char kBoot[] = "11111111-2222-3333-4444-555555555555";

// Requires that a column that was read stays the same when it is written and
// read again.
template <typename Read>
void CheckColumn(const Read& read, std::string_view text) {
  const std::string once = store::ToColumn(read(text));
  Require(store::ToColumn(read(once)) == once, "a column is another");
}

void CheckColumns(std::string_view text) {
  CheckColumn(store::MapFromColumn, text);
  CheckColumn(store::FilesFromColumn, text);
  CheckColumn(store::CniSettingsFromColumn, text);
  CheckColumn(store::CniResultFromColumn, text);
  CheckColumn(store::PortsFromColumn, text);
  CheckColumn(store::IdsFromColumn, text);
  CheckColumn(store::TmpfsFromColumn, text);
  CheckColumn(store::FileSystemFromColumn, text);
  CheckColumn(store::ReceiptVolumesFromColumn, text);
  CheckColumn(store::TextsFromColumn, text);
  CheckColumn(store::FingerprintFromColumn, text);
}

// Owns a directory in memory that belongs to this process.
class Place {
 public:
  Place() {
    std::string directory = ::access("/dev/shm", W_OK) == 0
                                ? "/dev/shm/mountd-fuzz-XXXXXX"
                                : "/tmp/mountd-fuzz-XXXXXX";
    Require(::mkdtemp(directory.data()) != nullptr, "no directory");
    directory_ = directory;
  }
  ~Place() {
    Clear();
    ::rmdir(directory_.c_str());
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  std::string path() const { return directory_ + "/store.db"; }
  void Clear() const {
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      ::unlink((path() + suffix).c_str());
    }
  }
  void Write(const std::string& bytes) const {
    Clear();
    std::ofstream(path(), std::ios::binary) << bytes;
  }
  std::string Read() const {
    std::ifstream stream(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream),
            std::istreambuf_iterator<char>()};
  }

 private:
  std::string directory_;
};

const Place& ThePlace() {
  static const Place place;
  return place;
}

MountRecord AMount() {
  MountRecord mount;
  mount.allocation = "web";
  mount.task = "server";
  mount.name = "data";
  return mount;
}

template <typename List>
void Ignore(const List& list) {
  IgnoreBecauseBestEffort(list);
}

void UseBoot(store::BootStore* boot) {
  Ignore(boot->mounts.ListMounts());
  Ignore(boot->mounts.MountsOf("web"));
  Ignore(boot->mounts.CountMounts("web"));
  Ignore(boot->mounts.TmpfsBytesOf("web"));
  Ignore(boot->anchors.ListAnchors());
  Ignore(boot->networks.ListNetworks());
  Ignore(boot->networks.ListQuarantine());
  Ignore(boot->inboxes.InboxesOf("web"));
  if (boot->mounts.PutMount(AMount())) {
    Ignore(boot->mounts.GetMount("web", "server", "data"));
    Ignore(boot->mounts.RemoveMount(AMount()));
  }
}

void UseState(store::StateStore* state) {
  Ignore(state->allocations.ListAllocations());
  Ignore(state->plugins.ListPlugins());
  Ignore(state->plugins.ListFingerprints());
  Ignore(state->plugins.ListFormerNodeIds());
  Ignore(state->plugins.ListRemovedNodeIds());
  Ignore(state->volumes.ListVolumes());
  Ignore(state->volumes.ListPublications());
  Ignore(state->allocations.GetReceipt("web"));
  Ignore(state->leases.ListLeases());
  Ignore(state->leases.ListFences());
  AllocationRecord allocation;
  allocation.id = "web";
  if (state->allocations.AddAllocation(allocation)) {
    Ignore(state->allocations.GetAllocation("web"));
  }
}

void Open(bool of_boot) {
  if (of_boot) {
    if (const auto boot = store::BootStore::Open(ThePlace().path())) {
      UseBoot(boot->get());
    }
  } else if (const auto state =
                 store::StateStore::Open(ThePlace().path(), kBoot)) {
    UseState(state->get());
  }
}

// Returns a store with some rows.
std::string Sample(bool of_boot) {
  ThePlace().Clear();
  if (of_boot) {
    const auto boot = store::BootStore::Open(ThePlace().path());
    Require(boot && boot.value()->mounts.PutMount(AMount()),
            "no store can be made");
  } else {
    const auto state = store::StateStore::Open(ThePlace().path(), kBoot);
    AllocationRecord allocation;
    allocation.id = "db";
    Require(state && state.value()->allocations.AddAllocation(allocation),
            "no store can be made");
  }
  return ThePlace().Read();
}

void CheckWrittenOver(bool of_boot, Input* input) {
  static const std::string boot = Sample(true);
  static const std::string state = Sample(false);
  std::string bytes = of_boot ? boot : state;
  while (!input->empty()) {
    const std::size_t at = input->Take<std::uint32_t>() % bytes.size();
    const std::string_view some = input->Bytes(1 + input->UpTo(31));
    if (some.empty()) {
      bytes.resize(at + 1);
    }
    bytes.replace(at, std::min(some.size(), bytes.size() - at), some);
  }
  ThePlace().Write(bytes);
  Open(of_boot);
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace mountd::fuzz;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  switch (const char which = input.Take<char>(); which) {
    case 'b':
    case 's':
      CheckWrittenOver(which == 'b', &input);
      break;
    case 'B':
    case 'S':
      ThePlace().Write(std::string(input.Rest()));
      Open(which == 'B');
      break;
    default:
      CheckColumns(input.Rest());
      break;
  }
  return 0;
}
