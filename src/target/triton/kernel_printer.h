// Prints one nest of a block tile program as a Triton kernel. Its parts lie in files of their own: kernel_grid.cpp the
// blocks and the launch grid, kernel_contract.cpp contractions, kernel_reduce.cpp folds, kernel_scan.cpp running folds,
// kernel_store.cpp results, kernel_plan.cpp what loads and loops owe to each other, kernel_parts.cpp and
// kernel_shared.cpp long rows, kernel.cpp the rest.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "target/triton/expr.h"
#include "target/triton/kernel.h"
#include "tile/blocks.h"

namespace opwright::target::triton {

int64_t next_power_of_two(int64_t n);

class KernelPrinter {
public:
    KernelPrinter(const tile::Program& p, size_t nest, File& file, std::string name, RowForm rows);
    KernelText run();

private:
    using BufferId = tile::BufferId;
    using VarId = math::VarId;

    // ---- the block and the grid
    std::string size(const math::Sym& s) { return file_.size(s); }
    bool elementwise() const;
    std::string pointer(math::TensorId t);
    // Declares the block's extent along an axis: `host` is the expression for it. A number needs no parameter.
    std::string block(VarId key, const std::string& host);
    // An extent's block on the host: as many points as it has, at most `tile` (0: no bound), at least `least`.
    static std::string block_size(const math::Sym& extent, const std::string& extent_text, int64_t tile, int64_t least,
                                  const std::string& bound);
    // No lane of the block leaves the extent.
    static bool exact(const math::Sym& extent, int64_t tile);
    void axes();
    void define_axis(VarId v, const std::string& text, bool exact_fit);
    void define_scalar(VarId v, const std::string& text);
    // Number of programs along a grid axis, in the kernel and on the host.
    std::string steps(const tile::GridAxis& g, bool host);
    // `program`: the number of the program, or of the row that it has a part of at present.
    void grid(const std::string& program);

    // ---- contractions: three axes, each a flat index over a group of variables
    math::Sym group_extent(const std::vector<VarId>& group) const;
    // The variables of a group from its flat index `flat`, which has the axis `key`.
    void split(const std::vector<VarId>& group, const std::string& flat, const Axes& axes);
    void contraction_axes();
    void flat(const std::vector<VarId>& group, const std::string& pid, const math::Sym& extent, int64_t tile);
    // A factor of a contraction: 0 where k, m or n leave their extents, so that nothing is added there.
    void factor(BufferId dst, const Axes& order);
    void contract(const tile::Stmt& s);

    // ---- what loads and loops owe to each other
    void scan_uses(const std::vector<tile::Stmt>& body);
    BufferId origin(BufferId b) const;                           // the load that b is a conversion of; b itself
    BufferId exponent(const tile::Stmt& s) const;                // the load that the terms of a softmax's sum come from
    void wanted_fill(const tile::Stmt& s);                       // of the load that a fold takes
    std::optional<math::ReduceOp> fill_of(BufferId load) const;  // what all that fold it want in lanes without element
    bool filled(const tile::Stmt& s) const;                      // a fold's operand needs no mask
    void plan_walks();

    // ---- rows that are held in parts
    static std::string step_in_parts(const std::string& extent, int64_t tile);
    void begin_parts();
    // The load of the row: from memory by the first walk, from the parts by the others.
    bool take_part(const tile::Stmt& s, const Axes& order);

    // ---- rows that several programs share
    // Opens the loop over the rows that a program has a part of.
    void begin_shared();
    // It is read anew for each row.
    bool of_row(math::ExprId load) const;
    // A fold of this program's part of the row, joined with those of the others.
    std::string join_parts(math::ReduceOp op, const std::string& folded);

    // ---- statements
    const Piece* find(math::ExprId e);
    Axes axes_of(const tile::Buffer& b) const;
    Axes joint(const Axes& a, const Axes& b) const {
        Axes r;
        for (VarId v : order_)
            if (has(a, v) || has(b, v)) r.push_back(v);
        return r;
    }
    static Axes without(Axes a, VarId v) {
        std::erase(a, v);
        return a;
    }
    std::string shape(const Axes& axes) const;
    // Neighbours along the row that share one pair of a walk's folds: what 16 bytes hold.
    int64_t neighbours(const math::Rescale& x) const;
    std::string full(const Axes& axes, const std::string& value, const std::string& type) const;
    std::string buffer_name(BufferId b) const;
    void statements(const std::vector<tile::Stmt>& body);
    void statement(const tile::Stmt& s);
    void loop(const tile::Stmt& s);
    void define(const tile::Stmt& s);

    // ---- reductions
    const math::Expr& reduce_expr(BufferId b) const { return math_.expr(p_.buffers[b].value); }
    std::string positions(const math::Expr& x) { return size(group_extent(x.vars)); }
    static bool largest(math::ReduceOp op) { return op == math::ReduceOp::ArgMax || op == math::ReduceOp::ArgMaxLast; }
    static bool first(math::ReduceOp op) { return op == math::ReduceOp::ArgMax || op == math::ReduceOp::ArgMin; }
    static std::string identity_text(math::ReduceOp op, DType t);
    DType term_type(BufferId b) const;
    // The flat position of an arg reduction, row-major over its variables, and how many positions there are.
    Piece position(const math::Expr& x);
    void fill(const tile::Stmt& s);
    // a op b, as an expression of two texts that are atoms.
    std::string combine(math::ReduceOp op, DType t, const std::string& a, const std::string& b);
    // The lanes of `term` that count: inside their extents along the axes that are reduced, and where the condition
    // holds.
    std::optional<Piece> counts(const Axes& reduced, BufferId condition);
    void accumulate(const tile::Stmt& s);
    // Two folds in one walk (math/rescale.h): an element into the pair of its lane, and the lanes' pairs into one.
    void accumulate_pair(const tile::Stmt& s);
    void reduce_pair(const tile::Stmt& s);
    void reduce(const tile::Stmt& s);
    // The fold of a block's text along its axis number `axis`.
    std::string fold(math::ReduceOp op, DType t, const std::string& text, int axis);
    void arg_reduce(const tile::Stmt& s, Piece src, const Axes& axes, const Axes& kept, int place,
                    const std::optional<Piece>& valid);
    // The position as an i64; 0 where there was nothing to choose from.
    Piece finish(math::ReduceOp op, const Piece& at, const math::Expr& x, bool may_be_none);

    // ---- scans and stores
    void scan(const tile::Stmt& s);
    void store(const tile::Stmt& s);
    void write(const math::Equation& q, const Piece& value, math::Outside outside);
    void update(const tile::Stmt& s);

    // ---- the head
    void header();
    std::string warps();
    size_t rank(math::TensorId t) const;
    bool mentions(const std::string& name) const;

    const tile::Program& p_;
    const math::Program& math_;
    const tile::Nest& nest_;
    const schedule::Nest& form_;
    const schedule::NestPlan& plan_;
    File& file_;
    Names names_;
    PythonWriter body_;
    Expressions expressions_;
    KernelText r_;
    Axes order_;                          // axes of the block
    std::map<VarId, std::string> block_;  // axis -> BLOCK_N
    std::string elements_;                // product of all BLOCKs
    tile::Held held_;
    std::map<BufferId, Piece> pieces_, at_;  // at_: positions that go with the values of an arg reduction
    std::map<BufferId, std::vector<math::ReduceOp>> folded_;
    std::map<BufferId, int> others_;  // uses other than by a fold
    std::map<BufferId, std::string> stored_;
    std::set<BufferId> filled_;  // blocks that hold the identity of their fold outside
    std::map<math::ExprId, BufferId> loaded_;
    std::map<BufferId, BufferId> origin_;
    std::map<BufferId, uint32_t> lanes_;  // pairs of folds, by the buffers that hold them
    std::map<const tile::Stmt*, BufferId> exponent_;
    const tile::Stmt* walk_ = nullptr;  // the loop over a row that is being printed
    std::string start_;                 // where its step begins
    std::map<const tile::Stmt*, std::map<math::ExprId, std::string>> eviction_;
    std::set<const tile::Stmt*> backward_;
    std::set<BufferId> fills_;  // partial results
    const RowForm rows_;
    std::string part_, count_, parts_;          // the number of the part in a walk, how many there are; the parts
    math::ExprId row_ = math::kNone;            // what they are parts of
    bool loaded_row_ = false;                   // by a walk before
    std::optional<math::ReduceOp> row_fill_;    // whose identity they hold outside
    std::string share_;                         // the part of the row that is this program's
    std::string words_;                         // by way of which the programs of a row join their folds
    int joined_ = 0;                            // so many of them so far
};

}  // namespace opwright::target::triton
