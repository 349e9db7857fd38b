// Beam search over the rows of a batch, several tokens of each hypothesis in one call.
//
// `model/engine/beam.py` keeps the finished hypotheses, and follows the same rule for live ones.
#pragma once

#include "batch.h"

namespace regard {

// A live hypothesis plus one token.
struct Continuation {
    double total = NEVER;    // sum of the log-probabilities; NEVER if there is no continuation
    int32_t parent = 0;      // index of the live hypothesis among the rows of its search
    int32_t id = 0;
};

// The best continuations of the live hypotheses of one search, best first. Of equal continuations,
// the one that was added first is better.
class BestContinuations {
public:
    void begin(int count) { best.assign(count, Continuation()); }

    // Adds the continuations of a hypothesis. The last vector of `logits` is padded with NEVER.
    //   total: sum of the log-probabilities of the hypothesis
    //   ids: ids of the logits; null if the logits belong to the ids 0 to count - 1
    void add(int parent, double total, const float* logits, int count, const int32_t* ids) {
        Floats top = broadcast(NEVER), sums = broadcast(0.0f);
        for (int i = 0; i < count; i += LANES) top = max(top, load(logits + i));
        float largest = reduce_max(top);
        for (int i = 0; i < count; i += LANES) sums = sums + exp(load(logits + i) - broadcast(largest));
        double base = total - largest - std::log((double)sum(sums));
        for (int i = 0; i < count; i += LANES) {
            if (!(base + reduce_max(load(logits + i)) > best.back().total)) continue;
            for (int j = i; j < std::min(count, i + LANES); j++)
                insert({base + logits[j], parent, ids ? ids[j] : j});
        }
    }

    const std::vector<Continuation>& all() const { return best; }

private:
    std::vector<Continuation> best;

    void insert(const Continuation& next) {
        auto place = best.end();
        while (place != best.begin() && next.total > (place - 1)->total) place--;
        if (place == best.end()) return;
        std::move_backward(place, best.end() - 1, best.end());
        *place = next;
    }
};

// The searches of one call, and their results.
struct Searches {
    int count;
    const int32_t* beams;  // (count), number of rows of each search
    const int32_t* rows;   // (R), the rows of all searches, one search after the other
    int steps;             // number of tokens that each hypothesis gets
    int32_t* tokens;       // next decoder input of each row of the batch; updated
    double* totals;        // (R), sum of the log-probabilities of each hypothesis; updated

    // The 2 k best continuations of each search with k rows, best first: (steps, 2 R) each.
    double* best_totals;
    int32_t *parents, *ids;
};

class BeamRun {
public:
    BeamRun(Batch& batch, const Searches& searches) : batch(batch), searches(searches) {
        for (int i = 0; i < searches.count; i++) {
            require(searches.beams[i] > 0, "a beam has a wrong size");
            num_rows += searches.beams[i];
        }
        for (int i = 0; i < num_rows; i++) batch.check_used(searches.rows[i]);
        sorted.assign(searches.rows, searches.rows + num_rows);
        std::sort(sorted.begin(), sorted.end());
        require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                "a row has two hypotheses");
    }

    void run() {
        for (int step = 0; step < searches.steps; step++) {
            batch.advance(sorted, searches.tokens);
            from.clear(), to.clear();
            for (int i = 0, first = 0; i < searches.count; first += searches.beams[i++]) {
                find(first, searches.beams[i]);
                report((size_t)step * 2 * num_rows + 2 * first);
                keep(first, searches.beams[i]);
            }
            if (!from.empty()) batch.copy(from.size(), from.data(), to.data());
        }
    }

private:
    Batch& batch;
    const Searches& searches;
    int num_rows = 0;
    std::vector<int> sorted;  // the rows of all searches, ascending
    std::vector<int32_t> from, to, live;
    Buffer<float> logits;
    BestContinuations best;

    // Finds the best continuations of one search, whose `beam` rows start at index `first`.
    void find(int first, int beam) {
        best.begin(2 * beam);
        live.clear();
        for (int i = 0; i < beam; i++)
            if (searches.totals[first + i] != NEVER) live.push_back(searches.rows[first + i]);
        size_t width = round_up(batch.sizes.target_vocab, LANES);
        float* next = logits.reserve(live.size() * width);
        batch.logits(live.size(), live.data(), next, width);
        for (int i = 0; i < beam; i++) {
            double total = searches.totals[first + i];
            if (total == NEVER) continue;
            LogitIds of = batch.ids_of(searches.rows[first + i]);
            std::fill_n(next + of.count, round_up(of.count, LANES) - of.count, NEVER);
            best.add(i, total, next, of.count, of.ids);
            next += width;
        }
    }

    void report(size_t place) {
        for (const Continuation& each : best.all()) {
            searches.best_totals[place] = each.total;
            searches.parents[place] = each.parent;
            searches.ids[place++] = each.id;
        }
    }

    // Continues the rows with the best continuations that do not end. A row without one repeats the
    // first row's, with the total NEVER.
    void keep(int first, int beam) {
        int kept = 0;
        Continuation filler = {NEVER, 0, batch.sizes.eos};
        for (const Continuation& each : best.all())
            if (kept < beam && each.total > NEVER && each.id != batch.sizes.eos) {
                if (kept == 0) filler = {NEVER, each.parent, each.id};
                set(first, kept++, each);
            }
        while (kept < beam) set(first, kept++, filler);
    }

    void set(int first, int index, const Continuation& live) {
        int row = searches.rows[first + index], parent = searches.rows[first + live.parent];
        searches.tokens[row] = live.id;
        searches.totals[first + index] = live.total;
        if (row == parent) return;
        from.push_back(parent);
        to.push_back(row);
    }
};

}  // namespace regard
