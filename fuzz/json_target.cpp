#include "fuzz/targets.h"
#include "parascale/base/json.h"

namespace parascale::fuzz {

void json(Input input) {
  const auto read = parse_json(text_of(input), "input");
  if (!read.ok()) {
    PS_CHECK(read.error().code() == Code::json_invalid && !render(read.error()).empty(), "a bad document can be explained");
    return;
  }
  for (const std::string& text : {read->dump(), read->dump_pretty()}) {
    const auto again = parse_json(text, "again");
    PS_CHECK(again.ok() && *again == *read, "what is written reads back equal");
  }
  const auto sorted = parse_json(read->canonical(), "canonical");
  PS_CHECK(sorted.ok() && sorted->canonical() == read->canonical(), "the canonical form is a fixed point");
}

}  // namespace parascale::fuzz
