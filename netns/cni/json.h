// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/limits.h"

// JSON of others, without exceptions: bounded before it is built, and read by
// type.
namespace mountd::cni {

using Json = nlohmann::json;

// An object of valid UTF-8 within the bounds; otherwise InvalidArgument, which
// names `object`.
Result<Json> ParseObject(std::string_view text, const TextBounds& bounds,
                         const std::string& object);

// The parts of it, for another parser: whether the text is JSON within the
// bounds, and the error of a document that is no object.
Result<void> CheckText(std::string_view text, const TextBounds& bounds,
                       const std::string& object);
Error NotAnObject(const std::string& object);

// One line. Never fails: what is no UTF-8 is replaced.
std::string ToText(const Json& value);

// The member, or nothing where it is not there or of another type. The names of
// members are compared as Go compares them (FoldedName). Of several the last in
// the order of their bytes counts: so ToText writes them, and so Go reads what
// we hand on.
const Json* FindMember(const Json& object, const char* key);
std::optional<std::string> FindText(const Json& object, const char* key);
// Null and an absent member are the same to every plugin (Go's encoding/json).
bool IsAbsent(const Json& object, const char* key);
// The member of just that name: of documents that no Go program writes.
const Json* FindExact(const Json& object, const char* key);

// Reads the members of one object of which none may be unknown. The first thing
// wrong is kept, and all that is read after it is empty: ask Finish().
class MemberReader {
 public:
  // `where` names the object in errors; `object` outlives this.
  MemberReader(const Json& object, std::string where);

  // Absent: "", false, 0, nothing.
  std::string Text(const char* key, std::size_t max_bytes);
  bool Flag(const char* key);
  std::uint64_t Number(const char* key, std::uint64_t max);
  std::vector<std::string> Texts(const char* key, std::size_t max_count,
                                 std::size_t max_bytes);
  // Its elements; at most so many.
  const Json* Array(const char* key, std::size_t max_count);
  const Json* Object(const char* key, std::size_t max_count);

  // Something that the caller found wrong with a member.
  void Refuse(const std::string& key, const std::string& why);

  // InvalidArgument with the first thing that was wrong; a member that nobody
  // asked for is wrong, too.
  Result<void> Finish();

 private:
  const Json* Take(const char* key);

  const Json& object_;
  std::string where_;
  std::vector<std::string> asked_;
  std::optional<Error> first_;
};

}  // namespace mountd::cni
