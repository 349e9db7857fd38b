// Encoder, decoder step and output layer of a post-norm Transformer with an SSRU decoder.
#pragma once

#include "attention.h"

namespace regard {

struct Sizes {
    int32_t d_model, heads, ffn, encoder_layers, decoder_layers, source_vocab, target_vocab;
    int32_t activation, positions;
    float embedding_scale, epsilon;
};

// Where Python's weights are, in the order in which they are used.
struct Weights {
    const MatrixSpec* matrices;  // encoder: q k v out expand contract; decoder: update forget
                                 // query key value out expand contract
    const float* const* norms;   // scale and bias of each norm, in order
    MatrixSpec source, target, output;
    const float* positions;      // (positions, D)
};

// Which ids a source may lead to; without offsets, all of them.
struct Shortlist {
    const int64_t* offsets;     // (source_vocab + 1), into candidates
    const int32_t* candidates;
    int32_t frequent;           // ids below this are everyone's
    int32_t is_shared;          // a source id is its own candidate
};

struct FeedForward {
    Linear expand, contract;
    Norm norm;
};

struct EncoderLayer {
    Linear project, out;  // project: query, key and value side by side
    Norm norm;
    FeedForward feed_forward;
};

struct DecoderLayer {
    Linear recurrence;  // update and forget side by side
    Norm recurrence_norm;
    Linear query, memory, out;  // memory: key and value side by side
    Norm norm;
    FeedForward feed_forward;
};

struct Model {
    Sizes sizes;
    std::vector<EncoderLayer> encoder;
    std::vector<DecoderLayer> decoder;
    Embedding source, target;
    const int8_t* output;
    float output_step;
    std::vector<float> output_bias;
    std::vector<int32_t> output_correction;
    const float* positions;

    Model(const Sizes& s, const Weights& w)
        : sizes(s),
          encoder(s.encoder_layers),
          decoder(s.decoder_layers),
          source{w.source.values, w.source.multiplier},
          target{w.target.values, w.target.multiplier},
          output(w.output.values),
          output_step(1.0f / w.output.multiplier),
          output_bias(w.output.bias, w.output.bias + s.target_vocab),
          output_correction(s.target_vocab),
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
            for (int i = 0; i < 2; i++) layer.recurrence.append(*m++);
            layer.recurrence_norm = norm();
            layer.query.append(*m++);
            for (int i = 0; i < 2; i++) layer.memory.append(*m++);
            layer.out.append(*m++);
            layer.norm = norm();
            fill(layer.feed_forward, m, norm());
        }
        for (int v = 0; v < s.target_vocab; v++) {
            int32_t total = 0;
            for (int k = 0; k < s.d_model; k++) total += output[(size_t)v * s.d_model + k];
            output_correction[v] = SHIFT * total;
        }
    }

private:
    static void fill(FeedForward& f, const MatrixSpec*& m, Norm norm) {
        f.expand.append(*m++);
        f.contract.append(*m++);
        f.norm = norm;
    }
};

// A source sentence in the batch; the rows of a beam share it.
struct Sentence {
    int rows = 0;
    std::vector<Memory> memory;            // a layer each
    std::vector<int32_t> ids;              // its shortlist, rising; LANES more are read ahead
    std::vector<int32_t> correction;       // of those ids
    std::vector<float> bias;
    int candidates = 0;
};

struct Scratch {
    Quantized quantized;
    Buffer<float> x, projected, context, y, hidden, scores, column, logits;
    SelfAttention self_attention;
};

}  // namespace regard
