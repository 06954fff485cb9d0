// The product's safetensors code as a program, for tests/oracles/safetensors_roundtrip.py.
//   safetensors_tool write FILE   writes one tensor of every type in a fixed set; byte i of tensor k is (31 * k + i) mod 251
//   safetensors_tool read FILE    prints {metadata, tensors: [{name, dtype, shape, sha256}]} as JSON; exit 5 when the file is
//   refused
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/hash.h"
#include "parascale/base/json.h"
#include "parascale/checkpoint/safetensors.h"

namespace parascale::checkpoint {
namespace {

const std::vector<TensorEntry>& entries() {
  static const std::vector<TensorEntry> all = {{"bool", Dtype::boolean, {3}},  {"u8", Dtype::u8, {5}},
                                               {"i8", Dtype::i8, {2, 2}},      {"i16", Dtype::i16, {3, 1}},
                                               {"u16", Dtype::u16, {2}},       {"f16", Dtype::f16, {4}},
                                               {"i32", Dtype::i32, {2, 3}},    {"u32", Dtype::u32, {1}},
                                               {"f32", Dtype::f32, {2, 2, 2}}, {"i64", Dtype::i64, {}},
                                               {"u64", Dtype::u64, {2}},       {"f64", Dtype::f64, {3}},
                                               {"empty", Dtype::f32, {0, 4}},  {"name \"quoted\" \xC3\xBC", Dtype::u8, {1}}};
  return all;
}

Status write(FileSystem& files, const std::string& path) {
  PS_ASSIGN(const auto layout, make_layout(entries(), {{"format", "pt"}, {"note", "line\nfeed"}}));
  std::string content = layout.header;
  for (std::size_t k = 0; k < layout.tensors.size(); ++k) {
    for (std::size_t i = 0; i < layout.tensors[k].size_bytes; ++i) {
      const bool boolean = layout.tensors[k].dtype == Dtype::boolean;
      content += static_cast<char>(boolean ? i % 2 : (31 * k + i) % 251);
    }
  }
  return replace_file(files, path, content);
}

Result<Json> read(FileSystem& files, const std::string& path) {
  PS_ASSIGN(auto file, files.open(path, OpenMode::read));
  PS_ASSIGN(const auto header, read_safetensors_header(*file));
  Json metadata = Json::object();
  for (const auto& [key, text] : header.metadata) {
    metadata[key] = text;
  }
  Json tensors = Json::array();
  for (const auto& tensor : header.tensors) {
    std::string bytes(tensor.size_bytes, '\0');
    PS_ASSIGN(const std::size_t got, file->read_at(tensor.offset_bytes, std::as_writable_bytes(std::span(bytes))));
    bytes.resize(got);
    tensors.push_back(Json::object({{"name", tensor.name},
                                    {"dtype", dtype_name(tensor.dtype)},
                                    {"shape", Json::array_of(tensor.shape)},
                                    {"sha256", sha256_hex(bytes)}}));
  }
  return Json::object({{"metadata", metadata}, {"tensors", tensors}});
}

int run(std::string_view command, const std::string& path) {
  FileSystem& files = real_file_system();
  std::optional<Error> error;
  if (command == "write") {
    if (const Status written = write(files, path); !written.ok()) {
      error = written.error();
    }
  } else if (const auto json = read(files, path); json.ok()) {
    std::puts(json->dump().c_str());
  } else {
    error = json.error();
  }
  if (error) {
    std::fputs(render(*error).c_str(), stderr);
  }
  return error ? exit_code(error->kind()) : 0;
}

}  // namespace
}  // namespace parascale::checkpoint

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: safetensors_tool write|read FILE\n", stderr);
    return 2;
  }
  return parascale::checkpoint::run(arguments[1], arguments[2]);
}
