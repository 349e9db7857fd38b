// Linear layers with int8 weights, and the activations that follow them.
#pragma once

#include "asymmetric.h"

namespace regard {

enum class Activation : int32_t { NONE, RELU, SWISH, GELU, GELU_TANH, GELU_SIGMOID };

// GELU: x Φ(x) = max(x, 0) - h(|x|), where h(a) = a · erfc(a / √2) / 2 vanishes beyond 5.5. The
// polynomial for h was fitted at Chebyshev's points up to 5.5; its error is at most 7e-7.
inline Floats gelu(Floats x) {
    Floats t = fma(min(abs(x), broadcast(5.5f)), broadcast(2 / 5.5f), broadcast(-1.0f));
    constexpr float FIT[] = {
        3.613668713e-02f, -3.941808535e-02f, -1.548762305e-01f, 2.353385925e-01f,
        1.858794629e-01f, -5.475195715e-01f, 1.918524913e-01f, 4.606150046e-01f,
        -6.386240268e-01f, 2.602255559e-01f, 1.802352202e-01f, -3.086630533e-01f,
        1.912020544e-01f, -6.057845873e-02f, 8.194849179e-03f,
    };
    // Even and odd powers are summed apart, so that each sum waits for fewer others.
    Floats square = t * t, even = broadcast(FIT[0]), odd = broadcast(FIT[1]);
    for (int i = 2; i < 14; i += 2) {
        even = fma(even, square, broadcast(FIT[i]));
        odd = fma(odd, square, broadcast(FIT[i + 1]));
    }
    even = fma(even, square, broadcast(FIT[14]));
    return max(x, broadcast(0.0f)) - fma(odd, t, even);
}

template <Activation A>
inline Floats activate(Floats x) {
    if (A == Activation::RELU) return max(x, broadcast(0.0f));
    if (A == Activation::SWISH) return x * sigmoid(x);
    if (A == Activation::GELU) return gelu(x);
    if (A == Activation::GELU_TANH)  // (1 + tanh(u)) / 2 is sigmoid(2 u)
        return x * sigmoid(x * fma(x * x, broadcast(0.0713548162726f), broadcast(1.59576912161f)));
    if (A == Activation::GELU_SIGMOID) return x * sigmoid(x * broadcast(1.702f));
    return x;
}

// Calls finish(row, output, sums) for the product of `rows` quantised rows and one panel of a
// packed matrix, sixteen outputs at a time. Each sum starts with a value of `start`. The rows are
// divided evenly into tiles, because tiles of one or two rows take nearly as long as larger ones.
//
// While the tiles are computed, they fetch the next panel of the matrix into the cache (AVX-512
// only). Without this, the first tile of each panel waits for its weights: 16 or 32 rows took 3 to
// 4 % more time.
//
// A function such as `finish` captures by value, and is always inlined. If it captured by
// reference, the compiler would read the captured variables again after each store. This took 5 %
// of a translation's time. Calls of functions that the compiler did not inline took 3 %.
template <class Finish>
inline void multiply_panel(const uint8_t* x, int rows, int depth, const int8_t* panel,
                           const int32_t* start, Finish finish) {
    int tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    size_t fetched = depth / 4 * CACHE_LINE;  // by each tile
    const int8_t* ahead = panel + (size_t)depth * PANEL;
    for (int r = 0, count; r < rows; r += count, x += (size_t)count * depth, ahead += fetched) {
        count = (rows - r) / tiles--;
        auto place = [=](int i, int j, Ints sums) REGARD_INLINE { finish(r + i, j, sums); };
        switch (count) {
            case 1: multiply_tile<1>(x, depth, panel, ahead, start, place); break;
            case 2: multiply_tile<2>(x, depth, panel, ahead, start, place); break;
            case 3: multiply_tile<3>(x, depth, panel, ahead, start, place); break;
            case 4: multiply_tile<4>(x, depth, panel, ahead, start, place); break;
            case 5: multiply_tile<5>(x, depth, panel, ahead, start, place); break;
            default: multiply_tile<6>(x, depth, panel, ahead, start, place);
        }
    }
}

// Calls finish(row, output, values) for the product with the panels of outputs `first` to `end` - 1.
// `value(output)` returns a function from a row and its sixteen sums to values. `panels` and
// `start` begin with output `first`.
template <class Value, class Finish>
inline void multiply_panels(const uint8_t* x, int rows, int depth, const int8_t* const* panels,
                            const int32_t* start, int first, int end, Value value, Finish finish) {
    if constexpr (HAS_TILES)
        if (rows >= MIN_ROWS_OF_TILES)
            return multiply_in_tiles(x, rows, depth, panels, start, first, end, value, finish);
    for (int n = first; n < end; n += PANEL, start += PANEL)
        multiply_panel(x, rows, depth, *panels++, start,
                       [=](int r, int j, Ints sums) REGARD_INLINE {
                           finish(r, n + j, value(n + j)(r, sums));
                       });
}

// A linear layer x · Wᵀ + b. W may be several matrices with the same input, concatenated.
class Linear {
public:
    int in = 0, out = 0;

    // Appends the outputs of a packed matrix. `padding` is the bias of the outputs that only fill
    // the last panel.
    void append(const MatrixSpec& spec, float padding = 0.0f) {
        int first = out, width = round_up(spec.out, PANEL);
        in = spec.in;
        out += width;
        start.resize(out);
        sums.resize(out, 0.0f);
        bias.resize(first + spec.out, 0.0f);
        bias.resize(out, padding);
        scales.resize(out, 0.0f);
        std::copy_n(spec.scales, spec.out, &scales[first]);
        if (spec.bias) std::copy_n(spec.bias, spec.out, &bias[first]);
        for (int n = 0; n < width; n += PANEL) {
            panels.push_back(spec.values + (size_t)n * in);
            sum_panel(first + n);
            const float* scale = &scales[first + n];
            for (int i = 1; i < PANEL; i++) has_equal_scales &= scale[i] == scale[0];
        }
    }

    // Returns the bytes of the memory that the layer owns.
    size_t bytes() const {
        return (scales.size() + bias.size() + sums.size() + start.size()) * 4 +
               panels.size() * sizeof(void*);
    }

    // Computes y of quantised rows x (rows, in). The rows of y are `stride` floats apart.
    template <class Rows>
    void multiply(const Rows& x, int rows, float* y, size_t stride,
                  Activation activation = Activation::NONE) const {
        multiply(x, rows, y, stride, 0, out, activation);
    }

    // Computes the outputs `first` to `end` - 1, which must be whole panels.
    template <class Rows>
    void multiply(const Rows& x, int rows, float* y, size_t stride, int first, int end,
                  Activation activation = Activation::NONE) const {
        switch (activation) {
            case Activation::NONE: return run<Activation::NONE>(x, rows, y, stride, first, end);
            case Activation::RELU: return run<Activation::RELU>(x, rows, y, stride, first, end);
            case Activation::SWISH: return run<Activation::SWISH>(x, rows, y, stride, first, end);
            case Activation::GELU: return run<Activation::GELU>(x, rows, y, stride, first, end);
            case Activation::GELU_TANH:
                return run<Activation::GELU_TANH>(x, rows, y, stride, first, end);
            case Activation::GELU_SIGMOID:
                return run<Activation::GELU_SIGMOID>(x, rows, y, stride, first, end);
        }
    }

    // Adds the product of the fine part of x to the outputs `first` to `end` - 1. A row of y begins
    // with output `first`.
    void add_fine(const AsymmetricQuantized& x, int rows, float* y, size_t stride, int first,
                  int end) const {
        const float *steps = x.steps.get(), *scale = scales.data();
        auto place = [=](int r, int i) REGARD_INLINE { return y + r * stride + i - first; };
        multiply_panels(
            x.fine.get(), rows, in, &panels[first / PANEL], &start[first], first, end,
            [=](int i) REGARD_INLINE {
                Floats factor = load(scale + i);
                return [=](int r, Ints products) REGARD_INLINE {
                    Floats step = broadcast(steps[r] / FINE) * factor;
                    return fma(to_floats(products), step, load(place(r, i)));
                };
            },
            [=](int r, int i, Floats sum) REGARD_INLINE { store(place(r, i), sum); });
    }

    // Calls finish(row, output, values) for each row and sixteen adjacent outputs.
    template <Activation A, class Rows, class Finish>
    void each(const Rows& x, int rows, int first, int end, Finish finish) const {
        if (has_equal_scales && !Rows::HAS_MIDPOINTS)
            each_of<A, true>(x, rows, first, end, finish);
        else
            each_of<A, false>(x, rows, first, end, finish);
    }

private:
    bool has_equal_scales = true;  // whether all outputs of each panel have the same scale
    std::vector<const int8_t*> panels;  // (in / 4, 64, 4) each
    std::vector<float> scales, bias;
    std::vector<float> sums;     // sum of each output's float weights, for the midpoint of a row
    std::vector<int32_t> start;  // compensates for SHIFT in every sum

    void sum_panel(int first) {
        const int8_t* values = panels[first / PANEL];
        int32_t totals[PANEL] = {};
        for (int k = 0; k < in; k += 4)
            for (int i = 0; i < 4 * PANEL; i++) totals[i / 4] += *values++;
        for (int i = 0; i < PANEL; i++) {
            sums[first + i] = (float)totals[i] * scales[first + i];
            start[first + i] = -SHIFT * totals[i];
        }
    }

    // HAS_EQUAL_SCALES saves 3 % of the time of the built-in models.
    template <Activation A, bool HAS_EQUAL_SCALES, class Rows, class Finish>
    void each_of(const Rows& x, int rows, int first, int end, Finish finish) const {
        const float *steps = x.steps.get(), *midpoints = x.midpoints.get();
        const float *scale = scales.data(), *constant = bias.data(), *sum = sums.data();
        multiply_panels(
            x.values.get(), rows, in, &panels[first / PANEL], &start[first], first, end,
            [=](int i) REGARD_INLINE {
                Floats factor = load(scale + i), b = load(constant + i), total = load(sum + i);
                float equal = scale[i];
                return [=](int r, Ints products) REGARD_INLINE {
                    Floats step = HAS_EQUAL_SCALES ? broadcast(steps[r] * equal)
                                                   : broadcast(steps[r]) * factor;
                    Floats v = b;
                    if (Rows::HAS_MIDPOINTS) v = fma(broadcast(midpoints[r]), total, v);
                    return activate<A>(fma(to_floats(products), step, v));
                };
            },
            finish);
    }

    template <Activation A, class Rows>
    void run(const Rows& x, int rows, float* y, size_t stride, int first, int end) const {
        each<A>(x, rows, first, end, [=](int r, int i, Floats values) REGARD_INLINE {
            store(y + r * stride + i - first, values);
        });
    }
};

}  // namespace regard
