// The layers that all Transformers have.
#pragma once

#include "kernels/attention.h"
#include "weights.h"

namespace regard {

// The parts of a layer that only some text encoders have.
struct LayerParts {
    bool is_gated = false;
    bool has_head_norms = false;    // whether each head of queries and keys is normalised
    bool has_output_norms = false;  // whether a norm follows each sublayer, before the sum
};

struct Attention {
    Linear project, out;  // project: query, key and value concatenated
    Norm query_norm, key_norm, norm, output_norm;

    void fill(WeightReader& reader, const LayerParts& parts = {}) {
        reader.append(project, 3);
        reader.append(out);
        if (parts.has_head_norms) query_norm = reader.norm(), key_norm = reader.norm();
        norm = reader.norm();
        if (parts.has_output_norms) output_norm = reader.norm();
    }
    size_t bytes() const { return project.bytes() + out.bytes(); }
};

struct FeedForward {
    Linear fc1, gate, fc2;  // without a gate, it has no outputs
    Norm norm, output_norm;

    void fill(WeightReader& reader, const LayerParts& parts = {}) {
        reader.append(fc1);
        if (parts.is_gated) reader.append(gate);
        reader.append(fc2);
        norm = reader.norm();
        if (parts.has_output_norms) output_norm = reader.norm();
    }
    size_t bytes() const { return fc1.bytes() + gate.bytes() + fc2.bytes(); }
};

struct EncoderLayer {
    Attention attention;
    FeedForward feed_forward;
    DistanceBias bias;  // added to the scores
    // The rotation of each position (positions, head_dim): cosines, then sines; or null.
    const float* rotations = nullptr;

    void fill(WeightReader& reader, const LayerParts& parts = {}) {
        attention.fill(reader, parts);
        feed_forward.fill(reader, parts);
    }
    size_t bytes() const { return attention.bytes() + feed_forward.bytes(); }
};

}  // namespace regard
