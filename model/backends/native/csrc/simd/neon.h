// Vectors and int8 products with ARM NEON and its dot product; vectors.h includes this file.
//
// Sums over lanes take the order of avx2.h, so that both builds compute the same bits.
#pragma once

#include <arm_neon.h>
#include <sys/auxv.h>

namespace regard {

constexpr int SHIFT = 0;

inline float32x4_t quarter(Floats v, int i) {
    float32x4_t four;
    std::memcpy(&four, (const char*)&v + 16 * i, 16);
    return four;
}
inline Floats join(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d) {
    const float32x4_t all[] = {a, b, c, d};
    Floats v;
    std::memcpy(&v, all, sizeof v);
    return v;
}
inline float32x4_t max_of_four(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);  // as maxps: b, if one of them is NaN
}
inline Floats fma(Floats a, Floats b, Floats c) {
    return join(vfmaq_f32(quarter(c, 0), quarter(a, 0), quarter(b, 0)),
                vfmaq_f32(quarter(c, 1), quarter(a, 1), quarter(b, 1)),
                vfmaq_f32(quarter(c, 2), quarter(a, 2), quarter(b, 2)),
                vfmaq_f32(quarter(c, 3), quarter(a, 3), quarter(b, 3)));
}
inline Floats max(Floats a, Floats b) {
    return join(max_of_four(quarter(a, 0), quarter(b, 0)),
                max_of_four(quarter(a, 1), quarter(b, 1)),
                max_of_four(quarter(a, 2), quarter(b, 2)),
                max_of_four(quarter(a, 3), quarter(b, 3)));
}
inline Floats abs(Floats a) {
    return join(vabsq_f32(quarter(a, 0)), vabsq_f32(quarter(a, 1)), vabsq_f32(quarter(a, 2)),
                vabsq_f32(quarter(a, 3)));
}
inline float sum(Floats a) {
    float32x4_t four = vaddq_f32(vaddq_f32(quarter(a, 0), quarter(a, 2)),
                                 vaddq_f32(quarter(a, 1), quarter(a, 3)));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float reduce_max(Floats a) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(quarter(a, 0), quarter(a, 1)),
                                vmaxq_f32(quarter(a, 2), quarter(a, 3))));
}
inline Floats load_half(const uint16_t* p) {
    float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(p));
    float16x8_t high = vreinterpretq_f16_u16(vld1q_u16(p + 8));
    return join(vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low),
                vcvt_f32_f16(vget_low_f16(high)), vcvt_high_f32_f16(high));
}
inline void store_half(uint16_t* p, Floats v) {
    for (int i = 0; i < 4; i += 2) {
        float16x8_t eight = vcvt_high_f16_f32(vcvt_f16_f32(quarter(v, i)), quarter(v, i + 1));
        vst1q_u16(p + 4 * i, vreinterpretq_u16_f16(eight));
    }
}
inline Floats load_bytes(const int8_t* p) {
    int8x16_t bytes = vld1q_s8(p);
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return join(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high)));
}
inline void store_quantized(uint8_t* p, Floats v) {
    int16x8_t low = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(quarter(v, 0))),
                                 vqmovn_s32(vcvtnq_s32_f32(quarter(v, 1))));
    int16x8_t high = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(quarter(v, 2))),
                                  vqmovn_s32(vcvtnq_s32_f32(quarter(v, 3))));
    vst1q_s8((int8_t*)p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
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
        for (int r = 0; r < R; r++) {
            Ints sums;
            std::memcpy(&sums, acc[r], sizeof sums);
            finish(r, n, sums);
        }
    }
}

typedef int32x4_t Products;

inline Products multiply_row(const uint8_t* a, int depth, const int8_t* row) {
    Products even = vdupq_n_s32(0), odd = even;
    for (int k = 0; k < depth; k += 32) {
        even = vdotq_s32(even, vld1q_s8((const int8_t*)a + k), vld1q_s8(row + k));
        odd = vdotq_s32(odd, vld1q_s8((const int8_t*)a + k + 16), vld1q_s8(row + k + 16));
    }
    return vaddq_s32(even, odd);
}

inline void sum_sixteen(Products* v, int32_t* sums) {
    for (int i = 0; i < 16; i++) sums[i] = vaddvq_s32(v[i]);
}

inline bool is_supported() { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }

}  // namespace regard
