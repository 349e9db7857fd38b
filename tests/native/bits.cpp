// Runs random models and prints a hash of every result, one line for each model and stage.
//
// tests/unit/test_instruction_sets.py compiles this file for several instruction sets. All of them
// must print the same lines.
#include <cinttypes>
#include <cstdio>
#include <deque>

#include "beams.h"
#include "text_encoder.h"

using namespace regard;

// Numbers of a xorshift generator, which are the same on every processor.
// Source: Marsaglia 2003, "Xorshift RNGs".
struct Random {
    uint64_t state = 88172645463325252ull;

    uint32_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state >> 32;
    }
    int below(int end) { return next() % end; }
    float symmetric() { return (float)((int)(next() >> 8) - (1 << 23)) / (float)(1 << 23); }
};

// Makes random weights, and owns their memory.
struct Weighing {
    Random& random;
    std::deque<std::vector<int8_t>> bytes;
    std::deque<std::vector<float>> floats;

    const float* numbers(size_t count, float centre, float reach) {
        floats.emplace_back(count);
        for (float& x : floats.back()) x = centre + reach * random.symmetric();
        return floats.back().data();
    }
    // A third of the matrices have one scale for all outputs.
    MatrixSpec matrix(int out, int in, bool is_packed = true) {
        bytes.emplace_back((size_t)round_up(out, PANEL) * in);
        for (int8_t& x : bytes.back()) x = random.below(255) - 127;
        float scale = 1.0f / (73.0f * std::sqrt((float)in));
        const float* scales = numbers(out, scale, random.below(3) ? scale / 2 : 0.0f);
        return {bytes.back().data(), scales, numbers(out, 0.0f, 0.1f), out, in, is_packed};
    }
};

// The weights of layers in the order of their use.
struct Layers {
    Weighing& make;
    int width;
    std::vector<MatrixSpec> matrices;
    std::vector<const float*> norms;

    void add(int out, int in) { matrices.push_back(make.matrix(out, in)); }
    void add_norm(bool is_rms = false) {
        norms.push_back(make.numbers(width, 1.0f, 0.3f));
        norms.push_back(is_rms ? nullptr : make.numbers(width, 0.0f, 0.3f));
    }
    void add_attention(int projections = 4) {
        for (int i = 0; i < projections; i++) add(width, width);
        add_norm();
    }
    void add_feed_forward(int ffn, bool is_gated = false) {
        for (int i = 0; i < 1 + is_gated; i++) add(ffn, width);
        add(width, ffn);
        add_norm();
    }
    WeightList list() const {
        return {matrices.data(), norms.data(), (int32_t)matrices.size(), (int32_t)norms.size()};
    }
};

// Prints the FNV-1a hash of some values.
template <class T>
void print_hash(const char* name, const T* values, size_t count) {
    uint64_t hash = 14695981039346656037ull;
    for (size_t i = 0; i < count * sizeof(T); i++)
        hash = (hash ^ ((const unsigned char*)values)[i]) * 1099511628211ull;
    std::printf("  %s %016" PRIx64 "\n", name, hash);
}

std::vector<int32_t> random_ids(Random& random, int count, int end) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = random.below(end);
    return ids;
}

void translate(Random& random, DecoderKind decoder, bool is_pre_norm, bool has_shortlist, int width,
               Activation activation) {
    constexpr int VOCAB = 300, POSITIONS = 64, LAYERS = 2, HEADS = 4, FREQUENT = 20, STEPS = 9;
    Sizes sizes = {width, HEADS, 2 * width, LAYERS, LAYERS, VOCAB, VOCAB, decoder, activation,
                   is_pre_norm, is_pre_norm && random.below(2), POSITIONS, 0, LAYERS - 1,
                   EVERY_HEAD, std::sqrt((float)width), 1e-5f};
    Weighing make{random, {}, {}};
    Layers layers{make, width, {}, {}};
    for (int i = 0; i < LAYERS; i++) {
        layers.add_attention();
        layers.add_feed_forward(sizes.ffn);
    }
    if (is_pre_norm) layers.add_norm();
    for (int i = 0; i < LAYERS; i++) {
        layers.add_attention(decoder == DecoderKind::SSRU ? 2 : 4);
        layers.add_attention();
        layers.add_feed_forward(sizes.ffn);
    }
    if (is_pre_norm) layers.add_norm();
    Weights weights = {layers.list(), make.matrix(VOCAB, width), make.matrix(VOCAB, width, false),
                       make.matrix(VOCAB, width, !has_shortlist),
                       make.numbers((size_t)POSITIONS * width, 0.0f, 1.0f)};
    std::vector<int64_t> offsets;
    for (int i = 0; i <= VOCAB; i++) offsets.push_back(3 * i);
    std::vector<int32_t> candidates = random_ids(random, 3 * VOCAB, VOCAB);
    Shortlist shortlist = {};
    if (has_shortlist) shortlist = {offsets.data(), candidates.data(), FREQUENT, 1};
    Model model(sizes, weights, shortlist);

    std::vector<int32_t> lengths = {1, 2, 7, 16, 17, 33, 40}, copies = {1, 2, 1, 1, 3, 1, 1};
    std::vector<int32_t> records = {0, 1, 1, 0, 0, 1, 0}, firsts = {-1, -1, 5, -1, -1, 0, -1};
    constexpr int ROWS = 10;
    std::vector<int32_t> tokens = random_ids(random, 116, VOCAB), last(ROWS, NO_TOKEN);
    std::vector<int32_t> left(ROWS, 40), best(ROWS * STEPS), rows(ROWS);
    for (int i = 0; i < ROWS; i++) rows[i] = i;
    Batch batch(model, ROWS);
    batch.enter(0, lengths.size(), lengths.data(), tokens.data(), copies.data(), records.data(),
                firsts.data());
    std::vector<float> logits(ROWS * VOCAB, 0.0f), attention(33);
    batch.decode(ROWS, 1, left.data(), last.data(), best.data());
    batch.logits(ROWS, rows.data(), logits.data(), VOCAB);
    print_hash("logits", logits.data(), logits.size());
    batch.read_attention(8, attention.size(), attention.data());
    print_hash("attention", attention.data(), attention.size());
    int32_t from[] = {2, 1}, to[] = {1, 2};
    batch.copy(2, from, to);
    batch.decode(ROWS, STEPS, left.data(), last.data(), best.data());
    print_hash("tokens", best.data(), best.size());
    std::fill(last.begin(), last.end(), 7);
    for (int i = 0; i < 24; i++) batch.decode(ROWS, 1, left.data(), last.data(), best.data());
    batch.logits(ROWS, rows.data(), logits.data(), VOCAB);
    print_hash("later logits", logits.data(), logits.size());
    int32_t beams[] = {2, 3, 1}, searching[] = {2, 1, 5, 7, 6, 8};
    std::vector<double> totals = {0, NEVER, 0, NEVER, NEVER, 0}, best_totals(STEPS * 12);
    std::vector<int32_t> parents(STEPS * 12), ids(STEPS * 12);
    Searches searches = {3, beams, searching, STEPS, last.data(), totals.data(),
                         best_totals.data(), parents.data(), ids.data()};
    BeamRun(batch, searches).run();
    print_hash("searches", parents.data(), parents.size());
    print_hash("ids of searches", ids.data(), ids.size());
    // The logarithms of C libraries may differ in the last bits.
    std::vector<float> rounded(best_totals.begin(), best_totals.end());
    print_hash("totals of searches", rounded.data(), rounded.size());
}

// Encodes some texts, and prints the hash of their hidden states.
void print_states(Random& random, const TextSizes& sizes, const TextWeights& weights) {
    TextModel model(sizes, weights);
    std::vector<int32_t> lengths = {1, 0, 3, 16, 31, 65, 128};
    std::vector<int32_t> tokens = random_ids(random, 244, sizes.vocab);
    TextBatch batch(model);
    batch.enter(lengths.size(), lengths.data(), tokens.data());
    for (int layer = 0; layer < sizes.layers; layer++) {
        batch.project(layer, 0, 244);
        batch.attend(layer, 0, 244);
        batch.feed_forward(layer, 0, 244);
    }
    std::vector<float> states((size_t)244 * sizes.d_model);
    batch.read(244, states.data());
    print_hash("states", states.data(), states.size());
}

// `is_modern` has the layers of ModernBERT; else the model is like BERT or MPNet.
void encode(Random& random, int width, int heads, Activation activation, bool is_relative,
            bool is_modern = false) {
    constexpr int VOCAB = 200, POSITIONS = 130, LAYERS = 2;
    TextSizes sizes = {width, heads, heads, width / heads, 2 * width, LAYERS, VOCAB, POSITIONS, 2,
                       is_relative ? 128 : 0, is_modern, is_modern, 0, 0, is_modern, activation,
                       1e-12f, 1.0f, 0.0f};
    Weighing make{random, {}, {}};
    Layers layers{make, width, {}, {}};
    layers.add_norm();
    for (int i = 0; i < LAYERS; i++) {
        layers.add_attention();
        layers.add_feed_forward(sizes.ffn, is_modern);
    }
    if (is_modern) layers.add_norm();
    const float* relative = make.numbers((size_t)heads * DistanceBias::stride(128), 0.0f, 1.0f);
    const float* turns = make.numbers((size_t)128 * (width / heads), 0.0f, 1.0f);
    std::vector<const float*> biases(LAYERS, is_relative ? relative : nullptr);
    std::vector<const float*> rotations(LAYERS, is_modern ? turns : nullptr);
    TextWeights weights = {layers.list(), make.numbers((size_t)VOCAB * width, 0.0f, 1.0f),
                           is_modern ? nullptr
                                     : make.numbers((size_t)POSITIONS * width, 0.0f, 1.0f),
                           is_relative ? nullptr : make.numbers(width, 0.0f, 1.0f),
                           biases.data(), rotations.data()};
    print_states(random, sizes, weights);
}

// The layers of Gemma 3: RMS norms everywhere, and fewer heads of keys and values than of queries.
// `window` has every second layer attend to near tokens, or if it is 0, all layers to earlier ones.
void encode_with_shared_keys(Random& random, int window) {
    constexpr int WIDTH = 128, DIM = 64, HEADS = 6, SHARED = 2, VOCAB = 200, LENGTH = 130;
    TextSizes sizes = {WIDTH, HEADS, SHARED, DIM, 192, 2, VOCAB, LENGTH, 2, 128, 1, 1, 1, 1, 1,
                       Activation::GELU_TANH, 1e-6f, 11.3f, 0.07f};
    Weighing make{random, {}, {}};
    Layers layers{make, WIDTH, {}, {}};
    layers.norms = {nullptr, nullptr};
    for (int i = 0; i < 2; i++) {
        for (int out : {HEADS * DIM, SHARED * DIM, SHARED * DIM}) layers.add(out, WIDTH);
        layers.add(WIDTH, HEADS * DIM);
        for (int j = 0; j < 4; j++) layers.add_norm(true);
        layers.add_feed_forward(192, true);
        layers.norms.back() = nullptr;
        layers.add_norm(true);
    }
    layers.add_norm(true);
    std::vector<float> bias(DistanceBias::stride(128), 0.0f);
    for (int i = 0; i < 255; i++)
        if (window ? std::abs(i - 127) > window : i > 127) bias[i] = NEVER;
    std::vector<const float*> biases = {bias.data(), window ? nullptr : bias.data()};
    std::vector<const float*> rotations(2, make.numbers(128 * DIM, 0.0f, 1.0f));
    TextWeights weights = {layers.list(), make.numbers(VOCAB * WIDTH, 0.0f, 1.0f), nullptr, nullptr,
                           biases.data(), rotations.data()};
    print_states(random, sizes, weights);
}

// Multiplies 1 to 64 rows, with coarse and fine inputs, and finds the largest output of each row.
void multiply(Random& random, int in, int out) {
    Weighing make{random, {}, {}};
    Linear linear;
    linear.append(make.matrix(out, in));
    FullOutput output(make.matrix(out, in), nullptr);
    std::vector<float> found;
    std::vector<int32_t> chosen;
    for (int rows = 1; rows <= 64; rows++) {
        const float* x = make.numbers((size_t)rows * in, 0.5f, 2.0f);
        size_t size = (size_t)rows * linear.out;
        std::vector<float> y(2 * size);
        AsymmetricQuantized asymmetric;
        asymmetric.fill(x, rows, in, true);
        linear.multiply(asymmetric, rows, y.data(), linear.out, Activation::GELU);
        linear.add_fine(asymmetric, rows, y.data() + PANEL, linear.out, PANEL, linear.out);
        Quantized symmetric;
        symmetric.fill(x, rows, in);
        linear.multiply(symmetric, rows, y.data() + size, linear.out);
        std::vector<Search> searches;
        chosen.resize(chosen.size() + rows);
        output.argmax(symmetric, rows, searches, &chosen[chosen.size() - rows]);
        found.insert(found.end(), y.begin(), y.end());
    }
    print_hash("products", found.data(), found.size());
    print_hash("largest", chosen.data(), chosen.size());
}

int main() {
    if (!(is_supported() && may_use_tiles())) {
        std::printf("this processor does not support the instruction set\n");
        return 1;
    }
    Random random;
    const Activation activations[] = {Activation::NONE, Activation::RELU, Activation::SWISH,
                                      Activation::GELU, Activation::GELU_TANH,
                                      Activation::GELU_SIGMOID};
    for (int in : {64, 192, 512}) {
        int out = in == 192 ? 128 : 200;
        std::printf("products: %d to %d\n", in, out);
        multiply(random, in, out);
    }
    int number = 0;
    for (DecoderKind decoder : {DecoderKind::SSRU, DecoderKind::SELF_ATTENTION})
        for (bool is_pre_norm : {false, true})
            for (bool has_shortlist : {false, true})
                for (int width : {64, 192}) {
                    Activation activation = activations[number++ % 6];
                    std::printf("translation: decoder %d, pre-norm %d, shortlist %d, width %d, "
                                "activation %d\n", (int)decoder, is_pre_norm, has_shortlist, width,
                                (int)activation);
                    translate(random, decoder, is_pre_norm, has_shortlist, width, activation);
                }
    for (bool is_relative : {false, true})
        for (int width : {64, 192}) {
            Activation activation = activations[3 + number++ % 3];
            std::printf("texts: relative %d, width %d, activation %d\n", is_relative, width,
                        (int)activation);
            encode(random, width, 4, activation, is_relative);
        }
    for (bool has_bias : {false, true}) {
        std::printf("texts: rotated, gated, pre-norm, bias %d\n", has_bias);
        encode(random, 192, 3, Activation::GELU, has_bias, true);
    }
    for (int window : {0, 9}) {
        std::printf("texts: shared keys, RMS norms, window %d\n", window);
        encode_with_shared_keys(random, window);
    }
}
