// The cells of a decoder with SSRUs: one vector for each layer and row.
// Source: Kim et al. 2019, "From Research to Production and Back", section 3.1.
#pragma once

#include "../kernels/matrix.h"

namespace regard {

class SsruCells {
public:
    // A decoder without SSRUs has 0 layers here.
    SsruCells(int layers, int rows, int width)
        : layers(layers), rows(rows), width(width), cells((size_t)layers * rows * width, 0.0f) {}

    // Sets the cells of a row to zero.
    void reset(int row) {
        for (int layer = 0; layer < layers; layer++) std::fill_n(cell(layer, row), width, 0.0f);
    }

    // Row to[i] gets the cells that row from[i] had before the call.
    void copy(int count, const int32_t* from, const int32_t* to) {
        float* copies = saved.reserve((size_t)count * width);
        for (int layer = 0; layer < layers; layer++) {
            for (int i = 0; i < count; i++)
                std::memcpy(copies + (size_t)i * width, cell(layer, from[i]), width * sizeof(float));
            for (int i = 0; i < count; i++)
                std::memcpy(cell(layer, to[i]), copies + (size_t)i * width, width * sizeof(float));
        }
    }

    // Updates a row's cell in one layer from its gates (2 D): update and forget gate. Writes the
    // output (D).
    void advance(int layer, int row, const float* gates, float* output) {
        const float *update = gates, *forget = gates + width;
        float* c = cell(layer, row);
        for (int i = 0; i < width; i += LANES) {
            Floats f = sigmoid(load(forget + i)), u = load(update + i);
            Floats next = fma(f, load(c + i), (broadcast(1.0f) - f) * u);
            store(c + i, next);
            store(output + i, max(next, broadcast(0.0f)));
        }
    }

private:
    const int layers, rows, width;
    std::vector<float> cells;  // (layers, rows, D)
    Buffer<float> saved;

    float* cell(int layer, int row) {
        return cells.data() + ((size_t)layer * rows + row) * width;
    }
};

}  // namespace regard
