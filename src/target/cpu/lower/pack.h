// Brings a factor of a packed contraction into panels. Internal to target/cpu.
#pragma once
#include "target/cpu/lower/context.h"

namespace opwright::target::cpu {

// flat = quotient * n + rest: one division, where a remainder of its own would be a second.
struct Divided {
    loop::Expr quotient, rest;
};
Divided divide(Context& c, loop::Expr flat, loop::Expr n, const char* quotient, const char* rest);

// Binds the variables of a flattened index, outermost first.
void decode(Context& c, Point& point, const std::vector<math::VarId>& vars, loop::Expr flat);

// The value of a factor at the present point as a packed contraction takes it: in type `t`, subnormal numbers as zero.
// Each of them in a register tile costs the processor a microcode assist (trained weights are full of them), and all
// they add is below 2^-126 times the other factor.
loop::Expr factor_value(Point& point, math::ExprId factor, DType t);

// Columns of a square of vectors: the lanes of the i-th result are the i-th lanes of all.
std::vector<loop::Expr> transposed(loop::Builder& b, std::vector<loop::Expr> v);

// A factor in parts of 16 or 8 bits, several of which stand side by side in a word of 32 bits: neighbours along the depth,
// the first in the lowest bits, zero past the end of the depth. There is one variable of depth then.
struct Words {
    int parts = 1;                      // of one word; 1: panels hold elements as they are
    math::ExprId value = math::kNone;   // a bf16 in f32, or of type i8 or u8
    bool tiles = false;                 // for tile registers: zero as far as a whole number of kTileWords words of depth
    bool tile_rows = false;             // rows for such: see Packer
    bool flip = false;                  // the highest bit of each part: an i8 becomes the u8 that is 128 more, or the reverse
};

// A panel holds `width` rows (or columns) of a factor, one position of the depth after another: the element of row r at
// depth k lies at (k - k0) * width + r. Rows and depth are flattened index variables. A last panel that is not full
// repeats the last row in place of those that are missing; what a register tile makes of them is not kept. Of words, all
// that is said of positions of depth inside a panel counts words; k0 is a multiple of the parts. Rows for tile registers lie
// kTileRows at a time, one row after another, kTileWords words of depth of each: word w of row r, both of one tile, at
// r * kTileWords + w, the panel's next kTileRows rows behind that, then the next words of depth.
class Packer {
public:
    // `row`: scratch memory for the widest [first, end) that pack() will be asked for and 2 * lanes elements more,
    // where `across` has several variables; else none.
    Packer(Context& c, Point& point, math::ExprId factor, std::vector<math::VarId> across,
           std::vector<math::VarId> along, int64_t width, int lanes, DType type,
           loop::BufferId row = loop::BufferId::none, Words words = {});

    // Writing in whole vectors goes past the end of a panel: positions of depth that a panel has room for beyond its
    // own.
    static int64_t slack(int lanes) { return 2 * lanes; }
    // Rows [first, end) at depths [k0, k1) into panels that start at dst[base], `stride` positions of depth apart.
    // `one`: they are of one panel.
    void pack(loop::BufferId dst, loop::Expr base, loop::Expr stride, loop::Expr first, loop::Expr end, loop::Expr k0,
              loop::Expr k1, bool one = false);

    // The same rows one after another, `pitch` elements apart, depths side by side as in memory: for factors that lie so
    // (can_copy). As far as the last panel goes; past k1 a row holds what is not to be used.
    void copy(loop::BufferId dst, loop::Expr base, loop::Expr pitch, loop::Expr first, loop::Expr end, loop::Expr k0,
              loop::Expr k1);
    bool can_copy() const;

    // Whether rows lie side by side in memory and are packed so: then several panels at a time are better.
    bool in_rows() const;
    // Whether the factor sees its rows as one flat index: then they are one run however many variables they have.
    bool flat() const;

private:
    using LExpr = loop::Expr;
    std::optional<int64_t> step(math::VarId v) const;
    LExpr value() { return factor_value(point_, factor_, type_); }
    LExpr part();
    std::vector<LExpr> parts(LExpr k, LExpr end, DType t);
    LExpr word(LExpr k, LExpr end);
    std::pair<LExpr, LExpr> two_words(LExpr k, LExpr end);
    LExpr in_panel(LExpr depth) const { return words_.parts == 1 ? depth : loop::floordiv(depth, words_.parts); }
    void each_word(LExpr k0, LExpr k1, const std::function<void(LExpr k, LExpr end)>& body);
    void each_line(LExpr k0, LExpr k1, const std::function<void(LExpr start, LExpr from, LExpr to)>& body);
    void each_depth(LExpr k0, LExpr k1, const std::function<void(LExpr k)>& body);
    void along_depth(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1);
    void block(loop::BufferId dst, LExpr at, const std::vector<std::vector<LExpr>>& rows, LExpr position, LExpr mask);
    void across_rows(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1, bool one);
    void bring(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1, bool one);
    void into_tiles(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1);
    std::vector<LExpr> tile_of_rows(LExpr first, LExpr end, LExpr k, LExpr k1);
    std::vector<LExpr> tile_of_columns(LExpr first, LExpr end, LExpr k, LExpr k1);
    void fill_up(loop::BufferId dst, LExpr base, LExpr stride, LExpr panels, LExpr words);
    void one_by_one(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1);
    void row_of(const Range& lines, LExpr first, LExpr end);

    Context& c_;
    loop::Builder& b_;
    Point& point_;
    math::ExprId factor_;
    std::vector<math::VarId> across_, along_;
    int64_t width_;
    int lanes_;
    DType type_;
    loop::BufferId row_;
    Words words_;
};

}  // namespace opwright::target::cpu
