// Lowering of L1 expressions to loop expressions at one point of a nest: at vector positions along one lane variable,
// or scalar. Knows where tensors lie, which variables are bound, and what an access outside its tensor means.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "loop/builder.h"
#include "math/program.h"

namespace opwright::target::cpu {

// Set by the caller of a kernel to 1 where its outputs are aligned to 64 bytes and those that can bypass the caches are
// large.
inline constexpr const char* kStreamSymbol = "%stream";
// Set to 1 where the tensors of a call are more than the second-level cache holds: what is in it need not be asked for
// ahead, and asking took a tenth of the time of a map of two megabytes.
inline constexpr const char* kAheadSymbol = "%ahead";

// Where a tensor lies in memory.
struct Storage {
    loop::BufferId buffer = loop::BufferId::none;
    DType dtype = DType::F32;        // of memory: temporaries hold the compute type
    std::vector<math::Sym> strides;  // elements per dim; 0 for a dim that the nest holds one point of
    std::vector<loop::Expr> origin;  // per dim: index of the first element held, or empty
};

// Status codes of kernels are 1 + an index into the messages.
struct Faults {
    std::vector<std::string> messages;
    int64_t code(std::string message);
};

class Point {
public:
    Point(loop::Builder& b, const math::Program& p, std::vector<Storage>& storage, Faults& faults)
        : b_(b), p_(p), storage_(storage), faults_(faults) {}

    // ---- the present point
    void bind(math::VarId v, loop::Expr value);  // for the lane variable: of lane 0 at position 0
    loop::Expr variable(math::VarId v) const { return vars_.at(v); }
    // Positions 0 .. positions-1 of `lanes` elements each along `lane`; `mask` is none for full vectors (then with one
    // position only). lane == kNone: scalar code, one position.
    void set_lanes(math::VarId lane, int lanes, int positions, loop::Expr mask);
    math::VarId lane() const { return lane_; }
    int lanes() const { return lanes_; }
    int positions() const { return positions_; }
    loop::Expr mask() const { return mask_; }

    // A copy of all bindings, to be put back when a loop or branch is left.
    struct Scope {
        std::unordered_map<math::VarId, loop::Expr> vars;
        std::unordered_map<uint64_t, loop::Expr> values;
        math::VarId lane;
        int lanes, positions;
        loop::Expr mask;
    };
    Scope save() const { return {vars_, values_, lane_, lanes_, positions_, mask_}; }
    void restore(const Scope& s);

    // ---- values. A result is scalar where it is the same on all lanes, else has lanes() lanes. f16 and bf16 are
    // computed as f32. Loads become Let statements at the present place.
    loop::Expr eval(math::ExprId e, int position);
    void set_value(math::ExprId e, int position, loop::Expr value);
    void set_uniform(math::ExprId e, loop::Expr value);  // on lanes too, at every position
    loop::Expr sym(const math::Sym& s);

    // Stores into (or combines with) the equation's place, converting to the memory type.
    void set_interior(bool on) {
        interior_ = on;
    }  // all lanes are known to lie inside wherever an access is linear in them
    void set_whole_inside(bool on) { whole_inside_ = on; }  // ... and wherever it is the same for all lanes
    // Whether lane 0 of every position stands at a multiple of the lanes.
    void set_aligned(bool on) { aligned_ = on; }
    void set_streaming(bool on) { streaming_ = on; }  // full contiguous vectors of aligned results go past the caches
    // Contiguous full vectors of these tensors are asked for ahead of their use: those `rows` points of `row` further on,
    // 0: at a distance that suits; kNone: those that follow in memory.
    struct Ahead {
        math::VarId row = math::kNone;
        std::vector<math::TensorId> tensors;
        int64_t rows = 0;
        std::vector<math::TensorId> once = {};  // of these, what no other loop reads
        int64_t pages = 2;                      // at least so far
        bool fold = false;                      // a loop that stores nothing
        bool near = false;  // into the nearest cache, at this distance in memory whatever the row
        // Where `first` is set: the present first of `rows` points, beyond which none may be left; then what comes next is
        // the first points of the task that begins `task` elements further on.
        loop::Expr first = {};
        int64_t task = 0;
        // Where `side` is set: so many rows are read side by side, of which this is the one at `at`. If one begins where another
        // ends, their lines are asked for in the order of memory.
        int64_t side = 0, at = 0;
    };
    void set_ahead(const Ahead* a) { ahead_ = a; }
    // From here on, while this is on, the same elements are loaded once: where nothing between is a loop or a branch, or
    // stores into what is read.
    void set_sharing(bool on) {
        sharing_ = on;
        shared_.clear();
    }
    // Element offset at which the equation's result for lane 0 of position 0 lies.
    loop::Expr place(const math::Equation& q);
    void store(const math::Equation& q, loop::Expr value, int position);

    // ---- conversions between the types of memory and of arithmetic
    loop::Expr to_memory(loop::Expr value, DType memory);
    loop::Expr widen(loop::Expr value);      // f16, bf16 to f32
    loop::Expr broadcast(loop::Expr value);  // to lanes() lanes

private:
    // One index of an access. Either linear (scalar base plus a symbolic step a lane) or a vector.
    struct Index {
        loop::Expr base;
        math::Sym step = 0;
        loop::Expr vector;  // set: lanes() values, base and step unused
        bool known_inside = false;
        bool not_before = false, not_past = false;  // sure to be 0 or more; sure to be below the extent
        bool from_data = false;  // no affine form
        bool reads = false;      // some tensor
        bool at_launch = false;  // a quotient that the launch has checked, as it does what is affine
    };
    struct Address {
        loop::Expr offset;            // scalar, of lane 0
        std::optional<int64_t> step;  // elements between lanes
        loop::Expr offsets;           // vector, where step is not constant
        loop::Expr scalar_condition;  // none: always
        loop::Expr lane_condition;    // none: always
    };
    Index index(math::ExprId e, const math::Sym& extent, int position);
    Address address(math::TensorId t, const math::ExprId* at, math::Outside outside, int position,
                    const std::string& what);
    void require_inside(Index& i, const math::Sym& extent, Address& a, bool report, const std::string& what);
    void lane_range(const Index& i, const math::Sym& extent, Address& a);
    void fold_back(Index& i, const math::Sym& extent, math::Outside outside);
    loop::Expr as_value(const Index& i);
    loop::Expr load(math::ExprId e, int position);
    // A load whose lanes read a few neighbours in a fixed pattern, as x[v // 2] and z[v % 2, v // 2] do: contiguous
    // loads that shuffles spread. nullopt where it is none. lower_pattern.cpp
    std::optional<loop::Expr> patterned(const math::Expr& x, int position);
    void prefetch(const math::Expr& x, loop::Expr offset, int position);
    // By lane, what a remainder on lanes is, as (v + 1) % 2: the same in every vector. lower_pattern.cpp
    std::optional<std::vector<int>> lane_digits(const math::Expr& x) const;
    loop::Expr inside(math::ExprId e, int position);
    loop::Expr call(const math::Expr& x, int position);
    loop::Expr convert(const math::Expr& x, int position);

    loop::Builder& b_;
    const math::Program& p_;
    std::vector<Storage>& storage_;
    Faults& faults_;
    std::unordered_map<math::VarId, loop::Expr> vars_;
    std::unordered_map<uint64_t, loop::Expr> values_;  // by expression and position
    math::VarId lane_ = math::kNone;
    int lanes_ = 1, positions_ = 1;
    loop::Expr mask_;
    bool streaming_ = false, interior_ = false, whole_inside_ = false, aligned_ = false;
    const Ahead* ahead_ = nullptr;
    std::map<math::TensorId, loop::Expr> side_;  // of rows side by side, where the lines of all of them begin
    bool sharing_ = false;
    std::map<loop::ExprId, loop::Expr> shared_;  // loads by what they load
};

loop::Expr joint(loop::Expr a, loop::Expr b);  // and of conditions, either of which may be none

}  // namespace opwright::target::cpu
