#include "target/triton/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "target/triton/expr.h"
#include "tile/blocks.h"

namespace opwright::target::triton {
using namespace math;
using tile::BufferId;
using tile::kNoBuffer;
using tile::Stmt;
using tile::StmtKind;

namespace {

constexpr int64_t kUnrolled = 8;  // loops of a known, small count are written out by the compiler

std::string upper(std::string s) {
    for (char& c : s) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return s;
}
int64_t next_power_of_two(int64_t n) {
    int64_t r = 1;
    while (r < n) r *= 2;
    return r;
}
bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }
bool float16(DType t) { return t == DType::F16 || t == DType::BF16; }

// The tensor that a factor is loaded from, through a widening cast: tl.dot takes the 16-bit elements as they are.
const Expr* half_load(const Program& p, ExprId e) {
    const Expr* x = &p.expr(e);
    if (x->kind == ExprKind::Cast && x->dtype == DType::F32) x = &p.expr(x->args[0]);
    return x->kind == ExprKind::Load && float16(x->dtype) ? x : nullptr;
}

class KernelPrinter {
public:
    KernelPrinter(const tile::Program& p, size_t nest, File& file, std::string name)
        : p_(p),
          math_(p.kernel.program),
          nest_(p.nests[nest]),
          form_(p.kernel.nests[nest]),
          plan_(p.schedule.nests[nest]),
          file_(file),
          expressions_(math_, file, names_, body_) {
        r_.name = std::move(name);
        file.reserve_sizes(names_);
        for (const char* n : {"pid", "INDEX", "error_ptr", "GROUP_M"}) names_.reserve(n);
        for (const TensorInfo& t : math_.tensors) names_.reserve(t.name + "_ptr");
        expressions_.held = [this](ExprId e) { return find(e); };
        expressions_.pointer = [this](TensorId t) { return pointer(t); };
        expressions_.error_pointer = [this] {
            r_.reports = true;
            return std::string("error_ptr");
        };
    }

    KernelText run() {
        body_.indent();
        if (form_.contraction)
            contraction_axes();
        else
            axes();
        scan_uses(nest_.body);
        statements(nest_.body);
        header();
        return std::move(r_);
    }

private:
    // ---- the block and the grid

    std::string size(const Sym& s) { return file_.size(s); }
    std::string pointer(TensorId t) {
        if (std::find(r_.tensors.begin(), r_.tensors.end(), t) == r_.tensors.end()) r_.tensors.push_back(t);
        return file_.tensor(t) + "_ptr";
    }

    // Declares the block's extent along an axis: `host` is the expression for it. A number needs no parameter.
    std::string block(VarId key, const std::string& host) {
        const std::string n = names_.take("BLOCK_" + upper(math_.vars[key].name));
        r_.blocks.emplace_back(n, host);
        block_[key] = n;
        return n;
    }
    // An extent's block on the host: as many points as it has, at most `tile` (0: no bound), at least `least`.
    static std::string block_size(const Sym& extent, const std::string& extent_text, int64_t tile, int64_t least,
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
    // No lane of the block leaves the extent.
    static bool exact(const Sym& extent, int64_t tile) {
        const auto c = extent.constant();
        if (!c || *c < 1) return false;
        const int64_t n = next_power_of_two(*c);
        return tile ? *c % std::min(n, tile) == 0 : n == *c;
    }

    void axes() {
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
        for (const auto& a : order) {
            const Sym& extent = math_.vars[a.var].extent;
            const std::string bound =
                before.empty() || plan_.elements == 0
                    ? ""
                    : fmt::format(fmt::runtime(before.find('*') == std::string::npos ? "max({} // {}, 1)"
                                                                                     : "max({} // ({}), 1)"),
                                  plan_.elements, before);
            block(a.var, block_size(extent, file_.size(extent), a.tile, 1, bound));
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
        grid();
        for (const auto& a : plan_.blocks)
            if (a.tile == schedule::kWhole) {
                define_axis(a.var, fmt::format("tl.arange(0, {}).to(INDEX)", block_[a.var]),
                            exact(math_.vars[a.var].extent, 0));
                r_.index = true;
            }
    }

    void define_axis(VarId v, const std::string& text, bool exact_fit) {
        const Piece i{names_.take(math_.vars[v].name), kAtom, {v}};
        body_.line(i.text + " = " + text);
        expressions_.index[v] = i;
        if (!exact_fit) expressions_.guard[v] = {i, size(math_.vars[v].extent)};
    }
    void define_scalar(VarId v, const std::string& text) {
        const std::string n = names_.take(math_.vars[v].name);
        if (n != text) body_.line(n + " = " + text);
        expressions_.index[v] = {n, kAtom, {}};
    }

    // Number of programs along a grid axis, in the kernel and on the host.
    std::string steps(const tile::GridAxis& g, bool host) {
        const std::string extent = host ? file_.size(math_.vars[g.var].extent) : size(math_.vars[g.var].extent);
        if (!block_.count(g.var)) return extent;
        return fmt::format("{}.cdiv({}, {})", host ? "triton" : "tl", extent, block_[g.var]);
    }

    void grid() {
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
            const std::string pid = "tl.program_id(0).to(INDEX)";
            if (block_.count(many[0].var))
                define_axis(many[0].var, block_text(many[0].var, pid), fits(many[0]));
            else
                define_scalar(many[0].var, pid);
            return;
        }
        body_.line("pid = tl.program_id(0).to(INDEX)");
        for (size_t i = many.size(); i-- > 0;) {
            const tile::GridAxis& g = many[i];
            const std::string count = steps(g, false);
            const std::string step = i == 0 ? "pid" : "pid % " + count;
            if (block_.count(g.var))
                define_axis(g.var, block_text(g.var, step), fits(g));
            else
                define_scalar(g.var, step);
            if (i > 0) body_.line("pid = pid // " + count);
        }
    }

    // ---- contractions: three axes, each a flat index over a group of variables

    Sym group_extent(const std::vector<VarId>& group) const {
        Sym r = 1;
        for (VarId v : group) r = r * math_.vars[v].extent;
        return r;
    }
    // The variables of a group from its flat index `flat`, which has the axis `key`.
    void split(const std::vector<VarId>& group, const std::string& flat, const Axes& axes) {
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

    void contraction_axes() {
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
        r_.blocks = {{"BLOCK_M", block_size(m, file_.size(m), plan.mt, 16, "")},
                     {"BLOCK_N", block_size(n, file_.size(n), plan.nt, 16, "")},
                     {"BLOCK_K", block_size(k, file_.size(k), plan.kc, 16, "")},
                     {"GROUP_M", "8"}};
        elements_ = "BLOCK_M * BLOCK_N";
        const std::string ms = size(m), ns = size(n);
        Sym batch = 1;
        for (VarId v : c.batch) batch = batch * math_.vars[v].extent;
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
    void flat(const std::vector<VarId>& group, const std::string& pid, const Sym& extent, int64_t tile) {
        const VarId key = group.back();
        std::string wanted;
        for (VarId v : group) wanted += (wanted.empty() ? "" : "_") + math_.vars[v].name;
        const std::string n = names_.take(wanted);
        body_.line(fmt::format("{} = ({} * {} + tl.arange(0, {})).to(INDEX)", n, pid, block_[key], block_[key]));
        if (!exact(extent, tile) || *extent.constant() < 16)
            expressions_.guard[key] = {{n, kAtom, {key}}, size(extent)};
        split(group, n, {key});
    }

    // ---- statements

    void scan_uses(const std::vector<Stmt>& body) {
        for (const Stmt& s : body) {
            if (s.kind == StmtKind::Reduce && s.a != kNoBuffer && s.b == kNoBuffer && !is_arg(s.op))
                folded_[s.a].push_back(s.op);
            else
                for (BufferId b : {s.a, s.b})
                    if (b != kNoBuffer && s.kind != StmtKind::Reduce) ++others_[b];
            if (s.kind == StmtKind::Store && s.a != kNoBuffer)
                stored_.emplace(s.a, math_.tensors[math_.equations[s.equation].lhs].name);
            scan_uses(s.body);
        }
    }

    const Piece* find(ExprId e) {
        const BufferId b = held_.find(p_, e);
        if (b == kNoBuffer) return nullptr;
        const auto it = pieces_.find(b);
        return it == pieces_.end() ? nullptr : &it->second;
    }
    Axes axes_of(const tile::Buffer& b) const {
        Axes r;
        for (const tile::Extent& x : b.box) {
            const auto it = expressions_.axis.find(x.var);
            if (it != expressions_.axis.end() && (r.empty() || r.back() != it->second)) r.push_back(it->second);
        }
        return r;
    }
    std::string shape(const Axes& axes) const {
        std::string r;
        for (VarId a : axes) r += (r.empty() ? "" : ", ") + block_.at(a);
        return axes.empty() ? "[]" : "[" + r + "]";
    }
    std::string full(const Axes& axes, const std::string& value, const std::string& type) const {
        return fmt::format("tl.full({}, {}, {})", shape(axes), value, type);
    }
    std::string buffer_name(BufferId b) const {
        const auto it = stored_.find(b);
        if (it != stored_.end()) return it->second;
        const std::string& n = p_.buffers[b].name;
        if (n == "sum") return "total";
        if (n == "max") return "largest";
        if (n == "min") return "smallest";
        if (n == "prod") return "product";
        return n;
    }
    static std::string identity_text(ReduceOp op, DType t) {
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

    void statements(const std::vector<Stmt>& body) {
        for (const Stmt& s : body) {
            statement(s);
            held_.after(p_, s);
        }
    }

    void statement(const Stmt& s) {
        switch (s.kind) {
            case StmtKind::For: return loop(s);
            case StmtKind::Load:
            case StmtKind::Gather:
            case StmtKind::Map: return define(s);
            case StmtKind::Fill: return fill(s);
            case StmtKind::Accumulate: return accumulate(s);
            case StmtKind::Reduce: return reduce(s);
            case StmtKind::Contract: return contract(s);
            case StmtKind::Scan: return scan(s);
            case StmtKind::Store: return store(s);
            case StmtKind::ScatterReduce: return update(s);
        }
    }

    static bool runs_backward(const Program& p, const std::vector<Stmt>& body) {
        for (const Stmt& s : body)
            if (s.kind == StmtKind::Scan && p.expr(p.equations[s.equation].rhs).backward) return true;
        return false;
    }

    void loop(const Stmt& s) {
        const tile::Held before = held_;
        const auto index = expressions_.index;
        const auto guard = expressions_.guard;
        const Names names = names_;  // those of the body may be used again after it
        expressions_.open();
        const bool contraction = form_.contraction.has_value();
        const Sym extent = contraction ? group_extent(form_.contraction->k) : math_.vars[s.var].extent;
        const std::string n = size(extent);
        r_.index = true;
        if (s.lane) {
            const std::string b = block_.at(s.var), start = names_.take("start");
            body_.line(runs_backward(math_, s.body)
                           ? fmt::format("for {0} in range((tl.cdiv({1}, {2}) - 1) * {2}, -1, -{2}):", start, n, b)
                           : fmt::format("for {} in range(0, {}, {}):", start, n, b));
            body_.indent();
            std::string wanted = math_.vars[s.var].name;
            if (contraction) {
                wanted.clear();
                for (VarId v : form_.contraction->k) wanted += (wanted.empty() ? "" : "_") + math_.vars[v].name;
            }
            const std::string i = names_.take(wanted);
            body_.line(fmt::format("{} = ({} + tl.arange(0, {})).to(INDEX)", i, start, b));
            const auto c = extent.constant();
            const int64_t least = contraction ? 16 : 1;
            if (!exact(extent, s.tile) || *c < least) expressions_.guard[s.var] = {{i, kAtom, {s.var}}, n};
            if (contraction)
                split(form_.contraction->k, i, {s.var});
            else
                expressions_.index[s.var] = {i, kAtom, {s.var}};
        } else {
            const auto c = extent.constant();
            const std::string i = names_.take(math_.vars[s.var].name), step = names_.take("step");
            body_.line(fmt::format("for {} in {}({}):", step, c && *c <= kUnrolled ? "tl.static_range" : "range", n));
            body_.indent();
            body_.line(fmt::format("{} = tl.cast({}, INDEX)", i, step));
            expressions_.index[s.var] = {i, kAtom, {}};
        }
        statements(s.body);
        body_.outdent();
        names_ = names;
        expressions_.close();
        expressions_.index = index;
        expressions_.guard = guard;
        held_ = before;
    }

    void define(const Stmt& s) {
        const tile::Buffer& b = p_.buffers[s.dst];
        const Axes order = axes_of(b);
        const Expr& x = math_.expr(b.value);
        const auto f = folded_.find(s.dst);
        if (form_.contraction && (b.value == form_.contraction->a || b.value == form_.contraction->b) &&
            s.kind == StmtKind::Load)
            return factor(s.dst, order);
        if (s.kind != StmtKind::Map && x.kind == ExprKind::Load) {
            // A block that is folded holds the fold's identity where it has no element.
            std::string other;
            if (f != folded_.end() && !others_.count(s.dst) &&
                std::all_of(f->second.begin(), f->second.end(), [&](ReduceOp o) { return o == f->second[0]; }) &&
                x.outside != Outside::Value) {
                other = identity_text(f->second[0], x.dtype);
                filled_.insert(s.dst);
            }
            pieces_[s.dst] = expressions_.load(b.value, order, buffer_name(s.dst), other);
        } else {
            const Piece* known = find(b.value);
            pieces_[s.dst] = known ? *known : expressions_.named(b.value, order, buffer_name(s.dst));
        }
    }

    // A factor of a contraction: 0 where k, m or n leave their extents, so that nothing is added there.
    void factor(BufferId dst, const Axes& order) {
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
                pieces_[dst] = expressions_.load(e, order, buffer_name(dst), zero, raw);
                return;
            }
        }
        Piece v = x.kind == ExprKind::Load ? expressions_.load(e, order, file_.tensor(x.ref), "", raw)
                                           : expressions_.named(e, order, buffer_name(dst));
        if (const auto mask = expressions_.mask(order)) {
            v = expressions_.bind({fmt::format("tl.where({}, {}, {})", expressions_.over(*mask, order),
                                               expressions_.over(v, order), zero),
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

    // ---- reductions

    const Expr& reduce_expr(BufferId b) const { return math_.expr(p_.buffers[b].value); }
    DType term_type(BufferId b) const {
        const Expr& x = reduce_expr(b);
        const DType t = is_arg(x.reduce) ? math_.expr(x.args[0]).dtype : p_.buffers[b].dtype;
        return is_arg(x.reduce) && t == DType::Bool ? DType::I32 : t;
    }
    // The flat position of an arg reduction, row-major over its variables, and how many positions there are.
    Piece position(const Expr& x) {
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
    std::string positions(const Expr& x) { return size(group_extent(x.vars)); }
    static bool largest(ReduceOp op) { return op == ReduceOp::ArgMax || op == ReduceOp::ArgMaxLast; }
    static bool first(ReduceOp op) { return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin; }

    void fill(const Stmt& s) {
        const tile::Buffer& b = p_.buffers[s.dst];
        const Axes axes = axes_of(b);
        const bool contraction = form_.contraction && b.value == form_.contraction->reduce;
        const ReduceOp op = contraction ? ReduceOp::Sum : s.op;
        if (b.value != kNone && math_.expr(b.value).kind == ExprKind::Reduce && is_arg(op)) {
            const Expr& x = reduce_expr(s.dst);
            const DType t = term_type(s.dst);
            pieces_[s.dst] =
                expressions_.bind({full(axes, identity_text(op, t), compute_name(t)), kAtom, axes}, "best");
            at_[s.dst] =
                expressions_.bind({full(axes, first(op) ? positions(x) : "-1", "INDEX"), kAtom, axes}, "best_at");
            return;
        }
        fills_.insert(s.dst);
        const std::string zero = identity_text(op, b.dtype);
        pieces_[s.dst] = expressions_.bind({full(axes, zero, compute_name(b.dtype)), kAtom, axes}, buffer_name(s.dst));
    }

    // a op b, as an expression of two texts that are atoms.
    std::string combine(ReduceOp op, DType t, const std::string& a, const std::string& b) {
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

    // The lanes of `term` that count: inside their extents along the axes that are reduced, and where the condition
    // holds.
    std::optional<Piece> counts(const Axes& reduced, BufferId condition) {
        std::optional<Piece> r = expressions_.mask(reduced);
        if (condition != kNoBuffer) r = expressions_.both(r, pieces_.at(condition), order_);
        return r;
    }
    Axes joint(const Axes& a, const Axes& b) const {
        Axes r;
        for (VarId v : order_)
            if (has(a, v) || has(b, v)) r.push_back(v);
        return r;
    }

    void accumulate(const Stmt& s) {
        const Piece& dst = pieces_.at(s.dst);
        Piece term = pieces_.at(s.a);
        const Expr& x = reduce_expr(s.dst);
        Axes reduced;
        for (VarId v : x.vars)
            if (const auto it = expressions_.axis.find(v); it != expressions_.axis.end()) reduced.push_back(it->second);
        const auto valid = counts(reduced, s.b);
        const DType t = term_type(s.dst);
        if (is_arg(s.op)) {
            if (math_.expr(x.args[0]).dtype == DType::Bool)
                term = expressions_.bind(
                    {expressions_.over(term, term.axes, kAtom) + ".to(tl.int32)", kAtom, term.axes}, "t");
            const Piece at = position(x);
            const Piece pos = at.level == kAtom ? at : expressions_.bind(at, "at");
            Piece better{
                fmt::format("{}({}, {}, {}, {}, LARGEST={}, FIRST={})", file_.helper("_better"),
                            expressions_.over(term, dst.axes), expressions_.over(pos, dst.axes), dst.text,
                            at_.at(s.dst).text, largest(s.op) ? "True" : "False", first(s.op) ? "True" : "False"),
                kAtom, dst.axes};
            if (valid) better = expressions_.both(valid, better, order_);
            const Piece is = expressions_.bind(better, "better");
            body_.line(fmt::format("{0} = tl.where({1}, {2}, {0})", at_.at(s.dst).text, is.text,
                                   expressions_.over(pos, dst.axes)));
            body_.line(
                fmt::format("{0} = tl.where({1}, {2}, {0})", dst.text, is.text, expressions_.over(term, dst.axes)));
            return;
        }
        std::string text = expressions_.over(term, dst.axes, kAtom);
        if (valid)
            text = fmt::format("tl.where({}, {}, {})", expressions_.over(*valid, dst.axes),
                               expressions_.over(term, dst.axes), identity_text(s.op, t));
        body_.line(s.op == ReduceOp::Sum ? fmt::format("{} += {}", dst.text, text)
                                         : fmt::format("{} = {}", dst.text, combine(s.op, t, dst.text, text)));
    }

    void reduce(const Stmt& s) {
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
        const Expr& x = reduce_expr(s.dst);
        const auto valid = filled_.count(s.a) ? std::nullopt : counts({key}, s.b);
        if (is_arg(s.op)) return arg_reduce(s, src, axes, kept, place, at_.count(s.a) ? std::nullopt : valid);
        std::string text = expressions_.over(src, axes);
        if (valid && !fills_.count(s.a))  // partial results hold the identity already
            text = fmt::format("tl.where({}, {}, {})", expressions_.over(*valid, axes), text,
                               identity_text(s.op, b.dtype));
        else if (src.axes != axes)
            text = fmt::format("tl.broadcast_to({}, {})", text, shape(axes));
        pieces_[s.dst] = expressions_.bind({fold(s.op, b.dtype, text, place), kAtom, kept}, buffer_name(s.dst));
    }
    static Axes without(Axes a, VarId v) {
        std::erase(a, v);
        return a;
    }

    // The fold of a block's text along its axis number `axis`.
    std::string fold(ReduceOp op, DType t, const std::string& text, int axis) {
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
                    return fmt::format("tl.reduce({}, {}, {})", text, axis,
                                       file_.helper(max ? "_maximum" : "_minimum"));
                return narrowed(fmt::format("tl.{}({}, {})", max ? "max" : "min", text, axis));
            }
            default: break;
        }
        return "";
    }

    void arg_reduce(const Stmt& s, Piece src, const Axes& axes, const Axes& kept, int place,
                    const std::optional<Piece>& valid) {
        const Expr& x = reduce_expr(s.dst);
        const DType t = term_type(s.dst);
        const bool max = largest(s.op), lead = first(s.op), paired = at_.count(s.a) > 0;
        if (!paired && math_.expr(x.args[0]).dtype == DType::Bool)
            src = expressions_.bind({expressions_.over(src, src.axes, kAtom) + ".to(tl.int32)", kAtom, src.axes}, "t");
        std::string values = expressions_.over(src, axes);
        if (valid)
            values =
                fmt::format("tl.where({}, {}, {})", expressions_.over(*valid, axes), values, identity_text(s.op, t));
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
    // The position as an i64; 0 where there was nothing to choose from.
    Piece finish(ReduceOp op, const Piece& at, const Expr& x, bool may_be_none) {
        std::string text = at.text;
        if (first(op) && may_be_none) text = fmt::format("tl.where({0} < {1}, {0}, 0)", at.text, positions(x));
        if (!first(op)) text = fmt::format("tl.maximum({}, 0)", at.text);
        return expressions_.bind({text + ".to(tl.int64)", kAtom, at.axes}, "place");
    }

    // ---- contractions, scans, stores

    void contract(const Stmt& s) {
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

    void scan(const Stmt& s) {
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
        if (const auto valid = expressions_.mask({key}))
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
                text =
                    fmt::format("tl.associative_scan({}, {}, {}{})", term.text, place,
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
                {fmt::format("tl.broadcast_to({}, {})", expressions_.over({from, kAtom, {key}}, axes), shape(axes)),
                 kAtom, axes},
                "neighbour");
            r = expressions_.bind(
                {fmt::format("tl.where({}, {}, tl.gather({}, {}, {}))",
                             expressions_.over({edge, kCompare, {key}}, axes), nothing, r.text, neighbour.text, place),
                 kAtom, axes},
                name);
        }
        if (s.b != kNoBuffer) {
            const Piece& carry = pieces_.at(s.b);
            r = expressions_.bind({combine(x.reduce, t, expressions_.over(carry, axes, kAtom), r.text), kCompare, axes},
                                  name);
            const std::string total = fold(x.reduce, t, term.text, place);
            body_.line(carry.text + " = " + combine(x.reduce, t, carry.text, total));
        }
        pieces_[s.dst] = r;
    }

    void store(const Stmt& s) {
        const Equation& q = math_.equations[s.equation];
        if (std::find(form_.local.begin(), form_.local.end(), q.lhs) != form_.local.end()) return;
        const Piece& value = pieces_.at(s.a);
        write(q, value, Outside::Error);
    }
    void write(const Equation& q, const Piece& value, Outside outside) {
        const auto at = expressions_.place(q.lhs, q.at, outside, order_, value.axes);
        body_.line(fmt::format("tl.store({}, {}{})", at.pointer, expressions_.over(value, at.axes),
                               at.mask ? ", mask=" + expressions_.over(*at.mask, at.axes) : ""));
    }

    void update(const Stmt& s) {
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

    void header() {
        // Sizes that expressions met, in the order in which the file knows them.
        std::vector<std::string> sizes;
        for (const File::Size& s : file_.sizes())
            if (mentions(s.name)) sizes.push_back(s.name);
        r_.sizes = sizes;
        std::sort(r_.tensors.begin(), r_.tensors.end(), [&](TensorId a, TensorId b) { return rank(a) < rank(b); });
        std::string parameters;
        const auto add = [&](const std::string& s) { parameters += (parameters.empty() ? "" : ", ") + s; };
        for (TensorId t : r_.tensors) add(file_.tensor(t) + "_ptr");
        if (r_.reports) add("error_ptr");
        for (const std::string& n : r_.sizes) add(n);
        r_.index = mentions("INDEX");
        if (r_.index) add("INDEX: tl.constexpr");
        for (const auto& [n, host] : r_.blocks) add(n + ": tl.constexpr");
        PythonWriter w;
        w.line("@triton.jit");
        w.line(fmt::format("def {}({}):", r_.name, parameters));
        r_.text = w.text() + body_.text();
        if (plan_.warps)
            r_.warps = std::to_string(plan_.warps);
        else if (form_.contraction)
            r_.warps = uses_dot(math_, *form_.contraction) ? "8 if BLOCK_M * BLOCK_N >= 128 * 128 else 4" : "4";
        else if (!elements_.empty())
            r_.warps = fmt::format("min(max({} // 512, 1), 16)", elements_);
        if (plan_.stages)
            r_.stages = std::to_string(plan_.stages);
        else if (form_.contraction && uses_dot(math_, *form_.contraction))
            r_.stages = "3";
    }
    size_t rank(TensorId t) const {
        const auto& in = math_.inputs;
        const auto& out = math_.outputs;
        if (const auto i = std::find(in.begin(), in.end(), t); i != in.end())
            return static_cast<size_t>(i - in.begin());
        if (const auto o = std::find(out.begin(), out.end(), t); o != out.end())
            return 1000 + static_cast<size_t>(o - out.begin());
        return 500 + t;
    }
    bool mentions(const std::string& name) const {
        const std::string& s = body_.text();
        const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
        for (size_t i = s.find(name); i != std::string::npos; i = s.find(name, i + 1))
            if (!part(s[i - 1]) && !(i + name.size() < s.size() && part(s[i + name.size()]))) return true;
        return false;
    }

    const tile::Program& p_;
    const Program& math_;
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
    std::map<BufferId, std::vector<ReduceOp>> folded_;
    std::map<BufferId, int> others_;  // uses other than by a fold
    std::map<BufferId, std::string> stored_;
    std::set<BufferId> filled_;  // blocks that hold the identity of their fold outside
    std::set<BufferId> fills_;   // partial results
};
}  // namespace

bool atomic(Update u, DType t) {
    const bool wide = t == DType::I32 || t == DType::I64 || t == DType::U32 || t == DType::U64;
    if (u == Update::Add) return wide || t == DType::F32 || t == DType::F64;
    return (u == Update::Max || u == Update::Min) && wide;
}

bool uses_dot(const Program& p, const schedule::Contraction& c) {
    return p.expr(c.reduce).dtype == DType::F32 && compute_type(p.expr(c.a).dtype) == DType::F32 &&
           compute_type(p.expr(c.b).dtype) == DType::F32;
}

KernelText print_kernel(const tile::Program& p, size_t nest, File& file, const std::string& name) {
    return KernelPrinter(p, nest, file, name).run();
}

}  // namespace opwright::target::triton
