// The encoded source sentences of a batch.
#pragma once

#include <deque>

#include "../kernels/attention.h"
#include "../kernels/output.h"

namespace regard {

// A source sentence in the batch; all rows of its beam share it.
struct Sentence {
    int rows = 0;
    std::vector<int32_t> tokens;
    std::vector<Memory> memory;  // keys and values of cross-attention, one for each layer
    Candidates candidates;
};

// The sentences of a batch. The objects of finished sentences are used again for new sentences, the
// oldest first. Until then, the encodings of at least KEPT finished sentences stay in memory.
class Sentences {
public:
    explicit Sentences(int layers) : layers(layers) {}

    // Returns an object for a sentence that is not encoded yet.
    Sentence* take(const int32_t* tokens, int length) {
        Sentence* sentence;
        if (finished.size() <= KEPT) {
            all.push_back(std::make_unique<Sentence>());
            sentence = all.back().get();
            sentence->memory.resize(layers);
        } else {
            sentence = finished.front();
            finished.pop_front();
        }
        sentence->tokens.assign(tokens, tokens + length);
        return sentence;
    }

    // Returns a finished sentence that has these tokens and is still encoded; null if there is none.
    // A sentence whose translation a guard rejects is decoded again soon after its end.
    Sentence* take_encoded(const int32_t* tokens, int length) {
        for (auto place = finished.begin(); place != finished.end(); ++place) {
            Sentence* sentence = *place;
            if (!std::equal(sentence->tokens.begin(), sentence->tokens.end(), tokens,
                            tokens + length))
                continue;
            finished.erase(place);
            return sentence;
        }
        return nullptr;
    }

    // Removes a row from its sentence. A sentence without rows is finished.
    void drop(Sentence* sentence) {
        if (--sentence->rows == 0) finished.push_back(sentence);
    }

private:
    static constexpr size_t KEPT = 16;

    int layers;
    std::vector<std::unique_ptr<Sentence>> all;
    std::deque<Sentence*> finished;  // in the order of their ends
};

}  // namespace regard
