// Vectors and int8 products with AVX-512 and VNNI; vectors.h includes this file.
#pragma once

#include <immintrin.h>

namespace regard {

constexpr int SHIFT = 128;  // added to activations, because one operand of vpdpbusd is unsigned

inline Floats fma(Floats a, Floats b, Floats c) {
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
inline Floats max(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }
inline Floats min(Floats a, Floats b) { return (Floats)_mm512_min_ps((__m512)a, (__m512)b); }
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

// Stores four vectors together, which needs fewer instructions than one after the other.
inline void store_quantized(uint8_t* p, Floats a, Floats b, Floats c, Floats d) {
    __m512i ab = _mm512_packs_epi32(_mm512_cvtps_epi32((__m512)a), _mm512_cvtps_epi32((__m512)b));
    __m512i cd = _mm512_packs_epi32(_mm512_cvtps_epi32((__m512)c), _mm512_cvtps_epi32((__m512)d));
    __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(ab, cd));
    _mm512_storeu_si512(p, _mm512_xor_si512(bytes, _mm512_set1_epi8((char)SHIFT)));
}

// This is inline assembly, because with the intrinsic GCC 12 copies each sum before adding to
// it.
inline void add_products(__m512i& acc, __m512i x, const __m512i& w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "vm"(w));
}

// Computes start[n] + Σ_k a[r][k] · w[n][k] for R rows and one panel of 64 outputs, and passes
// sixteen sums at a time to finish(r, n, sums). Meanwhile it fetches the memory from `ahead` on
// into the L2 cache, one cache line for each four inputs. Each sum has a name of its own, so that
// the compiler keeps all 24 in registers.
#define REGARD_EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define REGARD_START(r) __m512i s##r##0 = b0, s##r##1 = b1, s##r##2 = b2, s##r##3 = b3;
#define REGARD_ADD(r)                                                  \
    if constexpr (R > r) {                                             \
        __m512i x = _mm512_set1_epi32(four_bytes(a + r * depth + k)); \
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
inline void multiply_tile(const uint8_t* a, size_t depth, const int8_t* panel,
                          const int8_t* ahead, const int32_t* start, Finish finish) {
    static_assert(R <= TILE_ROWS && TILE_ROWS == 6 && PANEL == 64);
    __m512i b0 = _mm512_loadu_si512(start), b1 = _mm512_loadu_si512(start + 16);
    __m512i b2 = _mm512_loadu_si512(start + 32), b3 = _mm512_loadu_si512(start + 48);
    REGARD_EACH_ROW(REGARD_START)
    for (size_t k = 0; k < depth; k += 4, panel += 4 * PANEL, ahead += CACHE_LINE) {
        if constexpr (R > 1) __builtin_prefetch(ahead, 0, 2);
        __m512i w0 = _mm512_loadu_si512(panel), w1 = _mm512_loadu_si512(panel + 64);
        __m512i w2 = _mm512_loadu_si512(panel + 128), w3 = _mm512_loadu_si512(panel + 192);
        // Without this line the compiler reads the weights again for each of two or three rows.
        if constexpr (R > 1) asm("" : "+v"(w0), "+v"(w1), "+v"(w2), "+v"(w3));
        REGARD_EACH_ROW(REGARD_ADD)
    }
    REGARD_EACH_ROW(REGARD_FINISH)
}

// Returns the product of two rows as one partial sum per lane.
inline __m512i multiply_row(const uint8_t* a, int depth, const int8_t* row) {
    __m512i even = _mm512_setzero_si512(), odd = even;
    for (int k = 0; k < depth; k += 128) {
        add_products(even, _mm512_loadu_si512(a + k), _mm512_loadu_si512(row + k));
        if (k + 64 < depth)
            add_products(odd, _mm512_loadu_si512(a + k + 64), _mm512_loadu_si512(row + k + 64));
    }
    return _mm512_add_epi32(even, odd);
}

// Sums each of the sixteen vectors over its own lanes.
inline void sum_sixteen(__m512i* v, int32_t* sums) {
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

// Computes the products of a row with sixteen others.
inline void multiply_rows(const uint8_t* a, int depth, const int8_t* const* rows, int32_t* sums) {
    __m512i products[LANES];
    for (int i = 0; i < LANES; i++) products[i] = multiply_row(a, depth, rows[i]);
    sum_sixteen(products, sums);
}

inline bool is_supported() {
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

}  // namespace regard
