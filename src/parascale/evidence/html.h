#pragma once

#include <string>
#include <string_view>

namespace parascale::evidence {

/// Escapes `&`, `<`, `>`, `"` and `'`, so that the text is safe as HTML or SVG content and inside quoted attributes; control
/// characters that XML forbids become U+FFFD.
std::string escape_html(std::string_view text);

}  // namespace parascale::evidence
