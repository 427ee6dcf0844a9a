// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/snapshot_message.h"

#include <utility>

namespace mountd::agent {
namespace {

// protobuf.dev/programming-guides/encoding, "Message Structure".
enum WireType : std::uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kFixed32 = 5,
};

constexpr std::uint32_t kTypeBits = 3;
constexpr std::uint32_t kVarintBits = 7;
constexpr std::uint32_t kMoreBit = 1U << kVarintBits;
constexpr std::uint64_t kMaxFieldNumber = (1U << 29U) - 1;

// Appends fields. Leaves out fields with proto3's default, as protobuf does.
class Writer {
 public:
  Writer& Number(std::uint32_t field, std::int64_t value) {
    if (value != 0) {
      Tag(field, kVarint);
      Varint(static_cast<std::uint64_t>(value));
    }
    return *this;
  }
  Writer& Text(std::uint32_t field, std::string_view text) {
    if (!text.empty()) {
      Message(field, text);
    }
    return *this;
  }
  // A map is a repeated message of a key and a value.
  Writer& Map(std::uint32_t field,
              const std::map<std::string, std::string>& map) {
    for (const auto& [key, value] : map) {
      Message(field, Writer().Message(1, key).Message(2, value).bytes_);
    }
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  Writer& Message(std::uint32_t field, std::string_view content) {
    Tag(field, kBytes);
    Varint(content.size());
    bytes_ += content;
    return *this;
  }
  void Tag(std::uint32_t field, WireType type) {
    Varint(field << kTypeBits | type);
  }
  void Varint(std::uint64_t value) {
    // Seven bits a byte, the lowest first; the top bit says that more follow.
    for (; value >= kMoreBit; value >>= kVarintBits) {
      bytes_ += static_cast<char>(value % kMoreBit | kMoreBit);
    }
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Holds one field: `value` of a varint, `bytes` of every other type; the unused
// one is 0 or empty. Is() returns false for a field of an unexpected type, so
// that callers skip the field, as protobuf does.
struct WireField {
  std::uint64_t number = 0;
  std::uint64_t type = 0;
  std::uint64_t value = 0;
  std::string_view bytes{};

  bool Is(std::uint64_t wanted, WireType of_type) const {
    return number == wanted && type == of_type;
  }
};

Error Broken(const char* why) {
  return MakeError(Code::kInternal, "answer", "protobuf", why);
}

class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  bool AtEnd() const { return rest_.empty(); }

  Result<WireField> Next() {
    WireField field;
    MOUNTD_ASSIGN(const std::uint64_t tag, Varint());
    field.number = tag >> kTypeBits;
    field.type = tag % (1U << kTypeBits);
    if (field.number == 0 || field.number > kMaxFieldNumber) {
      return Broken("a field has an unknown number");
    }
    switch (field.type) {
      case kVarint: {
        MOUNTD_ASSIGN(field.value, Varint());
        return field;
      }
      case kBytes: {
        MOUNTD_ASSIGN(const std::uint64_t size, Varint());
        MOUNTD_ASSIGN(field.bytes, Take(size));
        return field;
      }
      case kFixed64:
      case kFixed32: {
        MOUNTD_ASSIGN(field.bytes, Take(field.type == kFixed64 ? 8 : 4));
        return field;
      }
      default:
        return Broken("a field has an unknown type");
    }
  }

 private:
  Result<std::string_view> Take(std::uint64_t size) {
    if (size > rest_.size()) {
      return Broken("the message is incomplete");
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  Result<std::uint64_t> Varint() {
    std::uint64_t value = 0;
    for (std::uint32_t shift = 0; shift < 64; shift += kVarintBits) {
      MOUNTD_ASSIGN(const std::string_view next, Take(1));
      const auto byte = static_cast<unsigned char>(next[0]);
      value |= std::uint64_t{byte % kMoreBit} << shift;
      if (byte < kMoreBit) {
        return value;
      }
    }
    return Broken("a number has more than ten bytes");
  }

  std::string_view rest_;
};

// Calls `read` with each field of a message.
template <typename Read>
Result<void> EachField(std::string_view message, const Read& read) {
  Reader reader(message);
  while (!reader.AtEnd()) {
    MOUNTD_ASSIGN(const WireField field, reader.Next());
    MOUNTD_TRY(read(field));
  }
  return Ok();
}

// Reads google.protobuf.Timestamp.
Result<std::optional<Timestamp>> ReadTime(std::string_view message) {
  // The range of timestamp.proto.
  constexpr std::int64_t kFirst = -62'135'596'800;  // 0001-01-01
  constexpr std::int64_t kLast = 253'402'300'799;   // 9999-12-31
  constexpr std::int64_t kNanosInSecond = 1'000'000'000;
  std::int64_t seconds = 0;
  std::int64_t nanos = 0;
  MOUNTD_TRY(EachField(message, [&](const WireField& field) -> Result<void> {
    if (field.Is(1, kVarint)) {
      seconds = static_cast<std::int64_t>(field.value);
    } else if (field.Is(2, kVarint)) {
      nanos = static_cast<std::int64_t>(field.value);
    }
    return Ok();
  }));
  if (seconds < kFirst || seconds > kLast || nanos < 0 ||
      nanos >= kNanosInSecond) {
    return std::optional<Timestamp>();
  }
  return std::optional(Timestamp(std::chrono::seconds(seconds) +
                                 std::chrono::floor<std::chrono::microseconds>(
                                     std::chrono::nanoseconds(nanos))));
}

// Reads csi.v1.Snapshot.
Result<void> ReadSnapshot(std::string_view message, Snapshot& out) {
  return EachField(message, [&out](const WireField& field) -> Result<void> {
    if (field.Is(1, kVarint)) {
      out.size_bytes = static_cast<std::int64_t>(field.value);
    } else if (field.Is(2, kBytes)) {
      out.snapshot = field.bytes;
    } else if (field.Is(3, kBytes)) {
      out.source_volume = field.bytes;
    } else if (field.Is(4, kBytes)) {
      MOUNTD_ASSIGN(out.creation_time, ReadTime(field.bytes));
    } else if (field.Is(5, kVarint)) {
      out.ready_to_use = field.value != 0;
    } else if (field.Is(6, kBytes)) {
      out.group_snapshot = field.bytes;
    }
    return Ok();
  });
}

// Reads a message whose field 1 is a csi.v1.Snapshot.
Result<Snapshot> ReadHolder(std::string_view message) {
  Snapshot snapshot;
  MOUNTD_TRY(EachField(message, [&](const WireField& field) -> Result<void> {
    return field.Is(1, kBytes) ? ReadSnapshot(field.bytes, snapshot) : Ok();
  }));
  return snapshot;
}

}  // namespace

// The numbers of the fields are those of csi.proto. The secrets' field is left
// out, because mountd-csi fills it.
std::string EncodeCreateSnapshot(const SnapshotCreation& creation) {
  return Writer()
      .Text(1, creation.source_volume)
      .Text(2, creation.name)
      .Map(4, creation.parameters)
      .Take();
}

std::string EncodeDeleteSnapshot(std::string_view snapshot) {
  return Writer().Text(1, snapshot).Take();
}

std::string EncodeListSnapshots(const SnapshotQuery& query) {
  return Writer()
      .Number(1, query.max_entries)
      .Text(2, query.starting_token)
      .Text(3, query.source_volume)
      .Text(4, query.snapshot)
      .Take();
}

Result<Snapshot> DecodeCreateSnapshot(std::string_view response) {
  return ReadHolder(response);
}

Result<SnapshotPage> DecodeListSnapshots(std::string_view response) {
  SnapshotPage page;
  MOUNTD_TRY(
      EachField(response, [&page](const WireField& field) -> Result<void> {
        if (field.Is(1, kBytes)) {
          MOUNTD_ASSIGN(Snapshot snapshot, ReadHolder(field.bytes));
          page.snapshots.push_back(std::move(snapshot));
        } else if (field.Is(2, kBytes)) {
          page.next_token = field.bytes;
        }
        return Ok();
      }));
  return page;
}

}  // namespace mountd::agent
