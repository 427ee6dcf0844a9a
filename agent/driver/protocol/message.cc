// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/protocol/message.h"

#include <optional>

namespace mountd::shim {
namespace {

constexpr std::string_view kMagic = "MTSH";
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kFieldBytes = 8;
constexpr std::size_t kNumberBytes = 8;

void Put(std::uint64_t number, std::size_t size, std::string* bytes) {
  for (std::size_t i = 0; i < size; ++i) {
    bytes->push_back(static_cast<char>((number >> (8 * i)) & 0xffU));
  }
}

std::uint64_t Get(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i) {
    number |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])}
              << (8 * i);
  }
  return number;
}

struct Field {
  std::uint16_t tag = 0;
  std::string_view bytes;
};

// Takes the next field off `rest`. Nothing if `rest` does not begin with a
// whole field.
std::optional<Field> TakeField(std::string_view* rest) {
  if (rest->size() < kFieldBytes) {
    return std::nullopt;
  }
  Field field;
  field.tag = static_cast<std::uint16_t>(Get(*rest, 0, 2));
  const std::uint64_t zero = Get(*rest, 2, 2);
  const std::uint64_t size = Get(*rest, 4, 4);
  if (zero != 0 || size > rest->size() - kFieldBytes) {
    return std::nullopt;
  }
  field.bytes = rest->substr(kFieldBytes, size);
  rest->remove_prefix(kFieldBytes + size);
  return field;
}

Error BadMessage(Code code, const char* why) {
  return MakeError(code, "parse", "message of mountd-task-shim", why);
}

}  // namespace

Message::Message(Kind kind) : bytes_(kMagic) {
  Put(kVersion, 2, &bytes_);
  Put(static_cast<std::uint16_t>(kind), 2, &bytes_);
}

Result<Message> Message::Parse(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || !bytes.starts_with(kMagic)) {
    return BadMessage(Code::kInvalidArgument, "has no header");
  }
  if (Get(bytes, 4, 2) != kVersion) {
    return BadMessage(Code::kNotSupported, "is of another version");
  }
  std::string_view rest = bytes.substr(kHeaderBytes);
  while (!rest.empty()) {
    const std::optional<Field> field = TakeField(&rest);
    if (!field) {
      return BadMessage(Code::kInvalidArgument, "has a broken field");
    }
    if (field->tag >= kMustUnderstand) {
      return BadMessage(Code::kNotSupported, "has a field of a newer release");
    }
  }
  return Message(bytes);
}

Message Message::Failed(const Error& error) {
  Message message(Kind::kFailed);
  message.Add(Tag::kCode, static_cast<std::uint64_t>(error.code))
      .Add(Tag::kErrno, static_cast<std::uint64_t>(error.sys_errno))
      .Add(Tag::kOperation, error.op)
      .Add(Tag::kObject, error.object)
      .Add(Tag::kDetail, error.detail);
  return message;
}

Message& Message::Add(Tag tag, std::string_view text) {
  Put(static_cast<std::uint16_t>(tag), 4, &bytes_);
  Put(text.size(), 4, &bytes_);
  bytes_ += text;
  return *this;
}

Message& Message::Add(Tag tag, std::uint64_t number) {
  Put(static_cast<std::uint16_t>(tag), 4, &bytes_);
  Put(kNumberBytes, 4, &bytes_);
  Put(number, kNumberBytes, &bytes_);
  return *this;
}

Kind Message::kind() const { return static_cast<Kind>(Get(bytes_, 6, 2)); }

std::string_view Message::Text(Tag tag) const {
  std::string_view rest = std::string_view(bytes_).substr(kHeaderBytes);
  while (const std::optional<Field> field = TakeField(&rest)) {
    if (field->tag == static_cast<std::uint16_t>(tag)) {
      return field->bytes;
    }
  }
  return {};
}

std::uint64_t Message::Number(Tag tag) const {
  const std::string_view text = Text(tag);
  return text.size() == kNumberBytes ? Get(text, 0, kNumberBytes) : 0;
}

std::vector<std::string> Message::Texts(Tag tag) const {
  std::vector<std::string> texts;
  std::string_view rest = std::string_view(bytes_).substr(kHeaderBytes);
  while (const std::optional<Field> field = TakeField(&rest)) {
    if (field->tag == static_cast<std::uint16_t>(tag)) {
      texts.emplace_back(field->bytes);
    }
  }
  return texts;
}

Error Message::ToError() const {
  const std::uint64_t code = Number(Tag::kCode);
  const bool is_known =
      code >= 1 && code <= static_cast<std::uint64_t>(kLastCode);
  Error error = MakeError(is_known ? static_cast<Code>(code) : Code::kInternal,
                          std::string(Text(Tag::kOperation)),
                          std::string(Text(Tag::kObject)),
                          std::string(Text(Tag::kDetail)));
  error.sys_errno = static_cast<int>(Number(Tag::kErrno));
  return error;
}

}  // namespace mountd::shim
