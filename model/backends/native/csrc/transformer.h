// The layers of an encoder-decoder Transformer.
#pragma once

#include "encoder.h"
#include "kernels/output.h"

namespace regard {

enum class DecoderKind : int32_t { SSRU, SELF_ATTENTION };

struct Sizes {
    int32_t d_model, heads, ffn, encoder_layers, decoder_layers, source_vocab, target_vocab;
    DecoderKind decoder;
    Activation activation;
    int32_t is_pre_norm;  // whether a layer norm stands before each sublayer, not after the sum
    int32_t norms_keys;   // whether pre-norm self-attention also normalises its keys and values
    int32_t positions, eos;
    // The layer and the head whose cross-attention is recorded; the head may be EVERY_HEAD.
    int32_t recorded_layer, recorded_head;
    float embedding_scale, epsilon;
};

// The weights, whose memory Python owns, in the order of their use.
struct Weights {
    // Matrices of an encoder layer: query key value out fc1 fc2. Matrices of a decoder layer: first
    // update forget (SSRU) or query key value out (self-attention), then query key value out
    // (cross-attention) and fc1 fc2. With pre-norm, one more norm follows the norms of the
    // encoder's layers, and one more norm follows the norms of the decoder's layers.
    WeightList layers;
    MatrixSpec source, target, output;
    const float* positions;  // (positions, D)
};

// An int8 embedding table (V, D), in rows or packed.
struct Embedding {
    MatrixSpec table;

    // Computes the vector of a token, times `factor`, plus the vector of its position.
    void look_up(int32_t token, float factor, const float* position, float* to) const {
        Floats step = broadcast(factor * table.scales[token]);
        alignas(64) int8_t unpacked[LANES];
        for (int i = 0; i < table.in; i += LANES) {
            const int8_t* from = table.values + (size_t)token * table.in + i;
            if (table.is_packed) {
                const int8_t* panel = table.values + (size_t)(token / PANEL) * PANEL * table.in;
                for (int k = 0; k < LANES; k += 4)
                    std::memcpy(unpacked + k, panel + ((i + k) * PANEL + token % PANEL * 4), 4);
                from = unpacked;
            }
            store(to + i, fma(load_bytes(from), step, load(position + i)));
        }
    }
};

struct DecoderLayer {
    Attention attention;  // of a decoder with self-attention
    Linear ssru_gates;    // of a decoder with SSRUs: update and forget concatenated
    Norm ssru_norm;
    Linear query, memory, out;  // memory: key and value concatenated
    Norm norm;
    FeedForward feed_forward;
};

struct Model {
    Sizes sizes;
    std::vector<EncoderLayer> encoder;
    std::vector<DecoderLayer> decoder;
    Norm encoder_norm, decoder_norm;  // after the last layer, with pre-norm
    Embedding source, target;
    std::unique_ptr<ShortlistOutput> shortlist_output;  // only one of the two outputs exists
    std::unique_ptr<FullOutput> full_output;
    const float* positions;

    Model(const Sizes& s, const Weights& w, const Shortlist& shortlist)
        : sizes(s),
          encoder(s.encoder_layers),
          decoder(s.decoder_layers),
          source{w.source},
          target{w.target},
          positions(w.positions) {
        if (shortlist.offsets)
            shortlist_output = std::make_unique<ShortlistOutput>(w.output, shortlist);
        else
            full_output = std::make_unique<FullOutput>(w.output, shortlist.candidates);
        WeightReader reader{w.layers, sizes.epsilon};
        for (EncoderLayer& layer : encoder) layer.fill(reader);
        if (sizes.is_pre_norm) encoder_norm = reader.norm();
        for (DecoderLayer& layer : decoder) {
            if (sizes.decoder == DecoderKind::SSRU) {
                reader.append(layer.ssru_gates, 2);
                layer.ssru_norm = reader.norm();
            } else {
                layer.attention.fill(reader);
            }
            reader.append(layer.query);
            reader.append(layer.memory, 2);
            reader.append(layer.out);
            layer.norm = reader.norm();
            layer.feed_forward.fill(reader);
        }
        if (sizes.is_pre_norm) decoder_norm = reader.norm();
        reader.check_end();
    }

    HeadSizes heads() const {
        int dim = sizes.d_model / sizes.heads;
        return {sizes.heads, sizes.heads, dim, usual_scale(dim)};
    }

    // Returns the bytes of the memory that the model owns, without Python's weights.
    size_t bytes() const {
        size_t total = full_output ? full_output->bytes() : shortlist_output->bytes();
        for (const EncoderLayer& layer : encoder) total += layer.bytes();
        for (const DecoderLayer& layer : decoder)
            total += layer.attention.bytes() + layer.ssru_gates.bytes() + layer.query.bytes() +
                     layer.memory.bytes() + layer.out.bytes() + layer.feed_forward.bytes();
        return total;
    }
};

}  // namespace regard
