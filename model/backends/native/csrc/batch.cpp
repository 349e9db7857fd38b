// The in-flight batch in native code: encodes sequences without padding, and decodes several tokens
// per row in one call.
//
// The caller numbers the rows; the rows in use are always 0 to n - 1. Every value of a row is
// computed from its sentence alone, in an order that does not depend on the batch. Products are
// integer sums. A sentence's translation therefore has the same bits in every batch.
#include "transformer.h"

#include "guarded.h"

namespace regard {

constexpr int BLOCK = 48;  // rows that are computed together; their data fit in the cache

class Batch {
public:
    Batch(const Model& model, const Shortlist& shortlist, int max_rows)
        : model(model),
          sizes(model.sizes),
          shortlist(shortlist) {
        candidate_bits.resize((sizes.target_vocab + 63) / 64);
        rows.resize(max_rows);
        next_position.resize(max_rows);
        attention.resize(max_rows);
        cells.assign((size_t)sizes.decoder_layers * max_rows * sizes.d_model, 0.0f);
    }

    // Encodes sentences and assigns rows to each, from `row` on.
    //   copies: number of rows of each sentence
    //   records: whether the rows of each sentence record their attention
    void enter(int row, int count, const int32_t* lengths, const int32_t* tokens,
               const int32_t* copies, const int32_t* records) {
        int total = 0;
        for (int i = 0; i < count; i++) total += lengths[i];
        float* memory = encode(count, lengths, tokens, total);
        int first = row;
        for (int i = 0; i < count; i++) {
            Sentence* sentence = take_sentence();
            set_candidates(sentence->candidates, tokens, lengths[i]);
            tokens += lengths[i];
            for (int c = 0; c < copies[i]; c++) start(first++, sentence, records[i]);
        }
        for (int layer = 0; layer < sizes.decoder_layers; layer++)
            project_cross_kv(layer, row, count, lengths, copies, memory, total);
    }

    // Decodes up to `steps` tokens of each row from 0 to n - 1. Each row continues with its most
    // probable token until EOS or its limit.
    //   left: number of tokens that each row may still get; a row with 0 gets none
    //   tokens: last token of each row, or -1 at its start; this call updates them
    //   best: (n, steps), the decoded ids; -1 in the steps after a row has ended
    void decode(int n, int steps, const int32_t* left, int32_t* tokens, int32_t* best) {
        std::fill_n(best, (size_t)n * steps, -1);
        active.clear();
        for (int row = 0; row < n; row++)
            if (left[row] > 0) active.push_back(row);
        first_rows = active;
        for (int step = 0; step < steps && !active.empty(); step++) {
            chosen_ids.resize(active.size());
            decode_step(tokens, chosen_ids.data());
            size_t kept = 0;
            for (size_t i = 0; i < active.size(); i++) {
                int row = active[i];
                best[(size_t)row * steps + step] = tokens[row] = chosen_ids[i];
                if (chosen_ids[i] != sizes.eos && step + 1 < left[row]) active[kept++] = row;
            }
            active.resize(kept);
        }
    }

    // Writes the logits of some rows for the last decode step; the rows' logits start `stride`
    // floats apart. Call it only after a `decode` of one step that decoded these rows.
    void logits(int count, const int32_t* scored, float* logits, int64_t stride) {
        for (int i = 0; i < count; i++) {
            const Candidates& candidates = rows[scored[i]]->candidates;
            float* all = scratch.logits.reserve(round_up(candidates.count, LANES));
            auto place = std::lower_bound(first_rows.begin(), first_rows.end(), scored[i]);
            int line = place - first_rows.begin();
            model.output.logits(scratch.quantized, line, candidates, all);
            std::memcpy(logits + i * stride, all, candidates.count * sizeof(float));
        }
    }

    // Writes the recorded cross-attention of a row, (tokens so far, length of the sentence).
    void read_attention(int row, float* to) const {
        const std::vector<float>& weights = attention[row].weights;
        std::memcpy(to, weights.data(), weights.size() * sizeof(float));
    }

    // Copies rows: row to[i] gets the state of row from[i] before the call.
    void copy(int count, const int32_t* from, const int32_t* to) {
        int d = sizes.d_model;
        std::vector<Record> recorded(count);
        std::vector<Sentence*> sentences(count);
        std::vector<int> positions(count);
        float* saved = scratch.y.reserve((size_t)count * d);
        for (int i = 0; i < count; i++) {
            sentences[i] = rows[from[i]];
            positions[i] = next_position[from[i]];
            recorded[i] = attention[from[i]];
            sentences[i]->rows++;
        }
        for (int layer = 0; layer < sizes.decoder_layers; layer++) {
            for (int i = 0; i < count; i++)
                std::memcpy(saved + (size_t)i * d, cell(layer, from[i]), d * sizeof(float));
            for (int i = 0; i < count; i++)
                std::memcpy(cell(layer, to[i]), saved + (size_t)i * d, d * sizeof(float));
        }
        for (int i = 0; i < count; i++) {
            give(to[i], sentences[i]);
            sentences[i]->rows--;  // releases the reference that kept the sentence alive
            next_position[to[i]] = positions[i];
            attention[to[i]] = std::move(recorded[i]);
        }
    }

    // Frees the rows from `first` on.
    void leave(int first) {
        for (size_t r = first; r < rows.size(); r++) drop(r);
    }

private:
    // The cross-attention of a row in the recorded layer, one line for each decode step.
    struct Record {
        bool is_on = false;
        std::vector<float> weights;
    };

    const Model& model;
    const Sizes& sizes;
    const Shortlist shortlist;
    Chooser chooser;
    std::vector<uint64_t> candidate_bits;  // one bit per id; used while a sentence enters
    std::vector<Sentence*> rows;
    std::vector<int> next_position;  // next position of each row
    std::vector<Record> attention;   // one record for each row
    std::vector<float> cells;  // (layers, rows, D)
    std::vector<std::unique_ptr<Sentence>> sentences;
    std::vector<Sentence*> unused;
    std::vector<int> active;      // the rows that a step decodes, ascending
    std::vector<int> first_rows;  // the rows that the first step of the last `decode` decoded
    std::vector<int32_t> chosen_ids;  // new token of each active row
    Scratch scratch;

    float* cell(int layer, int row) {
        return cells.data() + ((size_t)layer * rows.size() + row) * sizes.d_model;
    }

    Sentence* take_sentence() {
        if (unused.empty()) {
            sentences.push_back(std::make_unique<Sentence>());
            sentences.back()->memory.resize(sizes.decoder_layers);
            return sentences.back().get();
        }
        Sentence* sentence = unused.back();
        unused.pop_back();
        return sentence;
    }

    void drop(int row) {
        Sentence* sentence = rows[row];
        rows[row] = nullptr;
        if (sentence && --sentence->rows == 0) unused.push_back(sentence);
    }

    void give(int row, Sentence* sentence) {
        if (rows[row] == sentence) return;
        drop(row);
        rows[row] = sentence;
        sentence->rows++;
    }

    void start(int row, Sentence* sentence, bool is_recorded) {
        give(row, sentence);
        next_position[row] = 0;
        attention[row].is_on = is_recorded;
        attention[row].weights.clear();
        for (int layer = 0; layer < sizes.decoder_layers; layer++)
            std::fill_n(cell(layer, row), sizes.d_model, 0.0f);
    }

    void add_candidate(int32_t id) { candidate_bits[id / 64] |= uint64_t(1) << (id % 64); }

    void set_candidates(Candidates& to, const int32_t* tokens, int length) {
        std::fill(candidate_bits.begin(), candidate_bits.end(), 0);
        int num_frequent = shortlist.offsets ? shortlist.frequent : sizes.target_vocab;
        for (int id = 0; id < num_frequent; id++) add_candidate(id);
        for (int i = 0; shortlist.offsets && i < length; i++) {
            int64_t end = shortlist.offsets[tokens[i] + 1];
            for (int64_t c = shortlist.offsets[tokens[i]]; c < end; c++)
                add_candidate(shortlist.candidates[c]);
            if (shortlist.is_shared) add_candidate(tokens[i]);
        }
        to.ids.clear();
        for (size_t word = 0; word < candidate_bits.size(); word++)
            for (uint64_t left = candidate_bits[word]; left; left &= left - 1)
                to.ids.push_back(64 * word + __builtin_ctzll(left));
        to.count = to.ids.size();
        int width = round_up(to.count, LANES);
        to.ids.resize(width + LANES, to.ids[0]);
        to.correction.resize(width);
        to.bias.resize(width);
        for (int i = 0; i < width; i++) {
            to.correction[i] = model.output.correction[to.ids[i]];
            to.bias[i] = i < to.count ? model.output.bias[to.ids[i]] : NEVER;
        }
    }

    void decode_step(const int32_t* tokens, int32_t* best) {
        int d = sizes.d_model, n = active.size();
        float* x = scratch.x.reserve((size_t)n * d);
        for (int i = 0; i < n; i++) {
            int row = active[i];
            const float* position = model.positions + (size_t)next_position[row]++ * d;
            if (tokens[row] < 0)
                std::memcpy(x + (size_t)i * d, position, d * sizeof(float));
            else
                model.target.look_up(tokens[row], d, sizes.embedding_scale, position,
                                     x + (size_t)i * d);
        }
        for (int layer = 0; layer < sizes.decoder_layers; layer++) {
            run_ssru(model.decoder[layer], layer, x, n);
            attend(model.decoder[layer], layer, x, n);
            feed_forward(model.decoder[layer].feed_forward, x, n);
        }
        scratch.quantized.fill(x, n, d);
        scratch.candidates.resize(n);
        for (int i = 0; i < n; i++) scratch.candidates[i] = &rows[active[i]]->candidates;
        chooser.argmax(model.output, scratch.quantized, n, scratch.candidates.data(), best);
    }

    float* encode(int count, const int32_t* lengths, const int32_t* tokens, int total) {
        int d = sizes.d_model;
        float* x = scratch.x.reserve((size_t)total * d);
        for (int i = 0, t = 0; i < count; i++)
            for (int p = 0; p < lengths[i]; p++, t++)
                model.source.look_up(tokens[t], d, sizes.embedding_scale,
                                     model.positions + (size_t)p * d, x + (size_t)t * d);
        float* projected = scratch.projected.reserve((size_t)total * 3 * d);
        float* context = scratch.context.reserve((size_t)total * d);
        for (const EncoderLayer& layer : model.encoder) {
            apply(layer.project, x, total, projected);
            for (int i = 0, t = 0; i < count; t += lengths[i++])
                scratch.self_attention.attend(projected + (size_t)t * 3 * d, lengths[i],
                                              sizes.heads, d / sizes.heads,
                                              context + (size_t)t * d);
            float* y = scratch.y.reserve((size_t)total * d);
            apply(layer.out, context, total, y);
            layer.norm.add(x, y, total, d);
            feed_forward(layer.feed_forward, x, total);
        }
        return x;
    }

    // Projects the encoder's output to the cross-attention keys and values of one layer.
    void project_cross_kv(int layer, int row, int count, const int32_t* lengths,
                          const int32_t* copies, const float* memory, int total) {
        int d = sizes.d_model;
        float* projected = scratch.projected.reserve((size_t)total * 2 * d);
        apply(model.decoder[layer].memory, memory, total, projected);
        for (int i = 0; i < count; i++) {
            rows[row]->memory[layer].fill(projected, lengths[i], sizes.heads, d / sizes.heads,
                                          scratch.column);
            projected += (size_t)lengths[i] * 2 * d;
            row += copies[i];
        }
    }

    void apply(const Linear& linear, const float* x, int count, float* y) {
        for (int r = 0; r < count; r += BLOCK) {
            int block = std::min(BLOCK, count - r);
            scratch.quantized.fill(x + (size_t)r * linear.in, block, linear.in);
            linear.multiply(scratch.quantized, block, y + (size_t)r * linear.out);
        }
    }

    void feed_forward(const FeedForward& layer, float* x, int count) {
        int d = sizes.d_model;
        float* hidden = scratch.hidden.reserve((size_t)BLOCK * sizes.ffn);
        float* y = scratch.y.reserve((size_t)std::max(count, BLOCK) * d);
        for (int r = 0; r < count; r += BLOCK, x += (size_t)BLOCK * d) {
            int block = std::min(BLOCK, count - r);
            scratch.quantized.fill(x, block, d);
            layer.fc1.multiply(scratch.quantized, block, hidden, (Activation)sizes.activation);
            scratch.quantized.fill(hidden, block, sizes.ffn);
            layer.fc2.multiply(scratch.quantized, block, y);
            layer.norm.add(x, y, block, d);
        }
    }

    // Source: Kim et al. 2019, "From Research to Production and Back", section 3.1.
    void run_ssru(const DecoderLayer& layer, int index, float* x, int n) {
        int d = sizes.d_model;
        float* gates = scratch.projected.reserve((size_t)n * 2 * d);
        float* y = scratch.y.reserve((size_t)n * d);
        apply(layer.ssru_gates, x, n, gates);
        for (int r = 0; r < n; r++) {
            const float *update = gates + (size_t)r * 2 * d, *forget = update + d;
            float* c = cell(index, active[r]);
            for (int i = 0; i < d; i += LANES) {
                Floats f = sigmoid(load(forget + i)), u = load(update + i);
                Floats next = fma(f, load(c + i), (broadcast(1.0f) - f) * u);
                store(c + i, next);
                store(y + (size_t)r * d + i, max(next, broadcast(0.0f)));
            }
        }
        layer.ssru_norm.add(x, y, n, d);
    }

    // Returns the place of the next line of a row's record; no place if the row or the layer is
    // not recorded.
    HeadWeights record_of(int row, int layer, int length) {
        Record& record = attention[row];
        if (!record.is_on || layer != sizes.recorded_layer) return {};
        record.weights.resize(record.weights.size() + length);
        return {record.weights.data() + record.weights.size() - length, sizes.recorded_head};
    }

    void attend(const DecoderLayer& layer, int index, float* x, int n) {
        int d = sizes.d_model;
        float* query = scratch.projected.reserve((size_t)n * d);
        float* context = scratch.context.reserve((size_t)n * d);
        float* y = scratch.y.reserve((size_t)n * d);
        apply(layer.query, x, n, query);
        for (int r = 0; r < n; r++) {
            const Memory& memory = rows[active[r]]->memory[index];
            const Memory* next = r + 1 < n ? &rows[active[r + 1]]->memory[index] : nullptr;
            HeadWeights weights = record_of(active[r], index, memory.length);
            auto attend = weights.to ? &Memory::attend<true> : &Memory::attend<false>;
            (memory.*attend)(query + (size_t)r * d, sizes.heads, d / sizes.heads,
                             scratch.scores.reserve(memory.width), context + (size_t)r * d, next,
                             weights);
        }
        apply(layer.out, context, n, y);
        layer.norm.add(x, y, n, d);
    }
};

}  // namespace regard

using regard::Batch;
using regard::guarded;
using regard::Model;

extern "C" {
#pragma GCC visibility push(default)

uint32_t regard_sources() { return REGARD_SOURCES; }

int regard_is_supported() { return regard::is_supported(); }

Model* regard_model_new(const regard::Sizes* sizes, const regard::Weights* weights) {
    Model* model = nullptr;
    guarded([&] { model = new Model(*sizes, *weights); });
    return model;
}

int64_t regard_model_bytes(const Model* model) { return model->bytes(); }

void regard_model_delete(Model* model) { delete model; }

Batch* regard_batch_new(const Model* model, const regard::Shortlist* shortlist, int max_rows) {
    Batch* batch = nullptr;
    guarded([&] { batch = new Batch(*model, *shortlist, max_rows); });
    return batch;
}

void regard_batch_delete(Batch* batch) { delete batch; }

int regard_batch_enter(Batch* batch, int row, int count, const int32_t* lengths,
                       const int32_t* tokens, const int32_t* copies, const int32_t* records) {
    return guarded([&] { batch->enter(row, count, lengths, tokens, copies, records); });
}

int regard_batch_decode(Batch* batch, int rows, int steps, const int32_t* left, int32_t* tokens,
                        int32_t* best) {
    return guarded([&] { batch->decode(rows, steps, left, tokens, best); });
}

int regard_batch_logits(Batch* batch, int count, const int32_t* scored, float* logits,
                        int64_t stride) {
    return guarded([&] { batch->logits(count, scored, logits, stride); });
}

void regard_batch_attention(const Batch* batch, int row, float* to) {
    batch->read_attention(row, to);
}

int regard_batch_copy(Batch* batch, int count, const int32_t* from, const int32_t* to) {
    return guarded([&] { batch->copy(count, from, to); });
}

void regard_batch_leave(Batch* batch, int first) { batch->leave(first); }

#pragma GCC visibility pop
}
