// Text encoders: the layers of BERT, and those of models with rotary positions, gates or windows.
//
// Every value of a token is computed from its text alone, in an order that does not depend on the
// batch. Products are integer sums. A text's vectors therefore have the same bits in every batch.
#pragma once

#include "encoder.h"

namespace regard {

struct TextSizes {
    int32_t d_model, heads, kv_heads, head_dim, ffn, layers;
    int32_t vocab, positions;  // rows of the tables
    int32_t position_offset;  // row of a text's first position
    int32_t bias_length;  // longest text in tokens; 0 if no layer has a bias
    int32_t is_bias_shared;  // whether all heads of a layer have the same bias
    int32_t is_gated, has_head_norms, has_output_norms, is_pre_norm;
    Activation activation;
    float epsilon, embedding_scale;
    float scale;  // factor of the scores; 0 for the usual one
};

// The weights, whose memory Python owns.
struct TextWeights {
    // Matrices of a layer: query key value out fc1 fc2, and the gate after fc1. The embedding's norm
    // comes first, then those of each layer, and with pre-norm a last one.
    WeightList layers;
    const float *tokens, *positions;  // (rows, D); without a position table, `positions` is null
    const float* type;                // (D), or null
    const float* const* biases;       // of each layer: (H, DistanceBias::stride), or null
    const float* const* rotations;    // of each layer: (positions, head_dim), or null
};

struct TextModel {
    TextSizes sizes;
    std::vector<EncoderLayer> layers;
    Norm norm, last_norm;
    const float *tokens, *positions, *type;

    TextModel(const TextSizes& s, const TextWeights& w)
        : sizes(s), layers(s.layers), tokens(w.tokens), positions(w.positions), type(w.type) {
        WeightReader reader{w.layers, sizes.epsilon};
        LayerParts parts = {s.is_gated != 0, s.has_head_norms != 0, s.has_output_norms != 0};
        norm = reader.norm();
        for (int i = 0; i < sizes.layers; i++) {
            layers[i].fill(reader, parts);
            layers[i].bias = {w.biases[i], sizes.bias_length, sizes.is_bias_shared != 0};
            layers[i].bias.find_reach(sizes.heads);
            layers[i].rotations = w.rotations[i];
        }
        if (sizes.is_pre_norm) last_norm = reader.norm();
        reader.check_end();
    }

    HeadSizes heads() const {
        float scale = sizes.scale ? sizes.scale : usual_scale(sizes.head_dim);
        return {sizes.heads, sizes.kv_heads, sizes.head_dim, scale};
    }

    // Returns the bytes of the memory that the model owns, without Python's weights.
    size_t bytes() const {
        size_t total = 0;
        for (const EncoderLayer& layer : layers) total += layer.bytes();
        return total;
    }
};

// A packed batch of texts. `encoder` computes its layers.
class TextBatch {
public:
    explicit TextBatch(const TextModel& model)
        : model(model),
          sizes(model.sizes),
          sublayers({sizes.d_model, sizes.ffn, sizes.activation, sizes.is_pre_norm != 0, true}),
          encoder(model.layers, sizes.d_model, model.heads(), sublayers) {}

    void enter(int count, const int32_t* lengths, const int32_t* tokens) {
        int longest = sizes.positions - sizes.position_offset;
        if (sizes.bias_length) longest = std::min(longest, sizes.bias_length);
        require_within(lengths, count, 0, longest + 1, "a text is too long");
        encoder.begin(count, lengths);
        int d = sizes.d_model, total = encoder.num_tokens();
        require_within(tokens, total, 0, sizes.vocab, "a token is not in the vocabulary");
        float* to = encoder.x.get();
        for (int i = 0, t = 0; i < count; i++)
            for (int p = 0; p < lengths[i]; p++, t++)
                look_up(tokens[t], p + sizes.position_offset, to + (size_t)t * d);
        if (model.norm.scale) model.norm.apply(to, to, total, d);
    }

    void project(int layer, int first, int count) { encoder.project(layer, first, count); }
    void attend(int layer, int first, int count) { encoder.attend(layer, first, count); }
    void feed_forward(int layer, int first, int count) { encoder.feed_forward(layer, first, count); }

    // Copies the hidden states (N, D) after the last computed layer.
    //   tokens: N
    void read(int tokens, float* to) const {
        require(tokens == encoder.num_tokens(), "the place for hidden states has another size");
        if (sizes.is_pre_norm)
            model.last_norm.apply(encoder.x.get(), to, tokens, sizes.d_model);
        else
            std::copy_n(encoder.x.get(), (size_t)tokens * sizes.d_model, to);
    }

private:
    const TextModel& model;
    const TextSizes& sizes;
    Sublayers<AsymmetricQuantized> sublayers;
    Encoder<AsymmetricQuantized> encoder;

    void look_up(int32_t token, int position, float* to) const {
        size_t d = sizes.d_model;
        const float* from = model.tokens + token * d;
        for (size_t i = 0; i < d; i += LANES) {
            Floats v = load(from + i) * broadcast(sizes.embedding_scale);
            if (model.type) v = v + load(model.type + i);
            if (model.positions) v = v + load(model.positions + position * d + i);
            store(to + i, v);
        }
    }
};

}  // namespace regard
