// The functions that Python calls to translate; guarded.h explains the return values.
#include "batch.h"

#include "beams.h"
#include "guarded.h"
#include "text_encoder.h"

using regard::Batch;
using regard::guarded;
using regard::Model;

extern "C" {
#pragma GCC visibility push(default)

uint32_t regard_sources() { return REGARD_SOURCES; }

// Writes the sizes of all structures in bytes; returns their number.
int regard_structures(int32_t* bytes) {
    const size_t all[] = {sizeof(regard::MatrixSpec), sizeof(regard::WeightList),
                          sizeof(regard::Sizes),      sizeof(regard::Weights),
                          sizeof(regard::Shortlist),  sizeof(regard::TextSizes),
                          sizeof(regard::TextWeights),   sizeof(regard::Searches)};
    return std::copy(std::begin(all), std::end(all), bytes) - bytes;
}

int regard_is_supported() { return regard::is_supported() && regard::may_use_tiles(); }

int regard_model_new(const regard::Sizes* sizes, const regard::Weights* weights,
                     const regard::Shortlist* shortlist, Model** model) {
    return guarded([&] { *model = new Model(*sizes, *weights, *shortlist); });
}

int64_t regard_model_bytes(const Model* model) { return model->bytes(); }

void regard_model_delete(Model* model) { delete model; }

int regard_batch_new(const Model* model, int max_rows, Batch** batch) {
    return guarded([&] { *batch = new Batch(*model, max_rows); });
}

void regard_batch_delete(Batch* batch) { delete batch; }

int regard_batch_enter(Batch* batch, int row, int count, const int32_t* lengths,
                       const int32_t* tokens, const int32_t* copies, const int32_t* records,
                       const int32_t* first_ids) {
    return guarded([&] { batch->enter(row, count, lengths, tokens, copies, records, first_ids); });
}

int regard_batch_decode(Batch* batch, int rows, int steps, const int32_t* left, int32_t* tokens,
                        int32_t* best) {
    return guarded([&] { batch->decode(rows, steps, left, tokens, best); });
}

int regard_batch_search(Batch* batch, const regard::Searches* searches) {
    return guarded([&] { regard::BeamRun(*batch, *searches).run(); });
}

int regard_batch_logits(Batch* batch, int count, const int32_t* scored, float* logits,
                        int64_t stride) {
    return guarded([&] { batch->logits(count, scored, logits, stride); });
}

int regard_batch_hidden(const Batch* batch, int count, const int32_t* rows, float* to) {
    return guarded([&] { batch->read_hidden(count, rows, to); });
}

int regard_batch_attention(const Batch* batch, int row, int64_t count, float* to) {
    return guarded([&] { batch->read_attention(row, count, to); });
}

int regard_batch_copy(Batch* batch, int count, const int32_t* from, const int32_t* to) {
    return guarded([&] { batch->copy(count, from, to); });
}

int regard_batch_leave(Batch* batch, int first) {
    return guarded([&] { batch->leave(first); });
}

#pragma GCC visibility pop
}
