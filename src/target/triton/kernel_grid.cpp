#include <fmt/format.h>

#include <algorithm>

#include "target/triton/kernel_printer.h"

namespace opwright::target::triton {
using namespace math;
using tile::kNoBuffer;
using tile::Stmt;
using tile::StmtKind;

namespace {
std::string upper(std::string s) {
    for (char& c : s) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return s;
}
}  // namespace

int64_t next_power_of_two(int64_t n) {
    int64_t r = 1;
    while (r < n) r *= 2;
    return r;
}

std::string KernelPrinter::block(VarId key, const std::string& host) {
    const std::string n = names_.take("BLOCK_" + upper(math_.vars[key].name));
    r_.blocks.emplace_back(n, host);
    block_[key] = n;
    return n;
}

std::string KernelPrinter::block_size(const Sym& extent, const std::string& extent_text, int64_t tile, int64_t least,
                                      const std::string& bound) {
    if (const auto c = extent.constant(); c && bound.empty()) {
        int64_t n = next_power_of_two(std::max<int64_t>(*c, 1));
        if (tile) n = std::min(n, tile);
        return std::to_string(std::max(n, least));
    }
    std::string n = fmt::format("triton.next_power_of_2(max({}, {}))", extent_text, std::max<int64_t>(least, 1));
    if (!tile && bound.empty()) return n;
    std::string limits;
    if (tile) limits += fmt::format(", {}", tile);
    if (!bound.empty()) limits += ", " + bound;
    return fmt::format("min({}{})", n, limits);
}

bool KernelPrinter::exact(const Sym& extent, int64_t tile) {
    const auto c = extent.constant();
    if (!c || *c < 1) return false;
    const int64_t n = next_power_of_two(*c);
    return tile ? *c % std::min(n, tile) == 0 : n == *c;
}

void KernelPrinter::axes() {
    // Blocks: axes held whole first, then from the innermost out; each takes what the limit leaves.
    std::vector<schedule::BlockAxis> order;
    for (const auto& a : plan_.blocks)
        if (a.tile != 1) order.push_back(a);
    for (const auto& a : order) {
        order_.push_back(a.var);
        expressions_.axis[a.var] = a.var;
    }
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
        const bool wa = a.tile == schedule::kWhole, wb = b.tile == schedule::kWhole;
        if (wa != wb) return wa;
        return std::find(order_.begin(), order_.end(), a.var) > std::find(order_.begin(), order_.end(), b.var);
    });
    std::string before;
    int64_t known = 1;  // the product of the blocks so far, where they are numbers, else 0
    for (const auto& a : order) {
        const Sym& extent = math_.vars[a.var].extent;
        int64_t tile = a.tile;
        std::string bound;
        if (!before.empty() && plan_.elements && a.tile != schedule::kWhole) {
            if (known) {
                tile = std::min(tile, std::max<int64_t>(plan_.elements / known, 1));
            } else {
                if (plan_.elements <= tile) tile = 0;  // the bound is the smaller
                const bool product = before.find('*') != std::string::npos;
                bound = fmt::format(fmt::runtime(product ? "max({} // ({}), 1)" : "max({} // {}, 1)"), plan_.elements,
                                    before);
            }
        }
        int64_t least = 1;
        for (const Rescale& x : p_.pairs)
            if (math_.expr(x.first).vars[0] == a.var) least = std::max(least, neighbours(x));
        const std::string host = rows_ == RowForm::InParts  ? step_in_parts(file_.size(extent), a.tile)
                                 : rows_ == RowForm::Shared ? std::to_string(a.tile ? a.tile : kShare)
                                                            : block_size(extent, file_.size(extent), tile, least, bound);
        known *= host.find_first_not_of("0123456789") == std::string::npos ? std::stoll(host) : 0;
        block(a.var, host);
        before += (before.empty() ? "" : " * ") + block_[a.var];
    }
    // Parameters in the order of the axes.
    std::stable_sort(r_.blocks.begin(), r_.blocks.end(), [&](const auto& a, const auto& b) {
        const auto at = [&](const std::string& n) {
            for (size_t i = 0; i < order.size(); ++i)
                if (block_[order[i].var] == n) return i;
            return order.size();
        };
        return at(a.first) < at(b.first);
    });
    elements_ = before;
    if (rows_ == RowForm::Shared) return begin_shared();
    grid("tl.program_id(0).to(INDEX)");
    for (const auto& a : plan_.blocks)
        if (a.tile == schedule::kWhole) {
            define_axis(a.var, fmt::format("tl.arange(0, {}).to(INDEX)", block_[a.var]),
                        exact(math_.vars[a.var].extent, 0));
            r_.index = true;
        }
}

void KernelPrinter::define_axis(VarId v, const std::string& text, bool exact_fit) {
    const Piece i{names_.take(math_.vars[v].name), kAtom, {v}};
    body_.line(i.text + " = " + text);
    expressions_.index[v] = i;
    if (!exact_fit) expressions_.guard[v] = {i, size(math_.vars[v].extent)};
}

void KernelPrinter::define_scalar(VarId v, const std::string& text) {
    const std::string n = names_.take(math_.vars[v].name);
    if (n != text) body_.line(n + " = " + text);
    expressions_.index[v] = {n, kAtom, {}};
}

std::string KernelPrinter::steps(const tile::GridAxis& g, bool host) {
    const std::string extent = host ? file_.size(math_.vars[g.var].extent) : size(math_.vars[g.var].extent);
    if (!block_.count(g.var)) return extent;
    return fmt::format("{}.cdiv({}, {})", host ? "triton" : "tl", extent, block_[g.var]);
}

void KernelPrinter::grid(const std::string& program) {
    std::vector<tile::GridAxis> many;
    for (const tile::GridAxis& g : nest_.grid) {
        if (math_.vars[g.var].extent.is(1))
            expressions_.index[g.var] = {"0", kAtom, {}};
        else
            many.push_back(g);
        if (math_.vars[g.var].extent.is(1) && block_.count(g.var)) { many.push_back(g); }
    }
    for (const tile::GridAxis& g : many) r_.grid += (r_.grid.empty() ? "" : " * ") + steps(g, true);
    if (r_.grid.empty()) r_.grid = "1";
    if (many.empty()) return;
    r_.index = true;
    const auto block_text = [&](VarId v, const std::string& step) {
        return fmt::format("{} * {} + tl.arange(0, {})", step, block_[v], block_[v]);
    };
    const auto fits = [&](const tile::GridAxis& g) { return exact(math_.vars[g.var].extent, g.tile); };
    if (many.size() == 1) {
        if (block_.count(many[0].var))
            define_axis(many[0].var, block_text(many[0].var, program), fits(many[0]));
        else
            define_scalar(many[0].var, program);
        return;
    }
    body_.line("pid = " + program);
    std::string rest = "pid";
    for (size_t i = many.size(); i-- > 0;) {
        const tile::GridAxis& g = many[i];
        const std::string count = steps(g, false);
        const std::string step = i == 0 ? rest : "pid % " + count;
        if (block_.count(g.var))
            define_axis(g.var, block_text(g.var, step), fits(g));
        else
            define_scalar(g.var, step);
        if (i > 1) body_.line("pid = pid // " + count);
        if (i == 1) rest = "pid // " + count;
    }
}

}  // namespace opwright::target::triton
