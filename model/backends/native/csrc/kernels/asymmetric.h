// Asymmetric quantised rows, which have a midpoint.
//
// Text encoders have activations that lie to one side of zero: after GELU no value is below -0.17.
// A row that is quantised around the midpoint of its range wastes no steps.
#pragma once

#include "matrix.h"

namespace regard {

constexpr float LIMIT = 127.0f;
constexpr float FINE = 254.0f;  // fine steps in one coarse step

// Quantised rows: a row is midpoint + step · value. Rows in 16 bits also have `fine`, the rounding
// error of the value in units of step / FINE.
struct AsymmetricQuantized {
    static constexpr bool HAS_MIDPOINTS = true;
    Buffer<uint8_t> values, fine;
    Buffer<float> midpoints, steps;

    void fill(const float* x, int rows, int width, bool is_fine = false) {
        uint8_t* q = values.reserve((size_t)rows * width);
        uint8_t* rest = is_fine ? fine.reserve((size_t)rows * width) : nullptr;
        float* midpoint = midpoints.reserve(rows);
        float* step = steps.reserve(rows);
        for (int r = 0; r < rows; r++, x += width, q += width) {
            measure(x, width, midpoint[r], step[r]);
            Floats centre = broadcast(midpoint[r]), factor = broadcast(1.0f / step[r]);
            auto coarse = [=](int i) { return (load(x + i) - centre) * factor; };
            store_quantized_row(q, width, coarse);
            if (!is_fine) continue;
            store_quantized_row(rest, width, [=](int i) {
                Floats v = coarse(i);
                return (v - round(v)) * broadcast(FINE);
            });
            rest += width;
        }
    }

private:
    static void measure(const float* x, int width, float& midpoint, float& step) {
        auto up = [=](Floats high, int i) { return max(high, load(x + i)); };
        auto down = [=](Floats low, int i) { return min(low, load(x + i)); };
        float top = reduce_max(fold(width, load(x), up, larger));
        float bottom = -reduce_max(-fold(width, load(x), down, smaller));
        midpoint = 0.5f * (top + bottom);
        step = std::max(0.5f * (top - bottom), 1e-12f) / LIMIT;
    }

    static Floats round(Floats v) {
        Floats magic = broadcast(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
        return (v + magic) - magic;
    }
};

}  // namespace regard
