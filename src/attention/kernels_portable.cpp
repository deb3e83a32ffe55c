// SPDX-License-Identifier: Apache-2.0
// Instantiates the attention kernels from vectors of four floats, which every target of the
// compiler has in some form.
#include "attention/kernel_table.h"
#include "attention/kernels.h"
#include "formats/row_quantization.h"

namespace swiftkv {
namespace {

using Quad = float __attribute__((vector_size(16)));
using QuadInt = std::int32_t __attribute__((vector_size(16)));

struct Portable {
  struct Vec {
    Quad quad[4];
  };
  static constexpr int kAccumulators = 2;
  static constexpr int kMaxVectors = 2;
  static constexpr int kTileRows = 2;
  static constexpr int kTileVecs = 1;

  template <class Function, class... Vecs>
  static Vec Map(const Function& function, const Vecs&... vecs) {
    return {{function(vecs.quad[0]...), function(vecs.quad[1]...), function(vecs.quad[2]...),
             function(vecs.quad[3]...)}};
  }
  static Quad Select(QuadInt condition, Quad a, Quad b) {
    return reinterpret_cast<Quad>((condition & reinterpret_cast<QuadInt>(a)) |
                                  (~condition & reinterpret_cast<QuadInt>(b)));
  }
  static Quad Same(float x) { return Quad{x, x, x, x}; }

  static Vec Set(float x) { return {{Same(x), Same(x), Same(x), Same(x)}}; }
  static Vec Load(const float* p) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  }
  static void Store(float* p, const Vec& v) { __builtin_memcpy(p, &v, sizeof(v)); }
  static Vec Add(const Vec& a, const Vec& b) {
    return Map([](Quad x, Quad y) { return x + y; }, a, b);
  }
  static Vec Sub(const Vec& a, const Vec& b) {
    return Map([](Quad x, Quad y) { return x - y; }, a, b);
  }
  static Vec Mul(const Vec& a, const Vec& b) {
    return Map([](Quad x, Quad y) { return x * y; }, a, b);
  }
  static Vec Div(const Vec& a, const Vec& b) {
    return Map([](Quad x, Quad y) { return x / y; }, a, b);
  }
  static Vec Fma(const Vec& a, const Vec& b, const Vec& c) {
    return Map([](Quad x, Quad y, Quad z) { return x * y + z; }, a, b, c);
  }
  static Vec Min(const Vec& a, const Vec& b) {
    return Map([](Quad x, Quad y) { return Select(x < y, x, y); }, a, b);
  }
  static Vec Max(const Vec& a, const Vec& b) {
    return Map([](Quad x, Quad y) { return Select(x > y, x, y); }, a, b);
  }
  static Vec Abs(const Vec& v) {
    return Map(
        [](Quad x) { return reinterpret_cast<Quad>(reinterpret_cast<QuadInt>(x) & INT32_MAX); }, v);
  }
  static Vec CopySign(const Vec& magnitude, const Vec& sign) {
    return Map(
        [](Quad x, Quad s) {
          return reinterpret_cast<Quad>(reinterpret_cast<QuadInt>(x) |
                                        (reinterpret_cast<QuadInt>(s) & INT32_MIN));
        },
        magnitude, sign);
  }
  static float ReduceMax(const Vec& v) {
    float lanes[16];
    Store(lanes, v);
    float max = lanes[0];
    for (int i = 1; i < 16; ++i) max = lanes[i] > max ? lanes[i] : max;
    return max;
  }
  static Quad Floor(Quad x) {
    // Adding 1.5 * 2^23 leaves no bits for a fraction. Beyond 2^22 the result is of no interest.
    const Quad nearest = (x + 12582912.0F) - 12582912.0F;
    return nearest - Select(nearest > x, Same(1), Same(0));
  }
  static Vec Fraction(const Vec& x) {
    return Map([](Quad a) { return a - Floor(a); }, x);
  }
  static Vec ScaleByFloor(const Vec& v, const Vec& x) {
    return Map(
        [](Quad a, Quad b) {
          const QuadInt normal = b >= -126.0F;
          const Quad power = Select(normal, Floor(b), Same(0));
          const QuadInt exponent = __builtin_convertvector(power, QuadInt) + 127;
          return Select(normal, a * reinterpret_cast<Quad>(exponent << 23), Same(0));
        },
        v, x);
  }
  static Vec LoadHalves(const std::byte* p) {
    std::uint16_t halves[16];
    __builtin_memcpy(halves, p, sizeof(halves));
    Vec v;
    for (int i = 0; i < 4; ++i) {
      const std::uint16_t* h = halves + 4 * i;
      const QuadInt bits{h[0], h[1], h[2], h[3]};
      // Exponent and mantissa moved into place read as the value times 2^-112, subnormals too.
      const Quad magnitude = reinterpret_cast<Quad>((bits & 0x7FFF) << 13) * 0x1p112F;
      v.quad[i] =
          reinterpret_cast<Quad>(reinterpret_cast<QuadInt>(magnitude) | ((bits & 0x8000) << 16));
    }
    return v;
  }
  static void LoadBrains(const std::byte* p, Vec* even, Vec* odd) {
    QuadInt pairs[4];
    __builtin_memcpy(pairs, p, sizeof(pairs));
    for (int i = 0; i < 4; ++i) {
      even->quad[i] = reinterpret_cast<Quad>(pairs[i] << 16);
      odd->quad[i] = reinterpret_cast<Quad>(pairs[i] & INT32_C(-65536));
    }
  }
  template <int kMantissa>
  static void LoadFp8(const std::byte* p, Vec* vecs) {
    QuadInt groups[4];
    __builtin_memcpy(groups, p, sizeof(groups));
    for (int i = 0; i < 4; ++i) {
      for (int q = 0; q < 4; ++q) {
        const QuadInt code = groups[q] >> (8 * i);
        const QuadInt bits = ((code & 0x80) << 24) | ((code & 0x7F) << (23 - kMantissa));
        vecs[i].quad[q] = reinterpret_cast<Quad>(bits);
      }
    }
  }
  struct Bytes {
    std::int8_t byte[64];
  };
  static Bytes LoadBiased(const std::byte* p) {
    Bytes bytes;
    for (int i = 0; i < 64; ++i)
      bytes.byte[i] = static_cast<std::int8_t>(static_cast<int>(p[i]) - 128);
    return bytes;
  }
  static void LoadLevels(const std::byte* p, Bytes* low, Bytes* high) {
    for (int i = 0; i < 64; ++i) {
      low->byte[i] = kInt4Levels[static_cast<unsigned>(p[i]) & 15U];
      high->byte[i] = kInt4Levels[static_cast<unsigned>(p[i]) >> 4];
    }
  }
  static void SpreadBytes(const Bytes& bytes, Vec* vecs) {
    for (int i = 0; i < 4; ++i) {
      for (int q = 0; q < 4; ++q) {
        const std::int8_t* b = bytes.byte + 16 * q + i;
        vecs[i].quad[q] = __builtin_convertvector((QuadInt{b[0], b[4], b[8], b[12]}), Quad);
      }
    }
  }
  static Vec WhereInRange(const std::int32_t* p, std::int32_t low, std::int32_t high, const Vec& a,
                          const Vec& b) {
    QuadInt values[4];
    __builtin_memcpy(values, p, sizeof(values));
    Vec v;
    for (int i = 0; i < 4; ++i) {
      v.quad[i] = Select((values[i] >= low) & (values[i] <= high), a.quad[i], b.quad[i]);
    }
    return v;
  }
  static void Prefetch(const std::byte* p) { __builtin_prefetch(p); }
};

constexpr AttentionKernels kKernels = MakeKernels<Portable>("portable");

}  // namespace

const AttentionKernels* PortableKernels() { return &kKernels; }

}  // namespace swiftkv
