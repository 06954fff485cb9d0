#include "parascale/config/marked_node.h"

#include <fmt/core.h>

#include "parascale/base/json.h"
#include "parascale/config/scalar.h"
#include "tests/support/matchers.h"

namespace parascale::config {
namespace {

using ::testing::HasSubstr;

ParsedText parse(const std::string& text) { return parse_marked(SourceText("t.yaml", text)); }

Error only_error(const ParsedText& parsed) {
  EXPECT_EQ(parsed.errors.size(), 1U);
  return parsed.errors.empty() ? Error(Code::internal, "no error") : parsed.errors.front();
}

std::string place_of(const Error& error) {
  return error.mark() ? fmt::format("{}:{}", error.mark()->line, error.mark()->column) : "none";
}

TEST(MarkedNodeTest, KeepsPlacesOfKeysAndValues) {
  const auto parsed = parse("a: 1\nbc:\n  - x\n  - \"long text\"  # c\nd: {e: [1, 22]}\nf:\ng: null\n");
  ASSERT_TRUE(parsed.root);
  ASSERT_TRUE(parsed.errors.empty());
  const auto& members = parsed.root->members;
  ASSERT_EQ(members.size(), 5U);
  EXPECT_EQ(members[0].key_place, (Place{1, 1, 1}));
  EXPECT_EQ(members[0].value.place, (Place{1, 4, 1}));
  EXPECT_EQ(members[1].key_place, (Place{2, 1, 2}));
  EXPECT_EQ(members[1].value.items[1].place, (Place{4, 5, 11}));
  EXPECT_TRUE(members[1].value.items[1].quoted);
  EXPECT_EQ(members[2].value.members[0].value.items[1].place, (Place{5, 12, 2}));
  EXPECT_EQ(members[3].value.place, (Place{6, 1, 1})) << "a missing value is shown at its key";
  EXPECT_EQ(members[4].value.place, (Place{7, 4, 4}));
  EXPECT_EQ(to_json(*parsed.root).dump(), R"({"a":1,"bc":["x","long text"],"d":{"e":[1,22]},"f":null,"g":null})");
}

TEST(MarkedNodeTest, ByteOrderMarkAndWindowsLinesDoNotShiftPlaces) {
  const SourceText source("t", "\xEF\xBB\xBFkey: 1\r\nother: 2\r\n");
  const auto parsed = parse_marked(source);
  ASSERT_TRUE(parsed.root);
  ASSERT_EQ(parsed.root->members.size(), 2U);
  EXPECT_EQ(parsed.root->members[0].key, "key");
  EXPECT_EQ(parsed.root->members[0].value.place, (Place{1, 6, 1}));
  EXPECT_EQ(parsed.root->members[1].value.place, (Place{2, 8, 1}));
  EXPECT_EQ(source.mark(parsed.root->members[1].value.place).line_text, "other: 2");
}

TEST(MarkedNodeTest, ColumnsCountBytes) {
  const auto parsed = parse("a: {\xC3\xA9: 1, b: 2}\n");
  ASSERT_TRUE(parsed.root);
  EXPECT_EQ(parsed.root->members[0].value.members[1].value.place, (Place{1, 15, 1}));
}

TEST(MarkedNodeTest, DuplicateKeyNamesBothPlacesAndKeepsTheFirst) {
  const auto parsed = parse("a: 1\nb:\n  c: 2\n  c: 3\na: 4\n");
  ASSERT_EQ(parsed.errors.size(), 2U);
  EXPECT_EQ(parsed.errors[0].code(), Code::duplicate_key);
  EXPECT_EQ(place_of(parsed.errors[0]), "4:3");
  EXPECT_THAT(parsed.errors[0].notes(), ::testing::ElementsAre("first given at t.yaml:3:3"));
  EXPECT_EQ(place_of(parsed.errors[1]), "5:1");
  ASSERT_TRUE(parsed.root);
  EXPECT_EQ(to_json(*parsed.root).dump(), R"({"a":1,"b":{"c":2}})");
}

TEST(MarkedNodeTest, EmptyTextsHaveANullRoot) {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "\xEF\xBB\xBF"}) {
    const auto parsed = parse(text);
    ASSERT_TRUE(parsed.root) << text;
    EXPECT_EQ(parsed.root->kind, MarkedNode::Kind::null) << text;
    EXPECT_TRUE(parsed.errors.empty()) << text;
  }
}

struct Refusal {
  const char* text;
  const char* message;
  const char* place;
};

TEST(MarkedNodeTest, RefusesWhatIsNotPlainYaml) {
  const Refusal refusals[] = {
      {"a: &x 1\n", "anchors are not supported", "1:4"},
      {"a: *x\n", "", "1:4"},
      {"a: 1\n---\nb: 2\n", "second document", "2:1"},
      {"a: {<<: {b: 1}}\n", "merge keys are not supported", "1:5"},
      {"a: !!binary xyz\n", "tags are not supported: `!!binary`", "1:4"},
      {"a: !mine 1\n", "tags are not supported: `!mine`", "1:4"},
      {"a: !!map {}\n", "tags are not supported", "1:4"},
      {"? [a, b]\n: 1\n", "a key is not a text", "1:3"},
      {": 1\n", "a key is empty", "1:1"},
      {"a: [1, 2\nb: 3\n", "not valid YAML", nullptr},
      {"a: 1\n\tb: 2\n", "not valid YAML", nullptr},
      {"a: 'open\n", "a quote is not closed", "1:4"},
      {"a: \"open\n", "not valid YAML", nullptr},
      {"a: [\"open]\n", "not valid YAML", nullptr},
      {"'open: 1\n", "not valid YAML", nullptr},
      {"a: b: c\n", "not valid YAML", nullptr},
      {"a: \"b\" c\n", "not valid YAML", nullptr},
      {"- a\nb: 1\n", "not valid YAML", nullptr},
      {"{a: 1}}\n", "not valid YAML", nullptr},
      {"{a: 1} x\n", "not valid YAML", nullptr},
      {"a: @x\n", "not valid YAML", nullptr},
      {"a: `x`\n", "not valid YAML", nullptr},
      {"a: - b\n", "not valid YAML", nullptr},
      {"a: [1, 2]]\n", "not valid YAML", nullptr},
      {"a: [1, 2\n", "not valid YAML", nullptr},
      {"a: |\nb\n", "a key has no colon", "2:1"},
      {"a: 1\nb\n", "a key has no colon", "2:1"},
      {"a: {b}\n", "a key has no colon", "1:5"},
      {"a: 1\n b: 2\n", "not valid YAML", nullptr},
      {"a:\n  b: 1\n c: 2\n", "not valid YAML", "3:2"},
      {"a: \xFF\n", "not UTF-8: byte 0xff", "1:4"},
      {"a: b\x01\n", "not UTF-8: byte 0x01", "1:5"},
  };
  for (const Refusal& refusal : refusals) {
    const auto parsed = parse(refusal.text);
    EXPECT_FALSE(parsed.root) << refusal.text;
    const Error error = only_error(parsed);
    EXPECT_EQ(error.code(), Code::config_syntax) << refusal.text;
    EXPECT_THAT(error.message(), HasSubstr(refusal.message)) << refusal.text;
    EXPECT_FALSE(error.helps().empty()) << refusal.text;
    if (refusal.place != nullptr) {
      EXPECT_EQ(place_of(error), refusal.place) << refusal.text;
    }
  }
}

TEST(MarkedNodeTest, BlockTextsAndMissingValues) {
  const auto parsed = parse("a: |\n  x\n  y\nb: >\n  x\n  y\nc :\nd: # none\ne: ''\nf: {g: }\n'h':\n");
  ASSERT_TRUE(parsed.root) << render(only_error(parsed));
  EXPECT_EQ(to_json(*parsed.root).dump(), R"({"a":"x\ny\n","b":"x y\n","c":null,"d":null,"e":"","f":{"g":null},"h":null})");
}

TEST(MarkedNodeTest, ALetterTagForAStringIsFine) {
  const auto parsed = parse("a: !!str 7\n");
  ASSERT_TRUE(parsed.root);
  EXPECT_EQ(to_json(*parsed.root).dump(), R"({"a":"7"})");
}

TEST(MarkedNodeTest, HoldsItsLimits) {
  const SourceText deep("t", "a: " + std::string(70, '[') + std::string(70, ']'));
  EXPECT_THAT(only_error(parse_marked(deep)).message(), HasSubstr("deeper than 64"));
  EXPECT_FALSE(parse_marked(SourceText("t", std::string(100'000, '['))).root);
  std::string many = "a: [";
  for (int i = 0; i < 30; ++i) {
    many += "1,";
  }
  EXPECT_THAT(only_error(parse_marked(SourceText("t", many + "1]"), {.max_nodes = 20})).message(),
              HasSubstr("more than 20 values"));
  EXPECT_THAT(only_error(parse_marked(SourceText("t", "a: 12345"), {.max_bytes = 4})).message(), HasSubstr("the limit is 4 B"));
}

TEST(MarkedNodeTest, UnquotedVariableInBracketsGetsItsRemedy) {
  EXPECT_THAT(only_error(parse("runtime: {run_dir: ${RUNS}/a}\n")).helps().front(), HasSubstr("quote texts with `${...}`"));
}

TEST(MarkedNodeTest, JsonIsReadWithTheSamePlaces) {
  const auto parsed =
      parse_marked_json(SourceText("t.json", "{\n\t\"a\": {\"b\": [1, 2.5e3, null, true]},\n  \"c\": \"x\\u00e9\\n\"\n}\n"));
  ASSERT_TRUE(parsed.root) << render(only_error(parsed));
  EXPECT_EQ(parsed.root->members[1].value.place, (Place{3, 8, 11}));
  EXPECT_EQ(to_json(*parsed.root).dump(), R"({"a":{"b":[1,2500.0,null,true]},"c":"xé\n"})");
}

TEST(MarkedNodeTest, JsonFilesMustBeStrictJson) {
  for (const char* text : {"a: 1\n", "{\"a\": 1,}", "{\"a\": 1} // c", "{'a': 1}", "{\"a\": yes}", ""}) {
    const auto parsed = parse_marked_json(SourceText("t.json", text));
    EXPECT_FALSE(parsed.root) << text;
    const Error error = only_error(parsed);
    EXPECT_EQ(error.code(), Code::config_syntax) << text;
    EXPECT_THAT(error.message(), HasSubstr("not valid JSON")) << text;
    EXPECT_TRUE(error.mark()) << text;
  }
  const auto trailing = parse_marked_json(SourceText("t.json", "{\n  \"a\": 1,\n}"));
  EXPECT_EQ(place_of(only_error(trailing)), "3:1");
  const auto twice = parse_marked_json(SourceText("t.json", "{\"a\": 1,\n \"a\": 2}"));
  EXPECT_EQ(only_error(twice).code(), Code::duplicate_key);
  EXPECT_EQ(place_of(only_error(twice)), "2:2");
}

TEST(ScalarTest, FollowsTheCoreSchema) {
  const std::pair<const char*, const char*> cases[] = {
      {"1", "1"},
      {"-7", "-7"},
      {"+3", "3"},
      {"010", "10"},
      {"0o17", "15"},
      {"0x1F", "31"},
      {"1e3", "1000.0"},
      {"1.5e-3", "0.0015"},
      {".5", "0.5"},
      {"1.", "1.0"},
      {"-.5e1", "-5.0"},
      {"true", "true"},
      {"False", "false"},
      {"null", "null"},
      {"~", "null"},
      {"", "null"},
      {"yes", "\"yes\""},
      {"on", "\"on\""},
      {"Y", "\"Y\""},
      {"off", "\"off\""},
      {"1_000", "\"1_000\""},
      {"0b1", "\"0b1\""},
      {"1:30", "\"1:30\""},
      {"e5", "\"e5\""},
      {".", "\".\""},
      {"1e", "\"1e\""},
      {"-", "\"-\""},
      {"0o8", "\"0o8\""},
      {"0x", "\"0x\""},
      {"1.2.3", "\"1.2.3\""},
      {"99999999999999999999", "1e+20"},
      {"1e-999", "0.0"},
      {".inf", "null"},
      {"1e999", "null"},
  };
  for (const auto& [text, json] : cases) {
    EXPECT_EQ(plain_scalar(text).dump(), json) << text;
  }
}

}  // namespace
}  // namespace parascale::config
