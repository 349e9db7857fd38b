// Memory, int8 weights and quantised rows, and the functions that treat each row by itself.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "../simd/vectors.h"

namespace regard {

inline int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

struct Free {
    void operator()(void* p) const { std::free(p); }
};

constexpr size_t HUGE_PAGE = 2 << 20;

// Aligned memory that grows but never shrinks; growing discards the contents. Large buffers use
// huge pages if the system has them, so that fewer page addresses must be translated.
template <class T>
struct Buffer {
    std::unique_ptr<T[], Free> data;
    size_t size = 0;

    T* reserve(size_t wanted) {
        if (wanted <= size) return data.get();
        size_t bytes = wanted * sizeof(T), page = bytes < HUGE_PAGE ? CACHE_LINE : HUGE_PAGE;
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

// Writes the transpose of rows (length, columns), which are `stride` numbers apart, to `to`
// (columns, width). Numbers from `length` on are zeros. `columns` is a multiple of 4.
inline void transpose(const float* from, size_t stride, int length, int columns, float* to,
                      int width) {
    for (int d = 0; d < columns; d += 4, from += 4, to += (size_t)4 * width) {
        int j = 0;
        for (; j + 4 <= length; j += 4) {
            const float* row = from + j * stride;
            Four a = load_four(row), b = load_four(row + stride);
            Four c = load_four(row + 2 * stride), e = load_four(row + 3 * stride);
            Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
            Four ce = __builtin_shufflevector(c, e, 0, 4, 1, 5);
            store(to + j, __builtin_shufflevector(ab, ce, 0, 1, 4, 5));
            store(to + width + j, __builtin_shufflevector(ab, ce, 2, 3, 6, 7));
            ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
            ce = __builtin_shufflevector(c, e, 2, 6, 3, 7);
            store(to + 2 * width + j, __builtin_shufflevector(ab, ce, 0, 1, 4, 5));
            store(to + 3 * width + j, __builtin_shufflevector(ab, ce, 2, 3, 6, 7));
        }
        for (; j < width; j++)
            for (int i = 0; i < 4; i++)
                to[(size_t)i * width + j] = j < length ? from[j * stride + i] : 0.0f;
    }
}

// An int8 weight whose memory Python owns. A float weight is a value times the scale of its output.
struct MatrixSpec {
    const int8_t* values;  // packed (out / 64, in / 4, 64, 4), or in rows (out, in)
    const float* scales;   // (out)
    const float* bias;     // (out) or null
    int32_t out, in;       // the last panel of a packed matrix is padded with zeros
    int32_t is_packed;
};

// Folds a row in four chains, so that no step waits for the one before it. step(chain, i) takes in
// the vector at number i, and join(a, b) joins two chains.
template <class Step, class Join>
inline Floats fold(int width, Floats start, Step step, Join join) {
    Floats chains[4] = {start, start, start, start};
    int i = 0;
    for (; i + 4 * LANES <= width; i += 4 * LANES)
        for (int chain = 0; chain < 4; chain++)
            chains[chain] = step(chains[chain], i + chain * LANES);
    for (; i < width; i += LANES) chains[0] = step(chains[0], i);
    return join(join(chains[0], chains[1]), join(chains[2], chains[3]));
}

inline Floats larger(Floats a, Floats b) { return max(a, b); }
inline Floats smaller(Floats a, Floats b) { return min(a, b); }
inline Floats plus(Floats a, Floats b) { return a + b; }

// Quantises a row; value(i) returns its sixteen numbers from number i on.
template <class Value>
inline void store_quantized_row(uint8_t* to, int width, Value value) {
    int i = 0;
    for (; i + 4 * LANES <= width; i += 4 * LANES)
        store_quantized(to + i, value(i), value(i + LANES), value(i + 2 * LANES),
                        value(i + 3 * LANES));
    for (; i < width; i += LANES) store_quantized(to + i, value(i));
}

// Rows quantised for a product: bytes (rows, in) and the step size of each row.
struct Quantized {
    static constexpr bool HAS_MIDPOINTS = false;
    Buffer<uint8_t> values;
    Buffer<float> steps, midpoints;  // the midpoints stay empty

    // Quantises rows. Each row is scaled by its own largest magnitude, so it depends on no other
    // row. Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 6.
    void fill(const float* x, int rows, int width) {
        uint8_t* q = values.reserve((size_t)rows * width);
        float* step = steps.reserve(rows);
        for (int r = 0; r < rows; r++, x += width, q += width) {
            float scale = 127.0f / largest_magnitude(x, width);
            Floats factor = broadcast(scale);
            store_quantized_row(q, width, [=](int i) { return load(x + i) * factor; });
            step[r] = 1.0f / scale;
        }
    }

    // Copies n rows of other quantised rows.
    void copy(const Quantized& from, const int* rows, int n, int width) {
        uint8_t* to = values.reserve((size_t)n * width);
        float* step = steps.reserve(n);
        for (int i = 0; i < n; i++) {
            std::memcpy(to + (size_t)i * width, from.values.get() + (size_t)rows[i] * width, width);
            step[i] = from.steps.get()[rows[i]];
        }
    }

private:
    // Returns the largest magnitude of a row, at least 1e-12.
    static float largest_magnitude(const float* x, int width) {
        auto step = [=](Floats top, int i) { return max(top, abs(load(x + i))); };
        return reduce_max(fold(width, broadcast(1e-12f), step, larger));
    }
};

// Computes e^x for x clamped to [-87, 88] with the polynomial of Cephes' expf.
inline Floats exp(Floats x) {
    x = min(max(x, broadcast(-87.0f)), broadcast(88.0f));
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
    Ints power = (as_ints(shifted) - as_ints(magic)) << 23;
    return as_floats(as_ints(p) + power);
}

inline Floats sigmoid(Floats x) {
    Floats one = broadcast(1.0f);
    return one / (one + exp(-x));
}

// A layer norm, or without a bias the RMS norm, which subtracts no mean. Without a scale, no norm.
struct Norm {
    const float *scale = nullptr, *bias = nullptr;  // (width)
    float epsilon = 0.0f;

    // Computes x = norm(x + y), row by row.
    void add(float* x, const float* y, int rows, int width) const {
        for (int r = 0; r < rows; r++, x += width, y += width) {
            auto step = [=](Floats total, int i) {
                Floats v = load(x + i) + load(y + i);
                store(x + i, v);
                return total + v;
            };
            centre(x, fold(width, broadcast(0.0f), step, plus), width, x);
        }
    }

    // Computes y = norm(x), row by row; y may be x.
    void apply(const float* x, float* y, int rows, int width) const {
        for (int r = 0; r < rows; r++, x += width, y += width) {
            auto step = [=](Floats total, int i) { return total + load(x + i); };
            centre(x, fold(width, broadcast(0.0f), step, plus), width, y);
        }
    }

private:
    // Computes y = norm(x) for one row x, given the sums of its lanes.
    void centre(const float* x, Floats total, int width, float* y) const {
        Floats zero = broadcast(0.0f);
        Floats mean = bias ? broadcast(sum(total) / (float)width) : zero;
        auto step = [=](Floats squares, int i) {
            Floats v = load(x + i) - mean;
            return fma(v, v, squares);
        };
        Floats squares = fold(width, zero, step, plus);
        Floats factor = broadcast(1.0f / std::sqrt(sum(squares) / (float)width + epsilon));
        for (int i = 0; i < width; i += LANES) {
            Floats v = (load(x + i) - mean) * factor;
            store(y + i, fma(v, load(scale + i), bias ? load(bias + i) : zero));
        }
    }
};

}  // namespace regard
