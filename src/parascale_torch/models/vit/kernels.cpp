#include "parascale_torch/models/vit/kernels.h"

namespace parascale::native::kernels {

namespace baseline {
const Table<float>& float_table();
const AttentionTable<float>& float_attention_table();
const Table<double>& double_table();
const AttentionTable<double>& double_attention_table();
}  // namespace baseline
#ifdef PS_KERNELS_X86
namespace avx2 {
const Table<float>& float_table();
const AttentionTable<float>& float_attention_table();
}  // namespace avx2
namespace avx512 {
const Table<float>& float_table();
const AttentionTable<float>& float_attention_table();
}  // namespace avx512
#endif

namespace {

enum class Set { baseline, avx2, avx512 };

Set detect() {
#ifdef PS_KERNELS_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return Set::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return Set::avx2;
  }
#endif
  return Set::baseline;
}

Set chosen() {
  static const Set set = detect();
  return set;
}

}  // namespace

std::int64_t AttentionShape::scratch_values() const {
  // The backward pass needs more: q, d [queries, pw]; k, grad [keys, pw]; vt [pw, pk]; ds [queries, pk]; 64 values of slack for
  // alignment.
  return 2 * queries * padded_width() + 2 * keys * padded_width() + padded_width() * padded_keys() + queries * padded_keys() + 64;
}

template <>
const Table<float>& table<float>() {
#ifdef PS_KERNELS_X86
  switch (chosen()) {
    case Set::avx512:
      return avx512::float_table();
    case Set::avx2:
      return avx2::float_table();
    case Set::baseline:
      break;
  }
#endif
  return baseline::float_table();
}

template <>
const AttentionTable<float>& attention_table<float>() {
#ifdef PS_KERNELS_X86
  switch (chosen()) {
    case Set::avx512:
      return avx512::float_attention_table();
    case Set::avx2:
      return avx2::float_attention_table();
    case Set::baseline:
      break;
  }
#endif
  return baseline::float_attention_table();
}

template <>
const Table<double>& table<double>() {
  return baseline::double_table();
}

template <>
const AttentionTable<double>& attention_table<double>() {
  return baseline::double_attention_table();
}

const char* instruction_set() {
  switch (chosen()) {
    case Set::avx512:
      return "avx512";
    case Set::avx2:
      return "avx2";
    case Set::baseline:
      break;
  }
  return "baseline";
}

}  // namespace parascale::native::kernels
