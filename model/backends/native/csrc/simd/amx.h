// Int8 products with AMX: tiles of 16 rows of 64 bytes. vectors.h includes this file.
//
// Sums are exact, so the products have the same bits as those of the vectors. Source of the
// instructions: Intel, "Architecture Instruction Set Extensions Programming Reference", chapter 3.
#pragma once

#if defined(__AMX_INT8__) && !defined(__SANITIZE_ADDRESS__)
#define REGARD_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace regard {

constexpr bool HAS_TILES = true;
constexpr int TILE_HEIGHT = 16;  // largest number of rows of a tile
constexpr int TILE_BYTES = 64;   // bytes of a row of a tile
// Fewer rows are faster with vectors: a tile of few rows takes as long as its weights take to load.
constexpr int MIN_ROWS_OF_TILES = 4;

// Tiles 0 to 3 are sums (rows, 16), 4 is activations (rows, 64), and 5 and 6 are weights (16, 64):
// each row has four adjacent inputs of sixteen outputs. Tile 7 has one row (see multiply_block).
struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {};

    explicit TileConfig(int height) {
        for (int tile = 0; tile < 5; tile++) rows[tile] = height;
        rows[5] = rows[6] = TILE_HEIGHT;
        rows[7] = 1;
    }
};

#ifdef REGARD_AMX

// These are inline assembly, because the intrinsics of GCC 12 take no template argument.
inline void set_tiles(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
inline void release_tiles() { asm volatile("tilerelease"); }

template <int TO>
inline void load_tile(const void* from, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(TO) : "memory");
}
template <int FROM>
inline void store_tile(int32_t* to, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(FROM) : "memory");
}
template <int TILE>
inline void clear_tile() {
    asm volatile("tilezero %%tmm%c0" ::"i"(TILE));
}
template <int SUMS, int X, int W>
inline void multiply_tiles() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUMS), "i"(X), "i"(W));
}

// Returns whether the system lets this process use tiles. A process asks once; its threads and
// its children have the permission too.
inline bool may_use_tiles() {
    constexpr int ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18;
    return __builtin_cpu_supports("amx-int8") && __builtin_cpu_supports("amx-tile") &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

#else

// What the instructions do, in plain C++: for tests on other processors, and for AddressSanitizer,
// which does not see what the instructions read.
struct Tile {
    int32_t rows[TILE_HEIGHT][TILE_BYTES / 4];
};
inline thread_local Tile tiles[8];
inline thread_local int tile_rows[8];

inline void set_tiles(const TileConfig& config) {
    std::memset(tiles, 0, sizeof tiles);
    for (int tile = 0; tile < 8; tile++) tile_rows[tile] = config.rows[tile];
}
inline void release_tiles() { std::memset(tile_rows, 0, sizeof tile_rows); }

template <int TO>
inline void load_tile(const void* from, size_t stride) {
    for (int r = 0; r < tile_rows[TO]; r++)
        std::memcpy(tiles[TO].rows[r], (const char*)from + r * stride, TILE_BYTES);
}
template <int FROM>
inline void store_tile(int32_t* to, size_t stride) {
    for (int r = 0; r < tile_rows[FROM]; r++)
        std::memcpy((char*)to + r * stride, tiles[FROM].rows[r], TILE_BYTES);
}
template <int TILE>
inline void clear_tile() {
    std::memset(&tiles[TILE], 0, sizeof tiles[TILE]);
}
// Sanitizers look at loads and stores; here they would take three quarters of the time.
template <int SUMS, int X, int W>
__attribute__((no_sanitize("address,undefined"))) inline void multiply_tiles() {
    for (int r = 0; r < tile_rows[SUMS]; r++)
        for (int i = 0; i < TILE_BYTES / 4; i += sizeof(IntRegister) / 4) {
            const uint8_t* x = (const uint8_t*)tiles[X].rows[r];
            IntRegister sums, w;
            std::memcpy(&sums, &tiles[SUMS].rows[r][i], sizeof sums);
            for (int k = 0; k < TILE_BYTES; k += 4) {
                std::memcpy(&w, &tiles[W].rows[k / 4][i], sizeof w);
                for (int j = 0; j < 4; j++) {  // each lane of `w` has four signed bytes
                    int input = SHIFT ? (int)x[k + j] : (int)(int8_t)x[k + j];
                    sums += input * (w << (24 - 8 * j) >> 24);
                }
            }
            std::memcpy(&tiles[SUMS].rows[r][i], &sums, sizeof sums);
        }
}

inline bool may_use_tiles() { return true; }

#endif

// Eight instructions that do nothing.
inline void wait_briefly() { asm volatile(".rept 8\n nop\n .endr"); }

// Returns how many rows each tile of a product has. The rows are divided evenly; the last tile
// begins early enough to be full.
inline int tile_height(int rows) {
    int count = (rows + TILE_HEIGHT - 1) / TILE_HEIGHT;
    return (rows + count - 1) / count;
}

// A block of sums: two tiles of rows and two tiles of outputs.
struct SumBlock {
    static constexpr int WIDTH = 2 * TILE_HEIGHT;  // outputs
    alignas(64) int32_t sums[2 * TILE_HEIGHT * WIDTH];
    int row = 0, end = 0, output;  // the rows that wait to be passed on, and the first output
    const int32_t* next;           // sums of `row`
};

// Multiplies the tiles of a block, and stores the sums in it. Without `IS_PAIR` the block has one
// tile of rows. Calls between() after each instruction.
template <bool IS_PAIR, class Between>
inline REGARD_INLINE void multiply_block(const uint8_t* x0, const uint8_t* x1, size_t depth,
                                         const int8_t* weights, int32_t* upper, int32_t* lower,
                                         Between between) {
    constexpr size_t STRIDE = SumBlock::WIDTH * sizeof(int32_t);
    clear_tile<0>();
    clear_tile<1>();
    if (IS_PAIR) {
        clear_tile<2>();
        clear_tile<3>();
    }
    for (size_t k = 0; k < depth; k += TILE_BYTES, weights += TILE_BYTES * PANEL) {
        load_tile<4>(x0 + k, depth);
        between();
        load_tile<5>(weights, 4 * PANEL);
        between();
        load_tile<6>(weights + TILE_BYTES, 4 * PANEL);
        between();
        multiply_tiles<0, 4, 5>();
        between();
        multiply_tiles<1, 4, 6>();
        between();
        if (IS_PAIR) {
            load_tile<4>(x1 + k, depth);
            between();
            multiply_tiles<2, 4, 5>();
            between();
            multiply_tiles<3, 4, 6>();
            between();
        }
        // After half a microsecond without a store of a tile, the next one waits 0.3 us for a part of
        // the processor that has been switched off meanwhile. So a row is stored in between.
        if (k % (4 * TILE_BYTES) == 0) store_tile<7>(upper, STRIDE);
    }
    store_tile<0>(upper, STRIDE);
    store_tile<1>(upper + TILE_HEIGHT, STRIDE);
    if (IS_PAIR) {
        store_tile<2>(lower, STRIDE);
        store_tile<3>(lower + TILE_HEIGHT, STRIDE);
    }
}

// Does what multiply_panels does. After each instruction for tiles, a row of the block before is
// passed on and a part of the next panel is fetched into the cache. In between, other instructions
// cost nothing, and at times they save a third (docs/decisions.md, "Native code").
template <class Value, class Finish>
inline void multiply_in_tiles(const uint8_t* x, int rows, size_t depth,
                              const int8_t* const* panels, const int32_t* start, int first,
                              int end, Value value, Finish finish) {
    constexpr int WIDTH = SumBlock::WIDTH;
    SumBlock blocks[2], *block = blocks, *before = blocks + 1;
    int height = tile_height(rows), pairs = (rows + 2 * height - 1) / (2 * height);
    int fetched = std::max(1, 4 / pairs);  // cache lines after each instruction
    before->output = first;
    // Passes the block `before` on while `multiply` computes the sums of `block`.
    auto pass_on = [&](auto multiply) REGARD_INLINE {
        int output = before->output;
        auto left = value(output), right = value(output + TILE_HEIGHT);
        Ints left_start = load(start + output - first);
        Ints right_start = load(start + output - first + TILE_HEIGHT);
        int row = before->row, last = before->end;
        const int32_t* sums = before->next;
        auto pass_row = [&]() REGARD_INLINE {
            finish(row, output, left(row, load(sums) + left_start));
            finish(row, output + TILE_HEIGHT, right(row, load(sums + TILE_HEIGHT) + right_start));
            row++, sums += WIDTH;
        };
        multiply([&]() REGARD_INLINE { if (row < last) pass_row(); else wait_briefly(); });
        while (row < last) pass_row();
        std::swap(block, before);
    };
    set_tiles(TileConfig(height));
    for (int n = first; n < end; n += PANEL, panels++) {
        const int8_t* ahead = *panels + PANEL * depth;
        for (int r = 0; r < rows; r += 2 * height)
            for (int j = 0; j < PANEL; j += WIDTH) {
                // The last tiles begin early enough to be full.
                int upper = std::min(r, rows - height), lower = std::min(r + height, rows - height);
                const uint8_t *x0 = x + upper * depth, *x1 = x + lower * depth;
                const int8_t* weights = *panels + 4 * j;
                int32_t *sums = block->sums, *below = sums + (lower - upper) * WIDTH;
                block->row = r, block->end = std::min(rows, r + 2 * height), block->output = n + j;
                block->next = sums + (r - upper) * WIDTH;
                pass_on([&](auto pass) REGARD_INLINE {
                    auto between = [&]() REGARD_INLINE {
                        pass();
                        for (int i = 0; i < fetched; i++, ahead += CACHE_LINE)
                            __builtin_prefetch(ahead, 0, 2);
                    };
                    if (r + height < rows)
                        multiply_block<true>(x0, x1, depth, weights, sums, below, between);
                    else
                        multiply_block<false>(x0, x1, depth, weights, sums, below, between);
                });
            }
    }
    pass_on([](auto) {});
    release_tiles();
}

}  // namespace regard
