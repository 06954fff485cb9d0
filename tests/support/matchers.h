#pragma once

#include <gmock/gmock.h>

#include "parascale/base/result.h"

namespace parascale::testing {

/// Matches a Result that holds a value or success: EXPECT_THAT(write(), is_ok()).
MATCHER(is_ok, "is ok") {
  if (!arg.ok()) {
    *result_listener << render(arg.error());
  }
  return arg.ok();
}

/// Matches a Result that holds a value which `inner` accepts.
MATCHER_P(is_ok_and_holds, inner, "is ok and holds a value that matches") {
  if (!arg.ok()) {
    *result_listener << render(arg.error());
    return false;
  }
  return ::testing::ExplainMatchResult(inner, arg.value(), result_listener);
}

/// Matches a Result that failed with exactly this code.
MATCHER_P(is_error, code, "fails with " + code_text(code)) {
  if (arg.ok()) {
    *result_listener << "is ok";
    return false;
  }
  *result_listener << render(arg.error());
  return arg.error().code() == code;
}

}  // namespace parascale::testing
