// Vectors of sixteen lanes, for the instruction set that the build is compiled for.
//
// Every function computes each row by itself, in a fixed order. The compiler contracts no
// operations (-ffp-contract=off). The results of a row therefore depend only on this row.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace regard {

constexpr int LANES = 16;
constexpr int PANEL = 64;      // number of outputs of a packed weight panel
constexpr int TILE_ROWS = 6;   // number of rows of a product that are computed together

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));

inline Floats load(const float* p) {
    Floats v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline Ints load(const int32_t* p) {
    Ints v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, Floats v) { std::memcpy(p, &v, sizeof v); }

inline Floats broadcast(float x) { return Floats{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }

inline Floats to_floats(Ints v) { return __builtin_convertvector(v, Floats); }

inline void prefetch(const void* p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char*)p + i, _MM_HINT_T0);
}

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)

constexpr int SHIFT = 128;  // added to activations, because one operand of vpdpbusd is unsigned

inline Floats fma(Floats a, Floats b, Floats c) {
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
inline Floats max(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }
inline Floats abs(Floats a) { return (Floats)_mm512_abs_ps((__m512)a); }
inline float sum(Floats a) { return _mm512_reduce_add_ps((__m512)a); }
inline float reduce_max(Floats a) { return _mm512_reduce_max_ps((__m512)a); }
inline Floats load_half(const uint16_t* p) {
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
inline void store_half(uint16_t* p, Floats v) {
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
}
inline Floats load_bytes(const int8_t* p) {
    return (Floats)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)));
}
// Stores round(v) + SHIFT as bytes, for |v| up to 127.
inline void store_quantized(uint8_t* p, Floats v) {
    __m512i q = _mm512_cvtps_epi32((__m512)v);
    _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(_mm512_add_epi32(q, _mm512_set1_epi32(SHIFT))));
}

inline int32_t four_bytes(const uint8_t* p) {
    int32_t v;
    std::memcpy(&v, p, 4);
    return v;
}

// This is inline assembly, because with the intrinsic GCC 12 copies each sum before adding to
// it.
inline void add_products(__m512i& acc, __m512i x, const __m512i& w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "vm"(w));
}

// Computes start[n] + Σ_k a[r][k] · w[n][k] for R rows and one panel of 64 outputs, and passes
// sixteen sums at a time to finish(r, n, sums). Each sum has a name of its own, so that the
// compiler keeps all 24 in registers.
#define REGARD_EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define REGARD_START(r) __m512i s##r##0 = b0, s##r##1 = b1, s##r##2 = b2, s##r##3 = b3;
#define REGARD_ADD(r)                                                  \
    if constexpr (R > r) {                                             \
        __m512i x = _mm512_set1_epi32(four_bytes(a + r * stride + k)); \
        add_products(s##r##0, x, w0);                                  \
        add_products(s##r##1, x, w1);                                  \
        add_products(s##r##2, x, w2);                                  \
        add_products(s##r##3, x, w3);                                  \
    }
#define REGARD_FINISH(r)              \
    if constexpr (R > r) {            \
        finish(r, 0, (Ints)s##r##0);  \
        finish(r, 16, (Ints)s##r##1); \
        finish(r, 32, (Ints)s##r##2); \
        finish(r, 48, (Ints)s##r##3); \
    }

template <int R, class Finish>
inline void multiply_tile(const uint8_t* a, size_t stride, int depth, const int8_t* panel,
                          const int32_t* start, Finish finish) {
    static_assert(R <= TILE_ROWS && TILE_ROWS == 6 && PANEL == 64);
    __m512i b0 = _mm512_loadu_si512(start), b1 = _mm512_loadu_si512(start + 16);
    __m512i b2 = _mm512_loadu_si512(start + 32), b3 = _mm512_loadu_si512(start + 48);
    REGARD_EACH_ROW(REGARD_START)
    for (int k = 0; k < depth; k += 4, panel += 4 * PANEL) {
        __m512i w0 = _mm512_loadu_si512(panel), w1 = _mm512_loadu_si512(panel + 64);
        __m512i w2 = _mm512_loadu_si512(panel + 128), w3 = _mm512_loadu_si512(panel + 192);
        REGARD_EACH_ROW(REGARD_ADD)
    }
    REGARD_EACH_ROW(REGARD_FINISH)
}

// The dot product of two rows as one partial sum per lane.
typedef __m512i Products;

inline Products multiply_row(const uint8_t* a, int depth, const int8_t* row) {
    __m512i even = _mm512_setzero_si512(), odd = even;
    for (int k = 0; k < depth; k += 128) {
        add_products(even, _mm512_loadu_si512(a + k), _mm512_loadu_si512(row + k));
        if (k + 64 < depth)
            add_products(odd, _mm512_loadu_si512(a + k + 64), _mm512_loadu_si512(row + k + 64));
    }
    return _mm512_add_epi32(even, odd);
}

// Sums each of the sixteen vectors over its own lanes.
inline void sum_sixteen(Products* v, int32_t* sums) {
    for (int i = 0; i < 16; i += 2)
        v[i / 2] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[i], v[i + 1]),
                                    _mm512_unpackhi_epi32(v[i], v[i + 1]));
    for (int i = 0; i < 8; i += 2)
        v[i / 2] = _mm512_add_epi32(_mm512_unpacklo_epi64(v[i], v[i + 1]),
                                    _mm512_unpackhi_epi64(v[i], v[i + 1]));
    for (int i = 0; i < 4; i += 2)
        v[i / 2] = _mm512_add_epi32(_mm512_shuffle_i32x4(v[i], v[i + 1], 0x88),
                                    _mm512_shuffle_i32x4(v[i], v[i + 1], 0xdd));
    __m512i all = _mm512_add_epi32(_mm512_shuffle_i32x4(v[0], v[1], 0x88),
                                   _mm512_shuffle_i32x4(v[0], v[1], 0xdd));
    _mm512_storeu_si512(sums, all);
}

inline bool is_supported() {
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

#else  // AVX2, FMA and F16C

constexpr int SHIFT = 0;

inline __m256 half(Floats v, int i) {
    __m256 h;
    std::memcpy(&h, (const char*)&v + 32 * i, 32);
    return h;
}
inline Floats join(__m256 low, __m256 high) {
    Floats v;
    std::memcpy(&v, &low, 32);
    std::memcpy((char*)&v + 32, &high, 32);
    return v;
}
inline Floats fma(Floats a, Floats b, Floats c) {
    return join(_mm256_fmadd_ps(half(a, 0), half(b, 0), half(c, 0)),
                _mm256_fmadd_ps(half(a, 1), half(b, 1), half(c, 1)));
}
inline Floats max(Floats a, Floats b) {
    return join(_mm256_max_ps(half(a, 0), half(b, 0)), _mm256_max_ps(half(a, 1), half(b, 1)));
}
inline Floats abs(Floats a) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return join(_mm256_andnot_ps(sign, half(a, 0)), _mm256_andnot_ps(sign, half(a, 1)));
}
inline float sum(Floats a) {
    __m256 both = _mm256_add_ps(half(a, 0), half(a, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
inline float reduce_max(Floats a) {
    __m256 both = _mm256_max_ps(half(a, 0), half(a, 1));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
inline Floats load_half(const uint16_t* p) {
    return join(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8))));
}
inline void store_half(uint16_t* p, Floats v) {
    _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(half(v, 0), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i*)(p + 8), _mm256_cvtps_ph(half(v, 1), _MM_FROUND_TO_NEAREST_INT));
}
inline Floats load_bytes(const int8_t* p) {
    __m256i low = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p));
    __m256i high = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)));
    return join(_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high));
}
inline void store_quantized(uint8_t* p, Floats v) {
    __m256i low = _mm256_cvtps_epi32(half(v, 0)), high = _mm256_cvtps_epi32(half(v, 1));
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i*)p, bytes);
}

inline int32_t four_bytes(const uint8_t* p) {
    int32_t v;
    std::memcpy(&v, p, 4);
    return v;
}

// Adds four products a · w per lane, each as |a| · ±w. The sum of two products is at most
// 2 · 127 · 127, which 16 bits hold exactly.
inline __m256i add_products(__m256i acc, __m256i magnitude, __m256i a, __m256i w) {
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(w, a));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

template <int R, class Finish>
inline void multiply_tile(const uint8_t* a, size_t stride, int depth, const int8_t* panel,
                          const int32_t* start, Finish finish) {
    alignas(64) int32_t sums[R * PANEL];
    for (int j = 0; j < PANEL; j += 8) {
        __m256i acc[R];
        for (int r = 0; r < R; r++) acc[r] = _mm256_loadu_si256((const __m256i*)(start + j));
        const int8_t* weights = panel + 4 * j;
        for (int k = 0; k < depth; k += 4, weights += 4 * PANEL) {
            __m256i w = _mm256_loadu_si256((const __m256i*)weights);
            for (int r = 0; r < R; r++) {
                __m256i x = _mm256_set1_epi32(four_bytes(a + r * stride + k));
                acc[r] = add_products(acc[r], _mm256_abs_epi8(x), x, w);
            }
        }
        for (int r = 0; r < R; r++) _mm256_storeu_si256((__m256i*)(sums + r * PANEL + j), acc[r]);
    }
    for (int r = 0; r < R; r++)
        for (int j = 0; j < PANEL; j += LANES) finish(r, j, load(sums + r * PANEL + j));
}

typedef __m256i Products;

inline Products multiply_row(const uint8_t* a, int depth, const int8_t* row) {
    Products acc = _mm256_setzero_si256();
    for (int k = 0; k < depth; k += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i*)(a + k));
        __m256i w = _mm256_loadu_si256((const __m256i*)(row + k));
        acc = add_products(acc, _mm256_abs_epi8(x), x, w);
    }
    return acc;
}

inline void sum_sixteen(Products* v, int32_t* sums) {
    for (int i = 0; i < 16; i++) {
        __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v[i]), _mm256_extracti128_si256(v[i], 1));
        four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
        sums[i] = _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
    }
}

inline bool is_supported() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

#endif

}  // namespace regard
