#include "parascale/base/json.h"

#include <cmath>

#include "tests/support/matchers.h"

namespace parascale {
namespace {

using testing::is_error;
using testing::is_ok_and_holds;

TEST(JsonTest, WritesWhatItReads) {
  const std::string text = R"({"a":[1,-2,18446744073709551615,0.1,1e+300],"b":{"c":null,"d":true},"e":"\"\\\u0001 é"})";
  auto json = parse_json(text, "t");
  ASSERT_TRUE(json.ok()) << render(json.error());
  EXPECT_EQ(json->dump(), text);
  EXPECT_THAT(parse_json(json->dump_pretty(), "t"), is_ok_and_holds(*json));
}

TEST(JsonTest, CanonicalSortsKeys) {
  EXPECT_EQ((Json::object({{"b", 1}, {"a", Json::object({{"d", 2.0}, {"c", "x"}})}}).canonical()),
            R"({"a":{"c":"x","d":2.0},"b":1})");
}

TEST(JsonTest, KeepsNumberTypes) {
  auto json = parse_json("[1, 1.0, 1e2]", "t");
  ASSERT_TRUE(json.ok());
  EXPECT_TRUE(json->items()[0].is_integer());
  EXPECT_FALSE(json->items()[1].is_integer());
  EXPECT_EQ(json->dump(), "[1,1.0,100.0]");
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
}

TEST(JsonTest, RefusesWhatIsNotStrictJson) {
  for (const char* text : {"", "{", R"({"a":1,"a":2})", "[1,]", "// c\n1", "1 2", "{'a':1}", "[1e999]", "\"\xff\"", "nul"}) {
    EXPECT_THAT(parse_json(text, "t"), is_error(Code::json_invalid)) << text;
  }
  EXPECT_THAT(parse_json(std::string_view("1\0 2", 4), "t"), is_error(Code::json_invalid));
  EXPECT_THAT(parse_json("\xEF\xBB\xBF{}", "t"), is_error(Code::json_invalid));
  const std::string deep(100, '[');
  EXPECT_THAT(parse_json(deep, "t"), is_error(Code::json_invalid));
}

TEST(JsonTest, FindsDuplicatesInSmallAndLargeObjects) {
  for (const int count : {2, 23, 24, 25, 60}) {
    std::string text = "{";
    for (int i = 0; i < count; ++i) {
      text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
    }
    EXPECT_TRUE(parse_json(text + "\"last\":0}", "t").ok()) << count;
    EXPECT_THAT(parse_json(text + "\"k0\":0}", "t"), is_error(Code::json_invalid)) << count;
    EXPECT_THAT(parse_json(text + "\"k" + std::to_string(count - 1) + "\":0}", "t"), is_error(Code::json_invalid)) << count;
  }
}

TEST(JsonTest, NamesThePlaceOfAFault) {
  auto json = parse_json("{\n  \"a\": 1,\n  b: 2\n}", "x.json");
  ASSERT_FALSE(json.ok());
  ASSERT_TRUE(json.error().mark());
  EXPECT_EQ(json.error().mark()->line, 3U);
  EXPECT_EQ(json.error().mark()->column, 3U);
  EXPECT_EQ(json.error().mark()->line_text, "  b: 2");
}

TEST(JsonTest, TypedMembersNameBothTypes) {
  const Json json = Json::object({{"n", -1}, {"s", "x"}, {"big", 3000000000ULL}});
  EXPECT_THAT(json.get<std::int64_t>("n"), is_ok_and_holds(-1));
  EXPECT_THAT(json.get<std::uint64_t>("n"), is_error(Code::json_invalid));
  EXPECT_THAT(json.get<std::int32_t>("big"), is_error(Code::json_invalid));
  EXPECT_EQ(json.get<double>("s").error().message(), "member `s` is string; expected number");
  EXPECT_THAT(json.get_or<std::string>("absent", "d"), is_ok_and_holds("d"));
}

TEST(JsonTest, InvalidUtf8BecomesReplacementCharacters) {
  std::string out;
  append_json_string(out, "a\xff\xe2\x82z\xed\xa0\x80");
  EXPECT_TRUE(parse_json(out, "t").ok()) << out;
  EXPECT_TRUE(out.starts_with("\"a\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace parascale
