// The layers of an encoder over a packed batch of sequences.
//
// Each call computes part of a layer for a range of tokens. Tokens are numbered consecutively over
// all sequences. All tokens must be projected before the attention of any token is computed.
#pragma once

#include "sublayers.h"

namespace regard {

template <class Rows>
class Encoder {
public:
    Buffer<float> x;  // hidden states (N, D)

    // The encoder keeps references to `layers` and `sublayers`, so they must live as long as it.
    Encoder(const std::vector<EncoderLayer>& layers, int width, const HeadSizes& heads,
            Sublayers<Rows>& sublayers)
        : layers(layers), width(width), heads(heads), sublayers(sublayers) {}

    // Begins a batch; the caller then writes the embeddings to x.
    void begin(int count, const int32_t* lengths) {
        starts.assign(1, 0);
        for (int i = 0; i < count; i++) starts.push_back(starts.back() + lengths[i]);
        size_t total = num_tokens();
        x.reserve(total * width);
        sublayers.projected.reserve(total * heads.projected());
        sublayers.context.reserve(total * heads.width());
    }

    int num_tokens() const { return starts.empty() ? 0 : starts.back(); }

    // Computes queries, keys and values.
    void project(int layer, int first, int count) {
        check_range(layer, first, count);
        sublayers.project(layers[layer].attention, row(first), count, projected(first));
        if (layers[layer].attention.query_norm.scale)
            normalise(layers[layer].attention, first, first + count);
        if (layers[layer].rotations) rotate(layers[layer].rotations, first, first + count);
    }

    void attend(int layer, int first, int count) {
        check_range(layer, first, count);
        int end = first + count;
        for (size_t i = 0; i + 1 < starts.size(); i++) {
            int from = std::max(first, starts[i]), to = std::min(end, starts[i + 1]);
            if (from < to) attend_within(layers[layer].bias, starts[i], starts[i + 1], from, to);
        }
        const Attention& attention = layers[layer].attention;
        sublayers.merge(attention.out, attention.norm, context(first), row(first), count,
                        attention.output_norm);
    }

    void feed_forward(int layer, int first, int count) {
        check_range(layer, first, count);
        sublayers.feed_forward(layers[layer].feed_forward, row(first), count);
    }

    // Computes all layers for all tokens.
    void run() {
        for (size_t layer = 0; layer < layers.size(); layer++) {
            project(layer, 0, num_tokens());
            attend(layer, 0, num_tokens());
            feed_forward(layer, 0, num_tokens());
        }
    }

private:
    const std::vector<EncoderLayer>& layers;
    const int width;  // of the hidden states (D)
    const HeadSizes heads;
    Sublayers<Rows>& sublayers;
    std::vector<int> starts;  // the first token of each sequence, then the end of the last
    SelfAttention self_attention;

    float* row(int token) { return x.get() + (size_t)token * width; }
    float* projected(int token) {
        return sublayers.projected.get() + (size_t)token * heads.projected();
    }
    float* context(int token) { return sublayers.context.get() + (size_t)token * heads.width(); }

    void check_range(int layer, int first, int count) const {
        require(layer >= 0 && layer < (int)layers.size(), "there is no such layer");
        require(first >= 0 && count >= 0 && first <= num_tokens() - count,
                "there are no such tokens");
    }

    // Normalises the queries and keys of some tokens, head by head.
    void normalise(const Attention& attention, int first, int end) {
        for (int t = first; t < end; t++) {
            float *query = projected(t), *key = query + heads.width();
            attention.query_norm.apply(query, query, heads.heads, heads.head_dim);
            attention.key_norm.apply(key, key, heads.kv_heads, heads.head_dim);
        }
    }

    // Rotates the queries and keys of some tokens by their positions in their sequences. The numbers
    // i and i + head_dim / 2 of a head are rotated together.
    void rotate(const float* rotations, int first, int end) {
        int head_dim = heads.head_dim, half = head_dim / 2;
        for (size_t i = 0; i + 1 < starts.size(); i++)
            for (int t = std::max(first, starts[i]); t < std::min(end, starts[i + 1]); t++) {
                const float* turn = rotations + (size_t)(t - starts[i]) * head_dim;
                float* head = projected(t);
                for (int h = 0; h < heads.heads + heads.kv_heads; h++, head += head_dim)
                    for (int d = 0; d < half; d += LANES) {
                        Floats cosine = load(turn + d), sine = load(turn + half + d);
                        Floats a = load(head + d), b = load(head + half + d);
                        store(head + d, a * cosine - b * sine);
                        store(head + half + d, b * cosine + a * sine);
                    }
            }
    }

    // Computes the attention of tokens `from` to `to` - 1 to all tokens of their sequence. The
    // sequence has the tokens `start` to `end` - 1.
    void attend_within(const DistanceBias& bias, int start, int end, int from, int to) {
        self_attention.attend(projected(start), end - start, from - start, to - start, heads, bias,
                              context(start));
    }
};

}  // namespace regard
