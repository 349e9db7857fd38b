// The layers of a post-norm Transformer with an SSRU decoder, and the memory that a batch uses.
#pragma once

#include "output.h"

namespace regard {

struct Sizes {
    int32_t d_model, heads, ffn, encoder_layers, decoder_layers, source_vocab, target_vocab;
    int32_t activation, positions, eos;
    // The layer and the head whose cross-attention is recorded; the head may be EVERY_HEAD.
    int32_t recorded_layer, recorded_head;
    float embedding_scale, epsilon;
};

// The weights, whose memory Python owns, in the order of their use.
struct Weights {
    const MatrixSpec* matrices;  // encoder: q k v out fc1 fc2; decoder: update forget
                                 // query key value out fc1 fc2
    const float* const* norms;   // scale and bias of each norm, in order
    MatrixSpec source, target, output;
    const float* positions;      // (positions, D)
};

struct FeedForward {
    Linear fc1, fc2;
    Norm norm;

    size_t bytes() const { return fc1.bytes() + fc2.bytes(); }
};

struct EncoderLayer {
    Linear project, out;  // project: query, key and value concatenated
    Norm norm;
    FeedForward feed_forward;
};

struct DecoderLayer {
    Linear ssru_gates;  // update and forget concatenated
    Norm ssru_norm;
    Linear query, memory, out;  // memory: key and value concatenated
    Norm norm;
    FeedForward feed_forward;
};

struct Model {
    Sizes sizes;
    std::vector<EncoderLayer> encoder;
    std::vector<DecoderLayer> decoder;
    Embedding source, target;
    Output output;
    const float* positions;

    Model(const Sizes& s, const Weights& w)
        : sizes(s),
          encoder(s.encoder_layers),
          decoder(s.decoder_layers),
          source{w.source.values, w.source.multiplier},
          target{w.target.values, w.target.multiplier},
          output(w.output),
          positions(w.positions) {
        const MatrixSpec* m = w.matrices;
        const float* const* n = w.norms;
        auto norm = [&] {
            n += 2;
            return Norm{n[-2], n[-1], sizes.epsilon};
        };
        for (EncoderLayer& layer : encoder) {
            for (int i = 0; i < 3; i++) layer.project.append(*m++);
            layer.out.append(*m++);
            layer.norm = norm();
            fill(layer.feed_forward, m, norm());
        }
        for (DecoderLayer& layer : decoder) {
            for (int i = 0; i < 2; i++) layer.ssru_gates.append(*m++);
            layer.ssru_norm = norm();
            layer.query.append(*m++);
            for (int i = 0; i < 2; i++) layer.memory.append(*m++);
            layer.out.append(*m++);
            layer.norm = norm();
            fill(layer.feed_forward, m, norm());
        }
    }

    // Returns the bytes of the memory that the model owns, without Python's weights.
    size_t bytes() const {
        size_t total = output.bytes();
        for (const EncoderLayer& layer : encoder)
            total += layer.project.bytes() + layer.out.bytes() + layer.feed_forward.bytes();
        for (const DecoderLayer& layer : decoder)
            total += layer.ssru_gates.bytes() + layer.query.bytes() + layer.memory.bytes() +
                     layer.out.bytes() + layer.feed_forward.bytes();
        return total;
    }

private:
    static void fill(FeedForward& f, const MatrixSpec*& m, Norm norm) {
        f.fc1.append(*m++);
        f.fc2.append(*m++);
        f.norm = norm;
    }
};

// A source sentence in the batch; all rows of its beam share it.
struct Sentence {
    int rows = 0;
    std::vector<Memory> memory;  // one per layer
    Candidates candidates;
};

struct Scratch {
    Quantized quantized;
    Buffer<float> x, projected, context, y, hidden, scores, column, logits;
    std::vector<const Candidates*> candidates;
    SelfAttention self_attention;
};

}  // namespace regard
