// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::agent {

inline constexpr char kJob[] = "job";

inline std::string Where(std::string_view origin,
                         const toml::source_region& source) {
  return std::string(origin) + ":" + std::to_string(source.begin.line);
}

// Reads the keys of one table of the file, and keeps the first problem with its
// line.
class Section {
 public:
  Section(const toml::table& table, std::string prefix, std::string_view origin)
      : table_(table), prefix_(std::move(prefix)), origin_(origin) {}

  Section& Only(const std::vector<std::string_view>& known) {
    for (const auto& [key, node] : table_) {
      if (std::find(known.begin(), known.end(), key.str()) == known.end()) {
        Fail(node.source(), key.str(), "is not a known key");
      }
    }
    return *this;
  }

  Section& Require(std::string_view key) {
    if (!table_.contains(key)) {
      Fail(table_.source(), key, "is required");
    }
    return *this;
  }

  Section& Text(std::string_view key, std::string& out) {
    return Scalar<std::string>(key, "must be a string",
                               [&](const std::string& value) {
                                 out = value;
                                 return true;
                               });
  }

  Section& Flag(std::string_view key, bool& out) {
    return Scalar<bool>(key, "must be true or false", [&](bool value) {
      out = value;
      return true;
    });
  }

  Section& PortNumber(std::string_view key, std::int64_t least,
                      std::uint16_t& out) {
    return Scalar<std::int64_t>(key, "must be a port number",
                                [&](std::int64_t value) {
                                  out = static_cast<std::uint16_t>(value);
                                  return value >= least && value <= 65'535;
                                });
  }

  template <typename Number>
  Section& WholeNumber(std::string_view key, std::optional<Number>& out) {
    return Scalar<std::int64_t>(
        key, "must be a whole number", [&](std::int64_t value) {
          out = static_cast<Number>(value);
          return value >= 0 && std::in_range<Number>(value);
        });
  }

  // Reads a string that `accept` takes; otherwise fails with `reason`.
  template <typename F>
  Section& Choice(std::string_view key, const char* reason, const F& accept) {
    return Scalar<std::string>(key, reason, accept);
  }

  Section& Texts(std::string_view key, std::vector<std::string>& out) {
    return Each(key, "must be an array of strings",
                [&](const std::string& text) {
                  out.push_back(text);
                  return true;
                });
  }

  // Reads an array of strings that `accept` takes; otherwise fails with
  // `reason`.
  template <typename F>
  Section& Each(std::string_view key, const char* reason, const F& accept) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return *this;
    }
    const toml::array* array = node->as_array();
    if (array == nullptr) {
      return Fail(node->source(), key, reason);
    }
    for (const toml::node& element : *array) {
      const auto text = element.value_exact<std::string>();
      if (!text || !accept(*text)) {
        return Fail(element.source(), key, reason);
      }
    }
    return *this;
  }

  Section& TextMap(std::string_view key,
                   std::map<std::string, std::string>& out) {
    return Table(key, [&](const toml::table& table) {
      for (const auto& [name, node] : table) {
        const auto text = node.value_exact<std::string>();
        if (!text) {
          Fail(node.source(), std::string(key) + "." + std::string(name.str()),
               "must be a string");
          return;
        }
        out.emplace(name.str(), *text);
      }
    });
  }

  template <typename F>
  Section& Table(std::string_view key, const F& use) {
    const toml::node* node = table_.get(key);
    if (node != nullptr && !node->is_table()) {
      return Fail(node->source(), key, "must be a table");
    }
    if (node != nullptr) {
      use(*node->as_table());
    }
    return *this;
  }

  // Calls `use` with a Section of the table, as Tables does for each.
  template <typename F>
  Section& Inner(std::string_view key, const F& use) {
    return Table(key, [&](const toml::table& table) {
      Section section(table, prefix_ + std::string(key) + ".", origin_);
      use(section);
      Adopt(section);
    });
  }

  // Fails with the line of the key, or of the table if it lacks the key, unless
  // the condition holds.
  Section& Check(std::string_view key, bool holds, const char* reason) {
    const toml::node* node = table_.get(key);
    return holds ? *this
                 : Fail(node == nullptr ? table_.source() : node->source(), key,
                        reason);
  }

  // Calls `use` with a Section for each table of the array. `use` reports a
  // problem by that Section's own status.
  template <typename F>
  Section& Tables(std::string_view key, const F& use) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return *this;
    }
    const toml::array* array = node->as_array();
    if (array == nullptr) {
      return Fail(node->source(), key, "must be an array of tables");
    }
    for (const toml::node& element : *array) {
      if (!element.is_table()) {
        return Fail(element.source(), key, "must be an array of tables");
      }
      Section section(*element.as_table(), prefix_ + std::string(key) + ".",
                      origin_);
      use(section);
      Adopt(section);
    }
    return *this;
  }

  void Adopt(const Section& inner) {
    if (problem_.empty()) {
      problem_ = inner.problem_;
    }
  }

  Result<void> status() const {
    if (problem_.empty()) {
      return Ok();
    }
    return MakeError(Code::kInvalidArgument, kJob, "", problem_);
  }

 private:
  Section& Fail(const toml::source_region& source, std::string_view key,
                const char* reason) {
    if (problem_.empty()) {
      problem_ = Where(origin_, source) + ": " + prefix_ + std::string(key) +
                 ": " + reason;
    }
    return *this;
  }

  template <typename T, typename F>
  Section& Scalar(std::string_view key, const char* reason, const F& accept) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return *this;
    }
    const auto value = node->value_exact<T>();
    if (!value || !accept(*value)) {
      Fail(node->source(), key, reason);
    }
    return *this;
  }

  const toml::table& table_;
  const std::string prefix_;
  const std::string_view origin_;
  std::string problem_;
};

}  // namespace mountd::agent
