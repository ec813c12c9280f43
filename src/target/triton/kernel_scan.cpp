#include <fmt/format.h>

#include <algorithm>

#include "target/triton/kernel_printer.h"

namespace opwright::target::triton {
using namespace math;
using tile::kNoBuffer;
using tile::Stmt;
using tile::StmtKind;

void KernelPrinter::scan(const Stmt& s) {
    const Expr& x = math_.expr(math_.equations[s.equation].rhs);
    const VarId key = expressions_.axis.count(s.var) ? expressions_.axis.at(s.var) : kNone;
    const DType t = p_.buffers[s.dst].dtype;
    const Piece src = pieces_.at(s.a);
    const std::string name = buffer_name(s.dst);
    if (key == kNone) {  // point by point
        Piece& carry = pieces_.at(s.b);
        const std::string next = combine(x.reduce, t, carry.text, expressions_.over(src, src.axes, kAtom));
        if (x.exclusive) {
            pieces_[s.dst] = expressions_.bind({carry.text, kAtom, carry.axes}, name);
            body_.line(carry.text + " = " + next);
        } else {
            body_.line(carry.text + " = " + next);
            pieces_[s.dst] = expressions_.bind({carry.text, kAtom, carry.axes}, name);
        }
        return;
    }
    const Axes axes = joint(src.axes, {key}), kept = without(axes, key);
    const auto place = static_cast<int>(std::find(axes.begin(), axes.end(), key) - axes.begin());
    const std::string nothing = identity_text(x.reduce, t);
    Piece term = src;
    const bool nothing_beyond = filled_.count(origin(s.a)) > 0;
    if (const auto valid = nothing_beyond ? std::nullopt : expressions_.mask({key}))
        term = expressions_.bind({fmt::format("tl.where({}, {}, {})", expressions_.over(*valid, axes),
                                              expressions_.over(src, axes), nothing),
                                  kAtom, axes},
                                 "t");
    else if (src.axes != axes)
        term = expressions_.bind(
            {fmt::format("tl.broadcast_to({}, {})", expressions_.over(src, axes), shape(axes)), kAtom, axes}, "t");
    const std::string backward = x.backward ? ", reverse=True" : "";
    const bool narrow = !is_float(t) && size_of(t) < 4;
    std::string text;
    const std::string wide = narrow ? ".to(tl.int32)" : "";
    switch (x.reduce) {
        case ReduceOp::Sum: text = fmt::format("tl.cumsum({}{}, {}{})", term.text, wide, place, backward); break;
        case ReduceOp::Prod: text = fmt::format("tl.cumprod({}{}, {}{})", term.text, wide, place, backward); break;
        case ReduceOp::Max:
        case ReduceOp::Min:
            text = fmt::format("tl.associative_scan({}, {}, {}{})", term.text, place,
                               file_.helper(x.reduce == ReduceOp::Max ? (is_float(t) ? "_maximum" : "_int_maximum")
                                                                      : (is_float(t) ? "_minimum" : "_int_minimum")),
                               backward);
            break;
        default: throw Refusal("a running any, all, argmax or argmin has no form in Triton");
    }
    if (narrow && (x.reduce == ReduceOp::Sum || x.reduce == ReduceOp::Prod)) text += ".to(" + storage_name(t) + ")";
    Piece r = expressions_.bind({text, kAtom, axes}, name);
    if (x.exclusive) {
        // What stands before each element: the running value of its neighbour.
        const std::string b = block_.at(key);
        const Piece at{fmt::format("tl.arange(0, {})", b), kAtom, {key}};
        const std::string from = x.backward ? fmt::format("tl.minimum({} + 1, {} - 1)", at.text, b)
                                            : fmt::format("tl.maximum({} - 1, 0)", at.text);
        const std::string edge = x.backward ? fmt::format("{} == {} - 1", at.text, b) : at.text + " == 0";
        const Piece neighbour = expressions_.bind(
            {fmt::format("tl.broadcast_to({}, {})", expressions_.over({from, kAtom, {key}}, axes), shape(axes)), kAtom,
             axes},
            "neighbour");
        r = expressions_.bind(
            {fmt::format("tl.where({}, {}, tl.gather({}, {}, {}))", expressions_.over({edge, kCompare, {key}}, axes),
                         nothing, r.text, neighbour.text, place),
             kAtom, axes},
            name);
    }
    if (s.b != kNoBuffer) {
        const Piece& carry = pieces_.at(s.b);
        r = expressions_.bind({combine(x.reduce, t, expressions_.over(carry, axes, kAtom), r.text), kCompare, axes},
                              name);
        const std::string total = fold(x.reduce, t, term.text, place);
        const bool plain = x.reduce == ReduceOp::Sum && t != DType::Bool;
        body_.line(plain ? fmt::format("{} += {}", carry.text, total)
                         : carry.text + " = " + combine(x.reduce, t, carry.text, total));
    }
    pieces_[s.dst] = r;
}

}  // namespace opwright::target::triton
