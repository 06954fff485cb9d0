#pragma once

#include <string_view>

namespace parascale {

/// The product's version, printed by `parascale --version` and stored in every artifact.
inline constexpr std::string_view kVersion = "0.3.0";

}  // namespace parascale
