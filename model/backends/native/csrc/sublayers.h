// Computes the sublayers of a Transformer for rows of any sentences, block by block.
//
// Every value of a row is computed from this row alone, in an order that does not depend on the
// other rows. Products are integer sums.
#pragma once

#include "layers.h"

namespace regard {

// The sizes and options that all sublayers of a model share.
struct SublayerSizes {
    int d_model, ffn;
    Activation activation;
    bool is_pre_norm;  // whether a layer norm stands before each sublayer, not after the sum
    bool norms_keys;   // whether pre-norm self-attention also normalises its keys and values
};

// `Rows` is the type of the quantised inputs of the products: Quantized or AsymmetricQuantized.
template <class Rows>
class Sublayers {
public:
    Buffer<float> projected, context;

    explicit Sublayers(const SublayerSizes& sizes) : sizes(sizes) {}

    // Returns the input of a sublayer for the residual stream x.
    const float* before(const Norm& norm, const float* x, int rows) {
        if (!sizes.is_pre_norm || !norm.scale) return x;  // ModernBERT's first layer has no norm
        float* y = normed.reserve((size_t)rows * sizes.d_model);
        norm.apply(x, y, rows, sizes.d_model);
        return y;
    }

    // Adds the output y of a sublayer to the residual stream x. `output_norm` may normalise y.
    void after(const Norm& norm, float* x, float* y, int rows, const Norm& output_norm = {}) const {
        int d = sizes.d_model;
        if (output_norm.scale) output_norm.apply(y, y, rows, d);
        if (!sizes.is_pre_norm) return norm.add(x, y, rows, d);
        for (size_t i = 0; i < (size_t)rows * d; i += LANES) store(x + i, load(x + i) + load(y + i));
    }

    // Computes y (rows, out) of x (rows, in).
    void apply(const Linear& linear, const float* x, int rows, float* y) {
        apply(linear, x, rows, y, linear.out, 0, linear.out);
    }

    // Computes queries, keys and values, concatenated, of the residual stream x (rows, D).
    //
    // The inputs of the values may have 16 bits. Most tokens attend to the same few tokens, so
    // rounding errors in these few values would not average out.
    void project(const Attention& attention, const float* x, int rows, float* to) {
        const Linear& linear = attention.project;
        int keys = attention.out.in, end = linear.out, values = (keys + end) / 2;
        const float* inner = before(attention.norm, x, rows);
        if (sizes.norms_keys || inner == x) {
            apply(linear, inner, rows, to, end, 0, end, values);
        } else {  // Marian normalises the input of the queries only
            apply(linear, inner, rows, to, end, 0, keys);
            apply(linear, x, rows, to + keys, end, keys, end, values);
        }
    }

    // Maps the attention's output y (rows, out.in) and adds it to the residual stream x.
    void merge(const Linear& out, const Norm& norm, const float* y, float* x, int rows,
               const Norm& output_norm = {}) {
        int d = sizes.d_model;
        float* to = added.reserve((size_t)BLOCK * d);
        for (int r = 0; r < rows; r += BLOCK, x += (size_t)BLOCK * d, y += (size_t)BLOCK * out.in) {
            int block = std::min(BLOCK, rows - r);
            apply(out, y, block, to);
            after(norm, x, to, block, output_norm);
        }
    }

    void feed_forward(const FeedForward& layer, float* x, int rows) {
        int d = sizes.d_model;
        float* inner = hidden.reserve((size_t)BLOCK * sizes.ffn);
        float* y = added.reserve((size_t)BLOCK * d);
        for (int r = 0; r < rows; r += BLOCK, x += (size_t)BLOCK * d) {
            int block = std::min(BLOCK, rows - r);
            quantized.fill(before(layer.norm, x, block), block, d);
            layer.fc1.multiply(quantized, block, inner, sizes.ffn, sizes.activation);
            if (layer.gate.out) {
                size_t size = (size_t)block * sizes.ffn;
                float* factors = gates.reserve(size);
                layer.gate.multiply(quantized, block, factors, sizes.ffn);
                for (size_t i = 0; i < size; i += LANES)
                    store(inner + i, load(inner + i) * load(factors + i));
            }
            quantized.fill(inner, block, sizes.ffn);
            layer.fc2.multiply(quantized, block, y, d);
            after(layer.norm, x, y, block, layer.output_norm);
        }
    }

private:
    static constexpr int BLOCK = HAS_TILES ? 64 : 48;  // rows computed together; their data fit in the cache
    static constexpr int NONE = -1;

    const SublayerSizes sizes;
    Rows quantized;
    Buffer<float> normed, hidden, gates, added;

    // Computes the outputs `first` to `end` - 1; the rows of y are `stride` floats apart. If `Rows`
    // supports 16 bits, the outputs from `fine` on are computed from inputs in 16 bits.
    void apply(const Linear& linear, const float* x, int rows, float* y, int stride, int first,
               int end, int fine = NONE) {
        for (int r = 0; r < rows; r += BLOCK) {
            int block = std::min(BLOCK, rows - r);
            const float* from = x + (size_t)r * linear.in;
            float* to = y + (size_t)r * stride;
            if constexpr (Rows::HAS_MIDPOINTS) {
                quantized.fill(from, block, linear.in, fine != NONE);
                linear.multiply(quantized, block, to, stride, first, end);
                if (fine != NONE)
                    linear.add_fine(quantized, block, to + fine - first, stride, fine, end);
            } else {
                quantized.fill(from, block, linear.in);
                linear.multiply(quantized, block, to, stride, first, end);
            }
        }
    }
};

}  // namespace regard
