// The output layer: computes the logits of each row's candidate ids, and chooses the best id.
#pragma once

#include "attention.h"
#include "linear.h"

namespace regard {

// The lexical shortlist. Without offsets, all sentences have the same candidates, one for each
// output of the matrix. If `candidates` is null too, every id is a candidate.
struct Shortlist {
    const int64_t* offsets;     // (source_vocab + 1), into candidates
    const int32_t* candidates;
    int32_t frequent;           // ids below this number are candidates of every sentence
    int32_t is_shared;          // whether each source id is also a candidate
};

// A sentence's sorted candidate ids, with the corrections, scales and biases of their logits.
struct Candidates {
    std::vector<int32_t> ids;         // padded like `correction`
    std::vector<int32_t> correction;  // padded to a multiple of LANES
    std::vector<float> scale;         // empty if all ids have the same scale
    std::vector<float> bias;
    int count = 0;
};

// The largest logit so far in each lane, and its index.
struct Search {
    Floats top = broadcast(NEVER);
    Ints where = {};
    int next = 0;  // index of the next candidate; unused if every id is a candidate

    void take(Floats logits, int first) {
        auto is_larger = logits > top;
        top = select(is_larger, logits, top);
        where = select(is_larger, load(LANE) + first, where);
    }

    // Returns the index of the largest logit; of equal logits, the first index. If every logit is
    // NaN, it returns 0.
    int found() const {
        float tops[LANES];
        int32_t places[LANES];
        store(tops, top);
        store(places, where);
        int best = 0;
        for (int i = 1; i < LANES; i++)
            if (tops[i] > tops[best] || (tops[i] == tops[best] && places[i] < places[best])) best = i;
        return places[best];
    }
};

// Computes logits of shortlists. The matrix is stored in rows, not packed, because the candidates
// of a sentence are scattered over the vocabulary.
class ShortlistOutput {
public:
    ShortlistOutput(const MatrixSpec& spec, const Shortlist& shortlist)
        : width(spec.in),
          vocab(spec.out),
          weights(spec.values),
          scales(spec.scales),
          bias(spec.bias),
          correction(spec.out),
          shortlist(shortlist) {
        for (int v = 0; v < vocab; v++) {
            int32_t total = 0;
            for (int k = 0; k < width; k++) total += spec.values[(size_t)v * width + k];
            correction[v] = SHIFT * total;
            has_equal_scales &= spec.scales[v] == spec.scales[0];
        }
    }

    // Returns the bytes of the memory that the layer owns.
    size_t bytes() const { return correction.size() * 4; }

    // Fills `to` with the candidates of a source sentence. `bits` is memory for one bit per id.
    void set_candidates(Candidates& to, const std::vector<int32_t>& tokens,
                        std::vector<uint64_t>& bits) const {
        bits.assign((vocab + 63) / 64, 0);
        auto add = [&](int32_t id) { bits[id / 64] |= uint64_t(1) << (id % 64); };
        for (int id = 0; id < shortlist.frequent; id++) add(id);
        for (int32_t token : tokens) {
            int64_t end = shortlist.offsets[token + 1];
            for (int64_t c = shortlist.offsets[token]; c < end; c++) add(shortlist.candidates[c]);
            if (shortlist.is_shared) add(token);
        }
        to.ids.clear();
        for (size_t word = 0; word < bits.size(); word++)
            for (uint64_t left = bits[word]; left; left &= left - 1)
                to.ids.push_back(64 * word + __builtin_ctzll(left));
        to.count = to.ids.size();
        int size = round_up(to.count, LANES);
        to.ids.resize(size, to.ids[0]);
        to.correction.resize(size);
        if (!has_equal_scales) to.scale.resize(size);
        to.bias.resize(size);
        for (int i = 0; i < size; i++) {
            to.correction[i] = correction[to.ids[i]];
            to.bias[i] = i < to.count ? bias[to.ids[i]] : NEVER;
            if (!has_equal_scales) to.scale[i] = scales[to.ids[i]];
        }
    }

    // Finds the id with the largest logit in each of n rows. All rows process one stretch of the
    // vocabulary before any row starts the next stretch. The stretch's weights, which the rows
    // share, thus stay in the cache.
    void argmax(const Quantized& x, int n, const Candidates* const* rows,
                std::vector<Search>& searches, int32_t* best) const {
        searches.assign(n, Search());
        for (int end = STRETCH; end < vocab + STRETCH; end += STRETCH)
            for (int r = 0; r < n; r++) {
                Search& search = searches[r];
                for (; search.next < rows[r]->count && rows[r]->ids[search.next] < end;
                     search.next += LANES)
                    search.take(sixteen_logits(x, r, *rows[r], search.next), search.next);
            }
        for (int r = 0; r < n; r++) best[r] = rows[r]->ids[searches[r].found()];
    }

    // Writes the logits of n rows with the same candidates to `memory`. Returns the width of each
    // row of logits, which is padded with NEVER.
    int logits(const Quantized& x, const int* rows, int n, const Candidates& candidates,
               Buffer<float>& memory) const {
        int width = round_up(candidates.count, LANES);
        float* to = memory.reserve((size_t)n * width);
        for (int i = 0; i < width; i += LANES)
            for (int r = 0; r < n; r++)
                store(to + (size_t)r * width + i, sixteen_logits(x, rows[r], candidates, i));
        return width;
    }

private:
    static constexpr int STRETCH = 2048;  // ids; half a megabyte of weights for width 256

    int width, vocab;
    const int8_t* weights;  // (V, D)
    const float *scales, *bias;
    std::vector<int32_t> correction;
    Shortlist shortlist;
    bool has_equal_scales = true;

    // Returns the logits of candidates i to i + 15.
    Floats sixteen_logits(const Quantized& x, int row, const Candidates& candidates, int i) const {
        return width == 256 ? sixteen_logits_of(256, x, row, candidates, i)  // unrolled loops
                            : sixteen_logits_of(width, x, row, candidates, i);
    }

    inline REGARD_INLINE Floats sixteen_logits_of(int width, const Quantized& x, int row,
                                                  const Candidates& candidates, int i) const {
        const uint8_t* a = x.values.get() + (size_t)row * width;
        const int8_t* table = weights;
        const int32_t* ids = &candidates.ids[i];
        alignas(64) int32_t sums[LANES];
        const int8_t* rows[LANES];
        for (int j = 0; j < LANES; j++) rows[j] = table + (size_t)ids[j] * width;
        multiply_rows(a, width, rows, sums);
        Floats v = to_floats(load(sums) - load(&candidates.correction[i]));
        float row_step = x.steps.get()[row];
        Floats step = has_equal_scales ? broadcast(row_step * scales[0])
                                       : broadcast(row_step) * load(&candidates.scale[i]);
        return fma(v, step, load(&candidates.bias[i]));
    }
};

// Computes logits of the same ids for all sentences. Its matrix is packed, so that several rows are
// computed together.
class FullOutput {
public:
    const int count;
    const int32_t* const ids;  // (count), ascending; null if output i belongs to id i

    FullOutput(const MatrixSpec& spec, const int32_t* ids) : count(spec.out), ids(ids) {
        linear.append(spec, NEVER);
    }

    // Returns the bytes of the memory that the layer owns.
    size_t bytes() const { return linear.bytes(); }

    // Finds the id with the largest logit in each of n rows, without storing the logits.
    void argmax(const Quantized& x, int n, std::vector<Search>& searches, int32_t* best) const {
        searches.assign(n, Search());
        Search* search = searches.data();
        linear.each<Activation::NONE>(x, n, 0, linear.out, [=](int r, int i, Floats logits) REGARD_INLINE {
            search[r].take(logits, i);
        });
        for (int r = 0; r < n; r++) {
            int found = searches[r].found();
            best[r] = ids ? ids[found] : found;
        }
    }

    // Writes the logits of n rows to `memory`. Returns the width of each row of logits, which is
    // padded with NEVER.
    int logits(const Quantized& x, const int* rows, int n, Buffer<float>& memory) const {
        Quantized chosen;
        chosen.copy(x, rows, n, linear.in);
        linear.multiply(chosen, n, memory.reserve((size_t)n * linear.out), linear.out);
        return linear.out;
    }

private:
    Linear linear;
};

}  // namespace regard
