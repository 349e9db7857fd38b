// The in-flight batch in native code: encodes sequences without padding, and decodes several tokens
// per row in one call.
//
// The caller numbers the rows; the rows in use are always 0 to n - 1. Every value of a row is
// computed from its sentence alone, in an order that does not depend on the batch. Products are
// integer sums. A sentence's translation therefore has the same bits in every batch.
#pragma once

#include "state/self_cache.h"
#include "state/sentences.h"
#include "state/ssru_cells.h"
#include "transformer.h"

namespace regard {

constexpr int32_t NO_TOKEN = -1;

// The ids of logits, ascending; without `ids`, logit i belongs to id i.
struct LogitIds {
    int count;
    const int32_t* ids;

    int index(int32_t id) const {
        const int32_t* place = ids ? std::lower_bound(ids, ids + count, id) : nullptr;
        require(!ids || (place != ids + count && *place == id), "a first token is no candidate");
        return ids ? place - ids : id;
    }
};

class Batch {
public:
    const Sizes& sizes;

    Batch(const Model& model, int max_rows)
        : sizes(model.sizes),
          model(model),
          rows(max_rows),
          next_position(max_rows),
          first_ids(max_rows, NO_TOKEN),
          attention(max_rows),
          cells(sizes.decoder == DecoderKind::SSRU ? sizes.decoder_layers : 0, max_rows,
                sizes.d_model),
          self_cache(sizes.decoder_layers, max_rows, sizes.heads, sizes.d_model / sizes.heads),
          sentences(sizes.decoder_layers),
          sublayers({sizes.d_model, sizes.ffn, sizes.activation, sizes.is_pre_norm != 0,
                     sizes.norms_keys != 0}),
          encoder(model.encoder, sizes.d_model, model.heads(), sublayers) {}

    // Encodes sentences and assigns rows to each, from `row` on. A sentence whose encoding is still
    // in memory is not encoded again.
    //   copies: number of rows of each sentence
    //   records: whether the rows of each sentence record their attention
    //   firsts: given first token of each sentence's target, or NO_TOKEN
    void enter(int row, int count, const int32_t* lengths, const int32_t* tokens,
               const int32_t* copies, const int32_t* records, const int32_t* firsts) {
        int total = check_entering(row, count, lengths, copies, firsts);
        require_within(tokens, total, 0, sizes.source_vocab, "a token is not in the vocabulary");
        has_logits = false;
        std::vector<Sentence*> entering(count), unencoded;
        for (int i = 0; i < count; tokens += lengths[i++]) {
            entering[i] = sentences.take_encoded(tokens, lengths[i]);
            if (entering[i]) continue;
            entering[i] = sentences.take(tokens, lengths[i]);
            unencoded.push_back(entering[i]);
        }
        if (!unencoded.empty()) encode(unencoded);
        for (int i = 0; i < count; i++)
            for (int c = 0; c < copies[i]; c++) start(row++, entering[i], records[i], firsts[i]);
    }

    // Decodes up to `steps` tokens of each row from 0 to n - 1. Each row continues with its most
    // probable token until EOS or its limit.
    //   left: number of tokens that each row may still get; a row with 0 gets none
    //   tokens: next decoder input of each row, -1 for a vector of zeros; this call updates them
    //   best: (n, steps), the decoded ids; -1 in the steps after a row has ended
    void decode(int n, int steps, const int32_t* left, int32_t* tokens, int32_t* best) {
        require(n >= 0 && n <= (int)rows.size() && steps > 0, "there are no such rows");
        std::fill_n(best, (size_t)n * steps, -1);
        active.clear();
        for (int row = 0; row < n; row++)
            if (left[row] > 0) {
                check_decoding(row, std::min(left[row], steps), tokens[row]);
                active.push_back(row);
            }
        first_rows = active;
        has_logits = steps == 1;
        for (int step = 0; step < steps && !active.empty(); step++) {
            chosen_ids.resize(active.size());
            decode_step(tokens);
            choose(active.size(), chosen_ids.data());
            size_t kept = 0;
            for (size_t i = 0; i < active.size(); i++) {
                int row = active[i];
                best[(size_t)row * steps + step] = tokens[row] = chosen_ids[i];
                if (chosen_ids[i] != sizes.eos && step + 1 < left[row]) active[kept++] = row;
            }
            active.resize(kept);
        }
    }

    // Runs one decode step of some rows, in ascending order, and chooses no tokens. The caller reads
    // their logits.
    void advance(const std::vector<int>& chosen, const int32_t* tokens) {
        for (int row : chosen) check_decoding(row, 1, tokens[row]);
        active = first_rows = chosen;
        has_logits = true;
        decode_step(tokens);
    }

    // Writes the logits of some rows for the last decode step; the rows' logits start `stride`
    // floats apart. The last call must be an `advance`, or a `decode` of one step, of these rows. A
    // row whose token was given has one finite logit. Neighbouring rows of one sentence are
    // computed together, so that they share the loads of the weights.
    void logits(int count, const int32_t* scored, float* logits, int64_t stride) {
        std::vector<int> lines(count);
        for (int i = 0; i < count; i++) lines[i] = line_of(scored[i]);
        for (int first = 0, end; first < count; first = end) {
            const Sentence* sentence = rows[scored[first]];
            for (end = first; end < count && rows[scored[end]] == sentence; end++) continue;
            LogitIds of = ids_of(scored[first]);
            int n = end - first;
            int width = model.full_output
                            ? model.full_output->logits(hidden, &lines[first], n, scores)
                            : model.shortlist_output->logits(hidden, &lines[first], n,
                                                             sentence->candidates, scores);
            require(of.count <= stride, "the place for logits is too small");
            for (int i = first; i < end; i++) {
                float* to = logits + i * stride;
                std::memcpy(to, scores.get() + (i - first) * width, of.count * sizeof(float));
                if (given_id(scored[i]) == NO_TOKEN) continue;
                std::fill_n(to, of.count, NEVER);
                to[of.index(given_id(scored[i]))] = 0.0f;
            }
        }
    }

    // Returns the ids of a row's logits.
    LogitIds ids_of(int row) const {
        if (model.full_output) return {model.full_output->count, model.full_output->ids};
        const Candidates& candidates = rows[row]->candidates;
        return {candidates.count, candidates.ids.data()};
    }

    // Writes the hidden states (count, D) of some rows, from which the last decode step chose their
    // tokens. The last call must be an `advance`, or a `decode` of one step, of these rows.
    void read_hidden(int count, const int32_t* wanted, float* to) const {
        size_t d = sizes.d_model;
        for (int i = 0; i < count; i++)
            std::memcpy(to + i * d, stream.get() + line_of(wanted[i]) * d, d * sizeof(float));
    }

    // Writes the recorded cross-attention of a row, (tokens so far, length of the sentence).
    //   count: number of weights
    void read_attention(int row, int64_t count, float* to) const {
        check_used(row);
        const std::vector<float>& weights = attention[row].weights;
        require(count == (int64_t)weights.size(), "the place for weights has another size");
        std::copy(weights.begin(), weights.end(), to);
    }

    // Copies rows: row to[i] gets the state of row from[i] before the call.
    void copy(int count, const int32_t* from, const int32_t* to) {
        require_within(to, count, 0, rows.size(), "there are no such rows");
        for (int i = 0; i < count; i++) check_used(from[i]);
        has_logits = false;
        std::vector<Record> recorded(count);
        std::vector<Sentence*> sentences(count);
        std::vector<int> positions(count), firsts(count);
        for (int i = 0; i < count; i++) {
            sentences[i] = rows[from[i]];
            positions[i] = next_position[from[i]];
            firsts[i] = first_ids[from[i]];
            recorded[i] = attention[from[i]];
            sentences[i]->rows++;
        }
        if (sizes.decoder == DecoderKind::SSRU)
            cells.copy(count, from, to);
        else
            self_cache.copy(count, from, to);
        for (int i = 0; i < count; i++) {
            give(to[i], sentences[i]);
            sentences[i]->rows--;  // releases the reference that kept the sentence alive
            next_position[to[i]] = positions[i];
            first_ids[to[i]] = firsts[i];
            attention[to[i]] = std::move(recorded[i]);
        }
    }

    void check_used(int row) const {
        require(row >= 0 && row < (int)rows.size() && rows[row], "there is no such row");
    }

    // Frees the rows from `first` on.
    void leave(int first) {
        require(first >= 0, "there are no such rows");
        has_logits = false;
        for (size_t r = first; r < rows.size(); r++) {
            drop(r);
            self_cache.drop(r);
        }
    }

private:
    // The cross-attention of a row in the recorded layer, one line for each decode step.
    struct Record {
        bool is_on = false;
        std::vector<float> weights;
    };

    const Model& model;
    std::vector<Sentence*> rows;
    std::vector<int> next_position;   // next position of each row
    std::vector<int32_t> first_ids;   // given first token of each row, or NO_TOKEN
    std::vector<Record> attention;    // one record for each row
    SsruCells cells;                  // of a decoder with SSRUs
    SelfCache self_cache;             // of a decoder with self-attention
    Sentences sentences;
    std::vector<int> active;          // the rows that a step decodes, ascending
    std::vector<int> first_rows;      // the rows of the first step of the last call
    bool has_logits = false;          // whether `hidden` has one line for each of these rows
    std::vector<int32_t> chosen_ids;  // new token of each active row
    std::vector<const Candidates*> candidates;
    std::vector<uint64_t> bits;       // one bit per id; used while a sentence enters
    std::vector<Search> searches;     // one for each active row
    Sublayers<Quantized> sublayers;
    Encoder<Quantized> encoder;
    Quantized hidden;                 // inputs of the output layer in the last step
    Buffer<float> stream, scores, column;

    // Returns the line of a row in the last decode step.
    int line_of(int row) const {
        auto place = std::lower_bound(first_rows.begin(), first_rows.end(), row);
        require(has_logits && place != first_rows.end() && *place == row,
                "the last call did not decode one token of the row");
        return place - first_rows.begin();
    }

    // Checks the arguments of `enter`; returns the number of tokens.
    int check_entering(int row, int count, const int32_t* lengths, const int32_t* copies,
                       const int32_t* firsts) const {
        int64_t total = 0, end = row;
        require(row >= 0, "there are no such rows");
        require_within(lengths, count, 1, sizes.positions + 1, "a sentence has a wrong length");
        require_within(copies, count, 1, rows.size() + 1, "a beam has a wrong size");
        require_within(firsts, count, NO_TOKEN, sizes.target_vocab, "a first token is wrong");
        for (int i = 0; i < count; i++) total += lengths[i], end += copies[i];
        require(end <= (int64_t)rows.size() && total <= INT32_MAX, "too many rows or tokens");
        return total;
    }

    void check_decoding(int row, int steps, int32_t token) const {
        check_used(row);
        require(token >= NO_TOKEN && token < sizes.target_vocab, "a token is wrong");
        require(next_position[row] + steps <= sizes.positions, "a target is too long");
    }

    void drop(int row) {
        Sentence* sentence = rows[row];
        rows[row] = nullptr;
        if (sentence) sentences.drop(sentence);
    }

    void give(int row, Sentence* sentence) {
        if (rows[row] == sentence) return;
        drop(row);
        rows[row] = sentence;
        sentence->rows++;
    }

    void start(int row, Sentence* sentence, bool is_recorded, int32_t first_id) {
        give(row, sentence);
        self_cache.drop(row);
        next_position[row] = 0;
        first_ids[row] = first_id;
        attention[row].is_on = is_recorded;
        attention[row].weights.clear();
        cells.reset(row);
    }

    // Returns the token that was given for a row's last position, or NO_TOKEN.
    int32_t given_id(int row) const { return next_position[row] == 1 ? first_ids[row] : NO_TOKEN; }

    // Computes the hidden states of the active rows.
    void decode_step(const int32_t* tokens) {
        int d = sizes.d_model, n = active.size();
        float* x = stream.reserve((size_t)n * d);
        for (int i = 0; i < n; i++) {
            int row = active[i];
            const float* position = model.positions + (size_t)next_position[row]++ * d;
            if (tokens[row] < 0)
                std::memcpy(x + (size_t)i * d, position, d * sizeof(float));
            else
                model.target.look_up(tokens[row], sizes.embedding_scale, position,
                                     x + (size_t)i * d);
        }
        for (int layer = 0; layer < sizes.decoder_layers; layer++) {
            const DecoderLayer& weights = model.decoder[layer];
            if (sizes.decoder == DecoderKind::SSRU)
                run_ssru(weights, layer, x, n);
            else
                attend_self(weights.attention, layer, x, n);
            attend(weights, layer, x, n);
            sublayers.feed_forward(weights.feed_forward, x, n);
        }
        if (sizes.is_pre_norm) model.decoder_norm.apply(x, x, n, d);
        hidden.fill(x, n, d);
    }

    // Finds the most probable token of each active row.
    void choose(int n, int32_t* best) {
        if (model.full_output) {
            model.full_output->argmax(hidden, n, searches, best);
        } else {
            candidates.resize(n);
            for (int i = 0; i < n; i++) candidates[i] = &rows[active[i]]->candidates;
            model.shortlist_output->argmax(hidden, n, candidates.data(), searches, best);
        }
        for (int i = 0; i < n; i++)
            if (given_id(active[i]) != NO_TOKEN) best[i] = given_id(active[i]);
    }

    // Computes the candidates, and the cross-attention keys and values, of sentences.
    void encode(const std::vector<Sentence*>& entering) {
        std::vector<int32_t> lengths;
        for (const Sentence* sentence : entering) lengths.push_back(sentence->tokens.size());
        encoder.begin(lengths.size(), lengths.data());
        int d = sizes.d_model, total = encoder.num_tokens();
        float* x = encoder.x.get();
        for (Sentence* sentence : entering) {
            const float* position = model.positions;
            for (int32_t token : sentence->tokens) {
                model.source.look_up(token, sizes.embedding_scale, position, x);
                position += d, x += d;
            }
            if (model.shortlist_output)
                model.shortlist_output->set_candidates(sentence->candidates, sentence->tokens,
                                                       bits);
        }
        encoder.run();
        x = encoder.x.get();
        if (sizes.is_pre_norm) model.encoder_norm.apply(x, x, total, d);
        for (int layer = 0; layer < sizes.decoder_layers; layer++)
            project_cross_kv(layer, entering, lengths, x, total);
    }

    // Projects the encoder's output to the cross-attention keys and values of one layer.
    void project_cross_kv(int layer, const std::vector<Sentence*>& entering,
                          const std::vector<int32_t>& lengths, const float* encoded, int total) {
        int d = sizes.d_model;
        float* projected = sublayers.projected.reserve((size_t)total * 2 * d);
        sublayers.apply(model.decoder[layer].memory, encoded, total, projected);
        for (size_t i = 0; i < entering.size(); i++) {
            entering[i]->memory[layer].fill(projected, lengths[i], sizes.heads, d / sizes.heads,
                                            column);
            projected += (size_t)lengths[i] * 2 * d;
        }
    }

    void run_ssru(const DecoderLayer& layer, int index, float* x, int n) {
        size_t d = sizes.d_model;
        float* gates = sublayers.projected.reserve(n * 2 * d);
        float* y = sublayers.context.reserve(n * d);
        sublayers.apply(layer.ssru_gates, sublayers.before(layer.ssru_norm, x, n), n, gates);
        for (int r = 0; r < n; r++) cells.advance(index, active[r], gates + r * 2 * d, y + r * d);
        sublayers.after(layer.ssru_norm, x, y, n);
    }

    void attend_self(const Attention& layer, int index, float* x, int n) {
        int d = sizes.d_model;
        float* projected = sublayers.projected.reserve((size_t)n * 3 * d);
        sublayers.project(layer, x, n, projected);
        float* context = sublayers.context.reserve((size_t)n * d);
        for (int r = 0; r < n; r++, projected += 3 * d) {
            int row = active[r], length = next_position[row];
            self_cache.append(index, row, length - 1, projected + d, projected + 2 * d);
            self_cache.attend(index, row, length, projected, scores, context + (size_t)r * d);
        }
        sublayers.merge(layer.out, layer.norm, sublayers.context.get(), x, n);
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
        float* query = sublayers.projected.reserve((size_t)n * d);
        float* context = sublayers.context.reserve((size_t)n * d);
        sublayers.apply(layer.query, sublayers.before(layer.norm, x, n), n, query);
        for (int r = 0; r < n; r++) {
            const Memory& memory = rows[active[r]]->memory[index];
            memory.attend(query + (size_t)r * d, sizes.heads, d / sizes.heads,
                          scores.reserve((size_t)HEADS * memory.width), context + (size_t)r * d,
                          record_of(active[r], index, memory.length));
        }
        sublayers.merge(layer.out, layer.norm, sublayers.context.get(), x, n);
    }
};

}  // namespace regard
