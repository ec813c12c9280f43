// Two folds in one walk along a row: each lane of the block keeps a pair, and the pairs become one at the end
// (math/rescale.h has the algebra and why special values come out as they do of two walks).
#include <fmt/format.h>

#include <algorithm>

#include "target/triton/kernel_printer.h"

namespace opwright::target::triton {
using namespace math;
using tile::kNoBuffer;
using tile::Stmt;

namespace {
std::string options(const Rescale& x, bool is_short) {
    std::string r;
    if (x.scale != 1) {
        Expr scale;
        scale.number = x.scale;
        r += ", SCALE=" + literal_text(scale);
    }
    if (x.function == Fn::Exp2) r += ", BASE_2=True";
    if (is_short) r += ", SHORT=True";
    return r;
}
}  // namespace

int64_t KernelPrinter::neighbours(const Rescale& x) const {
    if (order_.back() != math_.expr(x.first).vars[0]) return 1;
    size_t bytes = 8;
    for (TensorId t : math_.reads(x.value)) bytes = std::min(bytes, size_of(math_.tensors[t].dtype));
    return static_cast<int64_t>(16 / std::max<size_t>(bytes, 2));
}

void KernelPrinter::accumulate_pair(const Stmt& s) {
    const Rescale& x = p_.pairs[s.pair];
    const Expr& first = math_.expr(x.first);
    const Piece &a = pieces_.at(s.b), &b = pieces_.at(s.dst);
    const auto inside =
        filled(s) ? std::nullopt : counts({expressions_.axis.at(first.vars[0])}, kNoBuffer);
    const Piece& value = pieces_.at(s.a);
    std::string term = expressions_.over(value, b.axes);
    if (inside)
        term = fmt::format("tl.where({}, {}, {})", expressions_.over(*inside, b.axes), term,
                           identity_text(first.reduce, p_.buffers[s.dst].dtype));
    else if (value.axes != b.axes)
        term = fmt::format("tl.broadcast_to({}, {})", term, shape(b.axes));
    if (x.kind == Rescale::Kind::Exponentials) {
        const bool is_short = expressions_.short_exponentials.count(x.exponential) > 0;
        body_.line(fmt::format("{0}, {1} = {2}({0}, {1}, {3}, V={4}{5})", a.text, b.text,
                               file_.helper("_add_exponentials"), term, neighbours(x), options(x, is_short)));
        return;
    }
    body_.line(fmt::format("{0}, {1} = {2}({0}, {1}, {3}, {4}, {5}, V={6})", a.text, b.text,
                           file_.helper("_add_deviations"), term, start_, size(math_.vars[first.vars[0]].extent),
                           neighbours(x)));
}

void KernelPrinter::reduce_pair(const Stmt& s) {
    const Rescale& x = p_.pairs[s.pair];
    const VarId key = expressions_.axis.at(s.var);
    const Piece a = pieces_.at(s.b), b = pieces_.at(s.a);
    const Axes kept = without(b.axes, key);
    const auto place = static_cast<int>(std::find(b.axes.begin(), b.axes.end(), key) - b.axes.begin());
    const Piece shift = expressions_.named(x.shift, kept, "shift");
    const std::string extent = size(math_.vars[s.var].extent), over = expressions_.over(shift, b.axes);
    std::string text;
    if (x.kind == Rescale::Kind::Exponentials) {
        const bool is_short = expressions_.short_exponentials.count(x.exponential) > 0;
        text = fmt::format("tl.sum({}({}, {}, {}{}), {})", file_.helper("_rescaled"), a.text, b.text, over,
                           options(x, is_short), place);
        // An infinite maximum makes differences to it NaN.
        const std::string m = expressions_.over(shift, kept, kSum);
        text += fmt::format(" + ({0} - {0})", m);
        if (math_.vars[s.var].extent.lower() < 1) text = fmt::format("tl.where({} > 0, {}, 0.0)", extent, text);
    } else {
        text = fmt::format("tl.sum({}({}, {}, {}, {}, V={}), {})", file_.helper("_deviations_from"), a.text, b.text,
                           extent, over, neighbours(x), place);
    }
    pieces_[s.dst] = expressions_.bind({text, kAtom, kept}, buffer_name(s.dst));
}

}  // namespace opwright::target::triton
