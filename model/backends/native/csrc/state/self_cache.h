// The keys and values of target tokens in a decoder with self-attention, in pages.
#pragma once

#include "../kernels/attention.h"

namespace regard {

// Keys and values of PAGE adjacent positions of one row in one layer, in half precision. Rows of a
// beam share the pages that they have in common.
struct Page {
    Buffer<uint16_t> keys;    // (D, PAGE)
    Buffer<uint16_t> values;  // (PAGE, D)
    int users = 0;            // rows that hold the page
};

constexpr int PAGE = LANES;

// The pages of all rows. A page is taken when a row's position needs it, so a long row costs the
// other rows no memory.
class SelfCache {
public:
    SelfCache(int layers, int rows, int heads, int head_dim)
        : heads(heads), head_dim(head_dim), d_model(heads * head_dim), layers(layers),
          tables((size_t)layers * rows) {}

    // Writes the key and the value (D) of one position of a row. Positions are written in order.
    void append(int layer, int row, int position, const float* key, const float* value) {
        std::vector<Page*>& pages = table(layer, row);
        if (position % PAGE == 0) pages.push_back(take());
        if (pages.back()->users > 1) pages.back() = own(pages.back());
        Page& page = *pages.back();
        int slot = position % PAGE;
        alignas(64) uint16_t halves[LANES];
        uint16_t *keys = page.keys.get() + slot, *values = page.values.get() + (size_t)slot * d_model;
        for (int i = 0; i < d_model; i += LANES) {
            store_half(halves, within_half(load(key + i)));
            for (int j = 0; j < LANES; j++) keys[(size_t)(i + j) * PAGE] = halves[j];
            store_half(values + i, within_half(load(value + i)));
        }
    }

    // Computes the attention output (D) of a row's query (D) over `length` positions, for all heads.
    void attend(int layer, int row, int length, const float* query, Buffer<float>& scratch,
                float* out) const {
        float* scores = scratch.reserve((size_t)HEADS * round_up(length, PAGE));
        int h = 0;
        for (; h + HEADS <= heads; h += HEADS)
            attend_heads<HEADS>(table(layer, row), h, length, query, scores, out);
        for (; h < heads; h++) attend_heads<1>(table(layer, row), h, length, query, scores, out);
    }

    // Gives row to[i] the pages of row from[i] before the call.
    void copy(int count, const int32_t* from, const int32_t* to) {
        std::vector<std::vector<Page*>> copies(count);
        for (int layer = 0; layer < layers; layer++) {
            for (int i = 0; i < count; i++) {
                copies[i] = table(layer, from[i]);
                for (Page* page : copies[i]) page->users++;
            }
            for (int i = 0; i < count; i++) {
                release(table(layer, to[i]));
                table(layer, to[i]).swap(copies[i]);
            }
        }
    }

    // Frees the pages of a row.
    void drop(int row) {
        for (int layer = 0; layer < layers; layer++) release(table(layer, row));
    }

private:
    const int heads, head_dim, d_model, layers;
    std::vector<std::vector<Page*>> tables;  // the pages of each row in each layer
    std::vector<std::unique_ptr<Page>> pages;
    std::vector<Page*> unused;

    std::vector<Page*>& table(int layer, int row) {
        return tables[(size_t)layer * (tables.size() / layers) + row];
    }
    const std::vector<Page*>& table(int layer, int row) const {
        return tables[(size_t)layer * (tables.size() / layers) + row];
    }

    Page* take() {
        if (unused.empty()) {
            pages.push_back(std::make_unique<Page>());
            Page& page = *pages.back();
            size_t size = (size_t)PAGE * d_model;
            std::fill_n(page.keys.reserve(size), size, 0);
            std::fill_n(page.values.reserve(size), size, 0);
            unused.push_back(&page);
        }
        Page* page = unused.back();
        unused.pop_back();
        page->users = 1;
        return page;
    }

    // Returns a copy of a page for one row, which no longer holds the shared page.
    Page* own(Page* shared) {
        Page* page = take();
        size_t bytes = (size_t)PAGE * d_model * sizeof(uint16_t);
        std::memcpy(page->keys.get(), shared->keys.get(), bytes);
        std::memcpy(page->values.get(), shared->values.get(), bytes);
        shared->users--;
        return page;
    }

    void release(std::vector<Page*>& pages) {
        for (Page* page : pages)
            if (--page->users == 0) unused.push_back(page);
        pages.clear();
    }

    // Computes R heads from head `first` on.
    template <int R>
    void attend_heads(const std::vector<Page*>& pages, int first, int length, const float* query,
                      float* scores, float* out) const {
        int width = round_up(length, PAGE);
        float totals[R], scale = usual_scale(head_dim);
        for (int p = 0; p * PAGE < length; p++)
            for (int r = 0; r < R; r++) {
                size_t at = (size_t)(first + r) * head_dim;
                store(scores + r * width + p * PAGE,
                      score(query + at, pages[p]->keys.get() + at * PAGE));
            }
        exponentials<R>(scores, length, width, scale, totals);
        for (int r = 0; r < R; r++, scores += width) {
            int d = (first + r) * head_dim, end = d + head_dim;
            for (; d + VECTORS * LANES <= end; d += VECTORS * LANES)
                mean<VECTORS>(pages, length, scores, totals[r], d, out);
            for (; d < end; d += LANES) mean<1>(pages, length, scores, totals[r], d, out);
        }
    }

    // Returns the scores of one head's query against the keys (head_dim, PAGE) of a page. Four sums
    // are independent of each other, so that a sum need not wait for the one before.
    Floats score(const float* query, const uint16_t* keys) const {
        Floats sums[4] = {};
        for (int d = 0; d < head_dim; d += 4)
            for (int i = 0; i < 4; i++)
                sums[i] = fma(broadcast(query[d + i]), load_half(keys + (d + i) * PAGE), sums[i]);
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    // Computes V vectors of the weighted mean of the values, from number `first` of D on.
    template <int V>
    void mean(const std::vector<Page*>& pages, int length, const float* weights, float total,
              int first, float* out) const {
        Floats sums[V] = {};
        for (int j = 0; j < length; j++) {
            const uint16_t* values = pages[j / PAGE]->values.get() + (size_t)(j % PAGE) * d_model;
            Floats weight = broadcast(weights[j]);
            for (int v = 0; v < V; v++)
                sums[v] = fma(weight, load_half(values + first + v * LANES), sums[v]);
        }
        for (int v = 0; v < V; v++) store(out + first + v * LANES, sums[v] * broadcast(1.0f / total));
    }
};

}  // namespace regard
