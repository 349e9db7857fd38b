// Scaled dot-product attention over one sentence's own keys, without padding.
#pragma once

#include "matrix.h"

namespace regard {

constexpr int QUERIES = 4;   // number of queries that are computed together
constexpr int HEADS = 4;     // number of heads of one query that are computed together
constexpr int VECTORS = 4;   // number of vectors of LANES keys that are scored together
constexpr float NEVER = -INFINITY;
alignas(64) constexpr int32_t LANE[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

inline float usual_scale(int head_dim) { return 1.0f / std::sqrt((float)head_dim); }

// Computes the scores of R queries against V vectors of keys. Keys are (head_dim, key_width), and
// scores (R, width); widths are multiples of LANES. load_keys(r, i) returns the vector at number i of
// the keys of query r.
template <int R, int V, class Load>
inline REGARD_INLINE void score_block(const float* query, size_t query_stride, int head_dim,
                                      Load load_keys, int key_width, float* scores, int width) {
    Floats acc[R][V];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) acc[r][v] = broadcast(0.0f);
    for (int d = 0; d < head_dim; d++) {
        for (int r = 0; r < R; r++) {
            Floats q = broadcast(query[r * query_stride + d]);
            for (int v = 0; v < V; v++)
                acc[r][v] = fma(q, load_keys(r, (size_t)d * key_width + v * LANES), acc[r][v]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) store(scores + (size_t)r * width + v * LANES, acc[r][v]);
}

// Computes the scores of R queries against `width` keys.
template <int R, class Load>
inline void score(const float* query, size_t stride, int head_dim, Load load_keys, int key_width,
                  float* scores, int width) {
    for (int j = 0; j < width; j += VECTORS * LANES, scores += VECTORS * LANES) {
        auto part = [&](int r, size_t i) { return load_keys(r, i + j); };
        switch ((width - j) / LANES) {
            case 1: score_block<R, 1>(query, stride, head_dim, part, key_width, scores, width); break;
            case 2: score_block<R, 2>(query, stride, head_dim, part, key_width, scores, width); break;
            case 3: score_block<R, 3>(query, stride, head_dim, part, key_width, scores, width); break;
            default: score_block<R, 4>(query, stride, head_dim, part, key_width, scores, width);
        }
    }
}

// Replaces each score s in R rows by exp(scale · (s - largest score of the row)), and computes the
// sum of each row. Scores from number `keys` on are padding.
template <int R>
inline void exponentials(float* scores, int keys, int width, float scale, float* totals) {
    Floats top[R], total[R];
    auto is_padding = load(LANE) + (width - LANES - keys + 1) > Ints{};
    for (int r = 0; r < R; r++) {
        float* row = scores + (size_t)r * width;
        // A load of the last vector would wait if its padding had been stored number by number.
        float* last = row + width - LANES;
        top[r] = select(is_padding, broadcast(NEVER), load(last));
        store(last, top[r]);
        for (int j = 0; j < width - LANES; j += LANES) top[r] = max(top[r], load(row + j));
    }
    for (int r = 0; r < R; r++) top[r] = broadcast(reduce_max(top[r]) * scale);
    for (int r = 0; r < R; r++) {
        float* row = scores + (size_t)r * width;
        total[r] = broadcast(0.0f);
        for (int j = 0; j < width; j += LANES) {
            Floats e = exp(fma(load(row + j), broadcast(scale), -top[r]));
            store(row + j, e);
            total[r] = total[r] + e;
        }
    }
    // Lanes beyond the keys hold e^-87, which is too small to change the sum of a row.
    for (int r = 0; r < R; r++) totals[r] = sum(total[r]);
}

// Computes the weighted mean of values (keys, head_dim) for R queries. It computes H · LANES
// numbers of each mean. The values of adjacent keys are `stride` numbers apart.
template <int R, int H, class Load>
inline REGARD_INLINE void attend_values_block(const float* weights, int width, const float* totals,
                                              int keys, size_t stride, Load load_values,
                                              float* out, size_t out_stride) {
    Floats acc[R][H];
    for (int r = 0; r < R; r++)
        for (int h = 0; h < H; h++) acc[r][h] = broadcast(0.0f);
    for (int j = 0; j < keys; j++) {
        for (int r = 0; r < R; r++) {
            Floats weight = broadcast(weights[(size_t)r * width + j]);
            for (int h = 0; h < H; h++)
                acc[r][h] = fma(weight, load_values(r, j * stride + h * LANES), acc[r][h]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < H; h++)
            store(out + r * out_stride + h * LANES, acc[r][h] * broadcast(1.0f / totals[r]));
}

// Computes the weighted mean of values (keys, head_dim) for R queries.
template <int R, class Load>
inline void attend_values(const float* weights, int width, const float* totals, int keys,
                          int head_dim, size_t stride, Load load_values, float* out,
                          size_t out_stride) {
    int d = 0;
    auto part = [&](int r, size_t i) { return load_values(r, i + d); };
    for (; d + 2 * LANES <= head_dim; d += 2 * LANES)
        attend_values_block<R, 2>(weights, width, totals, keys, stride, part, out + d, out_stride);
    for (; d < head_dim; d += LANES)
        attend_values_block<R, 1>(weights, width, totals, keys, stride, part, out + d, out_stride);
}

// The term that is added to a score for the distance from query to key.
struct DistanceBias {
    // (H, stride): distances from 1 - length on, padded for vector reads. Null for no bias.
    const float* values = nullptr;
    int length = 0;
    bool is_shared = false;  // whether there is one row for all heads

    // Largest distances to an earlier and to a later key that any head attends to.
    int before = FAR, after = FAR;

    static constexpr int FAR = 1 << 24;  // more than any text has tokens
    static int stride(int length) { return 2 * length - 1 + LANES; }
    void find_reach(int heads) {
        if (!values) return;
        auto is_never = [&](int distance) {
            for (int h = 0; h < (is_shared ? 1 : heads); h++)
                if (zero_distance(h)[distance] != NEVER) return false;
            return true;
        };
        before = after = length - 1;
        while (before > 0 && is_never(-before)) before--;
        while (after > 0 && is_never(after)) after--;
    }
    const float* zero_distance(int head) const {
        if (!values) return nullptr;
        return values + (is_shared ? 0 : (size_t)head * stride(length)) + length - 1;
    }
};

// The heads of self-attention. Adjacent heads of queries share a head of keys and values.
struct HeadSizes {
    int heads, kv_heads, head_dim;
    float scale;  // factor of the scores

    int width() const { return heads * head_dim; }
    // Numbers of a token's query, key and value, which are concatenated.
    int projected() const { return (heads + 2 * kv_heads) * head_dim; }
};

// Self-attention of all heads over one sentence.
struct SelfAttention {
    Buffer<float> keys, values, scores;

    // Computes the attention of tokens `first` to `end` - 1 to the tokens of the sentence.
    // projected is (length, sizes.projected()); out is (length, sizes.width()).
    void attend(const float* projected, int length, int first, int end, const HeadSizes& sizes,
                const DistanceBias& bias, float* out) {
        int dim = sizes.head_dim, stride = sizes.projected(), width = round_up(length, LANES);
        int sharing = sizes.heads / sizes.kv_heads;
        float* key = keys.reserve((size_t)dim * width);
        float* value = values.reserve((size_t)dim * length);
        float* score_rows = scores.reserve((size_t)QUERIES * width);
        for (int h = 0; h < sizes.heads; h++) {
            if (h % sharing == 0) {
                const float* from = projected + sizes.width() + h / sharing * dim;
                transpose(from, stride, length, dim, key, width);
                // Rows of values that are far apart would push each other out of the cache.
                from += sizes.kv_heads * dim;
                for (int j = 0; j < length; j++)
                    std::copy_n(from + j * stride, dim, value + j * dim);
            }
            const float *query = projected + h * dim, *added = bias.zero_distance(h);
            const Head head = {query, key, value, added, out + h * dim, width};
            for (int r = first, count; r < end; r += count) {
                // A block of queries sees the same keys, however the tokens are divided into calls.
                int block = r / QUERIES * QUERIES;
                int from = std::max(0, block - bias.before) / LANES * LANES;
                int to = std::min(length, block + QUERIES + bias.after);
                count = std::min(block + QUERIES, end) - r;
                switch (count) {
                    case 1: rows<1>(head, sizes, r, from, to, score_rows); break;
                    case 2: rows<2>(head, sizes, r, from, to, score_rows); break;
                    case 3: rows<3>(head, sizes, r, from, to, score_rows); break;
                    default: rows<QUERIES>(head, sizes, r, from, to, score_rows);
                }
            }
        }
    }

private:
    // One head's queries, its transposed keys (head_dim, width), values, bias, and place for results.
    struct Head {
        const float *query, *key, *value, *added;
        float* out;
        int width;
    };

    // Scales the scores of R queries and adds the bias. Returns 1, the scale still to be applied.
    template <int R>
    static float add(const float* added, float scale, int width, float* scores) {
        for (int r = 0; r < R; r++, scores += width)
            for (int j = 0; j < width; j += LANES)
                store(scores + j, fma(load(scores + j), broadcast(scale), load(added - r + j)));
        return 1.0f;
    }

    // Computes R queries from token `first` on, which attend to the tokens `from` to `to` - 1.
    template <int R>
    static void rows(const Head& head, const HeadSizes& sizes, int first, int from, int to,
                     float* scores) {
        int dim = sizes.head_dim, count = to - from, width = round_up(count, LANES);
        size_t stride = sizes.projected();
        const float *key = head.key + from, *value = head.value + (size_t)from * dim;
        auto load_keys = [&](int, size_t i) { return load(key + i); };
        auto load_values = [&](int, size_t i) { return load(value + i); };
        float totals[R], scale = sizes.scale;
        score<R>(head.query + first * stride, stride, dim, load_keys, head.width, scores, width);
        if (head.added) scale = add<R>(head.added - first + from, scale, width, scores);
        exponentials<R>(scores, count, width, scale, totals);
        attend_values<R>(scores, width, totals, count, dim, dim, load_values,
                         head.out + (size_t)first * sizes.width(), sizes.width());
    }
};

// Clamps numbers to the range of half precision.
inline Floats within_half(Floats v) {
    Floats limit = broadcast(65504.0f);
    return min(max(v, -limit), limit);
}

constexpr int EVERY_HEAD = -1;

// A place for the weights of one query: the weights of one head, or the mean over all heads.
struct HeadWeights {
    float* to = nullptr;  // (length); null if the weights are not recorded
    int head = EVERY_HEAD;

    // Adds the weights of a head, given their exponentials and the sum of these.
    void add(int h, int heads, const float* exponentials, float total, int length) const {
        if (head != EVERY_HEAD && head != h) return;
        float scale = 1.0f / (head == EVERY_HEAD ? total * heads : total);
        for (int j = 0; j < length; j++) to[j] += scale * exponentials[j];
    }
};

// One sentence's cross-attention keys and values in one layer. They are in half precision, because
// reading them takes most of the time of a decode step with many rows.
struct Memory {
    Buffer<uint16_t> keys;    // (H, head_dim, width)
    Buffer<uint16_t> values;  // (H, length, head_dim)
    int length = 0, width = 0;

    // projected is (length, 2 D): key and value concatenated.
    void fill(const float* projected, int tokens, int heads, int head_dim, Buffer<float>& scratch) {
        length = tokens;
        width = round_up(tokens, LANES);
        int d_model = heads * head_dim;
        uint16_t* key = keys.reserve((size_t)d_model * width);
        uint16_t* value = values.reserve((size_t)d_model * length);
        size_t size = (size_t)d_model * width;
        float* transposed = scratch.reserve(size);
        transpose(projected, 2 * d_model, length, d_model, transposed, width);
        for (size_t i = 0; i < size; i += LANES)
            store_half(key + i, within_half(load(transposed + i)));
        for (int h = 0; h < heads; h++)
            for (int j = 0; j < length; j++, value += head_dim)
                for (int d = 0; d < head_dim; d += LANES) {
                    const float* from = projected + (size_t)j * 2 * d_model + d_model + h * head_dim;
                    store_half(value + d, within_half(load(from + d)));
                }
    }

    // Computes the attention outputs (D) of one row's queries (D), for all heads, and adds the
    // weights to their place, if there is one.
    //   scores: memory for (HEADS, width) numbers
    void attend(const float* query, int heads, int head_dim, float* scores, float* out,
                HeadWeights weights) const {
        int h = 0;
        for (; h + HEADS <= heads; h += HEADS)
            attend_heads<HEADS>(query, h, heads, head_dim, scores, out, weights);
        for (; h < heads; h++) attend_heads<1>(query, h, heads, head_dim, scores, out, weights);
    }

private:
    // Computes R heads from head `first` on. The sums of several heads do not wait for each other,
    // as the sums of one head do.
    template <int R>
    void attend_heads(const float* query, int first, int heads, int head_dim, float* scores,
                      float* out, HeadWeights weights) const {
        size_t key_size = (size_t)head_dim * width, value_size = (size_t)head_dim * length;
        const uint16_t* key = keys.get() + first * key_size;
        const uint16_t* value = values.get() + first * value_size;
        auto load_keys = [=](int r, size_t i) { return load_half(key + r * key_size + i); };
        auto load_values = [=](int r, size_t i) { return load_half(value + r * value_size + i); };
        float totals[R], scale = usual_scale(head_dim);
        score<R>(query + first * head_dim, head_dim, head_dim, load_keys, width, scores, width);
        exponentials<R>(scores, length, width, scale, totals);
        if (weights.to)
            for (int r = 0; r < R; r++)
                weights.add(first + r, heads, scores + (size_t)r * width, totals[r], length);
        attend_values<R>(scores, width, totals, length, head_dim, head_dim, load_values,
                         out + first * head_dim, head_dim);
    }
};

}  // namespace regard
