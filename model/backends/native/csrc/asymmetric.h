// Asymmetric int8 products: weights have one scale per output, and rows have a midpoint.
//
// Text encoders have activations that lie to one side of zero: after GELU no value is below -0.17.
// A row that is quantised around the midpoint of its range wastes no steps.
#pragma once

#include "matrix.h"

namespace regard {

constexpr float LIMIT = 127.0f;
constexpr float FINE = 254.0f;  // fine steps in one coarse step

// A weight whose memory Python owns.
struct ScaledSpec {
    const int8_t* values;  // (out / 64, in / 4, 64, 4)
    const float* scales;   // (out): a float weight is values · scale
    const float* bias;     // (out)
    int32_t out, in;
};

// Quantised rows: a row is midpoint + step · coarse. Rows in 16 bits also have `fine`, the rounding
// error of `coarse` in units of step / FINE.
struct AsymmetricQuantized {
    Buffer<uint8_t> coarse, fine;
    Buffer<float> midpoints, steps;

    void fill(const float* x, int rows, int width, bool is_fine = false) {
        uint8_t* q = coarse.reserve((size_t)rows * width);
        uint8_t* rest = is_fine ? fine.reserve((size_t)rows * width) : nullptr;
        float* midpoint = midpoints.reserve(rows);
        float* step = steps.reserve(rows);
        for (int r = 0; r < rows; r++, x += width, q += width) {
            measure(x, width, midpoint[r], step[r]);
            Floats centre = broadcast(midpoint[r]), factor = broadcast(1.0f / step[r]);
            for (int i = 0; i < width; i += LANES) {
                Floats v = (load(x + i) - centre) * factor;
                store_quantized(q + i, v);
                if (is_fine) store_quantized(rest + i, (v - round(v)) * broadcast(FINE));
            }
            if (is_fine) rest += width;
        }
    }

private:
    static void measure(const float* x, int width, float& midpoint, float& step) {
        Floats high = load(x), low = -high;  // the maximum, and the negated minimum
        for (int i = LANES; i < width; i += LANES) {
            high = max(high, load(x + i));
            low = max(low, -load(x + i));
        }
        float top = reduce_max(high), bottom = -reduce_max(low);
        midpoint = 0.5f * (top + bottom);
        step = std::max(0.5f * (top - bottom), 1e-12f) / LIMIT;
    }

    static Floats round(Floats v) {
        Floats magic = broadcast(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
        return (v + magic) - magic;
    }
};

enum class TextActivation : int32_t { NONE, RELU, SWISH, GELU, GELU_TANH };

// GELU: x Φ(x) = max(x, 0) - h(|x|), where h(a) = a · erfc(a / √2) / 2 vanishes beyond 5.5. The
// polynomial for h was fitted at Chebyshev's points up to 5.5; its error is at most 7e-7.
inline Floats gelu(Floats x) {
    Floats t = fma(-max(-abs(x), broadcast(-5.5f)), broadcast(2 / 5.5f), broadcast(-1.0f));
    constexpr float FIT[] = {
        3.613668713e-02f, -3.941808535e-02f, -1.548762305e-01f, 2.353385925e-01f,
        1.858794629e-01f, -5.475195715e-01f, 1.918524913e-01f, 4.606150046e-01f,
        -6.386240268e-01f, 2.602255559e-01f, 1.802352202e-01f, -3.086630533e-01f,
        1.912020544e-01f, -6.057845873e-02f, 8.194849179e-03f,
    };
    Floats h = broadcast(FIT[0]);
    for (size_t i = 1; i < sizeof FIT / sizeof *FIT; i++) h = fma(h, t, broadcast(FIT[i]));
    return max(x, broadcast(0.0f)) - h;
}

template <TextActivation A>
inline Floats activate(Floats x) {
    if (A == TextActivation::RELU) return max(x, broadcast(0.0f));
    if (A == TextActivation::SWISH) return x * sigmoid(x);
    if (A == TextActivation::GELU) return gelu(x);
    if (A == TextActivation::GELU_TANH)  // (1 + tanh(u)) / 2 is sigmoid(2 u)
        return x * sigmoid(x * fma(x * x, broadcast(0.0713548162726f), broadcast(1.59576912161f)));
    return x;
}

// A linear layer x · Wᵀ + b with one scale per output.
class ScaledLinear {
public:
    int in = 0, out = 0;

    void set(const ScaledSpec& spec) {
        in = spec.in;
        out = spec.out;
        scales.assign(spec.scales, spec.scales + out);
        bias.assign(spec.bias, spec.bias + out);
        weights = spec.values;
        start = sums_of(weights, in, out);
        sums.resize(out);
        for (int n = 0; n < out; n++) {
            sums[n] = (float)start[n] * scales[n];
            start[n] *= -SHIFT;
        }
    }

    // Returns the bytes of the memory that the layer owns.
    size_t bytes() const { return (scales.size() + bias.size() + sums.size() + start.size()) * 4; }

    // Computes y (rows, out) of x (rows, in); the rows of y are `stride` floats apart.
    void multiply(const AsymmetricQuantized& x, int rows, float* y, size_t stride,
                  TextActivation activation = TextActivation::NONE) const {
        switch (activation) {
            case TextActivation::NONE: return run<TextActivation::NONE>(x, rows, y, stride);
            case TextActivation::RELU: return run<TextActivation::RELU>(x, rows, y, stride);
            case TextActivation::SWISH: return run<TextActivation::SWISH>(x, rows, y, stride);
            case TextActivation::GELU: return run<TextActivation::GELU>(x, rows, y, stride);
            case TextActivation::GELU_TANH: return run<TextActivation::GELU_TANH>(x, rows, y, stride);
        }
    }

    // Adds the product of the fine part of x to y.
    void add_fine(const AsymmetricQuantized& x, int rows, float* y, size_t stride) const {
        each_tile(x.fine.get(), rows, [&](int r, int n, Ints products) {
            float* to = y + r * stride + n;
            Floats step = broadcast(x.steps.get()[r] / FINE) * load(&scales[n]);
            store(to, fma(to_floats(products), step, load(to)));
        });
    }

private:
    const int8_t* weights;  // (out / 64, in / 4, 64, 4)
    std::vector<float> scales, bias;
    std::vector<float> sums;     // sum of each output's float weights, for the midpoint of a row
    std::vector<int32_t> start;  // compensates for SHIFT in every sum

    template <TextActivation A>
    void run(const AsymmetricQuantized& x, int rows, float* y, size_t stride) const {
        each_tile(x.coarse.get(), rows, [&](int r, int n, Ints products) {
            Floats v = fma(broadcast(x.midpoints.get()[r]), load(&sums[n]), load(&bias[n]));
            Floats step = broadcast(x.steps.get()[r]) * load(&scales[n]);
            store(y + r * stride + n, activate<A>(fma(to_floats(products), step, v)));
        });
    }

    // Calls finish(row, output, products) for sixteen outputs at a time.
    template <class Finish>
    void each_tile(const uint8_t* x, int rows, Finish finish) const {
        for (int n = 0; n < out; n += PANEL) {
            const int8_t* panel = weights + (size_t)n * in;
            for (int r = 0; r < rows; r += TILE_ROWS) {
                auto place = [&](int i, int j, Ints products) { finish(r + i, n + j, products); };
                tile(x + (size_t)r * in, std::min(rows - r, TILE_ROWS), panel, &start[n], place);
            }
        }
    }

    template <class Finish>
    void tile(const uint8_t* a, int rows, const int8_t* panel, const int32_t* first,
              Finish finish) const {
        switch (rows) {
            case 1: return multiply_tile<1>(a, in, in, panel, first, finish);
            case 2: return multiply_tile<2>(a, in, in, panel, first, finish);
            case 3: return multiply_tile<3>(a, in, in, panel, first, finish);
            case 4: return multiply_tile<4>(a, in, in, panel, first, finish);
            case 5: return multiply_tile<5>(a, in, in, panel, first, finish);
            default: return multiply_tile<6>(a, in, in, panel, first, finish);
        }
    }
};

}  // namespace regard
