// The lists of weights that Python hands over, and checks of the arguments of its calls.
#pragma once

#include <stdexcept>

#include "kernels/linear.h"

namespace regard {

// Throws an exception if an argument is wrong.
inline void require(bool is_right, const char* fault) {
    if (!is_right) throw std::invalid_argument(fault);
}

// Throws an exception unless all values are from `least` to `end` - 1.
inline void require_within(const int32_t* values, int count, int32_t least, int32_t end,
                           const char* fault) {
    for (int i = 0; i < count; i++) require(values[i] >= least && values[i] < end, fault);
}

// Matrices and norms in the order of their use, whose memory Python owns.
struct WeightList {
    const MatrixSpec* matrices;
    const float* const* norms;  // scale and bias of each norm
    int32_t num_matrices, num_norms;
};

// Hands out the weights of a list in their order.
struct WeightReader {
    const WeightList& list;
    const float epsilon;
    int matrices = 0, norms = 0;

    void append(Linear& linear, int count = 1) {
        for (int i = 0; i < count; i++) {
            require(matrices < list.num_matrices, "too few matrices");
            linear.append(list.matrices[matrices++]);
        }
    }
    Norm norm() {
        require(norms + 2 <= list.num_norms, "too few norms");
        norms += 2;
        return {list.norms[norms - 2], list.norms[norms - 1], epsilon};
    }
    void check_end() const {
        require(matrices == list.num_matrices && norms == list.num_norms,
                "too many matrices or norms");
    }
};

}  // namespace regard
