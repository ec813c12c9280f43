// Rows of 16-bit elements that one program holds although they have more elements than its registers take as 32-bit
// numbers: in parts, packed, each of which every walk converts anew. And a program's part of a row that is shared
// (kernel_shared.cpp), in pieces: what a result needs beside it is loaded for one after the other. Loops over parts are
// unrolled, so that they stay in registers.
#include <fmt/format.h>

#include <algorithm>

#include "target/triton/kernel_printer.h"

namespace opwright::target::triton {
using namespace math;
using tile::Stmt;

// At most eight parts, of which a thread has 32 registers; where 512 threads do, two programs share a processor.
std::string KernelPrinter::step_in_parts(const std::string& extent, int64_t tile) {
    return tile == 4096 ? "4096" : fmt::format("{} if {} > 32768 else 4096", tile, extent);
}

void KernelPrinter::begin_parts() {
    for (const auto& [walk, loads] : eviction_)
        for (const auto& [load, policy] : loads) row_ = load;
    const bool shared = rows_ == RowForm::Shared;
    part_ = names_.take(shared ? "piece" : "part");
    count_ = shared ? std::to_string(kPieces) : "PARTS";
    parts_ = names_.take(math_.tensors[math_.expr(row_).ref].name + (shared ? "_pieces" : "_parts"));
    body_.line(parts_ + " = ()");
    if (shared) return;
    const std::string step = r_.blocks.back().first;
    r_.blocks.emplace_back("PARTS", fmt::format("triton.cdiv({}, {})",
                                                file_.size(math_.vars[eviction_.begin()->first->var].extent), step));
    file_.launch_helper("_on_nvidia");
    r_.opaque = true;
}

bool KernelPrinter::take_part(const Stmt& s, const Axes& order) {
    const tile::Buffer& b = p_.buffers[s.dst];
    if (!walk_ || b.value != row_) return false;
    const auto fill = fill_of(s.dst);
    const std::string name = buffer_name(s.dst);
    const bool packed = rows_ == RowForm::InParts;
    std::string text;
    if (!loaded_row_) {
        LoadOptions o{.raw = true, .eviction = packed ? "" : "evict_first"};
        row_fill_ = fill;
        if (fill) o.other = identity_text(*fill, b.dtype);
        text = expressions_.load(row_, order, packed ? name + "_packed" : name, o).text;
        body_.line(fmt::format("{0} = {0} + ({1},)", parts_, text));
    } else {
        text = fmt::format("{}[{}]", parts_, part_);
        if (packed) text = fmt::format("{}({}, OPAQUE)", file_.helper("_again"), text);
    }
    if (fill && fill == row_fill_) filled_.insert(s.dst);
    const Axes axes = expressions_.axes_of(row_, order);
    pieces_[s.dst] = packed        ? expressions_.bind({text + ".to(tl.float32)", kAtom, axes}, name)
                     : loaded_row_ ? expressions_.bind({text, kAtom, axes}, name)
                                   : Piece{text, kAtom, axes};
    expressions_.set(row_, pieces_[s.dst]);
    return true;
}

}  // namespace opwright::target::triton
