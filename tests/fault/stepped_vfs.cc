// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/stepped_vfs.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <string>

namespace mountd::testing {
namespace {

Steps* g_steps = nullptr;

// SQLite's view of a file, with the real file behind it in the same memory.
struct SteppedFile {
  sqlite3_file base;
  char name[32];
  sqlite3_file* real;
};

SteppedFile* Of(sqlite3_file* file) {
  return reinterpret_cast<SteppedFile*>(file);
}
sqlite3_file* RealOf(sqlite3_file* file) { return Of(file)->real; }

sqlite3_vfs* RealVfs(sqlite3_vfs* vfs) {
  return static_cast<sqlite3_vfs*>(vfs->pAppData);
}

template <typename Call>
int Step(const char* what, const char* name, int failure, const Call& call) {
  const int error = g_steps->Begin(std::string("store ") + what + " " + name);
  if (error != 0) {
    return error == ENOSPC ? SQLITE_FULL : failure;
  }
  const int status = call();
  g_steps->End();
  return status;
}

int Close(sqlite3_file* file) {
  const int status = RealOf(file)->pMethods->xClose(RealOf(file));
  return status;
}
int Read(sqlite3_file* file, void* into, int size, sqlite3_int64 offset) {
  return RealOf(file)->pMethods->xRead(RealOf(file), into, size, offset);
}
int Write(sqlite3_file* file, const void* from, int size,
          sqlite3_int64 offset) {
  return Step("write", Of(file)->name, SQLITE_IOERR_WRITE, [&] {
    return RealOf(file)->pMethods->xWrite(RealOf(file), from, size, offset);
  });
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  return Step("truncate", Of(file)->name, SQLITE_IOERR_TRUNCATE, [&] {
    return RealOf(file)->pMethods->xTruncate(RealOf(file), size);
  });
}
int Sync(sqlite3_file* file, int flags) {
  return Step("sync", Of(file)->name, SQLITE_IOERR_FSYNC, [&] {
    return RealOf(file)->pMethods->xSync(RealOf(file), flags);
  });
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return RealOf(file)->pMethods->xFileSize(RealOf(file), size);
}
int Lock(sqlite3_file* file, int level) {
  return RealOf(file)->pMethods->xLock(RealOf(file), level);
}
int Unlock(sqlite3_file* file, int level) {
  return RealOf(file)->pMethods->xUnlock(RealOf(file), level);
}
int CheckReservedLock(sqlite3_file* file, int* reserved) {
  return RealOf(file)->pMethods->xCheckReservedLock(RealOf(file), reserved);
}
int FileControl(sqlite3_file* file, int op, void* argument) {
  return RealOf(file)->pMethods->xFileControl(RealOf(file), op, argument);
}
int SectorSize(sqlite3_file* file) {
  return RealOf(file)->pMethods->xSectorSize(RealOf(file));
}
int DeviceCharacteristics(sqlite3_file* file) {
  return RealOf(file)->pMethods->xDeviceCharacteristics(RealOf(file));
}

// Version 1 has no shared memory, which an exclusive WAL does not use.
const sqlite3_io_methods kMethods = {
    1,
    Close,
    Read,
    Write,
    Truncate,
    Sync,
    FileSize,
    Lock,
    Unlock,
    CheckReservedLock,
    FileControl,
    SectorSize,
    DeviceCharacteristics,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags,
         int* out_flags) {
  auto* const stepped = new (file) SteppedFile{};
  stepped->real = reinterpret_cast<sqlite3_file*>(stepped + 1);
  stepped->real->pMethods = nullptr;
  const std::string text = path == nullptr ? "temporary" : path;
  text.substr(text.rfind('/') + 1)
      .copy(&stepped->name[0], sizeof(stepped->name) - 1);
  const int status =
      RealVfs(vfs)->xOpen(RealVfs(vfs), path, stepped->real, flags, out_flags);
  stepped->base.pMethods =
      stepped->real->pMethods == nullptr ? nullptr : &kMethods;
  return status;
}

int Delete(sqlite3_vfs* vfs, const char* path, int sync) {
  const std::string text = path;
  return Step("delete", text.substr(text.rfind('/') + 1).c_str(),
              SQLITE_IOERR_DELETE,
              [&] { return RealVfs(vfs)->xDelete(RealVfs(vfs), path, sync); });
}

}  // namespace

void StepStores(Steps& steps) {
  g_steps = &steps;
  sqlite3_vfs* const real = sqlite3_vfs_find(nullptr);
  static sqlite3_vfs stepped;
  stepped = *real;
  stepped.zName = "stepped";
  stepped.pNext = nullptr;
  stepped.pAppData = real;
  stepped.szOsFile = static_cast<int>(sizeof(SteppedFile)) + real->szOsFile;
  stepped.xOpen = Open;
  stepped.xDelete = Delete;
  if (sqlite3_vfs_register(&stepped, /*makeDflt=*/1) != SQLITE_OK) {
    std::abort();
  }
}

}  // namespace mountd::testing
