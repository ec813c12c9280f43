// Contractions in tile registers: rows brought into the form that they are loaded in, and the loop over the depth.
#include "target/cpu/lower/contract.h"
#include "target/machine.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;
using loop::kTileRows, loop::kTileWords;
static_assert(loop::kTileRows == target::kTileRows && loop::kTileWords == target::kTileWords);

// Columns go by in 16 x 16 words as panels have them, rows of the tile one position of depth (a word) apart. Of the eight
// registers four hold sums, two the rows' factor and two the columns': each that is loaded serves two products.
void ContractCommon::tile_registers(int64_t rows, const Factor& a, LExpr ap, const Factor& b, LExpr bp, LExpr count,
                                    loop::BufferId sums, LExpr at, int64_t stride, LExpr before) {
    const int high = static_cast<int>(rows / kTileRows), wide = static_cast<int>(nv_);
    const auto sum = [](int i, int j) { return 2 * i + j; };
    const auto row_tile = [](int i) { return 4 + i; };
    const auto column_tile = [](int j) { return 6 + j; };
    const auto each_sum = [&](const std::function<void(int tile, LExpr place)>& body) {
        for (int i = 0; i < high; ++i)
            for (int j = 0; j < wide; ++j) body(sum(i, j), at + (i * kTileRows * stride + j * kTileWords));
    };
    const auto zero = [&] { each_sum([&](int tile, LExpr) { b_.tile_zero(tile); }); };
    const auto load = [&] { each_sum([&](int tile, LExpr place) { b_.tile_load(tile, sums, place, b_.i64(stride)); }); };
    before ? b_.if_(before, load, zero) : zero();

    const auto byte_fn = [&] {
        if (a.is_signed) return b.is_signed ? loop::TileFn::S8S8x4 : loop::TileFn::S8U8x4;
        return b.is_signed ? loop::TileFn::U8S8x4 : loop::TileFn::U8U8x4;
    };
    const loop::TileFn fn = parts_ == 2 ? loop::TileFn::Bf16x2 : byte_fn();
    b_.loop("k", b_.i64(0), count, kTileWords, [&](LExpr k) {
        const LExpr row = b_.let("row", ap + k * a.width), column = b_.let("column", bp + k * b.width);
        for (int j = 0; j < wide; ++j) b_.tile_load(column_tile(j), b.panels, column + j * kTileWords, b_.i64(b.width));
        for (int i = 0; i < high; ++i) {
            b_.tile_load(row_tile(i), a.panels, row + i * kTileRows * kTileWords, b_.i64(kTileWords));
            for (int j = 0; j < wide; ++j) b_.tile_dot(fn, sum(i, j), row_tile(i), column_tile(j));
        }
    });
    each_sum([&](int tile, LExpr place) { b_.tile_store(tile, sums, place, b_.i64(stride)); });
}

void Packer::into_tiles(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1) {
    // Rows that lie along the depth are vectors as they are in memory; others are turned.
    const bool as_they_are = across_.empty() || step(along_.back()) == 1 || !(across_.size() == 1 || flat());
    b_.loop("panel", b_.i64(0), loop::ceildiv(end - first, width_), 1, [&](LExpr panel) {
        for (int64_t group = 0; group < width_; group += kTileRows) {
            const LExpr row = b_.let("row0", first + panel * width_ + group);
            const LExpr to = b_.let("to", base + panel * stride * width_ + group * kTileWords);
            b_.loop("k", k0, k1, kTileWords * words_.parts, [&](LExpr k) {
                const LExpr at = b_.let("at", to + in_panel(k - k0) * width_);
                const std::vector<LExpr> rows = as_they_are ? tile_of_rows(row, end, k, k1) : tile_of_columns(row, end, k, k1);
                for (int64_t r = 0; r < kTileRows; ++r) b_.store(dst, at + r * kTileWords, rows[static_cast<size_t>(r)]);
            });
        }
    });
}

// kTileRows rows from `first` on, the last of all in place of those from `end` on: kTileWords words each from depth k on, zero
// from k1 on.
std::vector<LExpr> Packer::tile_of_rows(LExpr first, LExpr end, LExpr k, LExpr k1) {
    const int parts = kTileWords * words_.parts;
    const LExpr mask = b_.let("mask", loop::first_lanes(k1 - k, parts));
    std::vector<LExpr> rows;
    for (int64_t r = 0; r < kTileRows; ++r) {
        const Point::Scope scope = point_.save();
        decode(c_, point_, across_, b_.let("row", loop::min(first + r, end - 1)));
        point_.set_lanes(along_.back(), parts, 1, mask);
        point_.bind(along_.back(), k);
        const LExpr x = point_.broadcast(part());
        rows.push_back(b_.let("v", loop::bitcast(loop::select(mask, x, loop::like_int(x, 0)), loop::Type{DType::I32, kTileWords})));
        point_.restore(scope);
    }
    return rows;
}

// The same, of rows side by side in memory: zero in place of those from `end` on.
std::vector<LExpr> Packer::tile_of_columns(LExpr first, LExpr end, LExpr k, LExpr k1) {
    const LExpr mask = b_.let("mask", loop::first_lanes(end - first, kTileRows));
    const LExpr zero = loop::broadcast(b_.i32(0), kTileRows);
    std::vector<LExpr> words;
    for (int64_t w = 0; w < kTileWords; ++w) {
        const Point::Scope scope = point_.save();
        for (VarId v : across_) point_.bind(v, b_.i64(0));
        point_.set_lanes(across_.back(), kTileRows, 1, mask);
        point_.bind(across_.back(), first);
        const LExpr at = b_.let("at", k + w * words_.parts);
        const LExpr there = loop::both(mask, loop::broadcast(loop::lt(at, k1), kTileRows));
        words.push_back(b_.let("w", loop::select(there, word(b_.let("at", loop::min(at, k1 - 1)), k1), zero)));
        point_.restore(scope);
    }
    return transposed(b_, std::move(words));
}

// Zeros behind `words` words of depth, as far as a tile goes.
void Packer::fill_up(loop::BufferId dst, LExpr base, LExpr stride, LExpr panels, LExpr words) {
    const LExpr zero = loop::broadcast(b_.i32(0), lanes_);
    const LExpr end = b_.let("end_of_tile", loop::ceildiv(words, kTileWords) * kTileWords);
    b_.loop("word", words, end, 1, [&](LExpr word) {
        b_.loop("panel", b_.i64(0), panels, 1, [&](LExpr panel) {
            const LExpr at = b_.let("at", base + (panel * stride + word) * width_);
            for (int64_t v = 0; v < width_; v += lanes_) b_.store(dst, at + v, zero);
        });
    });
}

}  // namespace opwright::target::cpu
