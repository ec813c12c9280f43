// One nest that is no contraction: loops over tasks, rows and lanes. Internal to target/cpu/lower.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "target/cpu/lower/beside.h"
#include "target/cpu/lower/context.h"
#include "target/cpu/lower/parts.h"
#include "target/cpu/lower/row_pipeline.h"

namespace opwright::target::cpu {

// What joins two partial results of a reduction.
loop::BinaryFn combine_fn(math::ReduceOp op);

// Emits the functions of one nest into the program that is being built.
class NestLowering {
public:
    NestLowering(Context& c, size_t nest)
        : c_(c), b_(c.b), nest_(c.tile.nests[nest]), point_(c.b, c.math, c.storage, c.faults) {}

    void run(const std::string& function);
    // How many tasks of a stage ahead there are for each of the nest's own; 1: it has no such stage.
    math::Sym split();
    // Temporaries of the nest: scratch memory that holds one task's part.
    void set_locals(const std::vector<math::TensorId>& locals);

private:
    void place_locals();
    // Chunked grid variables: local temporaries hold the chunk alone, so their indices count from its start.
    void set_origins();

    void block(const std::vector<tile::Stmt>& body);
    void stmt(const tile::Stmt& s);
    Range range_of(math::VarId v);
    int64_t task_tile(math::VarId v) const;
    void serial_loop(const tile::Stmt& s);
    // A short innermost loop of known length (the taps of a window), and one that decides which terms of a sum there are
    // (the phases of a stride).
    bool written_out(const tile::Stmt& s) const;
    // Whether there are loops in it, and all are written out.
    bool straight(const std::vector<tile::Stmt>& body) const;
    // Whether a condition of an accumulation in it depends on v.
    bool decides_terms(const std::vector<tile::Stmt>& body, math::VarId v) const;
    // Whether q computes a temporary that is one number a task, outside of all loops over lanes: a row's maximum, its sum.
    bool one_number(const math::Equation& q) const;

    // Each tensor is asked for ahead by the loop over lanes that does most with it: others find it in the caches.
    struct Reader {
        int work = 0;
        const tile::Stmt* loop = nullptr;
        int loops = 0;  // that read the tensor
    };
    void plan_ahead(const std::vector<tile::Stmt>& body, std::map<math::TensorId, Reader>& best);
    int operations(math::ExprId root) const;
    void plan_ahead();

    // ---- several rows at a time: rows.cpp
    // Several positions of the variable at a time: each lane loop inside goes over all of them.
    void row_loop(const tile::Stmt& s);
    // Rows that follow each other: side by side, in a pipeline, or one by one.
    void rows_of_task(const Range& rows);
    // One part of one task's rows after the other.
    void fold_parts(const std::string& function);
    void rows_or_parts();

    // Several rows from `first` on: between the loops lanes are rows. A loop that folds takes a vector of each row in turn;
    // one that only stores runs row by row, and finds the rows' numbers in memory.
    void block_beside(loop::Expr first);
    // Of the rows together, all but what is a value of each row.
    Point::Scope one_row(const Point::Scope& rows) const;
    void lane_loop_beside(const tile::Stmt& s);

    // ---- rows in a pipeline: pipelined.cpp
    void plan_pipeline();
    loop::Expr pipeline_gains();  // none: always
    void pipelined(const Range& rows);
    // Where rows end within a line of results, that line is written through the caches, and stores past them wait until it has
    // come from memory: it is asked for a row ahead.
    void ask_for_seam(const Point::Scope& at);
    // One loop for all walks; returns where it ends. Where `shift` is set, the last is so many elements ahead of the others and
    // its results go past the caches.
    loop::Expr common_loop(const std::vector<Point::Scope>& at, loop::Expr shift);

    // ---- loops over lanes: lanes.cpp
    // Of the accesses in the body of a loop over lanes, inner loops included.
    Interior interior_of(const tile::Stmt& lane);
    // Full vectors first, `tile` elements a step; then one masked vector a step for what is left. Where accesses may
    // leave their tensors, the vectors that surely stay inside run without a test.
    void lane_loop(const tile::Stmt& s);
    // Emits the loop's body for some vectors from an element on; a mask goes with one vector.
    using Vectors = std::function<void(loop::Expr i, int positions, loop::Expr mask)>;
    Vectors vectors_of(const tile::Stmt& s, Point::Scope scope, const Point::Ahead* ahead);
    // The loop from an element on; `shifted`: from one where nothing is known of what is left for a mask.
    void sweep(const tile::Stmt& s, loop::Expr from, bool shifted, const Vectors& body);
    // Up to the first vector of results that lies on a line of its own, under a mask; returns where that is.
    loop::Expr to_line(const tile::Stmt& s, const Point::Scope& scope, const Vectors& body);
    void lane_body(const tile::Stmt& s, int positions);
    // What statement k of the loop has stored serves the statements behind it without being read back.
    void keep_stored(const tile::Stmt& s, size_t k, int positions);
    // Whether the results of a loop over lanes may be too large to be worth a place in the caches: contiguous elements
    // of an output that nothing here reads. True where a row may begin anywhere, false where lanes must keep their
    // places, nullopt: not.
    std::optional<bool> streamable(const tile::Stmt& lane) const;
    // Whether an index in the loop is a quotient or a remainder of the lane: such reads want lanes at multiples.
    bool patterns(const tile::Stmt& lane) const;
    // Loads that a loop over lanes around one over another chunked index reads along that index; none: it is no such loop.
    std::vector<math::ExprId> turned_loads(const tile::Stmt& s) const;
    void turned_loop(const tile::Stmt& s, const std::vector<math::ExprId>& loads);

    // ---- reductions and scans: folds.cpp
    struct Accumulator {
        std::vector<loop::LocalRef> value, best;  // best: the index of an arg reduction
        std::vector<loop::LocalRef> nan;  // of an extreme of floats on lanes, by row: a NaN that was among the terms; else a
                                          // number
    };
    void fill(const tile::Stmt& s);
    bool folded(tile::BufferId acc) const;
    // Into partial results in memory, all rows of the loop around. Lanes past the end have room of their own.
    void accumulate_rows(const tile::Stmt& s);
    void accumulate(const tile::Stmt& s);
    // Row-major position of the reduction's variables at the present point.
    loop::Expr position_of(const math::Expr& e);
    // A NaN is taken as beyond every number; the first (or last) of equals wins.
    void accumulate_arg(const math::Expr& e, Accumulator& a, size_t i, loop::Expr v, loop::Expr condition, int lanes);
    void reduce(const tile::Stmt& s);
    // acc runs along the variable in order; every position of the lanes has its own.
    void scan(const tile::Stmt& s);

    static constexpr int64_t kUnrolledTaps = 5, kUnrolledPhases = 3, kTurnedInCaches = 64;

    Context& c_;
    loop::Builder& b_;
    const tile::Nest& nest_;
    Point point_;
    std::map<math::VarId, Range> ranges_;
    std::vector<math::TensorId> locals_;
    std::vector<math::TensorId> numbers_;  // of the locals, those of which a task holds one element
    std::optional<Beside> beside_;
    std::map<math::TensorId, std::vector<math::Sym>> strides_beside_;  // of locals, while rows are together
    loop::Expr together_;  // the first of rows that are side by side just now
    size_t row_ = 0;         // of them, the one that a fold is at
    std::map<const tile::Stmt*, Point::Ahead> ahead_;
    std::optional<RowPipeline> pipeline_;
    std::vector<Point::Ahead> ahead_of_walks_;
    bool pipeline_streams_ = false;  // its results may go past the caches
    std::optional<RowParts> parts_;
    loop::Expr part_;                 // where the part that is folded just now begins in their memory
    std::vector<loop::Expr> stored_;  // by the last store, of each position
    bool keeping_ = false;            // the store is not the last statement of its loop over lanes
    std::map<tile::BufferId, Accumulator> accumulators_;
    std::map<tile::BufferId, std::pair<loop::BufferId, loop::Expr>> memory_;  // partial results, and the index of the first
    struct {
        math::VarId var = math::kNone;
        loop::Expr first;
        int64_t count = 0;
    } rows_;  // of the loop around that takes several
};

}  // namespace opwright::target::cpu
