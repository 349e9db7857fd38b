// Int8 matrices, linear layers, layer norm and embeddings.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "simd.h"

namespace regard {

struct Free {
    void operator()(void* p) const { std::free(p); }
};

constexpr size_t LINE = 64, HUGE_PAGE = 2 << 20;

// Aligned memory that grows but never shrinks; growing discards the contents. Large buffers use
// huge pages if the system has them, so that fewer page addresses must be translated.
template <class T>
struct Buffer {
    std::unique_ptr<T[], Free> data;
    size_t size = 0;

    T* reserve(size_t wanted) {
        if (wanted <= size) return data.get();
        size_t bytes = wanted * sizeof(T), page = bytes < HUGE_PAGE ? LINE : HUGE_PAGE;
        bytes = (bytes + page - 1) / page * page;
        data.reset((T*)std::aligned_alloc(page, bytes));
        size = data ? wanted : 0;
        if (!data) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
        if (page == HUGE_PAGE) madvise(data.get(), bytes, MADV_HUGEPAGE);
#endif
        return data.get();
    }
    T* get() const { return data.get(); }
};

// A weight whose memory Python owns.
struct MatrixSpec {
    const int8_t* values;  // packed (out / 64, in / 4, 64, 4), or a table (V, D)
    const float* bias;     // (out) or null
    float multiplier;      // a float weight is values / multiplier
    int32_t out, in;
};

// Rows quantised for a product: bytes (rows, in) and the step size of each row.
struct Quantized {
    Buffer<uint8_t> values;
    Buffer<float> steps;

    // Quantises rows. Each row is scaled by its own largest magnitude, so it depends on no other
    // row. Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 6.
    void fill(const float* x, int rows, int width) {
        uint8_t* q = values.reserve((size_t)rows * width);
        float* step = steps.reserve(rows);
        for (int r = 0; r < rows; r++, x += width, q += width) {
            Floats magnitude = broadcast(1e-12f);
            for (int i = 0; i < width; i += LANES) magnitude = max(magnitude, abs(load(x + i)));
            float scale = 127.0f / reduce_max(magnitude);
            Floats factor = broadcast(scale);
            for (int i = 0; i < width; i += LANES) store_quantized(q + i, load(x + i) * factor);
            step[r] = 1.0f / scale;
        }
    }
};

enum Activation { NONE = 0, RELU = 1, SWISH = 2 };

// Computes e^x for x clamped to [-87, 88] with the polynomial of Cephes' expf.
inline Floats exp(Floats x) {
    x = -max(-max(x, broadcast(-87.0f)), broadcast(-88.0f));
    Floats magic = broadcast(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
    Floats shifted = fma(x, broadcast(1.44269504f), magic);
    Floats n = shifted - magic;
    Floats r = fma(n, broadcast(-0.693359375f), x);
    r = fma(n, broadcast(2.12194440e-4f), r);
    Floats p = broadcast(1.9875691500e-4f);
    p = fma(p, r, broadcast(1.3981999507e-3f));
    p = fma(p, r, broadcast(8.3334519073e-3f));
    p = fma(p, r, broadcast(4.1665795894e-2f));
    p = fma(p, r, broadcast(1.6666665459e-1f));
    p = fma(p, r, broadcast(5.0000001201e-1f));
    p = fma(p, r * r, r + broadcast(1.0f));
    Ints power = ((Ints)shifted - (Ints)magic) << 23;
    return (Floats)((Ints)p + power);
}

inline Floats sigmoid(Floats x) {
    Floats one = broadcast(1.0f);
    return one / (one + exp(-x));
}

// Returns the sum of each output's weights in a packed matrix.
inline std::vector<int32_t> sums_of(const int8_t* packed, int in, int out) {
    std::vector<int32_t> sums(out);
    for (int n = 0; n < out; n += PANEL) {
        int32_t panel[PANEL] = {};
        for (int k = 0; k < in; k += 4)
            for (int i = 0; i < 4 * PANEL; i++) panel[i / 4] += *packed++;
        std::copy_n(panel, PANEL, &sums[n]);
    }
    return sums;
}

// A linear layer x · Wᵀ + b. W may be several matrices with the same input, concatenated.
class Linear {
public:
    int in = 0, out = 0;

    void append(const MatrixSpec& spec) {
        int first = out;
        in = spec.in;
        out += spec.out;
        bias.resize(out, 0.0f);
        start.resize(out);
        factors.resize(out / PANEL, 1.0f / spec.multiplier);
        std::vector<int32_t> sums = sums_of(spec.values, in, spec.out);
        for (int n = 0; n < spec.out; n++) start[first + n] = -SHIFT * sums[n];
        if (spec.bias) std::copy_n(spec.bias, spec.out, &bias[first]);
        for (int n = 0; n < spec.out; n += PANEL) panels.push_back(spec.values + (size_t)n * in);
    }

    // Returns the bytes of the memory that the layer owns.
    size_t bytes() const {
        return (bias.size() + factors.size() + start.size()) * 4 + panels.size() * sizeof(void*);
    }

    // Computes y (rows, out) of quantised x (rows, in).
    void multiply(const Quantized& x, int rows, float* y, Activation activation = NONE) const {
        for (int n = 0; n < out; n += PANEL) {
            const int8_t* panel = panels[n / PANEL];
            for (int r = 0; r < rows; r += TILE_ROWS) tile(x, r, rows - r, n, panel, y, activation);
        }
    }

private:
    std::vector<const int8_t*> panels;  // (in / 4, 64, 4) each
    std::vector<float> bias;
    std::vector<float> factors;  // step size of the weights of each panel
    std::vector<int32_t> start;  // compensates for SHIFT in every sum

    void tile(const Quantized& x, int first, int left, int n, const int8_t* panel, float* y,
              Activation activation) const {
        switch (activation) {
            case NONE: return tile_of<NONE>(x, first, left, n, panel, y);
            case RELU: return tile_of<RELU>(x, first, left, n, panel, y);
            case SWISH: return tile_of<SWISH>(x, first, left, n, panel, y);
        }
    }

    template <Activation A>
    void tile_of(const Quantized& x, int first, int left, int n, const int8_t* panel,
                 float* y) const {
        const uint8_t* a = x.values.get() + (size_t)first * in;
        const float* steps = x.steps.get() + first;
        float* to = y + (size_t)first * out + n;
        float factor = factors[n / PANEL];
        auto finish = [&](int r, int j, Ints sums) {
            Floats v = fma(to_floats(sums), broadcast(steps[r] * factor), load(&bias[n + j]));
            if (A == RELU) v = max(v, broadcast(0.0f));
            if (A == SWISH) v = v * sigmoid(v);
            store(to + (size_t)r * out + j, v);
        };
        switch (std::min(left, TILE_ROWS)) {
            case 1: return multiply_tile<1>(a, in, in, panel, &start[n], finish);
            case 2: return multiply_tile<2>(a, in, in, panel, &start[n], finish);
            case 3: return multiply_tile<3>(a, in, in, panel, &start[n], finish);
            case 4: return multiply_tile<4>(a, in, in, panel, &start[n], finish);
            case 5: return multiply_tile<5>(a, in, in, panel, &start[n], finish);
            default: return multiply_tile<6>(a, in, in, panel, &start[n], finish);
        }
    }
};

struct Norm {
    const float *scale, *bias;  // (width)
    float epsilon;

    // Computes x = norm(x + y), row by row.
    void add(float* x, const float* y, int rows, int width) const {
        for (int r = 0; r < rows; r++, x += width, y += width) {
            Floats total = broadcast(0.0f), squares = broadcast(0.0f);
            for (int i = 0; i < width; i += LANES) {
                Floats v = load(x + i) + load(y + i);
                store(x + i, v);
                total = total + v;
            }
            Floats mean = broadcast(sum(total) / (float)width);
            for (int i = 0; i < width; i += LANES) {
                Floats v = load(x + i) - mean;
                squares = fma(v, v, squares);
            }
            Floats factor = broadcast(1.0f / std::sqrt(sum(squares) / (float)width + epsilon));
            for (int i = 0; i < width; i += LANES) {
                Floats v = (load(x + i) - mean) * factor;
                store(x + i, fma(v, load(scale + i), load(bias + i)));
            }
        }
    }
};

// An int8 embedding table (V, width).
struct Embedding {
    const int8_t* values;
    float multiplier;

    void look_up(int32_t token, int width, float factor, const float* position, float* to) const {
        const int8_t* row = values + (size_t)token * width;
        Floats step = broadcast(factor / multiplier);
        for (int i = 0; i < width; i += LANES)
            store(to + i, fma(load_bytes(row + i), step, load(position + i)));
    }
};

}  // namespace regard
