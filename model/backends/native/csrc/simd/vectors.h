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

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define REGARD_REGISTER 64  // bytes of a register
#elif defined(__ARM_FEATURE_DOTPROD)
#define REGARD_REGISTER 16
#else
#define REGARD_REGISTER 32
#endif

namespace regard {

constexpr int LANES = 16;
constexpr int PANEL = 64;      // number of outputs of a packed weight panel
constexpr int TILE_ROWS = 6;   // number of rows of a product that are computed together
constexpr size_t CACHE_LINE = 64;  // bytes

typedef float FloatRegister __attribute__((vector_size(REGARD_REGISTER)));
typedef int32_t IntRegister __attribute__((vector_size(REGARD_REGISTER)));
typedef float Four __attribute__((vector_size(16)));

// Two vectors side by side. The compiler keeps each part in a register. A vector that is wider than
// a register is kept in memory, which makes its operations several times as slow.
template <class Part>
struct Pair {
    Part low, high;
};
template <class Part>
inline Pair<Part> pair(Part low, Part high) {
    return {low, high};
}

#if REGARD_REGISTER == 64
typedef FloatRegister Floats;
typedef IntRegister Ints;
#elif REGARD_REGISTER == 32
typedef Pair<FloatRegister> Floats;
typedef Pair<IntRegister> Ints;
#else
typedef Pair<Pair<FloatRegister>> Floats;
typedef Pair<Pair<IntRegister>> Ints;
#endif

template <class Register>
inline void read(Register& to, const void* from) {
    std::memcpy(&to, from, sizeof to);
}
template <class Part>
inline void read(Pair<Part>& to, const void* from) {
    read(to.low, from);
    read(to.high, (const char*)from + sizeof to.low);
}
template <class Register>
inline void write(void* to, const Register& from) {
    std::memcpy(to, &from, sizeof from);
}
template <class Part>
inline void write(void* to, const Pair<Part>& from) {
    write(to, from.low);
    write((char*)to + sizeof from.low, from.high);
}

inline Floats load(const float* p) {
    Floats v;
    read(v, p);
    return v;
}
inline Ints load(const int32_t* p) {
    Ints v;
    read(v, p);
    return v;
}
inline Four load_four(const float* p) {
    Four v;
    read(v, p);
    return v;
}
inline void store(float* p, Floats v) { write(p, v); }
inline void store(int32_t* p, Ints v) { write(p, v); }
inline void store(float* p, Four v) { write(p, v); }

inline int32_t four_bytes(const uint8_t* p) {
    int32_t v;
    std::memcpy(&v, p, 4);
    return v;
}

}  // namespace regard

#if REGARD_REGISTER == 64
#include "avx512vnni.h"
#elif REGARD_REGISTER == 16
#include "neon.h"
#else
#include "avx2.h"
#endif

namespace regard {

inline void fill(FloatRegister& v, float x) { v = x - FloatRegister{}; }
inline FloatRegister to_floats(IntRegister v) { return __builtin_convertvector(v, FloatRegister); }
inline FloatRegister as_floats(IntRegister v) { return (FloatRegister)v; }
inline IntRegister as_ints(FloatRegister v) { return (IntRegister)v; }
inline FloatRegister select(IntRegister mask, FloatRegister a, FloatRegister b) {
    return mask ? a : b;
}
inline IntRegister select(IntRegister mask, IntRegister a, IntRegister b) { return mask ? a : b; }

// The operations of pairs are those of their parts.
template <class Part>
inline void fill(Pair<Part>& v, float x) {
    fill(v.low, x);
    fill(v.high, x);
}
template <class Part>
inline Pair<Part> operator+(Pair<Part> a, Pair<Part> b) {
    return {a.low + b.low, a.high + b.high};
}
template <class Part>
inline Pair<Part> operator-(Pair<Part> a, Pair<Part> b) {
    return {a.low - b.low, a.high - b.high};
}
template <class Part>
inline Pair<Part> operator*(Pair<Part> a, Pair<Part> b) {
    return {a.low * b.low, a.high * b.high};
}
template <class Part>
inline Pair<Part> operator/(Pair<Part> a, Pair<Part> b) {
    return {a.low / b.low, a.high / b.high};
}
template <class Part>
inline Pair<Part> operator-(Pair<Part> a) {
    return {-a.low, -a.high};
}
template <class Part>
inline Pair<Part> operator+(Pair<Part> a, int32_t b) {
    return {a.low + b, a.high + b};
}
template <class Part>
inline Pair<Part> operator<<(Pair<Part> a, int bits) {
    return {a.low << bits, a.high << bits};
}
template <class Part>
inline auto operator>(Pair<Part> a, Pair<Part> b) {
    return pair(a.low > b.low, a.high > b.high);
}
template <class Part>
inline Pair<Part> abs(Pair<Part> a) {
    return {abs(a.low), abs(a.high)};
}
template <class Part>
inline Pair<Part> max(Pair<Part> a, Pair<Part> b) {
    return {max(a.low, b.low), max(a.high, b.high)};
}
template <class Part>
inline Pair<Part> min(Pair<Part> a, Pair<Part> b) {
    return {min(a.low, b.low), min(a.high, b.high)};
}
template <class Part>
inline Pair<Part> fma(Pair<Part> a, Pair<Part> b, Pair<Part> c) {
    return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
}
template <class Part>
inline auto to_floats(Pair<Part> v) {
    return pair(to_floats(v.low), to_floats(v.high));
}
template <class Part>
inline auto as_floats(Pair<Part> v) {
    return pair(as_floats(v.low), as_floats(v.high));
}
template <class Part>
inline auto as_ints(Pair<Part> v) {
    return pair(as_ints(v.low), as_ints(v.high));
}
template <class Mask, class Part>
inline Pair<Part> select(Pair<Mask> mask, Pair<Part> a, Pair<Part> b) {
    return {select(mask.low, a.low, b.low), select(mask.high, a.high, b.high)};
}

inline Floats broadcast(float x) {
    Floats v;
    fill(v, x);
    return v;
}

#if REGARD_REGISTER < 64
inline void store_quantized(uint8_t* p, Floats a, Floats b, Floats c, Floats d) {
    store_quantized(p, a);
    store_quantized(p + LANES, b);
    store_quantized(p + 2 * LANES, c);
    store_quantized(p + 3 * LANES, d);
}
#endif

}  // namespace regard

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
