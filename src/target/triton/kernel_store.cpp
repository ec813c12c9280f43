#include <fmt/format.h>

#include <algorithm>

#include "target/triton/kernel_printer.h"

namespace opwright::target::triton {
using namespace math;
using tile::kNoBuffer;
using tile::Stmt;
using tile::StmtKind;

namespace {
bool float16(DType t) { return t == DType::F16 || t == DType::BF16; }
}  // namespace

void KernelPrinter::store(const Stmt& s) {
    const Equation& q = math_.equations[s.equation];
    if (std::find(form_.local.begin(), form_.local.end(), q.lhs) != form_.local.end()) return;
    const Piece& value = pieces_.at(s.a);
    write(q, value, Outside::Error);
}

void KernelPrinter::write(const Equation& q, const Piece& value, Outside outside) {
    const auto at = expressions_.place(q.lhs, q.at, outside, order_, value.axes);
    // Results of a row that is walked several times are streamed past the caches: the row is to stay there.
    const bool row = std::any_of(value.axes.begin(), value.axes.end(), [&](VarId a) {
        return std::find(form_.grid.begin(), form_.grid.end(), a) == form_.grid.end();
    });
    const bool walk = row && (!eviction_.empty() || rows_ == RowForm::Shared);
    body_.line(fmt::format("tl.store({}, {}{}{})", at.pointer, expressions_.over(value, at.axes),
                           at.mask ? ", mask=" + expressions_.over(*at.mask, at.axes) : "",
                           walk ? ", cache_modifier=\".cs\"" : ""));
}

void KernelPrinter::update(const Stmt& s) {
    const Equation& q = math_.equations[s.equation];
    const Piece value = pieces_.at(s.a);
    const DType t = math_.tensors[q.lhs].dtype;
    if (q.update == Update::Overwrite || q.update == Update::Set) return write(q, value, q.outside);
    Axes every = value.axes;
    for (ExprId a : q.at) every = joint(every, expressions_.axes_of(a, order_));
    const auto at = expressions_.place(q.lhs, q.at, q.outside, order_, every);
    const std::string mask = at.mask ? ", mask=" + expressions_.over(*at.mask, at.axes) : "";
    if (atomic(q.update, t)) {
        const char* f = q.update == Update::Add ? "add" : q.update == Update::Max ? "max" : "min";
        std::string v = expressions_.over(value, at.axes);
        if (value.axes != at.axes) v = fmt::format("tl.broadcast_to({}, {})", v, shape(at.axes));
        body_.line(fmt::format("tl.atomic_{}({}, {}{}, sem=\"relaxed\")", f, at.pointer, v, mask));
        return;
    }
    // One program comes by every place; the barrier keeps a later step from reading before this one has written.
    const std::string old = names_.take("old");
    body_.line(fmt::format("{} = tl.load({}{}){}", old, at.pointer, mask, float16(t) ? ".to(tl.float32)" : ""));
    const ReduceOp op = q.update == Update::Add   ? ReduceOp::Sum
                        : q.update == Update::Mul ? ReduceOp::Prod
                        : q.update == Update::Max ? ReduceOp::Max
                                                  : ReduceOp::Min;
    body_.line(fmt::format("tl.store({}, {}{})", at.pointer,
                           combine(op, t, old, expressions_.over(value, at.axes, kAtom)), mask));
    body_.line("tl.debug_barrier()");
}

}  // namespace opwright::target::triton
