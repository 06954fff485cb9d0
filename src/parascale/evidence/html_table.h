#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace parascale::evidence {

/// Builds an HTML table. Cells are escaped; an empty cell shows `-`. *thread-compatible*
class HtmlTable {
 public:
  enum class Align : std::uint8_t { text, number };
  struct Column {
    std::string title;
    Align align = Align::text;
  };

  explicit HtmlTable(std::vector<Column> columns);
  /// Adds a row; missing cells are empty. `css_class` is one of ours (`best`) or empty.
  void add(std::vector<std::string> cells, std::string_view css_class = "");
  std::size_t rows() const { return rows_; }
  /// The `<table>` in a panel, or a paragraph with `when_empty`.
  std::string html(std::string_view when_empty) const;

 private:
  std::vector<Column> columns_;
  std::string body_;
  std::size_t rows_ = 0;
};

}  // namespace parascale::evidence
