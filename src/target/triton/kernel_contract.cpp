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

// The tensor that a factor is loaded from, through a widening cast: tl.dot takes the 16-bit elements as they are.
const Expr* half_load(const Program& p, ExprId e) {
    const Expr* x = &p.expr(e);
    if (x->kind == ExprKind::Cast && x->dtype == DType::F32) x = &p.expr(x->args[0]);
    return x->kind == ExprKind::Load && float16(x->dtype) ? x : nullptr;
}

}  // namespace

Sym KernelPrinter::group_extent(const std::vector<VarId>& group) const {
    Sym r = 1;
    for (VarId v : group) r = r * math_.vars[v].extent;
    return r;
}

void KernelPrinter::split(const std::vector<VarId>& group, const std::string& flat, const Axes& axes) {
    if (group.size() == 1) {
        expressions_.index[group[0]] = {flat, kAtom, axes};
        return;
    }
    Sym inner = 1;
    for (size_t i = group.size(); i-- > 0;) {
        std::string text = flat;
        if (!inner.is(1)) text += " // " + size(inner);
        if (i > 0) text = (inner.is(1) ? text : "(" + text + ")") + " % " + size(math_.vars[group[i]].extent);
        const std::string n = names_.take(math_.vars[group[i]].name);
        body_.line(n + " = " + text);
        expressions_.index[group[i]] = {n, kAtom, axes};
        inner = inner * math_.vars[group[i]].extent;
    }
}

void KernelPrinter::contraction_axes() {
    const schedule::Contraction& c = *form_.contraction;
    r_.index = true;
    order_ = {c.m.back(), c.n.back(), c.k.back()};
    for (const auto* group : {&c.m, &c.n, &c.k})
        for (VarId v : *group) expressions_.axis[v] = group->back();
    const Sym m = group_extent(c.m), n = group_extent(c.n), k = group_extent(c.k);
    for (const auto* group : {&c.m, &c.n, &c.k}) {  // the flat extents, and those of the inner parts of each
        std::vector<Sym> parts;
        for (size_t i = group->size(); i-- > 0;) {
            parts.insert(parts.begin(), math_.vars[(*group)[i]].extent);
            file_.product(parts);
        }
    }
    const auto& plan = plan_.contract;
    // The names people know from every matrix product.
    block_[order_[0]] = "BLOCK_M", block_[order_[1]] = "BLOCK_N", block_[order_[2]] = "BLOCK_K";
    Sym batch = 1;
    for (VarId v : c.batch) batch = batch * math_.vars[v].extent;
    const bool choice = plan_.warps == 0 && plan.mt == 128 && plan.nt == 128 && uses_dot(math_, c);
    if (choice) r_.choice = {file_.size(m), file_.size(n), batch.is(1) ? "" : file_.size(batch)};
    r_.blocks = {{"BLOCK_M", block_size(m, file_.size(m), choice ? 0 : plan.mt, 16, choice ? "block_m" : "")},
                 {"BLOCK_N", block_size(n, file_.size(n), choice ? 0 : plan.nt, 16, choice ? "block_n" : "")},
                 {"BLOCK_K", block_size(k, file_.size(k), choice ? 0 : plan.kc, 16, choice ? "block_k" : "")},
                 {"GROUP_M", "8"}};
    elements_ = "BLOCK_M * BLOCK_N";
    const std::string ms = size(m), ns = size(n);
    r_.grid = fmt::format("triton.cdiv({}, BLOCK_M) * triton.cdiv({}, BLOCK_N)", file_.size(m), file_.size(n));
    body_.line("blocks_m = tl.cdiv(" + ms + ", BLOCK_M)");
    body_.line("blocks_n = tl.cdiv(" + ns + ", BLOCK_N)");
    body_.line("pid = tl.program_id(0)");
    for (const char* taken : {"blocks_m", "blocks_n", "pid_m", "pid_n"}) names_.reserve(taken);
    if (!batch.is(1)) {
        r_.grid += " * " + file_.size(batch);
        std::string rest = names_.take("batch");
        body_.line(rest + " = (pid // (blocks_m * blocks_n)).to(INDEX)");
        body_.line("pid = pid % (blocks_m * blocks_n)");
        for (size_t i = c.batch.size(); i-- > 0;) {
            const Sym& extent = math_.vars[c.batch[i]].extent;
            if (i == 0) {
                expressions_.index[c.batch[i]] = {rest, kAtom, {}};
            } else {
                define_scalar(c.batch[i], rest + " % " + size(extent));
                body_.line(fmt::format("{0} = {0} // {1}", rest, size(extent)));
            }
        }
    }
    body_.comment(
        "Programs that run at the same time go over GROUP_M rows of blocks, column by column, so "
        "that they share what they read in the L2 cache.");
    body_.line("pid_m, pid_n = tl.swizzle2d(pid // blocks_n, pid % blocks_n, blocks_m, blocks_n, GROUP_M)");
    flat(c.m, "pid_m", m, plan.mt);
    flat(c.n, "pid_n", n, plan.nt);
}

void KernelPrinter::flat(const std::vector<VarId>& group, const std::string& pid, const Sym& extent, int64_t tile) {
    const VarId key = group.back();
    std::string wanted;
    for (VarId v : group) wanted += (wanted.empty() ? "" : "_") + math_.vars[v].name;
    const std::string n = names_.take(wanted);
    body_.line(fmt::format("{} = ({} * {} + tl.arange(0, {})).to(INDEX)", n, pid, block_[key], block_[key]));
    if (!exact(extent, tile) || *extent.constant() < 16) expressions_.guard[key] = {{n, kAtom, {key}}, size(extent)};
    split(group, n, {key});
}

void KernelPrinter::factor(BufferId dst, const Axes& order) {
    const tile::Buffer& b = p_.buffers[dst];
    const schedule::Contraction& c = *form_.contraction;
    const bool raw = uses_dot(math_, c) && half_load(math_, c.a) && half_load(math_, c.b) &&
                     half_load(math_, c.a)->dtype == half_load(math_, c.b)->dtype;
    ExprId e = b.value;
    if (raw && math_.expr(e).kind == ExprKind::Cast) e = math_.expr(e).args[0];
    const Expr& x = math_.expr(e);
    const std::string zero = is_float(x.dtype) ? "0.0" : x.dtype == DType::Bool ? "False" : "0";
    if (x.kind == ExprKind::Load && expressions_.axes_of(e, order).size() == 2 &&
        (x.outside != Outside::Value || math_.expr(x.args.back()).kind == ExprKind::Literal)) {
        const bool zero_fill = x.outside != Outside::Value || literal_text(math_.expr(x.args.back())) == zero;
        if (zero_fill) {
            pieces_[dst] = expressions_.load(e, order, buffer_name(dst), {.other = zero, .raw = raw});
            return;
        }
    }
    Piece v = x.kind == ExprKind::Load ? expressions_.load(e, order, file_.tensor(x.ref), {.raw = raw})
                                       : expressions_.named(e, order, buffer_name(dst));
    if (const auto mask = expressions_.mask(order)) {
        v = expressions_.bind(
            {fmt::format("tl.where({}, {}, {})", expressions_.over(*mask, order), expressions_.over(v, order), zero),
             kAtom, order},
            buffer_name(dst));
    } else if (v.axes != order) {
        v = expressions_.bind(
            {fmt::format("tl.broadcast_to({}, {})", expressions_.over(v, order), shape(order)), kAtom, order},
            buffer_name(dst));
    }
    if (v.axes != order)
        v = expressions_.bind(
            {fmt::format("tl.broadcast_to({}, {})", expressions_.over(v, order), shape(order)), kAtom, order},
            buffer_name(dst));
    pieces_[dst] = v;
}

void KernelPrinter::contract(const Stmt& s) {
    const Piece &acc = pieces_.at(s.dst), &a = pieces_.at(s.a), &b = pieces_.at(s.b);
    if (uses_dot(math_, *form_.contraction)) {
        body_.line(fmt::format("{0} = tl.dot({1}, {2}, {0}, input_precision=\"ieee\")", acc.text, a.text, b.text));
    } else {
        const DType t = p_.buffers[s.dst].dtype;
        const bool narrow = !is_float(t) && size_of(t) < 4;
        const bool widen = p_.buffers[s.a].dtype != t;
        const std::string type = ".to(" + storage_name(t) + ")";
        body_.line(fmt::format("{} += tl.sum({}[:, :, None]{} * {}[None, :, :]{}, 1){}", acc.text, a.text,
                               widen ? type : "", b.text, widen ? type : "", narrow ? type : ""));
    }
}

}  // namespace opwright::target::triton
