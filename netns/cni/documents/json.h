// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/documents/limits.h"

// Reads JSON of other programs, without exceptions: checks the bounds before it
// builds a value, and reads members by type.
namespace mountd::cni {

using Json = nlohmann::json;

// Parses an object of valid UTF-8 within the bounds. InvalidArgument otherwise;
// the error names `object`.
Result<Json> ParseObject(std::string_view text, const TextBounds& bounds,
                         const std::string& object);

// The two parts of ParseObject, for another parser. CheckText checks that the
// text is JSON within the bounds. NotAnObject returns the error of a document
// that is no object.
Result<void> CheckText(std::string_view text, const TextBounds& bounds,
                       const std::string& object);
Error NotAnObject(const std::string& object);

// Returns one line. Never fails: replaces bytes that are not UTF-8.
std::string ToText(const Json& value);

// Returns the member; nothing if it is missing, null or of another type.
// Compares names as Go does (FoldedName). If several match, the last in byte
// order counts, because ToText writes members in that order and Go takes the
// last.
const Json* FindMember(const Json& object, const char* key);
std::optional<std::string> FindText(const Json& object, const char* key);
// Returns whether the member is missing or null, which are the same to every
// plugin (Go's encoding/json).
bool IsAbsent(const Json& object, const char* key);
// Returns the member of exactly that name, for documents that no Go program
// writes.
const Json* FindExact(const Json& object, const char* key);

// Reads the members of an object that must have no unknown member. Keeps the
// first error, and returns empty values after it. The caller must call
// Finish().
class MemberReader {
 public:
  // `where` names the object in errors; `object` outlives this.
  MemberReader(const Json& object, std::string where);

  // Return "", false, 0 or nothing if the member is missing.
  std::string Text(const char* key, std::size_t max_bytes);
  bool Flag(const char* key);
  std::uint64_t Number(const char* key, std::uint64_t max);
  std::vector<std::string> Texts(const char* key, std::size_t max_count,
                                 std::size_t max_bytes);
  // Return the member; an error if it has more elements than `max_count`.
  const Json* Array(const char* key, std::size_t max_count);
  const Json* Object(const char* key, std::size_t max_count);

  // Records an error that the caller found in a member.
  void Refuse(const std::string& key, const std::string& why);

  // Returns InvalidArgument with the first error. A member that the caller did
  // not ask for is an error, too.
  Result<void> Finish();

 private:
  const Json* Take(const char* key);

  const Json& object_;
  std::string where_;
  std::vector<std::string> asked_;
  std::optional<Error> first_;
};

}  // namespace mountd::cni
