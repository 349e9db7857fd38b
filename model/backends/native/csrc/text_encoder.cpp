// The functions that Python calls to encode texts; guarded.h explains the return values.
#include "text_encoder.h"

#include "guarded.h"

using regard::guarded;
using regard::TextBatch;
using regard::TextModel;

extern "C" {
#pragma GCC visibility push(default)

int regard_text_model_new(const regard::TextSizes* sizes, const regard::TextWeights* weights,
                          TextModel** model) {
    return guarded([&] { *model = new TextModel(*sizes, *weights); });
}

int64_t regard_text_model_bytes(const TextModel* model) { return model->bytes(); }

void regard_text_model_delete(TextModel* model) { delete model; }

int regard_text_batch_new(const TextModel* model, TextBatch** batch) {
    return guarded([&] { *batch = new TextBatch(*model); });
}

void regard_text_batch_delete(TextBatch* batch) { delete batch; }

int regard_text_batch_enter(TextBatch* batch, int count, const int32_t* lengths,
                            const int32_t* tokens) {
    return guarded([&] { batch->enter(count, lengths, tokens); });
}

int regard_text_batch_project(TextBatch* batch, int layer, int first, int count) {
    return guarded([&] { batch->project(layer, first, count); });
}

int regard_text_batch_attend(TextBatch* batch, int layer, int first, int count) {
    return guarded([&] { batch->attend(layer, first, count); });
}

int regard_text_batch_feed_forward(TextBatch* batch, int layer, int first, int count) {
    return guarded([&] { batch->feed_forward(layer, first, count); });
}

int regard_text_batch_read(const TextBatch* batch, int tokens, float* to) {
    return guarded([&] { batch->read(tokens, to); });
}

#pragma GCC visibility pop
}
