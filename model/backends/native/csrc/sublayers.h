// Computes the sublayers of a Transformer for rows of any sentences, block by block.
//
// Every value of a row is computed from this row alone, in an order that does not depend on the
// other rows. Products are integer sums.
#pragma once

#include "transformer.h"

namespace regard {

class Sublayers {
public:
    Buffer<float> projected, context;
    Quantized quantized;

    explicit Sublayers(const Sizes& sizes) : sizes(sizes) {}

    // Returns the input of a sublayer for the residual stream x.
    const float* before(const Norm& norm, const float* x, int rows) {
        if (!sizes.is_pre_norm) return x;
        float* y = normed.reserve((size_t)rows * sizes.d_model);
        norm.apply(x, y, rows, sizes.d_model);
        return y;
    }

    // Adds the output y of a sublayer to the residual stream x.
    void after(const Norm& norm, float* x, const float* y, int rows) const {
        int d = sizes.d_model;
        if (!sizes.is_pre_norm) return norm.add(x, y, rows, d);
        for (size_t i = 0; i < (size_t)rows * d; i += LANES) store(x + i, load(x + i) + load(y + i));
    }

    // Computes y (rows, out) of x (rows, in).
    void apply(const Linear& linear, const float* x, int rows, float* y) {
        apply(linear, x, rows, y, linear.out, 0, linear.out);
    }

    // Computes queries, keys and values (rows, 3 D) of the residual stream x (rows, D).
    float* project(const Attention& attention, const float* x, int rows) {
        int d = sizes.d_model;
        const float* inner = before(attention.norm, x, rows);
        float* to = projected.reserve((size_t)rows * 3 * d);
        if (sizes.norms_keys || inner == x) {
            apply(attention.project, inner, rows, to);
        } else {  // Marian normalises the input of the queries only
            apply(attention.project, inner, rows, to, 3 * d, 0, d);
            apply(attention.project, x, rows, to + d, 3 * d, d, 3 * d);
        }
        return to;
    }

    // Maps the attention's output in `context` and adds it to the residual stream x.
    void merge(const Linear& out, const Norm& norm, float* x, int rows) {
        float* y = added.reserve((size_t)rows * sizes.d_model);
        apply(out, context.get(), rows, y);
        after(norm, x, y, rows);
    }

    void feed_forward(const FeedForward& layer, float* x, int rows) {
        int d = sizes.d_model;
        float* inner = hidden.reserve((size_t)BLOCK * sizes.ffn);
        float* y = added.reserve((size_t)BLOCK * d);
        for (int r = 0; r < rows; r += BLOCK, x += (size_t)BLOCK * d) {
            int block = std::min(BLOCK, rows - r);
            quantized.fill(before(layer.norm, x, block), block, d);
            layer.fc1.multiply(quantized, block, inner, sizes.ffn, sizes.activation);
            quantized.fill(inner, block, sizes.ffn);
            layer.fc2.multiply(quantized, block, y, d);
            after(layer.norm, x, y, block);
        }
    }

private:
    static constexpr int BLOCK = 48;  // rows that are computed together; their data fit in the cache

    const Sizes& sizes;
    Buffer<float> normed, hidden, added;

    // Computes the outputs `first` to `end` - 1; the rows of y are `stride` floats apart.
    void apply(const Linear& linear, const float* x, int rows, float* y, int stride, int first,
               int end) {
        for (int r = 0; r < rows; r += BLOCK) {
            int block = std::min(BLOCK, rows - r);
            quantized.fill(x + (size_t)r * linear.in, block, linear.in);
            linear.multiply(quantized, block, y + (size_t)r * stride, stride, first, end);
        }
    }
};

}  // namespace regard
