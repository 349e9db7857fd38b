// Vectors and int8 products with AVX2, FMA and F16C; vectors.h includes this file.
#pragma once

#include <immintrin.h>

namespace regard {

constexpr int SHIFT = 0;

inline FloatRegister fma(FloatRegister a, FloatRegister b, FloatRegister c) {
    return _mm256_fmadd_ps(a, b, c);
}
inline FloatRegister max(FloatRegister a, FloatRegister b) { return _mm256_max_ps(a, b); }
inline FloatRegister min(FloatRegister a, FloatRegister b) { return _mm256_min_ps(a, b); }
inline FloatRegister abs(FloatRegister a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
inline float sum(Floats a) {
    __m256 both = a.low + a.high;
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
inline float reduce_max(Floats a) {
    __m256 both = _mm256_max_ps(a.low, a.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
inline Floats load_half(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
inline void store_half(uint16_t* p, Floats v) {
    _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i*)(p + 8), _mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT));
}
inline Floats load_bytes(const int8_t* p) {
    __m256i low = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p));
    __m256i high = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)));
    return {_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)};
}
inline void store_quantized(uint8_t* p, Floats v) {
    __m256i low = _mm256_cvtps_epi32(v.low), high = _mm256_cvtps_epi32(v.high);
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i*)p, bytes);
}

// Adds four products a · w per lane, each as |a| · ±w. The sum of two products is at most
// 2 · 127 · 127, which 16 bits hold exactly.
inline __m256i add_products(__m256i acc, __m256i magnitude, __m256i a, __m256i w, __m256i ones) {
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(w, a));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, ones));
}

// Sixteen outputs share the magnitudes of their inputs, which saves a tenth of the instructions.
template <int R, class Finish>
inline void multiply_tile(const uint8_t* a, size_t depth, const int8_t* panel, const int8_t*,
                          const int32_t* start, Finish finish) {
    __m256i ones = _mm256_set1_epi16(1);
    for (int j = 0; j < PANEL; j += LANES) {
        __m256i low[R], high[R];
        for (int r = 0; r < R; r++) {
            low[r] = _mm256_loadu_si256((const __m256i*)(start + j));
            high[r] = _mm256_loadu_si256((const __m256i*)(start + j + 8));
        }
        const int8_t* weights = panel + 4 * j;
        for (size_t k = 0; k < depth; k += 4, weights += 4 * PANEL) {
            __m256i w = _mm256_loadu_si256((const __m256i*)weights);
            __m256i next = _mm256_loadu_si256((const __m256i*)(weights + 32));
            for (int r = 0; r < R; r++) {
                __m256i x = _mm256_set1_epi32(four_bytes(a + r * depth + k));
                __m256i magnitude = _mm256_abs_epi8(x);
                low[r] = add_products(low[r], magnitude, x, w, ones);
                high[r] = add_products(high[r], magnitude, x, next, ones);
            }
        }
        for (int r = 0; r < R; r++) finish(r, j, Ints{(IntRegister)low[r], (IntRegister)high[r]});
    }
}

// Computes the products of a row with sixteen others, four at a time: they share the magnitudes of
// its numbers, and their sums over lanes are computed together.
inline void multiply_rows(const uint8_t* a, int depth, const int8_t* const* rows, int32_t* sums) {
    __m256i ones = _mm256_set1_epi16(1);
    for (int i = 0; i < LANES; i += 4) {
        __m256i acc[4] = {};
        for (int k = 0; k < depth; k += 32) {
            __m256i x = _mm256_loadu_si256((const __m256i*)(a + k)), magnitude = _mm256_abs_epi8(x);
            for (int j = 0; j < 4; j++) {
                __m256i w = _mm256_loadu_si256((const __m256i*)(rows[i + j] + k));
                acc[j] = add_products(acc[j], magnitude, x, w, ones);
            }
        }
        __m256i four = _mm256_hadd_epi32(_mm256_hadd_epi32(acc[0], acc[1]),
                                         _mm256_hadd_epi32(acc[2], acc[3]));
        _mm_storeu_si128((__m128i*)(sums + i), _mm_add_epi32(_mm256_castsi256_si128(four),
                                                             _mm256_extracti128_si256(four, 1)));
    }
}

inline bool is_supported() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

}  // namespace regard
