// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Prints what a .proto file puts on the wire, one sorted line for each service,
// method, message, field, enum and enum value, by its full name.
//
//   protoc --include_imports -o /dev/stdout … csi.proto | csi-proto-listing
//   csi.proto
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>

namespace {

namespace proto = google::protobuf;

// The number of the option that says "never log this field". The option is an
// extension, so the program looks for its number.
constexpr int kSecretOption = 1059;

class Listing {
 public:
  void Add(const proto::FileDescriptor& file) {
    lines_.insert("package " + file.package());
    for (int i = 0; i < file.service_count(); ++i) {
      AddService(*file.service(i));
    }
    for (int i = 0; i < file.message_type_count(); ++i) {
      AddMessage(*file.message_type(i));
    }
    for (int i = 0; i < file.enum_type_count(); ++i) {
      AddEnum(*file.enum_type(i));
    }
  }
  void Print() const {
    for (const std::string& line : lines_) {
      std::puts(line.c_str());
    }
  }

 private:
  void AddService(const proto::ServiceDescriptor& service) {
    lines_.insert("service " + service.full_name());
    for (int i = 0; i < service.method_count(); ++i) {
      const proto::MethodDescriptor& method = *service.method(i);
      lines_.insert("rpc " + method.full_name() + "(" +
                    (method.client_streaming() ? "stream " : "") +
                    method.input_type()->full_name() + ") returns (" +
                    (method.server_streaming() ? "stream " : "") +
                    method.output_type()->full_name() + ")");
    }
  }

  void AddMessage(const proto::Descriptor& message) {
    lines_.insert("message " + message.full_name());
    for (int i = 0; i < message.field_count(); ++i) {
      AddField(*message.field(i));
    }
    for (int i = 0; i < message.nested_type_count(); ++i) {
      AddMessage(*message.nested_type(i));
    }
    for (int i = 0; i < message.enum_type_count(); ++i) {
      AddEnum(*message.enum_type(i));
    }
  }

  void AddField(const proto::FieldDescriptor& field) {
    std::string line = "field " + field.full_name() + " = " +
                       std::to_string(field.number()) + " " +
                       (field.is_repeated() ? "repeated " : "") + TypeOf(field);
    line += " json=" + field.json_name();
    if (field.is_packed()) {
      line += " packed";
    }
    if (field.has_presence()) {
      line += " presence";
    }
    if (field.real_containing_oneof() != nullptr) {
      line += " oneof=" + field.real_containing_oneof()->full_name();
    }
    if (IsSecret(field)) {
      line += " secret";
    }
    lines_.insert(line);
  }

  static std::string TypeOf(const proto::FieldDescriptor& field) {
    switch (field.type()) {
      case proto::FieldDescriptor::TYPE_MESSAGE:
        return field.message_type()->full_name();
      case proto::FieldDescriptor::TYPE_ENUM:
        return field.enum_type()->full_name();
      default:
        return field.type_name();
    }
  }

  // True if the field has the option. An option that is not built into this
  // program becomes an unknown field when the options are written and read
  // again.
  static bool IsSecret(const proto::FieldDescriptor& field) {
    proto::FieldOptions options;
    options.ParseFromString(field.options().SerializeAsString());
    const proto::UnknownFieldSet& unknown =
        options.GetReflection()->GetUnknownFields(options);
    for (int i = 0; i < unknown.field_count(); ++i) {
      if (unknown.field(i).number() == kSecretOption &&
          unknown.field(i).varint() != 0) {
        return true;
      }
    }
    return false;
  }

  void AddEnum(const proto::EnumDescriptor& type) {
    lines_.insert("enum " + type.full_name());
    for (int i = 0; i < type.value_count(); ++i) {
      lines_.insert("value " + type.full_name() + "." + type.value(i)->name() +
                    " = " + std::to_string(type.value(i)->number()));
    }
  }

  std::set<std::string> lines_;
};

}  // namespace

int main(int argc, char** argv) {
  proto::FileDescriptorSet files;
  if (argc != 2 || !files.ParseFromIstream(&std::cin)) {
    std::fputs("csi-proto-listing FILE <descriptor set\n", stderr);
    return 2;
  }
  proto::DescriptorPool pool;
  for (const proto::FileDescriptorProto& file : files.file()) {
    if (pool.BuildFile(file) == nullptr) {
      return EXIT_FAILURE;  // protobuf has printed the reason
    }
  }
  const proto::FileDescriptor* file = pool.FindFileByName(argv[1]);
  if (file == nullptr) {
    std::fprintf(stderr, "no %s in the descriptor set\n", argv[1]);
    return EXIT_FAILURE;
  }
  Listing listing;
  listing.Add(*file);
  listing.Print();
  return EXIT_SUCCESS;
}
