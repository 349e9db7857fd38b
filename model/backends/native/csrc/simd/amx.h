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

// Tiles 0 to 3 are sums (rows, 16), 4 and 5 are activations (rows, 64), and 6 and 7 are weights
// (16, 64): each row has four adjacent inputs of sixteen outputs.
struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {};

    explicit TileConfig(int height) {
        for (int tile = 0; tile < 8; tile++) rows[tile] = tile < 6 ? height : TILE_HEIGHT;
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

// Returns how many rows each tile of a product has. The rows are divided evenly; the last tile
// begins early enough to be full.
inline int tile_height(int rows) {
    int count = (rows + TILE_HEIGHT - 1) / TILE_HEIGHT;
    return (rows + count - 1) / count;
}

// Passes the sums of a block on, four rows and 32 outputs at a time: no vector waits for another, and
// no load for the store before it.
template <class Value, class Finish>
inline void finish_block(const int32_t* sums, int row, int end, int output, Value value,
                         Finish finish) {
    constexpr int ROWS = 4, WIDTH = 2 * TILE_HEIGHT;
    auto left = value(output), right = value(output + TILE_HEIGHT);
    for (; row + ROWS <= end; row += ROWS, sums += ROWS * WIDTH) {
        Floats values[ROWS][2];
        for (int i = 0; i < ROWS; i++) {
            values[i][0] = left(row + i, load(sums + i * WIDTH));
            values[i][1] = right(row + i, load(sums + i * WIDTH + TILE_HEIGHT));
        }
        for (int i = 0; i < ROWS; i++) {
            finish(row + i, output, values[i][0]);
            finish(row + i, output + TILE_HEIGHT, values[i][1]);
        }
    }
    for (; row < end; row++, sums += WIDTH) {
        finish(row, output, left(row, load(sums)));
        finish(row, output + TILE_HEIGHT, right(row, load(sums + TILE_HEIGHT)));
    }
}

// Does what multiply_panels does. A block of sums has two tiles of rows and two tiles of outputs.
// Meanwhile the next panel is fetched into the cache.
template <class Value, class Finish>
inline void multiply_in_tiles(const uint8_t* x, int rows, size_t depth,
                              const int8_t* const* panels, const int32_t* start, int first,
                              int end, Value value, Finish finish) {
    constexpr int WIDTH = 2 * TILE_HEIGHT;
    constexpr size_t STRIDE = WIDTH * sizeof(int32_t);
    alignas(64) int32_t sums[2 * TILE_HEIGHT * WIDTH];
    int height = tile_height(rows), pairs = (rows + 2 * height - 1) / (2 * height);
    int fetched = WIDTH / pairs;  // cache lines in each step
    set_tiles(TileConfig(height));
    for (int n = first; n < end; n += PANEL, start += PANEL, panels++) {
        const int8_t* next = *panels + PANEL * depth;
        for (int r = 0; r < rows; r += 2 * height)
            for (int j = 0; j < PANEL; j += WIDTH) {
                bool is_pair = r + height < rows;
                int upper = std::min(r, rows - height), lower = std::min(r + height, rows - height);
                const uint8_t *x0 = x + upper * depth, *x1 = x + lower * depth;
                const int8_t* weights = *panels + 4 * j;
                load_tile<0>(start + j, 0);
                load_tile<1>(start + j + TILE_HEIGHT, 0);
                if (is_pair) {
                    load_tile<2>(start + j, 0);
                    load_tile<3>(start + j + TILE_HEIGHT, 0);
                }
                for (size_t k = 0; k < depth; k += TILE_BYTES, weights += TILE_BYTES * PANEL) {
                    for (int i = 0; i < fetched; i++, next += CACHE_LINE)
                        __builtin_prefetch(next, 0, 2);
                    load_tile<4>(x0 + k, depth);
                    load_tile<6>(weights, 4 * PANEL);
                    multiply_tiles<0, 4, 6>();
                    load_tile<7>(weights + TILE_BYTES, 4 * PANEL);
                    multiply_tiles<1, 4, 7>();
                    if (is_pair) {
                        load_tile<5>(x1 + k, depth);
                        multiply_tiles<2, 5, 6>();
                        multiply_tiles<3, 5, 7>();
                    }
                }
                store_tile<0>(sums, STRIDE);
                store_tile<1>(sums + TILE_HEIGHT, STRIDE);
                if (is_pair) {
                    int32_t* below = sums + (lower - upper) * WIDTH;
                    store_tile<2>(below, STRIDE);
                    store_tile<3>(below + TILE_HEIGHT, STRIDE);
                }
                finish_block(sums + (r - upper) * WIDTH, r, std::min(rows, r + 2 * height), n + j,
                             value, finish);
            }
    }
    release_tiles();
}

}  // namespace regard
