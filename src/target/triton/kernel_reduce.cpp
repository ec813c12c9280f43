#include <fmt/format.h>

#include <algorithm>

#include "target/triton/kernel_printer.h"

namespace opwright::target::triton {
using namespace math;
using tile::kNoBuffer;
using tile::Stmt;
using tile::StmtKind;

std::string KernelPrinter::identity_text(ReduceOp op, DType t) {
    Expr e;
    e.dtype = t;
    e.number = identity(op, t);
    switch (op) {
        case ReduceOp::Max:
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMaxLast:
            e.number = identity(ReduceOp::Max, t);
            e.integer = t == DType::I64                   ? std::numeric_limits<int64_t>::min()
                        : is_float(t) || t == DType::Bool ? 0
                                                          : static_cast<int64_t>(lowest(t));
            break;
        case ReduceOp::Min:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMinLast:
            e.number = identity(ReduceOp::Min, t);
            e.integer = t == DType::I64    ? std::numeric_limits<int64_t>::max()
                        : t == DType::U64  ? -1
                        : is_float(t)      ? 0
                        : t == DType::Bool ? 1
                                           : static_cast<int64_t>(highest(t));
            break;
        case ReduceOp::Prod:
        case ReduceOp::All: e.integer = 1; break;
        case ReduceOp::Sum:
        case ReduceOp::Any: e.integer = 0; break;
    }
    return literal_text(e);
}

DType KernelPrinter::term_type(BufferId b) const {
    const Expr& x = reduce_expr(b);
    const DType t = is_arg(x.reduce) ? math_.expr(x.args[0]).dtype : p_.buffers[b].dtype;
    return is_arg(x.reduce) && t == DType::Bool ? DType::I32 : t;
}

Piece KernelPrinter::position(const Expr& x) {
    Piece r{"", kAtom, {}};
    for (VarId v : x.vars) {
        const Piece& i = expressions_.index.at(v);
        if (r.text.empty()) {
            r = i;
            continue;
        }
        Axes axes;
        for (VarId a : order_)
            if (has(r.axes, a) || has(i.axes, a)) axes.push_back(a);
        r = {fmt::format("{} * {} + {}", expressions_.over(r, axes, kProduct), size(math_.vars[v].extent),
                         expressions_.over(i, axes, kProduct)),
             kSum, axes};
    }
    return r;
}

void KernelPrinter::fill(const Stmt& s) {
    const tile::Buffer& b = p_.buffers[s.dst];
    const Axes axes = axes_of(b);
    const bool contraction = form_.contraction && b.value == form_.contraction->reduce;
    const ReduceOp op = contraction ? ReduceOp::Sum : s.op;
    if (b.value != kNone && math_.expr(b.value).kind == ExprKind::Reduce && is_arg(op)) {
        const Expr& x = reduce_expr(s.dst);
        const DType t = term_type(s.dst);
        pieces_[s.dst] = expressions_.bind({full(axes, identity_text(op, t), compute_name(t)), kAtom, axes}, "best");
        at_[s.dst] = expressions_.bind({full(axes, first(op) ? positions(x) : "-1", "INDEX"), kAtom, axes}, "best_at");
        return;
    }
    fills_.insert(s.dst);
    const std::string zero = identity_text(op, b.dtype);
    std::string block = full(axes, zero, compute_name(b.dtype));
    if (const auto pair = lanes_.find(s.dst); pair != lanes_.end())
        if (const int64_t n = neighbours(p_.pairs[pair->second]); n > 1)
            block = fmt::format("tl.full([{} // {}], {}, {})", shape(axes).substr(1, shape(axes).size() - 2), n, zero,
                                compute_name(b.dtype));
    pieces_[s.dst] = expressions_.bind({block, kAtom, axes}, buffer_name(s.dst));
}

std::string KernelPrinter::combine(ReduceOp op, DType t, const std::string& a, const std::string& b) {
    switch (op) {
        case ReduceOp::Sum: return a + " + " + b;
        case ReduceOp::Prod: return a + " * " + b;
        case ReduceOp::Any: return a + " | " + b;
        case ReduceOp::All: return a + " & " + b;
        case ReduceOp::Max:
        case ReduceOp::Min: {
            const bool max = op == ReduceOp::Max;
            if (t == DType::Bool) return a + (max ? " | " : " & ") + b;
            const std::string f = is_float(t) ? file_.helper(max ? "_maximum" : "_minimum")
                                  : max       ? "tl.maximum"
                                              : "tl.minimum";
            return fmt::format("{}({}, {})", f, a, b);
        }
        default: break;
    }
    return "";
}

std::optional<Piece> KernelPrinter::counts(const Axes& reduced, BufferId condition) {
    std::optional<Piece> r = expressions_.mask(reduced);
    if (condition != kNoBuffer) r = expressions_.both(r, pieces_.at(condition), order_);
    return r;
}

void KernelPrinter::accumulate(const Stmt& s) {
    const Piece& dst = pieces_.at(s.dst);
    Piece term = pieces_.at(s.a);
    const Expr& x = reduce_expr(s.dst);
    Axes reduced;
    for (VarId v : x.vars)
        if (const auto it = expressions_.axis.find(v); it != expressions_.axis.end()) reduced.push_back(it->second);
    const auto valid = filled(s) ? std::nullopt : counts(reduced, s.b);
    const DType t = term_type(s.dst);
    if (is_arg(s.op)) {
        if (math_.expr(x.args[0]).dtype == DType::Bool)
            term =
                expressions_.bind({expressions_.over(term, term.axes, kAtom) + ".to(tl.int32)", kAtom, term.axes}, "t");
        const Piece at = position(x);
        const Piece pos = at.level == kAtom ? at : expressions_.bind(at, "at");
        Piece better{fmt::format("{}({}, {}, {}, {}, LARGEST={}, FIRST={})", file_.helper("_better"),
                                 expressions_.over(term, dst.axes), expressions_.over(pos, dst.axes), dst.text,
                                 at_.at(s.dst).text, largest(s.op) ? "True" : "False", first(s.op) ? "True" : "False"),
                     kAtom, dst.axes};
        if (valid) better = expressions_.both(valid, better, order_);
        const Piece is = expressions_.bind(better, "better");
        body_.line(fmt::format("{0} = tl.where({1}, {2}, {0})", at_.at(s.dst).text, is.text,
                               expressions_.over(pos, dst.axes)));
        body_.line(fmt::format("{0} = tl.where({1}, {2}, {0})", dst.text, is.text, expressions_.over(term, dst.axes)));
        return;
    }
    std::string text = expressions_.over(term, dst.axes, kAtom);
    if (valid)
        text = fmt::format("tl.where({}, {}, {})", expressions_.over(*valid, dst.axes),
                           expressions_.over(term, dst.axes), identity_text(s.op, t));
    body_.line(s.op == ReduceOp::Sum ? fmt::format("{} += {}", dst.text, text)
                                     : fmt::format("{} = {}", dst.text, combine(s.op, t, dst.text, text)));
}

void KernelPrinter::reduce(const Stmt& s) {
    if (s.a == kNoBuffer) {  // already complete
        if (is_arg(s.op) && p_.buffers[s.dst].value != kNone && reduce_expr(s.dst).kind == ExprKind::Reduce &&
            at_.count(s.dst))
            pieces_[s.dst] = finish(s.op, at_.at(s.dst), reduce_expr(s.dst), true);
        return;
    }
    const VarId key = expressions_.axis.at(s.var);
    const tile::Buffer& b = p_.buffers[s.dst];
    const Piece src = pieces_.at(s.a);
    const Axes axes = joint(src.axes, {key}), kept = without(axes, key);
    const auto place = static_cast<int>(std::find(axes.begin(), axes.end(), key) - axes.begin());
    const auto valid = filled(s) ? std::nullopt : counts({key}, s.b);
    if (is_arg(s.op)) return arg_reduce(s, src, axes, kept, place, at_.count(s.a) ? std::nullopt : valid);
    std::string text = expressions_.over(src, axes);
    if (valid && !fills_.count(s.a))  // partial results hold the identity already
        text = fmt::format("tl.where({}, {}, {})", expressions_.over(*valid, axes), text, identity_text(s.op, b.dtype));
    else if (src.axes != axes)
        text = fmt::format("tl.broadcast_to({}, {})", text, shape(axes));
    text = fold(s.op, b.dtype, text, place);
    if (rows_ == RowForm::Shared) text = join_parts(s.op, text);
    pieces_[s.dst] = expressions_.bind({text, kAtom, kept}, buffer_name(s.dst));
}

std::string KernelPrinter::fold(ReduceOp op, DType t, const std::string& text, int axis) {
    const bool small = !is_float(t) && size_of(t) < 4;
    const auto narrowed = [&](std::string r) { return small ? r + ".to(" + storage_name(t) + ")" : r; };
    switch (op) {
        case ReduceOp::Sum: return narrowed(fmt::format("tl.sum({}, {})", text, axis));
        case ReduceOp::Prod: return fmt::format("tl.reduce({}, {}, {})", text, axis, file_.helper("_multiply"));
        case ReduceOp::Any: return fmt::format("tl.max(({}).to(tl.int32), {}) != 0", text, axis);
        case ReduceOp::All: return fmt::format("tl.min(({}).to(tl.int32), {}) != 0", text, axis);
        case ReduceOp::Max:
        case ReduceOp::Min: {
            const bool max = op == ReduceOp::Max;
            if (t == DType::Bool)
                return fmt::format("tl.{}(({}).to(tl.int32), {}) != 0", max ? "max" : "min", text, axis);
            // tl.max and tl.min drop NaN.
            if (is_float(t))
                return fmt::format("tl.reduce({}, {}, {})", text, axis, file_.helper(max ? "_maximum" : "_minimum"));
            return narrowed(fmt::format("tl.{}({}, {})", max ? "max" : "min", text, axis));
        }
        default: break;
    }
    return "";
}

void KernelPrinter::arg_reduce(const Stmt& s, Piece src, const Axes& axes, const Axes& kept, int place,
                               const std::optional<Piece>& valid) {
    const Expr& x = reduce_expr(s.dst);
    const DType t = term_type(s.dst);
    const bool max = largest(s.op), lead = first(s.op), paired = at_.count(s.a) > 0;
    if (!paired && math_.expr(x.args[0]).dtype == DType::Bool)
        src = expressions_.bind({expressions_.over(src, src.axes, kAtom) + ".to(tl.int32)", kAtom, src.axes}, "t");
    std::string values = expressions_.over(src, axes);
    if (valid)
        values = fmt::format("tl.where({}, {}, {})", expressions_.over(*valid, axes), values, identity_text(s.op, t));
    else if (src.axes != axes)
        values = fmt::format("tl.broadcast_to({}, {})", values, shape(axes));
    const Piece top = expressions_.bind({fold(max ? ReduceOp::Max : ReduceOp::Min, t, values, place), kAtom, kept},
                                        max ? "largest" : "smallest");
    const Piece at = paired ? at_.at(s.a) : position(x);
    const std::string v = expressions_.over(src, axes, kOr);
    std::string hit = fmt::format("({} == {})", v, expressions_.over(top, axes, kOr));
    if (is_float(t)) hit += fmt::format(" | ({0} != {0})", v);
    Piece is{hit, is_float(t) ? kOr : kAtom, axes};
    if (valid) is = {fmt::format("{} & ({})", expressions_.over(*valid, axes, kAnd), hit), kAnd, axes};
    const Piece chosen =
        expressions_.bind({fmt::format("tl.{}(tl.where({}, {}, {}), {})", lead ? "min" : "max", is.text,
                                       expressions_.over(at, axes), lead ? positions(x) : "-1", place),
                           kAtom, kept},
                          "at");
    // Whether this was the last axis shows in the buffer's box: then it is the reduction's own.
    pieces_[s.dst] = top;
    at_[s.dst] = chosen;
    bool more = false;
    for (VarId r : x.vars)
        if (const auto it = expressions_.axis.find(r); it != expressions_.axis.end()) more |= has(kept, it->second);
    if (!more) pieces_[s.dst] = finish(s.op, chosen, x, s.b != kNoBuffer || x.args.size() > 1);
}

Piece KernelPrinter::finish(ReduceOp op, const Piece& at, const Expr& x, bool may_be_none) {
    std::string text = at.text;
    if (first(op) && may_be_none) text = fmt::format("tl.where({0} < {1}, {0}, 0)", at.text, positions(x));
    if (!first(op)) text = fmt::format("tl.maximum({}, 0)", at.text);
    return expressions_.bind({text + ".to(tl.int64)", kAtom, at.axes}, "place");
}

}  // namespace opwright::target::triton
