// Rows of f32 that several programs share, a part each, because they are too long for one: each part is read once and stays
// in registers, as a block or in pieces (kernel_parts.cpp). Programs go from row to row, and all of them run at the same
// time (a cooperative launch), for each awaits what the others' parts of its row fold to. A program has the same columns of
// all its rows, whose scale and bias it finds in the L1 cache. What is one number a row all of them write, the same.
#include <fmt/format.h>

#include <algorithm>

#include "target/triton/kernel_printer.h"

namespace opwright::target::triton {
using namespace math;

void KernelPrinter::begin_shared() {
    const VarId v = order_[0];
    share_ = names_.take("part");
    body_.line(share_ + " = tl.program_id(0) % PARTS");
    if (plan_.blocks[0].tile == schedule::kWhole) {
        define_axis(v, fmt::format("({0} * {1} + tl.arange(0, {1})).to(INDEX)", share_, block_[v]),
                    exact(math_.vars[v].extent, kShare));
        (void)expressions_.mask(order_);
    }
    r_.row = size(math_.vars[v].extent);
    for (const tile::GridAxis& g : nest_.grid)
        if (!math_.vars[g.var].extent.is(1))
            r_.rows += (r_.rows.empty() ? "" : " * ") + size(math_.vars[g.var].extent);
    if (r_.rows.empty()) r_.rows = "1";
    const std::string row = names_.take("row");
    body_.line(
        fmt::format("for {} in range(tl.program_id(0) // PARTS, {}, tl.num_programs(0) // PARTS):", row, r_.rows));
    body_.indent();
    grid(fmt::format("tl.cast({}, INDEX)", row));
    for (const tile::Stmt& s : nest_.body) r_.folds += s.kind == tile::StmtKind::Reduce && s.a != tile::kNoBuffer;
    words_ = names_.take("words");
    body_.line(fmt::format("{} = words_ptr + {} * {}", words_, row,
                           r_.folds == 1 ? "PARTS" : fmt::format("({} * PARTS)", r_.folds)));
}

bool KernelPrinter::of_row(ExprId load) const {
    const auto vars = math_.free_vars(load);
    return std::any_of(nest_.grid.begin(), nest_.grid.end(), [&](const tile::GridAxis& g) { return has(vars, g.var); });
}

std::string KernelPrinter::join_parts(ReduceOp op, const std::string& folded) {
    const std::string words = joined_ == 0   ? words_
                              : joined_ == 1 ? words_ + " + PARTS"
                                             : fmt::format("{} + {} * PARTS", words_, joined_);
    ++joined_;
    const std::string every = fmt::format("{}({}, {}, {}, PARTS, {})", file_.helper("_every_part"), folded, words,
                                          share_, identity_text(op, DType::F32));
    return fold(op, DType::F32, every, 0);
}

}  // namespace opwright::target::triton
