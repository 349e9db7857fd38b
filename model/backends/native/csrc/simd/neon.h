// Vectors and int8 products with ARM NEON and its dot product; vectors.h includes this file.
//
// Sums over lanes take the order of avx2.h, so that both builds compute the same bits.
#pragma once

#include <arm_neon.h>
#include <sys/auxv.h>

namespace regard {

constexpr int SHIFT = 0;

inline FloatRegister fma(FloatRegister a, FloatRegister b, FloatRegister c) {
    return vfmaq_f32(c, a, b);
}
inline FloatRegister max(FloatRegister a, FloatRegister b) {
    return a > b ? a : b;  // as maxps: b, if one of them is NaN
}
inline FloatRegister min(FloatRegister a, FloatRegister b) { return a < b ? a : b; }
inline FloatRegister abs(FloatRegister a) { return vabsq_f32(a); }
inline float sum(Floats a) {
    float32x4_t four = (a.low.low + a.high.low) + (a.low.high + a.high.high);
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float reduce_max(Floats a) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.low.low, a.low.high),
                                vmaxq_f32(a.high.low, a.high.high)));
}
inline Floats load_half(const uint16_t* p) {
    float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(p));
    float16x8_t high = vreinterpretq_f16_u16(vld1q_u16(p + 8));
    return {{vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low)},
            {vcvt_f32_f16(vget_low_f16(high)), vcvt_high_f32_f16(high)}};
}
inline void store_half(uint16_t* p, Pair<FloatRegister> v) {
    float16x8_t eight = vcvt_high_f16_f32(vcvt_f16_f32(v.low), v.high);
    vst1q_u16(p, vreinterpretq_u16_f16(eight));
}
inline void store_half(uint16_t* p, Floats v) {
    store_half(p, v.low);
    store_half(p + 8, v.high);
}
inline Pair<FloatRegister> to_floats(int16x8_t v) {
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(v))), vcvtq_f32_s32(vmovl_high_s16(v))};
}
inline Floats load_bytes(const int8_t* p) {
    int8x16_t bytes = vld1q_s8(p);
    return {to_floats(vmovl_s8(vget_low_s8(bytes))), to_floats(vmovl_high_s8(bytes))};
}
inline int8x8_t quantized(Pair<FloatRegister> v) {
    return vqmovn_s16(vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(v.low)),
                                   vqmovn_s32(vcvtnq_s32_f32(v.high))));
}
inline void store_quantized(uint8_t* p, Floats v) {
    vst1q_s8((int8_t*)p, vcombine_s8(quantized(v.low), quantized(v.high)));
}

// Adds the products of four adjacent inputs of each row with the weights of sixteen outputs. x[r]
// holds sixteen inputs of row r; K, from 0 to 3, selects four of them.
template <int K, int R>
inline void add_products(int32x4_t (&acc)[R][4], const int8x16_t* x, const int8_t* weights) {
    for (int j = 0; j < 4; j++) {
        int8x16_t w = vld1q_s8(weights + 16 * j);
        for (int r = 0; r < R; r++) acc[r][j] = vdotq_laneq_s32(acc[r][j], w, x[r], K);
    }
}

template <int R, class Finish>
inline void multiply_tile(const uint8_t* a, size_t depth, const int8_t* panel, const int8_t*,
                          const int32_t* start, Finish finish) {
    for (int n = 0; n < PANEL; n += LANES) {
        int32x4_t acc[R][4];
        for (int r = 0; r < R; r++)
            for (int j = 0; j < 4; j++) acc[r][j] = vld1q_s32(start + n + 4 * j);
        const int8_t* weights = panel + 4 * n;
        for (size_t k = 0; k < depth; k += 16, weights += 16 * PANEL) {
            int8x16_t x[R];
            for (int r = 0; r < R; r++) x[r] = vld1q_s8((const int8_t*)a + r * depth + k);
            add_products<0>(acc, x, weights);
            add_products<1>(acc, x, weights + 4 * PANEL);
            add_products<2>(acc, x, weights + 8 * PANEL);
            add_products<3>(acc, x, weights + 12 * PANEL);
        }
        for (int r = 0; r < R; r++)
            finish(r, n, Ints{{acc[r][0], acc[r][1]}, {acc[r][2], acc[r][3]}});
    }
}

// Computes the products of a row with sixteen others.
inline void multiply_rows(const uint8_t* a, int depth, const int8_t* const* rows, int32_t* sums) {
    const int8_t* x = (const int8_t*)a;
    for (int i = 0; i < LANES; i++) {
        int32x4_t even = vdupq_n_s32(0), odd = even;
        for (int k = 0; k < depth; k += 32) {
            even = vdotq_s32(even, vld1q_s8(x + k), vld1q_s8(rows[i] + k));
            odd = vdotq_s32(odd, vld1q_s8(x + k + 16), vld1q_s8(rows[i] + k + 16));
        }
        sums[i] = vaddvq_s32(vaddq_s32(even, odd));
    }
}

inline bool is_supported() { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }

}  // namespace regard
