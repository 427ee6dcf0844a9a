// SPDX-License-Identifier: LGPL-2.1-or-later
#include <libmount/libmount.h>
#include <sys/mount.h>

#include <charconv>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "mountd/plan/attributes.h"
#include "propagation/ground/mount_inspector.h"

namespace mountd::propagation {
namespace {

constexpr char kMountinfo[] = "/proc/self/mountinfo";
constexpr std::size_t kMaxTableBytes = std::size_t{256} << 20U;

struct TableDeleter {
  void operator()(libmnt_table* table) const { mnt_unref_table(table); }
};
struct IteratorDeleter {
  void operator()(libmnt_iter* iterator) const { mnt_free_iter(iterator); }
};

std::string_view OrEmpty(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

// Returns the number after `key` in a text such as "shared:12 master:3"; 0 if
// the key is missing.
std::uint64_t OptionalField(std::string_view fields, std::string_view key) {
  const std::size_t at = fields.find(key);
  std::uint64_t number = 0;
  if (at != std::string_view::npos) {
    const std::string_view rest = fields.substr(at + key.size());
    std::from_chars(rest.data(), rest.data() + rest.size(), number);
  }
  return number;
}

std::uint64_t Attributes(const char* vfs_options) {
  std::uint64_t bits = 0;
  const auto add = [&](const char* word, std::uint64_t flag) {
    char* value = nullptr;
    std::size_t size = 0;
    if (vfs_options != nullptr &&
        mnt_optstr_get_option(vfs_options, word, &value, &size) == 0) {
      bits |= flag;
    }
  };
  for (const exec::AttributeRow& row : exec::kAttributes) {
    add(row.word.data(), row.flag);
  }
  add("nodiratime", MOUNT_ATTR_NODIRATIME);
  add("idmapped", MOUNT_ATTR_IDMAP);
  return bits;
}

MountFacts FactsOf(libmnt_fs* fs) {
  MountFacts facts;
  facts.id = static_cast<std::uint64_t>(mnt_fs_get_id(fs));
  facts.parent_id = static_cast<std::uint64_t>(mnt_fs_get_parent_id(fs));
  facts.device = mnt_fs_get_devno(fs);
  facts.attributes = Attributes(mnt_fs_get_vfs_options(fs));
  const std::string_view fields = OrEmpty(mnt_fs_get_optional_fields(fs));
  facts.peer_group = OptionalField(fields, "shared:");
  facts.master = OptionalField(fields, "master:");
  facts.type = OrEmpty(mnt_fs_get_fstype(fs));
  facts.source = OrEmpty(mnt_fs_get_srcpath(fs));
  facts.root = OrEmpty(mnt_fs_get_root(fs));
  facts.point = OrEmpty(mnt_fs_get_target(fs));
  return facts;
}

using Table = std::unique_ptr<libmnt_table, TableDeleter>;

template <typename Keep>
Result<std::vector<MountFacts>> Select(const Table& table, const Keep& keep) {
  const std::unique_ptr<libmnt_iter, IteratorDeleter> iterator(
      mnt_new_iter(MNT_ITER_FORWARD));
  if (table == nullptr || iterator == nullptr) {
    return MakeError(Code::kInternal, "read mountinfo", "");
  }
  std::vector<MountFacts> selected;
  libmnt_fs* fs = nullptr;
  while (mnt_table_next_fs(table.get(), iterator.get(), &fs) == 0) {
    MountFacts facts = FactsOf(fs);
    if (keep(facts)) {
      selected.push_back(std::move(facts));
    }
  }
  return selected;
}

Result<Table> ParseTable(std::string text) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(
      text.empty() ? nullptr : ::fmemopen(text.data(), text.size(), "r"));
  Table table(mnt_new_table());
  if (file == nullptr || table == nullptr ||
      mnt_table_parse_stream(table.get(), file.get(), kMountinfo) != 0) {
    return MakeError(Code::kInternal, "read mountinfo", "",
                     "libmount cannot parse it");
  }
  return table;
}

}  // namespace

template <typename Keep>
Result<std::vector<MountFacts>> MountinfoInspector::Select(
    const Keep& keep) const {
  MOUNTD_ASSIGN(
      std::string text,
      exec::Named(
          kernel_.ReadFile(process_, process_ < 0 ? kMountinfo : "mountinfo",
                           kMaxTableBytes),
          "read mountinfo", ""));
  MOUNTD_ASSIGN(const Table table, ParseTable(std::move(text)));
  return propagation::Select(table, keep);
}

Result<MountFacts> MountinfoInspector::Facts(std::uint64_t id) const {
  MOUNTD_ASSIGN(std::vector<MountFacts> found,
                Select([&](const auto& facts) { return facts.id == id; }));
  if (found.empty()) {
    return MakeError(Code::kNotFound, "read mountinfo",
                     "mount " + std::to_string(id), "is not in the list");
  }
  return std::move(found.front());
}

Result<std::vector<MountFacts>> MountinfoInspector::Children(
    std::uint64_t id) const {
  return Select([&](const auto& facts) {
    return facts.parent_id == id && facts.id != id;
  });
}

Result<std::vector<MountFacts>> ParseMountinfo(std::string text) {
  MOUNTD_ASSIGN(const Table table, ParseTable(std::move(text)));
  return Select(table, [](const MountFacts& /*facts*/) { return true; });
}

Result<std::vector<MountFacts>> MountinfoInspector::Below(
    std::uint64_t id, std::uint64_t /*after*/) const {
  return Descendants(*this, id);
}

Result<std::uint64_t> MountinfoInspector::CountBelow(std::uint64_t id) const {
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts,
                Select([](const auto&) { return true; }));
  std::unordered_multimap<std::uint64_t, std::uint64_t> children;
  for (const MountFacts& mount : mounts) {
    // A namespace's root mount may be its own parent (proc_pid_mountinfo(5)).
    if (mount.id != mount.parent_id) {
      children.emplace(mount.parent_id, mount.id);
    }
  }
  // A mount that somebody moves meanwhile may be listed twice, or below itself.
  std::unordered_set<std::uint64_t> seen = {id};
  std::vector<std::uint64_t> left = {id};
  while (!left.empty()) {
    const auto [first, last] = children.equal_range(left.back());
    left.pop_back();
    for (auto child = first; child != last; ++child) {
      if (seen.insert(child->second).second) {
        left.push_back(child->second);
      }
    }
  }
  return seen.size() - 1;
}

Result<std::vector<std::uint64_t>> MountinfoInspector::All() const {
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts,
                Select([](const auto&) { return true; }));
  std::vector<std::uint64_t> ids;
  ids.reserve(mounts.size());
  for (const MountFacts& mount : mounts) {
    ids.push_back(mount.id);
  }
  return ids;
}

}  // namespace mountd::propagation
