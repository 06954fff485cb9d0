#include "parascale/base/text.h"

#include "parascale/base/file_system.h"
#include "tests/support/matchers.h"

namespace parascale {
namespace {

using std::chrono::milliseconds;

TEST(TextTest, ClosestFindsTheIntendedWord) {
  const std::vector<std::string> names = {"native", "native_ddp", "fsdp", "deepspeed", "ascend_native"};
  EXPECT_EQ(closest("native_dpp", names), "native_ddp");
  EXPECT_EQ(closest("fsdq", names), "fsdp");
  EXPECT_EQ(closest("horovod", names), std::nullopt);
}

TEST(TextTest, EditDistanceCountsTranspositionsOnce) {
  EXPECT_EQ(edit_distance("abcd", "acbd"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("same", "same"), 0U);
}

TEST(TextTest, NumbersMustBeWhole) {
  EXPECT_EQ(parse_int64("-12"), -12);
  EXPECT_EQ(parse_int64("12x"), std::nullopt);
  EXPECT_EQ(parse_uint64("-1"), std::nullopt);
  EXPECT_EQ(parse_double("1.5e-3"), 1.5e-3);
  EXPECT_EQ(parse_double(""), std::nullopt);
}

TEST(TextTest, FormatsUnits) {
  EXPECT_EQ(format_bytes(12), "12 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(310ULL << 20), "310 MiB");
  EXPECT_EQ(format_duration(milliseconds(187'000)), "3m07s");
  EXPECT_EQ(format_duration(std::chrono::microseconds(85)), "85 us");
  EXPECT_EQ(format_count(1, "step"), "1 step");
  EXPECT_EQ(format_count(12'500, "step"), "12,500 steps");
}

TEST(TextTest, SplitsPaths) {
  EXPECT_EQ(parent_path("a/b/c.tar"), "a/b");
  EXPECT_EQ(parent_path("c"), ".");
  EXPECT_EQ(parent_path("/c"), "/");
  EXPECT_EQ(file_stem("a/b/c.tar"), "c");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
}

TEST(ErrorTest, RendersPlaceNotesAndHelp) {
  const Error error = Error(Code::unknown_value, "unknown backend `native_dpp`")
                          .at({.file = "configs/clip.yaml",
                               .line = 12,
                               .column = 21,
                               .length = 10,
                               .line_text = "  training_backend: native_dpp"})
                          .note("registered: native, native_ddp")
                          .help("did you mean `native_ddp`?");
  EXPECT_EQ(render(error),
            "error[PS104]: unknown backend `native_dpp`\n"
            "  --> configs/clip.yaml:12:21\n"
            "   |\n"
            "12 |   training_backend: native_dpp\n"
            "   |                     ^^^^^^^^^^\n"
            "   = note: registered: native, native_ddp\n"
            "   = help: did you mean `native_ddp`?\n");
  EXPECT_EQ(exit_code(error.kind()), 2);
}

TEST(ErrorTest, CodesAreUniqueAndAscending) {
  const auto& codes = registered_codes();
  for (std::size_t i = 1; i < codes.size(); ++i) {
    EXPECT_LT(codes[i - 1].code, codes[i].code);
  }
}

}  // namespace
}  // namespace parascale
