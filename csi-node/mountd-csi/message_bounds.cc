// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/message_bounds.h"

#include <vector>

#include "csi-node/ipc/message.h"
#include "mountd/base/names.h"

namespace mountd::csi {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Fields = std::vector<const FieldDescriptor*>;

constexpr std::string_view kCleaned = "message";

Fields SetFields(const Message& message) {
  Fields fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

// Returns the messages in a field, one or many; none if the field has another
// type.
std::vector<const Message*> MessagesIn(const Message& message,
                                       const FieldDescriptor* field) {
  const Reflection* reflection = message.GetReflection();
  std::vector<const Message*> all;
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return all;
  }
  if (!field->is_repeated()) {
    return {&reflection->GetMessage(message, field)};
  }
  const int count = reflection->FieldSize(message, field);
  for (int i = 0; i < count; ++i) {
    all.push_back(&reflection->GetRepeatedMessage(message, field, i));
  }
  return all;
}

std::vector<std::string> TextsIn(const Message& message,
                                 const FieldDescriptor* field) {
  const Reflection* reflection = message.GetReflection();
  if (!field->is_repeated()) {
    return {reflection->GetString(message, field)};
  }
  std::vector<std::string> all;
  const int count = reflection->FieldSize(message, field);
  for (int i = 0; i < count; ++i) {
    all.push_back(reflection->GetRepeatedString(message, field, i));
  }
  return all;
}

// All maps of CSI map texts to texts. Asks for an entry's fields by name,
// because an entry does not list them as set.
bool MapFits(const Message& message, const FieldDescriptor* field) {
  std::size_t bytes = 0;
  for (const Message* entry : MessagesIn(message, field)) {
    const Reflection* reflection = entry->GetReflection();
    for (const FieldDescriptor* part : {field->message_type()->map_key(),
                                        field->message_type()->map_value()}) {
      const std::string text = reflection->GetString(*entry, part);
      bytes += text.size();
      if (bytes > ipc::kMaxMapBytes ||
          !ipc::FitsText(text, ipc::kMaxMapBytes)) {
        return false;
      }
    }
  }
  return true;
}

bool TextsFit(const Message& message, const FieldDescriptor* field) {
  if (field->name() == kCleaned) {
    return true;
  }
  for (const std::string& text : TextsIn(message, field)) {
    if (!ipc::FitsText(text, kMaxVolumeIdBytes)) {
      return false;
    }
  }
  return true;
}

const char* FieldBeyondBounds(const Message& message,
                              const FieldDescriptor* field) {
  if (field->is_repeated() &&
      message.GetReflection()->FieldSize(message, field) > kMaxListed) {
    return "a list in the message is too long";
  }
  if (field->is_map()) {
    return MapFits(message, field) ? nullptr
                                   : "a map in the message is too large";
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return TextsFit(message, field) ? nullptr
                                    : "a text in the message is not valid";
  }
  for (const Message* inner : MessagesIn(message, field)) {
    if (const char* why = BeyondBounds(*inner)) {
      return why;
    }
  }
  return nullptr;
}

}  // namespace

const char* BeyondBounds(const Message& message) {
  if (message.ByteSizeLong() > kMaxResponse) {
    return "the message is too large";
  }
  for (const FieldDescriptor* field : SetFields(message)) {
    if (const char* why = FieldBeyondBounds(message, field)) {
      return why;
    }
  }
  return nullptr;
}

bool HasUnknownFields(const Message& message) {
  if (!message.GetReflection()->GetUnknownFields(message).empty()) {
    return true;
  }
  for (const FieldDescriptor* field : SetFields(message)) {
    for (const Message* inner : MessagesIn(message, field)) {
      if (HasUnknownFields(*inner)) {
        return true;
      }
    }
  }
  return false;
}

void ForEachText(Message* message, const char* name,
                 const std::function<std::string(const std::string&)>& change) {
  const Reflection* reflection = message->GetReflection();
  for (const FieldDescriptor* field : SetFields(*message)) {
    const int count =
        field->is_repeated() ? reflection->FieldSize(*message, field) : 0;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        ForEachText(reflection->MutableMessage(message, field), name, change);
      } else if (!field->is_map()) {
        for (int i = 0; i < count; ++i) {
          ForEachText(reflection->MutableRepeatedMessage(message, field, i),
                      name, change);
        }
      }
    } else if (field->type() == FieldDescriptor::TYPE_STRING &&
               field->name() == name) {
      if (!field->is_repeated()) {
        reflection->SetString(message, field,
                              change(reflection->GetString(*message, field)));
      }
      for (int i = 0; i < count; ++i) {
        reflection->SetRepeatedString(
            message, field, i,
            change(reflection->GetRepeatedString(*message, field, i)));
      }
    }
  }
}

}  // namespace mountd::csi
