#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "parascale/base/check.h"
#include "parascale/base/error.h"

namespace parascale {

/// Either a value or an Error; dropping one is a compiler warning, and warnings are errors.
///
/// `value()` on an error is a bug and stops the process; use `PS_TRY` / `PS_ASSIGN` to hand errors up. *thread-compatible*
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: conversion is the point
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: conversion is the point

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    require();
    return std::get<0>(state_);
  }
  const T& value() const& {
    require();
    return std::get<0>(state_);
  }
  /// Of a temporary by value, so that `for (auto& x : *list())` cannot dangle.
  T value() && {
    require();
    return std::move(std::get<0>(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  T value_or(T other) const& { return ok() ? value() : std::move(other); }

  const Error& error() const {
    PS_CHECK(!ok(), "error() is called on a failed result");
    return std::get<1>(state_);
  }

 private:
  void require() const {
    if (!ok()) [[unlikely]] {
      check_failed("result.ok()", std::get<1>(state_).message(), std::get<1>(state_).where());
    }
  }
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: conversion is the point

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const {
    if (error_) [[unlikely]] {
      check_failed("result.ok()", error_->message(), error_->where());
    }
  }
  const Error& error() const {
    PS_CHECK(!ok(), "error() is called on a failed result");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace parascale

#define PS_CONCAT_INNER(a, b) a##b
#define PS_CONCAT(a, b) PS_CONCAT_INNER(a, b)

/// Returns the error of `expression` (a Result) from the enclosing function, or goes on.
#define PS_TRY(expression)                                \
  do {                                                    \
    if (auto ps_status = (expression); !ps_status.ok()) { \
      return ps_status.error();                           \
    }                                                     \
  } while (false)

/// Declares `target` with the value of `expression` (a Result), or returns its error: PS_ASSIGN(auto file, open(path)).
#define PS_ASSIGN(target, expression) PS_ASSIGN_INNER(PS_CONCAT(ps_result_, __LINE__), target, expression)
#define PS_ASSIGN_INNER(name, target, expression) \
  auto name = (expression);                       \
  if (!name.ok()) {                               \
    return name.error();                          \
  }                                               \
  target = std::move(name).value()
