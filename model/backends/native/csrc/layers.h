// The layers that all Transformers have.
#pragma once

#include "kernels/attention.h"
#include "weights.h"

namespace regard {

struct Attention {
    Linear project, out;  // project: query, key and value concatenated
    Norm norm;

    void fill(WeightReader& reader) {
        reader.append(project, 3);
        reader.append(out);
        norm = reader.norm();
    }
    size_t bytes() const { return project.bytes() + out.bytes(); }
};

struct FeedForward {
    Linear fc1, gate, fc2;  // without a gate, it has no outputs
    Norm norm;

    void fill(WeightReader& reader, bool is_gated = false) {
        reader.append(fc1);
        if (is_gated) reader.append(gate);
        reader.append(fc2);
        norm = reader.norm();
    }
    size_t bytes() const { return fc1.bytes() + gate.bytes() + fc2.bytes(); }
};

struct EncoderLayer {
    Attention attention;
    FeedForward feed_forward;
    DistanceBias bias;  // added to the scores
    // The rotation of each position (positions, head_dim): cosines, then sines; or null.
    const float* rotations = nullptr;

    void fill(WeightReader& reader, bool is_gated = false) {
        attention.fill(reader);
        feed_forward.fill(reader, is_gated);
    }
    size_t bytes() const { return attention.bytes() + feed_forward.bytes(); }
};

}  // namespace regard
