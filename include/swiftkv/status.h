// SPDX-License-Identifier: Apache-2.0
// Carries expected failures as values: Status and Result<T>. Layer: base.
//
// Two kinds of failure are never mixed. Expected trouble (a bad file, a full pool, a bad flag) is a
// Status whose message ends with the offending value and says what would be accepted. A broken
// invariant stops the process (SKV_CHECK) and never travels as a Status.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace swiftkv {

enum class StatusCode {
  kOk,
  kInvalidArgument,    // the caller asked for something that can never work
  kNotFound,           // a named thing does not exist
  kUnsupported,        // well-formed, but this build or model does not serve it
  kDataLoss,           // a file or message is damaged or hostile
  kResourceExhausted,  // memory, pool or queue is full; may work later
  kCancelled,          // the caller withdrew the request
  kInternal,           // a dependency failed in a way that has no better name
};

// Returns the code's stable name, e.g. "resource_exhausted".
const char* StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }
  static Status InvalidArgument(std::string message) {
    return {StatusCode::kInvalidArgument, std::move(message)};
  }
  static Status NotFound(std::string message) {
    return {StatusCode::kNotFound, std::move(message)};
  }
  static Status Unsupported(std::string message) {
    return {StatusCode::kUnsupported, std::move(message)};
  }
  static Status DataLoss(std::string message) {
    return {StatusCode::kDataLoss, std::move(message)};
  }
  static Status ResourceExhausted(std::string message) {
    return {StatusCode::kResourceExhausted, std::move(message)};
  }
  static Status Cancelled(std::string message) {
    return {StatusCode::kCancelled, std::move(message)};
  }
  static Status Internal(std::string message) {
    return {StatusCode::kInternal, std::move(message)};
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

namespace internal {
// Stops the process: a Result was read though it holds no value.
[[noreturn]] void DieOnBadResultAccess(const Status& status);
}  // namespace internal

// Holds either a T or the Status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) internal::DieOnBadResultAccess(status_);
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & {
    if (!value_) internal::DieOnBadResultAccess(status_);
    return *value_;
  }
  const T& value() const& {
    if (!value_) internal::DieOnBadResultAccess(status_);
    return *value_;
  }
  T&& value() && {
    if (!value_) internal::DieOnBadResultAccess(status_);
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace swiftkv
