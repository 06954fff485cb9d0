// The bodies of kernels.h, compiled once per instruction set: the including file defines PS_KERNEL_SET and is compiled with that
// set's flags. Only freestanding code here: an inline function of the standard library compiled with AVX flags could be picked
// for the whole program.
#pragma once

#include "parascale_torch/models/vit/kernels.h"

namespace parascale::native::kernels::PS_KERNEL_SET {

namespace {

constexpr std::int64_t kLanes = 16;

template <typename T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Type __attribute__((vector_size(kLanes * sizeof(float)))) = float;
  using Bits __attribute__((vector_size(kLanes * sizeof(float)))) = std::int32_t;
};
template <>
struct VectorOf<double> {
  using Type __attribute__((vector_size(kLanes * sizeof(double)))) = double;
  using Bits __attribute__((vector_size(kLanes * sizeof(double)))) = std::int64_t;
};
template <typename T>
using V = typename VectorOf<T>::Type;

#define PS_INLINE inline __attribute__((always_inline))

template <typename T>
PS_INLINE V<T> load(const T* from) {
  V<T> value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <typename T>
PS_INLINE void store(T* to, const V<T>& value) {
  __builtin_memcpy(to, &value, sizeof value);
}
template <typename T>
PS_INLINE V<T> load_some(const T* from, std::int64_t count) {
  V<T> value = {};
  for (std::int64_t i = 0; i < count; ++i) {
    value[i] = from[i];
  }
  return value;
}
template <typename T>
PS_INLINE void store_some(T* to, const V<T>& value, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = value[i];
  }
}
template <typename T>
PS_INLINE V<T> all(T value) {
  return V<T>{} + value;
}
/// Adds or compares the lanes of a vector pairwise: halves of 8, 4, 2 lanes. The fixed order makes the result the same for every
/// caller.
template <typename T, typename Combine>
PS_INLINE T fold_lanes(const V<T>& value, const Combine& combine) {
  using Eight __attribute__((vector_size(8 * sizeof(T)))) = T;
  using Four __attribute__((vector_size(4 * sizeof(T)))) = T;
  Eight a[2];
  __builtin_memcpy(a, &value, sizeof a);
  const Eight eight = combine(a[0], a[1]);
  Four b[2];
  __builtin_memcpy(b, &eight, sizeof b);
  const Four four = combine(b[0], b[1]);
  return combine(combine(four[0], four[2]), combine(four[1], four[3]));
}
template <typename T>
PS_INLINE T lane_sum(const V<T>& value) {
  return fold_lanes<T>(value, [](const auto& x, const auto& y) __attribute__((always_inline)) { return x + y; });
}
template <typename T>
PS_INLINE T lane_max(const V<T>& value) {
  return fold_lanes<T>(value, [](const auto& x, const auto& y) __attribute__((always_inline)) { return x > y ? x : y; });
}

/// Calls body(offset, count) for the full vectors of a row (count is kLanes) and once for what remains.
template <typename Body>
PS_INLINE void for_lanes(std::int64_t width, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    body(i, kLanes);
  }
  if (i < width) {
    body(i, width - i);
  }
}
template <typename T>
PS_INLINE V<T> get(const T* row, std::int64_t offset, std::int64_t count) {
  return count == kLanes ? load(row + offset) : load_some(row + offset, count);
}
template <typename T>
PS_INLINE void put(T* row, std::int64_t offset, std::int64_t count, const V<T>& value) {
  if (count == kLanes) {
    store(row + offset, value);
  } else {
    store_some(row + offset, value, count);
  }
}

/// e^x for x <= 0, relative error below 2e-7: 2^n times a polynomial on [-ln2/2, ln2/2] (Cephes' expf coefficients).
PS_INLINE V<float> exponential(const V<float>& x_in) {
  const V<float> x = x_in < -87.0F ? all(-87.0F) : x_in;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const V<float> n = (x * 1.44269504088896341F + kRound) - kRound;
  const V<float> r = x - n * 0.693359375F - n * -2.12194440e-4F;
  V<float> p = all(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto exponent = (__builtin_convertvector(n, VectorOf<float>::Bits) + 127) << 23;
  V<float> scale;
  __builtin_memcpy(&scale, &exponent, sizeof scale);
  return p * scale;
}
PS_INLINE V<double> exponential(const V<double>& x) {
  V<double> value;
  for (std::int64_t i = 0; i < kLanes; ++i) {
    value[i] = __builtin_exp(x[i]);
  }
  return value;
}

/// Phi(u), the normal distribution function, and e^(-u^2/2). Float: Abramowitz and Stegun 7.1.26, absolute error below 1e-7.
PS_INLINE V<float> normal_cdf(const V<float>& u, V<float>& density) {
  const V<float> x = u < 0.0F ? u * -0.70710678118654752F : u * 0.70710678118654752F;
  const V<float> t = 1.0F / (1.0F + 0.3275911F * x);
  V<float> p = all(1.061405429F);
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  density = exponential(-(x * x));
  const V<float> tail = 0.5F * (p * t * density);
  return u < 0.0F ? tail : 1.0F - tail;
}
PS_INLINE V<double> normal_cdf(const V<double>& u, V<double>& density) {
  V<double> value;
  for (std::int64_t i = 0; i < kLanes; ++i) {
    value[i] = 0.5 * (1.0 + __builtin_erf(u[i] * 0.70710678118654752440));
    density[i] = __builtin_exp(-0.5 * u[i] * u[i]);
  }
  return value;
}

PS_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
PS_INLINE double square_root(double x) { return __builtin_sqrt(x); }

template <typename T>
void add_norm_forward(std::int64_t rows, std::int64_t width, const T* x, const T* y, const T* bias, T* sum, const T* gamma,
                      const T* beta, T epsilon, T* normed, T* mean, T* rstd) {
  const T scale = T(1) / static_cast<T>(width);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * width;
    V<T> total = {};
    for_lanes(width, [&](std::int64_t i, std::int64_t n) {
      V<T> value = get(x + at, i, n);
      if (y != nullptr) {
        value += get(y + at, i, n) + get(bias, i, n);
      }
      put(sum + at, i, n, value);
      total += value;
    });
    const T row_mean = lane_sum<T>(total) * scale;
    V<T> squares = {};
    for_lanes(width, [&](std::int64_t i, std::int64_t n) {
      V<T> centred = get(sum + at, i, n) - row_mean;
      if (n < kLanes) {
        for (std::int64_t lane = n; lane < kLanes; ++lane) {
          centred[lane] = 0;
        }
      }
      squares += centred * centred;
    });
    const T row_rstd = T(1) / square_root(lane_sum<T>(squares) * scale + epsilon);
    for_lanes(width, [&](std::int64_t i, std::int64_t n) {
      put(normed + at, i, n, (get(sum + at, i, n) - row_mean) * row_rstd * get(gamma, i, n) + get(beta, i, n));
    });
    mean[row] = row_mean;
    rstd[row] = row_rstd;
  }
}

template <typename T>
void clear(T* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = 0;
  }
}

template <typename T>
void norm_backward(std::int64_t rows, std::int64_t width, const T* dnormed, const T* x, const T* mean, const T* rstd,
                   const T* gamma, const T* dresidual, T* dx, T* dgamma, T* dbeta, T* dx_sum) {
  const T scale = T(1) / static_cast<T>(width);
  clear(dgamma, width);
  clear(dbeta, width);
  if (dx_sum != nullptr) {
    clear(dx_sum, width);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * width;
    const T row_mean = mean[row];
    const T row_rstd = rstd[row];
    V<T> sum_g = {};
    V<T> sum_gx = {};
    for_lanes(width, [&](std::int64_t i, std::int64_t n) {
      const V<T> d = get(dnormed + at, i, n);
      const V<T> hat = (get(x + at, i, n) - row_mean) * row_rstd;
      const V<T> g = d * get(gamma, i, n);
      sum_g += g;
      sum_gx += g * hat;
      put(dgamma, i, n, get(dgamma, i, n) + d * hat);
      put(dbeta, i, n, get(dbeta, i, n) + d);
    });
    const T mean_g = lane_sum<T>(sum_g) * scale;
    const T mean_gx = lane_sum<T>(sum_gx) * scale;
    for_lanes(width, [&](std::int64_t i, std::int64_t n) {
      const V<T> hat = (get(x + at, i, n) - row_mean) * row_rstd;
      V<T> value = (get(dnormed + at, i, n) * get(gamma, i, n) - mean_g - hat * mean_gx) * row_rstd;
      if (dresidual != nullptr) {
        value += get(dresidual + at, i, n);
      }
      put(dx + at, i, n, value);
      if (dx_sum != nullptr) {
        put(dx_sum, i, n, get(dx_sum, i, n) + value);
      }
    });
  }
}

template <typename T>
void bias_gelu_forward(std::int64_t rows, std::int64_t width, T* up, const T* bias, T* activated) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* const in = up + row * width;
    for_lanes(width, [&](std::int64_t i, std::int64_t n) {
      const V<T> u = get(in, i, n) + get(bias, i, n);
      V<T> density;
      const V<T> cdf = normal_cdf(u, density);
      put(in, i, n, u);
      put(activated + row * width, i, n, u * cdf);
    });
  }
}

template <typename T>
void gelu_backward(std::int64_t rows, std::int64_t width, const T* up, T* dactivated, T* dup_sum) {
  constexpr T kInverseRootTwoPi = T(0.39894228040143267794);
  clear(dup_sum, width);
  for (std::int64_t row = 0; row < rows; ++row) {
    T* const gradient = dactivated + row * width;
    for_lanes(width, [&](std::int64_t i, std::int64_t n) {
      const V<T> u = get(up + row * width, i, n);
      V<T> density;
      const V<T> cdf = normal_cdf(u, density);
      const V<T> value = get(gradient, i, n) * (cdf + u * density * kInverseRootTwoPi);
      put(gradient, i, n, value);
      put(dup_sum, i, n, get(dup_sum, i, n) + value);
    });
  }
}

template <typename T>
void add_bias(std::int64_t rows, std::int64_t width, const T* x, const T* y, const T* bias, T* sum) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * width;
    for_lanes(width, [&](std::int64_t i, std::int64_t n) {
      put(sum + at, i, n, get(x + at, i, n) + (get(y + at, i, n) + get(bias, i, n)));
    });
  }
}

template <typename T>
void column_sum(std::int64_t rows, std::int64_t width, const T* x, T* sum) {
  clear(sum, width);
  for (std::int64_t row = 0; row < rows; ++row) {
    for_lanes(width, [&](std::int64_t i, std::int64_t n) { put(sum, i, n, get(sum, i, n) + get(x + row * width, i, n)); });
  }
}

template <typename T>
double square_sum(std::int64_t count, const T* x) {
  constexpr std::int64_t kBlock = 4096;
  double total = 0;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = count - begin < kBlock ? count - begin : kBlock;
    V<T> sum = {};
    for_lanes(size, [&](std::int64_t i, std::int64_t n) {
      const V<T> value = get(x + begin, i, n);
      sum += value * value;
    });
    total += static_cast<double>(lane_sum<T>(sum));
  }
  return total;
}

// ---- attention: small matrix products on packed, padded copies of one head ----

/// c[i][:] = sum over k of a(i, k) * b[k][:], for R rows and C vectors of columns.
template <typename T, int R, int C>
PS_INLINE void product_tile(std::int64_t depth, const T* a, std::int64_t a_row, std::int64_t a_depth, const T* b,
                            std::int64_t ldb, T* c, std::int64_t ldc) {
  V<T> sum[std::size_t{R}][std::size_t{C}] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    V<T> line[std::size_t{C}];
    for (int j = 0; j < C; ++j) {
      line[j] = load(b + k * ldb + j * kLanes);
    }
    for (int i = 0; i < R; ++i) {
      const T factor = a[i * a_row + k * a_depth];
      for (int j = 0; j < C; ++j) {
        sum[i][j] += line[j] * factor;
      }
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < C; ++j) {
      store(c + i * ldc + j * kLanes, sum[i][j]);
    }
  }
}

template <typename T, int C>
PS_INLINE void product_rows(std::int64_t rows, std::int64_t depth, const T* a, std::int64_t a_row, std::int64_t a_depth,
                            const T* b, std::int64_t ldb, T* c, std::int64_t ldc) {
  std::int64_t i = 0;
  for (; i + 6 <= rows; i += 6) {
    product_tile<T, 6, C>(depth, a + i * a_row, a_row, a_depth, b, ldb, c + i * ldc, ldc);
  }
  for (; i + 4 <= rows; i += 4) {
    product_tile<T, 4, C>(depth, a + i * a_row, a_row, a_depth, b, ldb, c + i * ldc, ldc);
  }
  for (; i < rows; ++i) {
    product_tile<T, 1, C>(depth, a + i * a_row, a_row, a_depth, b, ldb, c + i * ldc, ldc);
  }
}

/// c [rows, columns] = a [rows, depth] (any strides) * b [depth, columns]; columns is a multiple of kLanes.
template <typename T>
void product(std::int64_t rows, std::int64_t columns, std::int64_t depth, const T* a, std::int64_t a_row, std::int64_t a_depth,
             const T* b, std::int64_t ldb, T* c, std::int64_t ldc) {
  std::int64_t j = 0;
  for (; j + 2 * kLanes <= columns; j += 2 * kLanes) {
    product_rows<T, 2>(rows, depth, a, a_row, a_depth, b + j, ldb, c + j, ldc);
  }
  if (j < columns) {
    product_rows<T, 1>(rows, depth, a, a_row, a_depth, b + j, ldb, c + j, ldc);
  }
}

/// packed [tokens, padded_width] = (source + bias) * scale, zero in the padding.
template <typename T>
void pack(std::int64_t tokens, std::int64_t head_width, std::int64_t padded_width, const T* source, std::int64_t stride,
          const T* bias, T scale, T* packed) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    const T* const from = source + t * stride;
    T* const to = packed + t * padded_width;
    std::int64_t d = 0;
    for (; d + 8 <= head_width; d += 8) {
      for (std::int64_t i = d; i < d + 8; ++i) {
        to[i] = (bias != nullptr ? from[i] + bias[i] : from[i]) * scale;
      }
    }
    for (; d < head_width; ++d) {
      to[d] = (bias != nullptr ? from[d] + bias[d] : from[d]) * scale;
    }
    clear(to + head_width, padded_width - head_width);
  }
}

/// packed [head_width, padded_tokens] = transposed source + bias, zero in the padding.
template <typename T>
void pack_transposed(std::int64_t tokens, std::int64_t head_width, std::int64_t padded_tokens, const T* source,
                     std::int64_t stride, const T* bias, T* packed) {
  for (std::int64_t d = 0; d < head_width; ++d) {
    const T offset = bias[d];
    T* const to = packed + d * padded_tokens;
    for (std::int64_t t = 0; t < tokens; ++t) {
      to[t] = source[t * stride + d] + offset;
    }
    for (std::int64_t t = tokens; t < padded_tokens; ++t) {
      to[t] = 0;
    }
  }
}

template <typename T>
void unpack(std::int64_t tokens, std::int64_t head_width, std::int64_t padded_width, const T* packed, T* target,
            std::int64_t stride) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::int64_t d = 0;
    for (; d + 8 <= head_width; d += 8) {
      __builtin_memcpy(target + t * stride + d, packed + t * padded_width + d, 8 * sizeof(T));
    }
    for (; d < head_width; ++d) {
      target[t * stride + d] = packed[t * padded_width + d];
    }
  }
}

template <typename T>
void softmax_rows(std::int64_t rows, std::int64_t keys, std::int64_t padded, T* scores) {
  for (std::int64_t i = 0; i < rows; ++i) {
    T* const row = scores + i * padded;
    for (std::int64_t j = keys; j < padded; ++j) {
      row[j] = row[0];  // padding: neutral for the maximum, zeroed below
    }
    V<T> top = load(row);
    for (std::int64_t j = kLanes; j < padded; j += kLanes) {
      const V<T> value = load(row + j);
      top = value > top ? value : top;
    }
    const T highest = lane_max<T>(top);
    for (std::int64_t j = 0; j < padded; j += kLanes) {
      store(row + j, exponential(load(row + j) - highest));
    }
    clear(row + keys, padded - keys);
    V<T> sum = {};
    for (std::int64_t j = 0; j < padded; j += kLanes) {
      sum += load(row + j);
    }
    const T factor = T(1) / lane_sum<T>(sum);
    for (std::int64_t j = 0; j < padded; j += kLanes) {
      store(row + j, load(row + j) * factor);
    }
  }
}

template <typename T>
T attention_scale(const AttentionShape& shape) {
  return T(1) / square_root(static_cast<T>(shape.head_width));
}

template <typename T>
void attention_forward(const AttentionShape& shape, const T* query, const T* key, const T* value, const T* query_bias,
                       const T* key_bias, const T* value_bias, T* out, T* probabilities, T* scratch) {
  const std::int64_t width = shape.head_width;
  const std::int64_t pw = shape.padded_width();
  const std::int64_t pk = shape.padded_keys();
  T* const q = scratch;
  T* const kt = q + shape.queries * pw;
  T* const v = kt + pw * pk;
  T* const o = v + shape.keys * pw;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const std::int64_t at = h * width;
    T* const p = probabilities + h * shape.queries * pk;
    pack(shape.queries, width, pw, query + at, shape.query_stride, query_bias + at, attention_scale<T>(shape), q);
    pack_transposed(shape.keys, width, pk, key + at, shape.key_stride, key_bias + at, kt);
    pack(shape.keys, width, pw, value + at, shape.key_stride, value_bias + at, T(1), v);
    product(shape.queries, pk, width, q, pw, std::int64_t{1}, kt, pk, p, pk);
    softmax_rows(shape.queries, shape.keys, pk, p);
    product(shape.queries, pw, shape.keys, p, pk, std::int64_t{1}, v, pw, o, pw);
    unpack(shape.queries, width, pw, o, out + at, shape.heads * width);
  }
}

template <typename T>
void attention_backward(const AttentionShape& shape, const T* query, const T* key, const T* value, const T* query_bias,
                        const T* key_bias, const T* value_bias, const T* dout, const T* probabilities, T* dquery, T* dkey,
                        T* dvalue, T* scratch) {
  const std::int64_t width = shape.head_width;
  const std::int64_t pw = shape.padded_width();
  const std::int64_t pk = shape.padded_keys();
  const T scale = attention_scale<T>(shape);
  T* const q = scratch;                     // [queries, pw], later the gradient of one operand
  T* const k = q + shape.queries * pw;      // [keys, pw]
  T* const vt = k + shape.keys * pw;        // [pw, pk]
  T* const d = vt + pw * pk;                // [queries, pw]
  T* const ds = d + shape.queries * pw;     // [queries, pk]
  T* const grad = ds + shape.queries * pk;  // [keys, pw]
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const std::int64_t at = h * width;
    const T* const p = probabilities + h * shape.queries * pk;
    pack(shape.queries, width, pw, query + at, shape.query_stride, query_bias + at, T(1), q);
    pack(shape.keys, width, pw, key + at, shape.key_stride, key_bias + at, T(1), k);
    pack_transposed(shape.keys, width, pk, value + at, shape.key_stride, value_bias + at, vt);
    pack(shape.queries, width, pw, dout + at, shape.heads * width, static_cast<const T*>(nullptr), T(1), d);
    product(shape.queries, pk, width, d, pw, std::int64_t{1}, vt, pk, ds, pk);
    for (std::int64_t i = 0; i < shape.queries; ++i) {
      V<T> sum = {};
      for (std::int64_t j = 0; j < pk; j += kLanes) {
        sum += load(ds + i * pk + j) * load(p + i * pk + j);
      }
      const T delta = lane_sum<T>(sum);
      for (std::int64_t j = 0; j < pk; j += kLanes) {
        store(ds + i * pk + j, (load(ds + i * pk + j) - delta) * load(p + i * pk + j) * scale);
      }
    }
    product(shape.keys, pw, shape.queries, p, std::int64_t{1}, pk, d, pw, grad, pw);
    unpack(shape.keys, width, pw, grad, dvalue + at, shape.key_stride);
    product(shape.keys, pw, shape.queries, static_cast<const T*>(ds), std::int64_t{1}, pk, q, pw, grad, pw);
    unpack(shape.keys, width, pw, grad, dkey + at, shape.key_stride);
    product(shape.queries, pw, shape.keys, static_cast<const T*>(ds), pk, std::int64_t{1}, k, pw, grad, pw);
    unpack(shape.queries, width, pw, grad, dquery + at, shape.query_stride);
  }
}

template <typename T>
constexpr Table<T> kTable = {
    .add_norm_forward = add_norm_forward<T>,
    .norm_backward = norm_backward<T>,
    .bias_gelu_forward = bias_gelu_forward<T>,
    .gelu_backward = gelu_backward<T>,
    .add_bias = add_bias<T>,
    .column_sum = column_sum<T>,
    .square_sum = square_sum<T>,
};
template <typename T>
constexpr AttentionTable<T> kAttentionTable = {.forward = attention_forward<T>, .backward = attention_backward<T>};

}  // namespace

const Table<float>& float_table() { return kTable<float>; }
const AttentionTable<float>& float_attention_table() { return kAttentionTable<float>; }
#ifdef PS_KERNEL_DOUBLE
const Table<double>& double_table() { return kTable<double>; }
const AttentionTable<double>& double_attention_table() { return kAttentionTable<double>; }
#endif

}  // namespace parascale::native::kernels::PS_KERNEL_SET
