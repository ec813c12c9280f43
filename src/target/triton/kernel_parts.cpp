// Rows of 16-bit elements that one program holds although they have more elements than its registers take as 32-bit
// numbers: in parts, packed, each of which every walk converts anew. Loops over parts are unrolled, so that parts stay in
// registers.
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
    const Expr& x = math_.expr(row_);
    part_ = names_.take("part");
    parts_ = names_.take(math_.tensors[x.ref].name + "_parts");
    body_.line(parts_ + " = ()");
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
    std::string packed;
    if (!loaded_row_) {
        LoadOptions o{.raw = true};
        row_fill_ = fill;
        if (fill) o.other = identity_text(*fill, b.dtype);
        packed = expressions_.load(row_, order, name + "_packed", o).text;
        body_.line(fmt::format("{0} = {0} + ({1},)", parts_, packed));
    } else {
        packed = fmt::format("{}({}[{}], OPAQUE)", file_.helper("_again"), parts_, part_);
    }
    if (fill && fill == row_fill_) filled_.insert(s.dst);
    pieces_[s.dst] = expressions_.bind({packed + ".to(tl.float32)", kAtom, expressions_.axes_of(row_, order)}, name);
    expressions_.set(row_, pieces_[s.dst]);
    return true;
}

}  // namespace opwright::target::triton
