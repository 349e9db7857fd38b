// Vectors and int8 products with AVX2, FMA and F16C; vectors.h includes this file.
#pragma once

#include <immintrin.h>

namespace regard {

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

// Adds four products a · w per lane, each as |a| · ±w. The sum of two products is at most
// 2 · 127 · 127, which 16 bits hold exactly.
inline __m256i add_products(__m256i acc, __m256i magnitude, __m256i a, __m256i w) {
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(w, a));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

template <int R, class Finish>
inline void multiply_tile(const uint8_t* a, size_t depth, const int8_t* panel, const int8_t*,
                          const int32_t* start, Finish finish) {
    alignas(64) int32_t sums[R * PANEL];
    for (int j = 0; j < PANEL; j += 8) {
        __m256i acc[R];
        for (int r = 0; r < R; r++) acc[r] = _mm256_loadu_si256((const __m256i*)(start + j));
        const int8_t* weights = panel + 4 * j;
        for (size_t k = 0; k < depth; k += 4, weights += 4 * PANEL) {
            __m256i w = _mm256_loadu_si256((const __m256i*)weights);
            for (int r = 0; r < R; r++) {
                __m256i x = _mm256_set1_epi32(four_bytes(a + r * depth + k));
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

}  // namespace regard
