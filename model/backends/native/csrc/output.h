// The output layer: computes the logits of each row's candidate ids, and chooses the best id.
#pragma once

#include "attention.h"

namespace regard {

// The lexical shortlist; without offsets every id is a candidate.
struct Shortlist {
    const int64_t* offsets;     // (source_vocab + 1), into candidates
    const int32_t* candidates;
    int32_t frequent;           // ids below this number are candidates of every sentence
    int32_t is_shared;          // whether each source id is also a candidate
};

// A sentence's sorted candidate ids, with the corrections and biases of their logits.
struct Candidates {
    std::vector<int32_t> ids;         // padded like `correction`, plus LANES ids to prefetch
    std::vector<int32_t> correction;  // padded to a multiple of LANES
    std::vector<float> bias;
    int count = 0;
};

class Output {
public:
    int width, vocab;
    float step;
    std::vector<float> bias;
    std::vector<int32_t> correction;
    Output(const MatrixSpec& spec)
        : width(spec.in),
          vocab(spec.out),
          step(1.0f / spec.multiplier),
          bias(spec.bias, spec.bias + spec.out),
          correction(spec.out),
          weights(spec.values) {
        for (int v = 0; v < vocab; v++) {
            int32_t total = 0;
            for (int k = 0; k < width; k++) total += spec.values[(size_t)v * width + k];
            correction[v] = SHIFT * total;
        }
    }

    // Returns the bytes of the memory that the layer owns.
    size_t bytes() const { return (bias.size() + correction.size()) * 4; }

    // Computes one row's logits, padded with NEVER to a multiple of LANES.
    void logits(const Quantized& x, int row, const Candidates& candidates, float* to) const {
        for (int i = 0; i < candidates.count; i += LANES)
            store(to + i, sixteen_logits(x, row, candidates, i));
    }

    // Returns the logits of candidates i to i + 15.
    Floats sixteen_logits(const Quantized& x, int row, const Candidates& candidates, int i) const {
        return width == 256 ? sixteen_logits_of(256, x, row, candidates, i)  // unrolled loops
                            : sixteen_logits_of(width, x, row, candidates, i);
    }

private:
    const int8_t* weights;  // (V, D)

    inline __attribute__((always_inline)) Floats sixteen_logits_of(
        int width, const Quantized& x, int row, const Candidates& candidates, int i) const {
        const uint8_t* a = x.values.get() + (size_t)row * width;
        const int8_t* table = weights;
        const int32_t* ids = &candidates.ids[i];
        alignas(64) int32_t sums[LANES];
        Products products[LANES];
        for (int j = 0; j < LANES; j++) {
            prefetch(table + (size_t)ids[j + LANES] * width, width);
            products[j] = multiply_row(a, width, table + (size_t)ids[j] * width);
        }
        sum_sixteen(products, sums);
        Floats v = to_floats(load(sums) - load(&candidates.correction[i]));
        return fma(v, broadcast(x.steps.get()[row] * step), load(&candidates.bias[i]));
    }
};

// Chooses each row's next token by its logits.
class Chooser {
public:
    // Finds the id with the largest logit in each of n rows. Of equal logits it takes the first.
    // If every logit of a row is NaN, it takes the first id of the row.
    //
    // All rows process one stretch of the vocabulary before any row starts the next stretch. The
    // stretch's weights, which the rows share, thus stay in the cache.
    void argmax(const Output& output, const Quantized& x, int n, const Candidates* const* rows,
                   int32_t* best) {
        searches.assign(n, Search());
        for (int end = STRETCH; end < output.vocab + STRETCH; end += STRETCH)
            for (int r = 0; r < n; r++)
                while (searches[r].next < rows[r]->count && rows[r]->ids[searches[r].next] < end)
                    searches[r].take(output.sixteen_logits(x, r, *rows[r], searches[r].next));
        for (int r = 0; r < n; r++) best[r] = rows[r]->ids[searches[r].found()];
    }

private:
    static constexpr int STRETCH = 2048;  // ids; half a megabyte of weights for width 256

    // The largest logit so far in each lane, and its index.
    struct Search {
        Floats top = broadcast(NEVER);
        Ints where = {};
        int next = 0;

        void take(Floats logits) {
            Ints place = Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + next;
            Ints is_larger = logits > top;
            top = is_larger ? logits : top;
            where = is_larger ? place : where;
            next += LANES;
        }

        int found() const {
            int first = 0;
            for (int i = 1; i < LANES; i++)
                if (top[i] > top[first] || (top[i] == top[first] && where[i] < where[first]))
                    first = i;
            return where[first];
        }
    };

    std::vector<Search> searches;
};

}  // namespace regard
