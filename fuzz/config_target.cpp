#include "fuzz/targets.h"
#include "parascale/config/config.h"

namespace parascale::fuzz {

void config(Input input) {
  const std::string_view text = text_of(input);
  const bool is_json = text.starts_with('{');
  const auto outcome = config::load_config_text({.text = std::string(text), .name = is_json ? "config.json" : "config.yaml"});
  PS_CHECK(outcome.config.has_value() == outcome.errors.empty(), "a config is there, or a reason why not");
  for (const auto& error : outcome.errors) {
    PS_CHECK(error.kind() == ErrorKind::config && !render(error).empty(), "a bad config is the user's mistake and can be shown");
  }
  if (outcome.config) {
    const auto again = config::resolved_config_from_json(outcome.config->to_json());
    PS_CHECK(again.ok(), "what is written as config.resolved.json reads back");
  }
}

}  // namespace parascale::fuzz
