// The encoded source sentences of a batch.
#pragma once

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

// The sentences of a batch. The objects of finished sentences are used again for new sentences.
class Sentences {
public:
    explicit Sentences(int layers) : layers(layers) {}

    // Returns an object for a sentence that is not encoded yet.
    Sentence* take(const int32_t* tokens, int length) {
        if (unused.empty()) {
            all.push_back(std::make_unique<Sentence>());
            all.back()->memory.resize(layers);
            unused.push_back(all.back().get());
        }
        Sentence* sentence = unused.back();
        unused.pop_back();
        sentence->tokens.assign(tokens, tokens + length);
        return sentence;
    }

    // Returns a finished sentence that has these tokens and is still encoded; null if there is none.
    // A sentence whose translation a guard rejects is decoded again soon after its end.
    Sentence* take_encoded(const int32_t* tokens, int length) {
        for (auto place = unused.rbegin(); place != unused.rend(); ++place) {
            Sentence* sentence = *place;
            if (!std::equal(sentence->tokens.begin(), sentence->tokens.end(), tokens,
                            tokens + length))
                continue;
            unused.erase(std::next(place).base());
            return sentence;
        }
        return nullptr;
    }

    // Removes a row from its sentence. A sentence without rows is finished.
    void drop(Sentence* sentence) {
        if (--sentence->rows == 0) unused.push_back(sentence);
    }

private:
    int layers;
    std::vector<std::unique_ptr<Sentence>> all;
    std::vector<Sentence*> unused;
};

}  // namespace regard
