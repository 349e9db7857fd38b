// Vectors of sixteen lanes, for the instruction set that the build is compiled for.
//
// Every function computes each row by itself, in a fixed order. The compiler contracts no
// operations (-ffp-contract=off). The results of a row therefore depend only on this row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define REGARD_INLINE __attribute__((always_inline))

namespace regard {

constexpr int LANES = 16;
constexpr int PANEL = 64;      // number of outputs of a packed weight panel
constexpr int TILE_ROWS = 6;   // number of rows of a product that are computed together
constexpr size_t CACHE_LINE = 64;  // bytes

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef float Four __attribute__((vector_size(16)));

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

inline Four load_four(const float* p) {
    Four v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float* p, Floats v) { std::memcpy(p, &v, sizeof v); }
inline void store(float* p, Four v) { std::memcpy(p, &v, sizeof v); }

inline Floats broadcast(float x) { return Floats{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }

inline Floats to_floats(Ints v) { return __builtin_convertvector(v, Floats); }

inline int32_t four_bytes(const uint8_t* p) {
    int32_t v;
    std::memcpy(&v, p, 4);
    return v;
}

}  // namespace regard

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#include "avx512vnni.h"
#else
#ifdef __ARM_FEATURE_DOTPROD
#include "neon.h"
#else
#include "avx2.h"
#endif

namespace regard {

inline void store_quantized(uint8_t* p, Floats a, Floats b, Floats c, Floats d) {
    store_quantized(p, a);
    store_quantized(p + LANES, b);
    store_quantized(p + 2 * LANES, c);
    store_quantized(p + 3 * LANES, d);
}

}  // namespace regard
#endif

// REGARD_TILES asks for tiles in plain C++, for tests.
#if defined(__AMX_INT8__) || defined(REGARD_TILES)
#include "amx.h"
#else

namespace regard {

constexpr bool HAS_TILES = false;
constexpr int MIN_ROWS_OF_TILES = 0;
inline bool may_use_tiles() { return true; }

}  // namespace regard
#endif
