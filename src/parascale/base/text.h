#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace parascale {

/// Splits at every `separator`; n separators give n + 1 parts.
std::vector<std::string> split(std::string_view text, char separator);
/// Joins with `separator`.
std::string join(std::span<const std::string> parts, std::string_view separator);
/// Removes white space at both ends.
std::string_view trim(std::string_view text);
/// Replaces every `from` by `to`.
std::string replace_all(std::string text, std::string_view from, std::string_view to);
/// Optimal string alignment distance (insert, delete, replace, transpose neighbours), in bytes.
std::size_t edit_distance(std::string_view a, std::string_view b);
/// Returns the candidate a user most likely meant, or nothing when none is close (a third of the length, at most 3 edits).
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);
/// Parses a whole decimal text; nothing on rubbish, sign (unsigned), or overflow.
std::optional<std::int64_t> parse_int64(std::string_view text);
std::optional<std::uint64_t> parse_uint64(std::string_view text);
std::optional<double> parse_double(std::string_view text);

/// `1.5 GiB`, `310 MiB`, `12 B`.
std::string format_bytes(std::uint64_t bytes);
/// `1h02m`, `3m07s`, `12.3 s`, `450 ms`, `85 us`.
std::string format_duration(std::chrono::nanoseconds duration);
/// `1 step`, `2 steps`, `12,500 steps`.
std::string format_count(std::uint64_t count, std::string_view noun);
/// `12,500`.
std::string format_thousands(std::uint64_t value);

}  // namespace parascale
