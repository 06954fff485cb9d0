#include "parascale/evidence/html_table.h"

#include <utility>

#include <fmt/core.h>

#include "parascale/evidence/html.h"

namespace parascale::evidence {

HtmlTable::HtmlTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void HtmlTable::add(std::vector<std::string> cells, std::string_view css_class) {
  body_ += css_class.empty() ? "<tr>" : fmt::format(R"(<tr class="{}">)", css_class);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string text = i < cells.size() && !cells[i].empty() ? escape_html(cells[i]) : "-";
    // Only long texts may break inside a word: short ones (`PS402`) keep their column wide enough.
    const char* css = columns_[i].align == Align::number ? "n" : text.size() > 32 ? "w" : "t";
    body_ += fmt::format(R"(<td class="{}">{}</td>)", css, text);
  }
  body_ += "</tr>\n";
  ++rows_;
}

std::string HtmlTable::html(std::string_view when_empty) const {
  if (rows_ == 0) {
    return fmt::format(R"(<p class="none">{}</p>)", escape_html(when_empty));
  }
  std::string out = R"(<div class="panel t"><table><thead><tr>)";
  for (const Column& column : columns_) {
    out += fmt::format(R"(<th{}>{}</th>)", column.align == Align::number ? R"( class="n")" : "", escape_html(column.title));
  }
  return out + "</tr></thead><tbody>\n" + body_ + "</tbody></table></div>\n";
}

}  // namespace parascale::evidence
