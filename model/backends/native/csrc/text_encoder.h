// The encoder of BERT and similar models: post-norm layers over packed texts.
//
// Every value of a token is computed from its text alone, in an order that does not depend on the
// batch. Products are integer sums. A text's vectors therefore have the same bits in every batch.
#pragma once

#include "kernels/attention.h"
#include "weights.h"

namespace regard {

struct TextSizes {
    int32_t d_model, heads, ffn, layers;
    int32_t vocab, positions;  // rows of the tables
    int32_t position_offset;  // row of a text's first position
    int32_t relative_length;  // longest text in tokens; 0 without a relative bias
    Activation activation;
    float epsilon;
};

// The weights, whose memory Python owns.
struct TextWeights {
    // Matrices of a layer: query key value out fc1 fc2. The embedding's norm comes first, then two
    // norms of each layer.
    WeightList layers;
    const float *tokens, *positions;  // (rows, D)
    const float* type;                // (D), or null
    const float* relative;            // (H, RelativeBias::stride), or null
};

struct TextLayer {
    Linear query, key, value, out, fc1, fc2;
    Norm attention_norm, norm;
};

struct TextModel {
    TextSizes sizes;
    std::vector<TextLayer> layers;
    Norm norm;
    const float *tokens, *positions, *type;
    RelativeBias relative;

    TextModel(const TextSizes& s, const TextWeights& w)
        : sizes(s), layers(s.layers), tokens(w.tokens), positions(w.positions), type(w.type),
          relative{w.relative, s.relative_length} {
        WeightReader reader{w.layers, sizes.epsilon};
        norm = reader.norm();
        for (TextLayer& layer : layers) {
            for (Linear* linear : {&layer.query, &layer.key, &layer.value, &layer.out, &layer.fc1,
                                   &layer.fc2})
                reader.append(*linear);
            layer.attention_norm = reader.norm();
            layer.norm = reader.norm();
        }
        reader.check_end();
    }

    // Returns the bytes of the memory that the model owns, without Python's weights.
    size_t bytes() const {
        size_t total = 0;
        for (const TextLayer& layer : layers)
            for (const Linear* linear : {&layer.query, &layer.key, &layer.value, &layer.out,
                                         &layer.fc1, &layer.fc2})
                total += linear->bytes();
        return total;
    }
};

// A packed batch of texts. Each call computes part of a layer for a range of tokens. Tokens are
// numbered consecutively over all texts. All tokens must be projected before the attention of any
// token is computed.
class TextBatch {
public:
    explicit TextBatch(const TextModel& model) : model(model), sizes(model.sizes) {}

    void enter(int count, const int32_t* lengths, const int32_t* tokens) {
        int longest = sizes.positions - sizes.position_offset;
        if (sizes.relative_length) longest = std::min(longest, sizes.relative_length);
        require_within(lengths, count, 0, longest + 1, "a text is too long");
        starts.assign(1, 0);
        for (int i = 0; i < count; i++) starts.push_back(starts.back() + lengths[i]);
        int d = sizes.d_model, total = starts.back();
        require_within(tokens, total, 0, sizes.vocab, "a token is not in the vocabulary");
        float* to = x.reserve((size_t)total * d);
        float* added = y.reserve((size_t)std::max(total, BLOCK) * d);
        projected.reserve((size_t)total * 3 * d);
        context.reserve((size_t)total * d);
        for (int i = 0, t = 0; i < count; i++)
            for (int p = 0; p < lengths[i]; p++, t++)
                look_up(tokens[t], p, to + (size_t)t * d, added + (size_t)t * d);
        model.norm.add(to, added, total, d);
    }

    // Computes queries, keys and values.
    void project(int layer, int first, int count) {
        check_range(layer, first, count);
        const TextLayer& weights = model.layers[layer];
        int d = sizes.d_model, stride = 3 * d;
        for (int r = first, end = first + count; r < end; r += BLOCK) {
            int rows = std::min(BLOCK, end - r);
            float* to = projected.get() + (size_t)r * stride;
            quantized.fill(x.get() + (size_t)r * d, rows, d, true);
            weights.query.multiply(quantized, rows, to, stride);
            weights.key.multiply(quantized, rows, to + d, stride);
            // The inputs of the value projection have 16 bits. Most tokens attend to the same few
            // tokens, so rounding errors in these few values would not average out.
            weights.value.multiply(quantized, rows, to + 2 * d, stride);
            weights.value.add_fine(quantized, rows, to + 2 * d, stride);
        }
    }

    void attend(int layer, int first, int count) {
        check_range(layer, first, count);
        const TextLayer& weights = model.layers[layer];
        int d = sizes.d_model, end = first + count;
        for (size_t i = 0; i + 1 < starts.size(); i++) {
            int from = std::max(first, starts[i]), to = std::min(end, starts[i + 1]);
            if (from < to) attend_within(starts[i], starts[i + 1], from, to);
        }
        for (int r = first; r < end; r += BLOCK) {
            int rows = std::min(BLOCK, end - r);
            quantized.fill(context.get() + (size_t)r * d, rows, d);
            weights.out.multiply(quantized, rows, y.get(), d);
            weights.attention_norm.add(x.get() + (size_t)r * d, y.get(), rows, d);
        }
    }

    void feed_forward(int layer, int first, int count) {
        check_range(layer, first, count);
        const TextLayer& weights = model.layers[layer];
        int d = sizes.d_model, f = sizes.ffn;
        float* inner = hidden.reserve((size_t)BLOCK * f);
        for (int r = first, end = first + count; r < end; r += BLOCK) {
            int rows = std::min(BLOCK, end - r);
            float* block = x.get() + (size_t)r * d;
            quantized.fill(block, rows, d);
            weights.fc1.multiply(quantized, rows, inner, f, sizes.activation);
            quantized.fill(inner, rows, f);
            weights.fc2.multiply(quantized, rows, y.get(), d);
            weights.norm.add(block, y.get(), rows, d);
        }
    }

    // Copies the hidden states (N, D) after the last computed layer.
    //   tokens: N
    void read(int tokens, float* to) const {
        require(tokens == num_tokens(), "the place for hidden states has another size");
        std::memcpy(to, x.get(), (size_t)tokens * sizes.d_model * sizeof(float));
    }

private:
    static constexpr int BLOCK = 48;  // rows that are computed together; their data fit in the cache

    const TextModel& model;
    const TextSizes& sizes;
    std::vector<int> starts;  // the first token of each text, then the end of the last
    Buffer<float> x, y, projected, context, hidden;
    AsymmetricQuantized quantized;
    SelfAttention self_attention;

    int num_tokens() const { return starts.empty() ? 0 : starts.back(); }

    void check_range(int layer, int first, int count) const {
        require(layer >= 0 && layer < sizes.layers, "there is no such layer");
        require(first >= 0 && count >= 0 && first <= num_tokens() - count,
                "there are no such tokens");
    }

    void look_up(int32_t token, int position, float* to, float* added) const {
        int d = sizes.d_model;
        const float* from = model.tokens + (size_t)token * d;
        const float* place = model.positions + (size_t)(position + sizes.position_offset) * d;
        for (int i = 0; i < d; i += LANES) {
            store(to + i, model.type ? load(from + i) + load(model.type + i) : load(from + i));
            store(added + i, load(place + i));
        }
    }

    // Computes the attention of tokens `from` to `to` - 1 to all tokens of their text. The text has
    // the tokens `start` to `end` - 1.
    void attend_within(int start, int end, int from, int to) {
        int d = sizes.d_model;
        self_attention.attend(projected.get() + (size_t)start * 3 * d, end - start, from - start,
                              to - start, sizes.heads, d / sizes.heads,
                              sizes.relative_length ? &model.relative : nullptr,
                              context.get() + (size_t)start * d);
    }
};

}  // namespace regard
