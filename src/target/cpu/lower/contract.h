// What the lowerings of a contraction share: panels, register tiles, the rest of the equation. Internal to target/cpu.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedule/parts.h"
#include "schedule/window.h"
#include "target/cpu/lower/pack.h"

namespace opwright::target::cpu {

class ContractCommon {
protected:
    using LExpr = loop::Expr;
    ContractCommon(Context& c, size_t nest);

    // What is packed: its rows (for the columns' factor: columns) in panels of `width`.
    struct Factor {
        std::string name;
        math::ExprId value = math::kNone;
        std::vector<math::VarId> across, along, batch;  // batch variables it depends on
        int64_t width = 1;
        math::Sym span = 0;  // of the rows
        bool constant = false, shared = false;
        math::Sym by_task = 0;  // of a shared one: 1 where, at given extents, each task packs what it reads for itself all the same
        loop::BufferId panels = loop::BufferId::none;
        Words words = {};
        // Of 8-bit integers: what a register tile takes for the value is this much less, or none; i32.
        schedule::ByteFactor bytes = {};
        bool shifts() const { return words.flip || bytes.zero != math::kNone; }
        bool is_signed = false;               // the parts in the panels
        bool add_up = false;                  // the panels' rows are added up along the depth, for the other factor's shift
        loop::BufferId sums = loop::BufferId::none;
        bool whole() const { return constant || shared; }  // all panels exist before the first task
    };
    Factor factor(const char* which, math::ExprId e, const std::vector<math::VarId>& across,
                  const std::vector<math::VarId>& along, int64_t width) const;
    // Whether panels of the factor may hold more elements than the tensors it reads (windows, broadcasts).
    bool expands(const Factor& f) const;
    Packer packer(const Factor& f, loop::BufferId row = loop::BufferId::none);
    // Makes the place of a factor's panels: of `tile` rows in the task's scratch memory, or of all of them with a stage
    // of its own that packs them.
    void panels(Factor& f, int64_t tile, int64_t depth);
    void add_up(const Factor& f, LExpr panel, LExpr sums, LExpr count, LExpr before);
    LExpr sums_base(const Factor& f, LExpr panel);
    LExpr corrected(const Factor& a, const Factor& b, LExpr row_sum, LExpr column_sums, LExpr sum);
    // Asks for what a register tile will read of a factor's panels some positions of depth after `at`.
    void ask_ahead(const Factor& f, LExpr at);
    // What a register tile asks for of the panel of columns that comes next, if there is one of which it asks.
    struct Ahead {
        LExpr from;        // in elements
        int64_t step = 0;  // from a position of depth to the next
    };
    // Of tile `tile` of a task's tiles of rows; the next panel is at `next`.
    Ahead ahead(const Factor& columns, LExpr tile, LExpr depth, LExpr next);
    bool asks_ahead(const Factor& f) const;  // whether its panels may be more than the caches hold
    // Where the panel of a tile's first row (column) starts, and how many positions of depth a panel has room for.
    LExpr panel_base(const Factor& f, LExpr first, LExpr k0);
    LExpr panel_room(const Factor& f, int64_t depth);
    math::Sym room_of_depth() const { return max(ceil_div(depth_, parts_), 1) + math::Sym(slack()); }
    LExpr words(LExpr depth) const { return parts_ == 1 ? depth : loop::ceildiv(depth, parts_); }
    // What panels hold: elements, or words of several.
    DType panel_type() const { return parts_ == 1 ? type_ : DType::I32; }
    int64_t slack() const { return Packer::slack(lanes_); }

    // A factor that is a tensor as it stands: elements of the type that is added up, every access inside the tensor or,
    // where that is allowed, zero.
    struct Plain {
        loop::BufferId buffer;
        math::TensorId tensor;
        std::vector<math::Affine> at;  // by dim
    };
    std::optional<Plain> plain(math::ExprId e, bool zero_outside = false) const;
    // Elements between neighbours along v.
    math::Sym step(const Plain& f, math::VarId v) const;
    // Where the element lies that the variables bound at present name.
    LExpr place(const Plain& f);

    math::Sym extent(const std::vector<math::VarId>& vs) const;
    void decode(const std::vector<math::VarId>& vs, LExpr flat) { cpu::decode(c_, point_, vs, flat); }
    LExpr flatten(const std::vector<math::VarId>& vs);
    // The last digit of a task's number, of a base of `count`; `rest` becomes what is before it.
    LExpr next_digit(const char* name, LExpr& rest, const math::Sym& count);

    // Few rows left over run in a smaller register tile, so that one row does not cost mr: its numbers of rows.
    std::vector<int64_t> rest_tiles() const;
    // Calls `tile` with the number of rows that suits `left` rows.
    void choose_rows(LExpr left, const std::function<void(int64_t rows)>& tile);

    // Accumulators of rows x nv vectors over `count` positions of depth.
    using Accumulators = std::vector<loop::LocalRef>;
    struct Operands {
        std::function<LExpr(int64_t row, LExpr k)> a;                 // a scalar, or a vector where each lane has its own
        std::function<std::vector<LExpr>(LExpr k)> b;                 // nv vectors
        std::function<LExpr(int64_t row, int64_t vector)> before;     // sums so far; empty: none
        LExpr has_before;                                             // condition of `before`
        int64_t unroll = 0;                                           // positions of depth in a turn; 0: as suits
        std::function<LExpr(LExpr a, LExpr b, LExpr sum)> multiply_add;  // of vectors; empty: of elements
    };
    Accumulators register_tile(int64_t rows, LExpr count, const Operands& o);
    // The same in registers of 16 x 16 words: 16 or 32 rows of a's panel at `ap` by nv_ times 16 columns of b's at `bp`, `count` words
    // of depth. The sums go to `sums` at `at`, rows `stride` apart, and begin with what is there where `before` holds.
    void tile_registers(int64_t rows, const Factor& a, LExpr ap, const Factor& b, LExpr bp, LExpr count, loop::BufferId sums, LExpr at,
                        int64_t stride, LExpr before);
    LExpr sum(const Accumulators& acc, int64_t row, int64_t vector) {
        return b_.get(acc[static_cast<size_t>(row * nv_ + vector)]);
    }

    // Where the share of task i begins, of `parts` that `tasks` share as evenly as their number allows.
    LExpr share(LExpr i, const math::Sym& parts, const math::Sym& tasks) {
        return parts == tasks ? i : loop::floordiv(i * point_.sym(parts), point_.sym(tasks));
    }

    // What a task's windows are brought into may serve the tasks behind it, in later calls of the same job as well, as threads take
    // tasks a few at a time: a word in scratch memory says which windows lie there. Before all other scratch memory of a function.
    void keep_windows() { kept_ = b_.scratch(name_ + "_kept", DType::I64, b_.i64(1)); }
    // Calls `body` in the first call of a job.
    void once(const std::function<void()>& body) { b_.if_(loop::eq(b_.let("kept", b_.load(kept_, b_.i64(0))), b_.i64(0)), body); }
    // Calls `fill` unless windows number `windows` are there, or always.
    void bring_windows(LExpr windows, bool always, const std::function<void()>& fill) {
        const LExpr name = b_.let("windows", windows + 1);
        const auto now = [&] {
            fill();
            b_.store(kept_, b_.i64(0), name);
        };
        if (always) return now();
        b_.if_(loop::negate(loop::eq(b_.let("kept", b_.load(kept_, b_.i64(0))), name)), now);
    }

    // Little enough to be written out for every vector of a register tile, straight from its registers.
    bool light_epilogue() const;
    // The rest of the equation for `sum`, lanes along `lane` from `column` on; all other indices are bound.
    // `correct`, where given, has the last word on the sum.
    void finish(math::VarId lane, LExpr column, LExpr mask, LExpr sum, const std::function<LExpr(LExpr)>& correct = {});

    Context& c_;
    loop::Builder& b_;
    std::string name_;
    const schedule::Contraction& k_;
    const schedule::ContractPlan plan_;
    const math::Equation& q_;
    Point point_;
    int lanes_;
    int64_t nr_, mr_;
    int64_t nv_;     // vectors of the register tile at hand: plan_.nv, or fewer at the last columns
    int64_t parts_;  // of a word along the depth; 1: elements
    DType type_;
    math::Sym rows_, columns_, depth_;
    loop::BufferId kept_ = loop::BufferId::none;
    math::Sym skip_ = 0;  // 1 where this lowering is not used, at given extents

private:
    bool never_subnormal(math::ExprId e) const;
    void round_sums(math::ExprId e, std::set<math::ExprId>& seen);
    std::vector<math::VarId> batch_of(math::ExprId e) const;
    bool packable(math::ExprId e, const std::vector<math::VarId>& batch, const math::Sym& span) const;
};

// A contraction whose columns' factor reads windows, from slabs of its tensors.
void lower_window(Context& c, size_t nest, const schedule::Window& w, Stage stage);
// The same for one that is lanewise; false where its windows are not a tensor as it stands.
bool lower_lanewise(Context& c, size_t nest, const schedule::Window& w, const Stage& stage);
// A contraction whose rows' factor reads windows.
void lower_points(Context& c, size_t nest, const schedule::Window& w, Stage stage);

}  // namespace opwright::target::cpu
