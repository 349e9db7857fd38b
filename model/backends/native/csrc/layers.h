// The layers that all Transformers have.
#pragma once

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
    Linear fc1, fc2;
    Norm norm;

    void fill(WeightReader& reader) {
        reader.append(fc1);
        reader.append(fc2);
        norm = reader.norm();
    }
    size_t bytes() const { return fc1.bytes() + fc2.bytes(); }
};

struct EncoderLayer {
    Attention attention;
    FeedForward feed_forward;

    void fill(WeightReader& reader) {
        attention.fill(reader);
        feed_forward.fill(reader);
    }
    size_t bytes() const { return attention.bytes() + feed_forward.bytes(); }
};

}  // namespace regard
