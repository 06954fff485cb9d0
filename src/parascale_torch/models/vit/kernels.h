#pragma once

#include <cstddef>
#include <cstdint>

namespace parascale::native::kernels {

/// Row-wise kernels of a transformer block that the tensor library would run as several passes over memory.
///
/// Every kernel works on a range of rows or samples that the caller chose, so that the caller decides about threads; partial
/// column sums go to a row of their own per range and are added in range order, which makes results independent of the number of
/// threads. All matrices are dense and row-major. `T` is float (vectorised for the machine at hand) or double (for gradient
/// checks).
template <typename T>
struct Table {
  /// sum = x + y + bias (y and bias may be null); normed = (sum - mean) * rstd * gamma + beta for `rows` rows of `width` values.
  /// `sum` may be x itself. Stores mean and rstd of every row.
  void (*add_norm_forward)(std::int64_t rows, std::int64_t width, const T* x, const T* y, const T* bias, T* sum, const T* gamma,
                           const T* beta, T epsilon, T* normed, T* mean, T* rstd);
  /// dx = dresidual + gradient of the norm (dresidual may be null, dx may be dresidual); writes the sums of this range to dgamma,
  /// dbeta and, when dx_sum is given, the column sums of dx.
  void (*norm_backward)(std::int64_t rows, std::int64_t width, const T* dnormed, const T* x, const T* mean, const T* rstd,
                        const T* gamma, const T* dresidual, T* dx, T* dgamma, T* dbeta, T* dx_sum);
  /// up = up + bias; activated = gelu(up), exact form.
  void (*bias_gelu_forward)(std::int64_t rows, std::int64_t width, T* up, const T* bias, T* activated);
  /// dup = dactivated * gelu'(up), in place over dactivated; writes the column sums of dup.
  void (*gelu_backward)(std::int64_t rows, std::int64_t width, const T* up, T* dactivated, T* dup_sum);
  /// sum = x + y + bias.
  void (*add_bias)(std::int64_t rows, std::int64_t width, const T* x, const T* y, const T* bias, T* sum);
  /// Writes the column sums of x.
  void (*column_sum)(std::int64_t rows, std::int64_t width, const T* x, T* sum);
  /// Sum of squares, accumulated in double per block of 4096 values.
  double (*square_sum)(std::int64_t count, const T* x);
};

/// Shape of one attention: `queries` is `keys`, or 1 when only the first token's output is wanted.
struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t head_width = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t query_stride = 0;  ///< values between two tokens of the query matrix
  std::int64_t key_stride = 0;    ///< values between two tokens of the key and value matrices

  [[gnu::always_inline]] std::int64_t padded_keys() const { return (keys + 15) / 16 * 16; }
  [[gnu::always_inline]] std::int64_t padded_width() const { return (head_width + 15) / 16 * 16; }
  /// Probabilities kept per sample for the backward pass, in values.
  [[gnu::always_inline]] std::int64_t probability_values() const { return heads * queries * padded_keys(); }
  /// Scratch values that one call needs.
  std::int64_t scratch_values() const;
};

template <typename T>
struct AttentionTable {
  /// One sample: adds the biases (each heads * head_width values), softmax(q k^T / sqrt(head_width)) v for every head. Writes out
  /// [queries, heads * head_width] and the probabilities.
  void (*forward)(const AttentionShape& shape, const T* query, const T* key, const T* value, const T* query_bias,
                  const T* key_bias, const T* value_bias, T* out, T* probabilities, T* scratch);
  /// One sample: gradients with the strides of the inputs.
  void (*backward)(const AttentionShape& shape, const T* query, const T* key, const T* value, const T* query_bias,
                   const T* key_bias, const T* value_bias, const T* dout, const T* probabilities, T* dquery, T* dkey, T* dvalue,
                   T* scratch);
};

/// The kernels for this machine, chosen once: AVX-512, AVX2 with FMA, or the baseline. *thread-safe*
template <typename T>
const Table<T>& table();
template <typename T>
const AttentionTable<T>& attention_table();
/// `avx512`, `avx2` or `baseline`.
const char* instruction_set();

}  // namespace parascale::native::kernels
