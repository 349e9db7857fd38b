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
    Encoder(const std::vector<EncoderLayer>& layers, int heads, int head_dim,
            Sublayers<Rows>& sublayers)
        : layers(layers), heads(heads), head_dim(head_dim), sublayers(sublayers) {}

    // Begins a batch; the caller then writes the embeddings to x.
    void begin(int count, const int32_t* lengths) {
        starts.assign(1, 0);
        for (int i = 0; i < count; i++) starts.push_back(starts.back() + lengths[i]);
        size_t size = (size_t)num_tokens() * width();
        x.reserve(size);
        sublayers.projected.reserve(3 * size);
        sublayers.context.reserve(size);
    }

    int num_tokens() const { return starts.empty() ? 0 : starts.back(); }

    // Computes queries, keys and values.
    void project(int layer, int first, int count) {
        check_range(layer, first, count);
        sublayers.project(layers[layer].attention, row(first), count,
                          sublayers.projected.get() + (size_t)first * 3 * width());
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
        const float* context = sublayers.context.get() + (size_t)first * width();
        sublayers.merge(attention.out, attention.norm, context, row(first), count);
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
    const int heads, head_dim;
    Sublayers<Rows>& sublayers;
    std::vector<int> starts;  // the first token of each sequence, then the end of the last
    SelfAttention self_attention;

    int width() const { return heads * head_dim; }

    float* row(int token) { return x.get() + (size_t)token * width(); }

    void check_range(int layer, int first, int count) const {
        require(layer >= 0 && layer < (int)layers.size(), "there is no such layer");
        require(first >= 0 && count >= 0 && first <= num_tokens() - count,
                "there are no such tokens");
    }

    // Rotates the queries and keys of some tokens by their positions in their sequences. The numbers
    // i and i + head_dim / 2 of a head are rotated together.
    void rotate(const float* rotations, int first, int end) {
        int half = head_dim / 2;
        for (size_t i = 0; i + 1 < starts.size(); i++)
            for (int t = std::max(first, starts[i]); t < std::min(end, starts[i + 1]); t++) {
                const float* turn = rotations + (size_t)(t - starts[i]) * head_dim;
                float* head = sublayers.projected.get() + (size_t)t * 3 * width();
                for (int h = 0; h < 2 * heads; h++, head += head_dim)
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
        self_attention.attend(sublayers.projected.get() + (size_t)start * 3 * width(), end - start,
                              from - start, to - start, heads, head_dim, bias,
                              sublayers.context.get() + (size_t)start * width());
    }
};

}  // namespace regard
