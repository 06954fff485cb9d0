#include "parascale/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "parascale/base/hash.h"
#include "tests/support/matchers.h"

namespace parascale::checkpoint {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::HasSubstr;

std::string file_of(std::string_view header, std::size_t data_bytes) {
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) {
    out += static_cast<char>(header.size() >> (8 * i) & 0xFFU);
  }
  return out + std::string(header) + std::string(data_bytes, 'x');
}

Result<SafetensorsHeader> parse(const std::string& file, const SafetensorsLimits& limits = {}) {
  return parse_safetensors(as_bytes(file), file.size(), "t.safetensors", limits);
}

struct Accepted {
  const char* name;
  std::string header;
  std::size_t data_bytes;
};
class AcceptedFile : public ::testing::TestWithParam<Accepted> {};
TEST_P(AcceptedFile, parses) { EXPECT_THAT(parse(file_of(GetParam().header, GetParam().data_bytes)), is_ok()); }

INSTANTIATE_TEST_SUITE_P(
    safetensors, AcceptedFile,
    ::testing::Values(
        Accepted{"empty_object", "{}", 0}, Accepted{"metadata_only", R"({"__metadata__":{"format":"pt"}})", 0},
        Accepted{"leading_white_space", " \t\r\n{}", 0}, Accepted{"trailing_white_space", "{} \t\r\n", 0},
        Accepted{"scalar", R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4},
        Accepted{"zero_sized", R"({"a":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]}})", 0},
        Accepted{"zero_sized_before_another",
                 R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                 2},
        Accepted{"order_of_keys_is_free",
                 R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"a":{"shape":[1],"data_offsets":[0,1],"dtype":"BOOL"}})",
                 3},
        Accepted{"packed_type", R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2},
        Accepted{"unicode_name", R"({"gr\u00fc\u00df":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1}),
    [](const auto& param_info) { return param_info.param.name; });

struct Refused {
  const char* name;
  std::string header;
  std::size_t data_bytes;
  const char* message;
};
class RefusedFile : public ::testing::TestWithParam<Refused> {};
TEST_P(RefusedFile, says_why) {
  const auto parsed = parse(file_of(GetParam().header, GetParam().data_bytes));
  ASSERT_THAT(parsed, is_error(Code::safetensors_invalid));
  EXPECT_THAT(parsed.error().message(), HasSubstr(GetParam().message));
}

std::string one(std::string_view entry) { return std::string(R"({"a":)") + std::string(entry) + "}"; }

INSTANTIATE_TEST_SUITE_P(
    safetensors, RefusedFile,
    ::testing::Values(
        Refused{"empty_header", "", 0, "not a JSON object"}, Refused{"array", "[]", 0, "not a JSON object at byte 8"},
        Refused{"byte_order_mark", "\xEF\xBB\xBF{}", 0, "not a JSON object"},
        Refused{"broken_json", R"({"a":})", 0, "at byte 13"},
        Refused{"zero_byte_hides_rubbish", std::string("{}\0rubbish", 10), 0, "zero byte in the header at byte 10"},
        Refused{"two_documents", "{}{}", 0, "is not valid JSON"},
        Refused{"invalid_utf8", "{\"\xFF\":{}}", 0, "is not valid JSON"},
        Refused{"duplicate_key",
                R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
                "twice"},
        Refused{"deep", R"({"a":{"shape":[[[[[[1]]]]]]}})", 0, "nested deeper"},
        Refused{"metadata_number", R"({"__metadata__":{"a":1}})", 0, "not text, at `a`"},
        Refused{"metadata_text", R"({"__metadata__":"pt"})", 0, "not an object of texts"},
        Refused{"entry_is_text", one("\"x\""), 0, "tensor `a`: the entry is string"},
        Refused{"no_dtype", one(R"({"shape":[1],"data_offsets":[0,1]})"), 1, "exactly dtype, shape and data_offsets"},
        Refused{"extra_member", one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1})"), 1,
                "exactly dtype, shape and data_offsets"},
        Refused{"unknown_dtype", one(R"({"dtype":"F99","shape":[1],"data_offsets":[0,1]})"), 1, "unknown dtype `F99`"},
        Refused{"negative_size", one(R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})"), 1, "`shape` holds -1"},
        Refused{"fraction", one(R"({"dtype":"U8","shape":[1.0],"data_offsets":[0,1]})"), 1, "`shape` holds 1.0"},
        Refused{"beyond_exact", one(R"({"dtype":"U8","shape":[9007199254740993],"data_offsets":[0,1]})"), 1, "2^53"},
        Refused{"shape_is_number", one(R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})"), 1, "`shape` is integer"},
        Refused{"rank_17", one(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]})"), 1,
                "17 dimensions"},
        Refused{"one_offset", one(R"({"dtype":"U8","shape":[1],"data_offsets":[0]})"), 1, "not a pair"},
        Refused{"offsets_reversed", one(R"({"dtype":"U8","shape":[1],"data_offsets":[1,0]})"), 1, "not a pair"},
        Refused{"shape_overflows", one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,1]})"), 1,
                "overflows"},
        Refused{"half_a_byte", one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,2]})"), 2, "whole number of bytes"},
        Refused{"size_differs", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), 4, "hold 4 bytes; F32 [2] needs 8"},
        Refused{"hole_at_start", one(R"({"dtype":"U8","shape":[1],"data_offsets":[1,2]})"), 2, "a hole before it"},
        Refused{"overlap",
                R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3,
                "overlaps"},
        Refused{"hole_between",
                R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", 3,
                "a hole"},
        Refused{"tail", one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})"), 2, "the last tensor ends at byte"},
        Refused{"short_file", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})"), 3, "the file at"},
        Refused{"data_without_tensor", "{}", 1, "the last tensor ends at byte 10, the file at 11"},
        Refused{"control_in_name", R"({"a\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "control bytes"}),
    [](const auto& param_info) { return param_info.param.name; });

TEST(Safetensors, refuses_bad_lengths) {
  EXPECT_THAT(parse("1234567"), is_error(Code::safetensors_invalid));
  const std::string good = file_of("{}", 0);
  EXPECT_THAT(parse(good.substr(0, 9)), is_error(Code::safetensors_invalid));
  EXPECT_THAT(parse_safetensors(as_bytes(good).first(9), good.size(), "t", {}), is_error(Code::safetensors_invalid));
  std::string huge = good;
  huge[7] = '\x7F';
  EXPECT_THAT(parse(huge), is_error(Code::safetensors_invalid));
  EXPECT_THAT(parse(file_of("{}" + std::string(30, ' '), 0), {.header_bytes = 31}), is_error(Code::safetensors_invalid));
  EXPECT_THAT(parse(file_of("{}" + std::string(30, ' '), 0), {.header_bytes = 32}), is_ok());
}

TEST(Safetensors, refuses_too_many_tensors_and_long_names) {
  const auto layout = make_layout({{"a", Dtype::u8, {1}}, {"b", Dtype::u8, {1}}}).value();
  const std::string file = layout.header + "xy";
  EXPECT_THAT(parse(file, {.tensors = 0}), is_error(Code::safetensors_invalid));
  EXPECT_THAT(parse(file, {.tensors = 2}), is_ok());
  const auto long_name =
      parse(file_of(R"({")" + std::string(1025, 'n') + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  ASSERT_THAT(long_name, is_error(Code::safetensors_invalid));
  EXPECT_LT(long_name.error().message().size(), 400U) << "a long name must not flood the message";
}

TEST(Safetensors, reads_back_what_it_lays_out) {
  const auto layout =
      make_layout({{"b", Dtype::u8, {3}}, {"a", Dtype::f32, {2, 2}}, {"c", Dtype::bf16, {}}, {"z", Dtype::i64, {0}}},
                  {{"format", "pt"}, {"note", "q\"u"}})
          .value();
  EXPECT_EQ(layout.header.size() % 4096, 0U);
  EXPECT_EQ(layout.total_bytes, layout.header.size() + 16 + 2 + 3);
  const auto parsed = parse(layout.header + std::string(layout.total_bytes - layout.header.size(), '\0'));
  ASSERT_THAT(parsed, is_ok());
  EXPECT_EQ(parsed->tensors, layout.tensors);
  EXPECT_EQ(parsed->metadata.at("note"), "q\"u");
  EXPECT_EQ(parsed->data_offset_bytes, layout.header.size());
  EXPECT_EQ(layout.tensors[1].name, "a") << "wide elements first, so every tensor is aligned";
  EXPECT_EQ(layout.find("c")->size_bytes, 2U);
  EXPECT_EQ(layout.find("nope"), nullptr);
}

TEST(Safetensors, layout_does_not_depend_on_the_order_given) {
  const auto one_way = make_layout({{"a", Dtype::f32, {2}}, {"b", Dtype::f32, {3}}}, {}, 8).value();
  const auto other_way = make_layout({{"b", Dtype::f32, {3}}, {"a", Dtype::f32, {2}}}, {}, 8).value();
  EXPECT_EQ(one_way.header, other_way.header);
  EXPECT_EQ(one_way.tensors, other_way.tensors);
}

TEST(Safetensors, layout_refuses_what_it_could_not_read) {
  EXPECT_THAT(make_layout({{"a", Dtype::f32, {2}}, {"a", Dtype::f32, {2}}}), is_error(Code::safetensors_invalid));
  EXPECT_THAT(make_layout({{"", Dtype::f32, {2}}}), is_error(Code::safetensors_invalid));
  EXPECT_THAT(make_layout({{"__metadata__", Dtype::f32, {2}}}), is_error(Code::safetensors_invalid));
  EXPECT_THAT(make_layout({{"a\nb", Dtype::f32, {2}}}), is_error(Code::safetensors_invalid));
  EXPECT_THAT(make_layout({{"a\xFF", Dtype::f32, {2}}}), is_error(Code::safetensors_invalid));
  EXPECT_THAT(make_layout({{"a", Dtype::f32, std::vector<std::uint64_t>(17, 1)}}), is_error(Code::safetensors_invalid));
  EXPECT_THAT(make_layout({{"a", Dtype::f32, {1ULL << 40, 1ULL << 40}}}), is_error(Code::safetensors_invalid));
  EXPECT_THAT(make_layout({{"a", Dtype::f4, {3}}}), is_error(Code::safetensors_invalid));
}

}  // namespace
}  // namespace parascale::checkpoint
