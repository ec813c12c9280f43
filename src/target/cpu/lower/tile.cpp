// Panels, register tiles and epilogues of packed contractions.
#include <algorithm>
#include <cmath>

#include "target/cpu/lower/contract.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;

ContractCommon::ContractCommon(Context& c, size_t nest)
    : c_(c),
      b_(c.b),
      name_("nest" + std::to_string(nest)),
      k_(*c.tile.kernel.nests[nest].contraction),
      plan_(*c.tile.nests[nest].contract),
      q_(c.math.equations[c.tile.kernel.nests[nest].equations[0]]),
      point_(c.b, c.math, c.storage, c.faults),
      lanes_(plan_.lanes),
      nr_(static_cast<int64_t>(plan_.nv) * plan_.lanes),
      mr_(plan_.mr),
      nv_(plan_.nv),
      parts_(std::max(1, plan_.parts)),
      type_(accumulate_type(c.math.expr(k_.reduce).dtype)) {
    rows_ = extent(k_.m);
    columns_ = extent(k_.n);
    depth_ = extent(k_.k);
}

ContractCommon::Factor ContractCommon::factor(const char* which, ExprId e, const std::vector<VarId>& across,
                                              const std::vector<VarId>& along, int64_t width) const {
    Factor f{.name = which, .value = e, .across = across, .along = along, .batch = batch_of(e), .width = width,
             .span = extent(across)};
    if (parts_ > 1) {
        f.words = {.parts = static_cast<int>(parts_), .value = e, .tiles = plan_.tiles, .tile_rows = plan_.tiles && &across == &k_.m};
        if (parts_ == 4) {
            f.bytes = *schedule::byte_factor(c_.math, e, k_.k);
            f.words.value = f.bytes.value;
            f.is_signed = c_.math.expr(f.bytes.value).dtype == DType::I8;
        }
    }
    f.constant = packable(parts_ > 1 ? f.words.value : e, f.batch, f.span);
    return f;
}

bool ContractCommon::expands(const Factor& f) const {
    const Sym elements = extent(f.batch) * f.span * depth_;
    const std::vector<TensorId> reads = c_.math.reads(parts_ > 1 ? f.words.value : f.value);
    return std::none_of(reads.begin(), reads.end(),
                        [&](TensorId t) { return (product(c_.math.tensors[t].shape) - elements).lower() >= 0; });
}

Packer ContractCommon::packer(const Factor& f, loop::BufferId row) {
    return Packer(c_, point_, f.value, f.across, f.along, f.width, lanes_, panel_type(), row, f.words);
}

Sym ContractCommon::extent(const std::vector<VarId>& vs) const {
    Sym n = 1;
    for (VarId v : vs) n = n * c_.math.vars[v].extent;
    return n;
}

std::vector<VarId> ContractCommon::batch_of(ExprId e) const {
    const std::vector<VarId> fv = c_.math.free_vars(e);
    std::vector<VarId> r;
    for (VarId v : k_.batch)
        if (std::find(fv.begin(), fv.end(), v) != fv.end()) r.push_back(v);
    return r;
}

bool ContractCommon::packable(ExprId e, const std::vector<VarId>& batch, const Sym& span) const {
    const std::vector<TensorId> reads = c_.math.reads(e);
    if (reads.empty() || !(extent(batch) * span * depth_).is_const()) return false;
    return std::all_of(reads.begin(), reads.end(), [&](TensorId t) { return c_.tile.kernel.constant[t]; });
}

std::optional<ContractCommon::Plain> ContractCommon::plain(ExprId e, bool zero_outside) const {
    const math::Expr& x = c_.math.expr(e);
    if (x.kind != ExprKind::Load) return std::nullopt;
    if (x.outside != Outside::Error) {
        const math::Expr& fill = c_.math.expr(x.args.back());
        const bool zero = x.outside == Outside::Value && fill.kind == ExprKind::Literal && fill.number == 0 && fill.integer == 0;
        if (!zero || !zero_outside) return std::nullopt;
    }
    const Storage& s = c_.storage[x.ref];
    if (s.buffer == loop::BufferId::none || s.dtype != type_ || !s.origin.empty()) return std::nullopt;
    Plain p{s.buffer, x.ref, {}};
    for (size_t d = 0; d < c_.math.tensors[x.ref].shape.size(); ++d) {
        const auto f = affine(c_.math, x.args[d]);
        if (!f) return std::nullopt;
        p.at.push_back(*f);
    }
    return p;
}

Sym ContractCommon::step(const Plain& f, VarId v) const {
    Sym r = 0;
    for (size_t d = 0; d < f.at.size(); ++d) r = r + f.at[d].coefficient(v) * c_.storage[f.tensor].strides[d];
    return r;
}

LExpr ContractCommon::place(const Plain& f) {
    LExpr r = b_.i64(0);
    for (size_t d = 0; d < f.at.size(); ++d) {
        LExpr i = point_.sym(f.at[d].offset);
        for (const auto& [v, k] : f.at[d].terms) i = i + point_.variable(v) * point_.sym(k);
        r = r + i * point_.sym(c_.storage[f.tensor].strides[d]);
    }
    return r;
}

LExpr ContractCommon::flatten(const std::vector<VarId>& vs) {
    LExpr r = b_.i64(0);
    for (VarId v : vs) r = r * point_.sym(c_.math.vars[v].extent) + point_.variable(v);
    return r;
}

LExpr ContractCommon::next_digit(const char* name, LExpr& rest, const Sym& count) {
    if (count.is(1)) return b_.i64(0);
    const LExpr n = point_.sym(count), digit = b_.let(name, loop::mod(rest, n));
    rest = b_.let("rest", loop::floordiv(rest, n));
    return digit;
}

void ContractCommon::panels(Factor& f, int64_t tile, int64_t depth) {
    const int64_t rows = (tile + f.width - 1) / f.width * f.width, own = rows * (depth / parts_ + slack());
    if (!f.whole()) {
        f.panels = b_.scratch(name_ + "_" + f.name, panel_type(), b_.i64(own));
        if (f.add_up) f.sums = b_.scratch(name_ + "_" + f.name + "_sums", DType::I32, b_.i64(rows));
        return;
    }
    const Sym count = ceil_div(f.span, f.width), all_sums = extent(f.batch) * count * f.width;
    const Sym elements = all_sums * (room_of_depth() + Sym(f.add_up ? 1 : 0));
    // Panels of a task: rows that lie side by side in memory are read some lines at a time, in order.
    constexpr int64_t kSideBySide = 128;
    const int64_t group = packer(f).in_rows() ? (kSideBySide + f.width - 1) / f.width : 1;
    const Sym groups = ceil_div(count, group);
    Stage stage{.function = name_ + "_pack_" + f.name,
                .tasks = extent(f.batch) * groups,
                .work = extent(f.batch) * f.span * depth_ * kPackWork,
                .packs = true};
    const auto argument = static_cast<uint32_t>(c_.out.arguments.size());
    f.panels = f.by_task.is(0) ? b_.param(name_ + "_" + f.name, panel_type(), argument)
                               : b_.param_or_scratch(name_ + "_" + f.name, panel_type(), argument, point_.sym(f.by_task * Sym(own)));
    if (f.constant) {
        c_.out.packs.push_back({stage.function, stage.tasks, elements, panel_type(),
                                c_.math.reads(parts_ > 1 ? f.words.value : f.value)});
        c_.out.arguments.push_back({.kind = Argument::Kind::Packed, .packed = c_.out.packs.size() - 1});
    } else {
        const Sym unused = max(skip_, f.by_task);
        stage.tasks = select(unused, 0, stage.tasks);
        c_.out.shared.push_back({select(unused, 0, elements), panel_type()});
        c_.out.arguments.push_back({.kind = Argument::Kind::Shared, .packed = c_.out.shared.size() - 1});
        c_.out.stages.push_back(stage);
    }
    if (f.add_up) f.sums = f.panels;
    const bool several = f.across.size() > 1 && parts_ == 1;
    Packer p = packer(f, several && &f.across != &k_.m && f.across.back() == k_.n.back()
                             ? b_.scratch(name_ + "_row" + std::to_string(f.width), type_,
                                          b_.i64(f.width + 2 * lanes_))
                             : loop::BufferId::none);
    b_.function(stage.function, [&] {
        b_.loop("task", b_.task_begin(), b_.task_end(), 1, [&](LExpr task) {
            const Point::Scope scope = point_.save();
            const Divided d = divide(c_, task, point_.sym(groups), "batch", "group");
            const LExpr panel = b_.let("panel", d.rest * group), batch = d.quotient;
            decode(f.batch, batch);
            const LExpr first = b_.let("first", panel * f.width);
            const LExpr end = b_.let("end", loop::min(first + f.width * group, point_.sym(f.span)));
            const LExpr room = point_.sym(room_of_depth()), from = b_.let("from", batch * point_.sym(count) + panel);
            const LExpr base = b_.let("base", from * room * f.width);
            p.pack(f.panels, base, room, first, end, b_.i64(0), point_.sym(depth_), group == 1);
            if (f.add_up)
                b_.loop("p", b_.i64(0), loop::ceildiv(end - first, f.width), 1, [&](LExpr i) {
                    add_up(f, base + i * room * f.width, sums_base(f, from + i), words(point_.sym(depth_)), {});
                });
            point_.restore(scope);
        });
    });
}

// Sums along the depth of a panel's rows, so far where `before` holds. Those of all panels lie behind the last of them.
void ContractCommon::add_up(const Factor& f, LExpr panel, LExpr sums, LExpr count, LExpr before) {
    const LExpr ones = loop::broadcast(b_.i32(0x01010101), lanes_), zero = loop::broadcast(b_.i32(0), lanes_);
    const int64_t vectors = (f.width + lanes_ - 1) / lanes_;
    // Two sums of each vector, so that additions need not wait for each other.
    constexpr int64_t kChains = 2;
    std::vector<loop::LocalRef> chains;
    for (int64_t i = 0; i < kChains * vectors; ++i) chains.push_back(b_.local("sum", zero));
    const auto step = [&](LExpr k, int64_t chain) {
        for (int64_t v = 0; v < vectors; ++v) {
            const LExpr word = b_.load(f.panels, panel + k * f.width + v * lanes_, lanes_);
            const loop::LocalRef sum = chains[static_cast<size_t>(chain * vectors + v)];
            b_.set(sum, f.is_signed != f.words.flip ? loop::dot(loop::DotFn::U8S8x4, ones, word, b_.get(sum))
                                                    : loop::dot(loop::DotFn::U8S8x4, word, ones, b_.get(sum)));
        }
    };
    const LExpr main = b_.let("main", loop::floordiv(count, kChains) * kChains);
    b_.loop("k", b_.i64(0), main, kChains, [&](LExpr k) {
        for (int64_t i = 0; i < kChains; ++i) step(k + i, i);
    });
    b_.if_(loop::lt(main, count), [&] { step(main, 0); });
    for (int64_t v = 0; v < vectors; ++v) {
        const int64_t left = f.width - v * lanes_;
        const LExpr mask = left < lanes_ ? loop::first_lanes(b_.i64(left), lanes_) : LExpr{};
        const auto at = static_cast<size_t>(v);
        LExpr sum = b_.get(chains[at]) + b_.get(chains[at + static_cast<size_t>(vectors)]);
        if (before) sum = sum + loop::select(loop::broadcast(before, lanes_), b_.let("before", b_.load(f.sums, sums + v * lanes_, lanes_, mask)), zero);
        b_.store(f.sums, sums + v * lanes_, sum, mask);
    }
}

LExpr ContractCommon::sums_base(const Factor& f, LExpr panel) {
    if (!f.whole()) return panel * f.width;
    return b_.let("sums", point_.sym(extent(f.batch) * ceil_div(f.span, f.width) * room_of_depth() * f.width) + panel * f.width);
}

// The sum of products as the factors have it, from that of what the panels hold: with a = x + s and b = y + t, s and t the
// same all along the depth, sum(a * b) = sum(x * y) + s * sum(y) + t * (sum(x) + depth * s), wrapping.
LExpr ContractCommon::corrected(const Factor& a, const Factor& b, LExpr row_sum, LExpr column_sums, LExpr sum) {
    const auto shift = [&](const Factor& f) {
        LExpr s = b_.i32(!f.words.flip ? 0 : f.is_signed ? -128 : 128);
        if (f.bytes.zero == kNone) return s;
        const LExpr zero = point_.eval(f.bytes.zero, 0);
        return f.bytes.less ? s - zero : s + zero;
    };
    if (a.shifts()) sum = sum + point_.broadcast(shift(a)) * column_sums;
    if (b.shifts()) {
        if (a.shifts()) row_sum = row_sum + shift(a) * loop::wrap(point_.sym(depth_), DType::I32);
        sum = sum + point_.broadcast(shift(b)) * point_.broadcast(row_sum);
    }
    return sum;
}

LExpr ContractCommon::panel_base(const Factor& f, LExpr first, LExpr k0) {
    if (!f.whole() || f.by_task.is(1)) return b_.i64(0);
    const LExpr panel = flatten(f.batch) * point_.sym(ceil_div(f.span, f.width)) + loop::floordiv(first, f.width);
    const LExpr at = parts_ == 1 ? k0 : loop::floordiv(k0, parts_);
    const LExpr base = (panel * point_.sym(room_of_depth()) + at) * f.width;
    return b_.let("panels", f.by_task.is(0) ? base : base * point_.sym(Sym(1) - f.by_task));
}

namespace {
constexpr int64_t kAhead = 8192, kLine = 64;  // bytes
}

bool ContractCommon::asks_ahead(const Factor& f) const {
    constexpr int64_t kCached = 512 << 10;
    return f.whole() && (f.span * depth_ * Sym(static_cast<int64_t>(size_of(type_)))).upper() > kCached;
}

void ContractCommon::ask_ahead(const Factor& f, LExpr at) {
    const auto element = static_cast<int64_t>(size_of(panel_type()));
    if (!asks_ahead(f)) return;
    for (int64_t byte = 0; byte < f.width * element; byte += kLine)
        b_.prefetch(f.panels, at + (kAhead + byte) / element, false, true);
}

// Weights of a model come from memory in each run. A first tile of rows reads a panel faster than memory gives it; the others find
// it in the second cache. So the first tiles ask for the next panel between them, a line at each position of depth. (The last ones
// may be of few rows, which are soon done.) One tile, or maybe one, asks for its own panel, further on.
ContractCommon::Ahead ContractCommon::ahead(const Factor& columns, LExpr tile, LExpr depth, LExpr next) {
    const auto element = static_cast<int64_t>(size_of(panel_type()));
    const int64_t lines = std::max<int64_t>(columns.width * element / kLine, 1), line = kLine / element;
    math::SymValues smallest;  // what is open, as a batch of one
    for (const std::string& s : c_.math.symbols()) smallest[s] = 1;
    if (!asks_ahead(columns) || evaluate(rows_, smallest).value_or(0) <= mr_ * (lines - 1)) return {};
    return {b_.let("next_panel", next + loop::min(tile, b_.i64(lines - 1)) * depth * line), line};
}

LExpr ContractCommon::panel_room(const Factor& f, int64_t depth) {
    const Sym own(depth / parts_ + slack());
    return point_.sym(f.whole() ? select(f.by_task, own, room_of_depth()) : own);
}

std::vector<int64_t> ContractCommon::rest_tiles() const {
    if (rows_.multiple_of(mr_) || mr_ <= 4) return {};
    const auto n = rows_.constant();
    if (plan_.tiles) {
        const bool half = mr_ > loop::kTileRows && (!n || *n % mr_ <= loop::kTileRows);
        return half ? std::vector<int64_t>{loop::kTileRows} : std::vector<int64_t>{};
    }
    if (!n) return skip_.is(0) ? std::vector<int64_t>{1, 4} : std::vector<int64_t>{4};
    return *n % mr_ <= mr_ / 2 ? std::vector<int64_t>{*n % mr_} : std::vector<int64_t>{};
}

void ContractCommon::choose_rows(LExpr left, const std::function<void(int64_t)>& tile) {
    const std::vector<int64_t> sizes = rest_tiles();
    const std::function<void(size_t)> choose = [&](size_t i) {
        if (i == sizes.size()) return tile(mr_);
        b_.if_(loop::le(left, b_.i64(sizes[i])), [&] { tile(sizes[i]); }, [&] { choose(i + 1); });
    };
    choose(0);
}

ContractCommon::Accumulators ContractCommon::register_tile(int64_t rows, LExpr count, const Operands& o) {
    const int64_t nv = nv_;
    Accumulators acc;
    for (int64_t i = 0; i < rows * nv; ++i)
        acc.push_back(b_.local("c", loop::broadcast(b_.literal(type_, 0), lanes_)));
    const auto at = [&](int64_t r, int64_t v) { return acc[static_cast<size_t>(r * nv + v)]; };
    if (o.before)
        b_.if_(o.has_before, [&] {
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t v = 0; v < nv; ++v) b_.set(at(r, v), o.before(r, v));
        });
    const auto step = [&](LExpr k) {
        const std::vector<LExpr> column = o.b(k);
        for (int64_t r = 0; r < rows; ++r) {
            const LExpr x = b_.let("a", o.a(r, k));
            for (int64_t v = 0; v < nv; ++v) {
                const LExpr wide = x.type().is_vector() ? x : loop::broadcast(x, lanes_), y = column[static_cast<size_t>(v)];
                if (o.multiply_add)
                    b_.set(at(r, v), o.multiply_add(wide, y, b_.get(at(r, v))));
                else
                    b_.set(at(r, v),
                       is_float(type_) ? loop::mul_add(wide, y, b_.get(at(r, v))) : b_.get(at(r, v)) + wide * y);
            }
        }
    };
    // A small tile is bound by the loop around it, a large one hides it; code costs time to compile.
    const int64_t unroll = o.unroll > 0 ? o.unroll : rows * nv <= 8 ? 4 : rows * nv <= 20 ? 2 : 1;
    const LExpr main = b_.let("main", loop::floordiv(count, unroll) * unroll);
    b_.loop("k", b_.i64(0), main, unroll, [&](LExpr k) {
        for (int64_t u = 0; u < unroll; ++u) step(k + u);
    });
    if (unroll > 1) b_.loop("k", main, count, 1, step);
    return acc;
}

bool ContractCommon::light_epilogue() const {
    int operations = 0;
    std::vector<bool> seen(c_.math.expr_count());
    std::vector<ExprId> stack{q_.rhs};
    while (!stack.empty()) {
        const ExprId e = stack.back();
        stack.pop_back();
        if (seen[e] || e == k_.reduce) continue;
        seen[e] = true;
        const math::Expr& x = c_.math.expr(e);
        if (x.kind == ExprKind::Call && info(x.fn).cost != CostClass::Free) ++operations;
        if (x.kind == ExprKind::Call && info(x.fn).cost == CostClass::Special) return false;
        for (ExprId a : x.args) stack.push_back(a);
    }
    return operations <= 4;
}

// Whether e is a number that the sum is, 0, a normal literal, or a choice of such.
bool ContractCommon::never_subnormal(ExprId e) const {
    if (e == k_.reduce) return true;
    const math::Expr& x = c_.math.expr(e);
    const auto operands = [&](size_t first) {
        return std::all_of(x.args.begin() + static_cast<long>(first), x.args.end(), [&](ExprId a) { return never_subnormal(a); });
    };
    if (x.kind == ExprKind::Literal) return x.number == 0 || std::fabs(x.number) >= 0x1p-126;
    if (x.kind == ExprKind::Cast) return is_float(x.dtype) && x.dtype != DType::F16 && is_float(c_.math.expr(x.args[0]).dtype) && operands(0);
    if (x.kind != ExprKind::Call) return false;
    if (x.fn == Fn::Select) return operands(1);
    return (x.fn == Fn::Max || x.fn == Fn::Min || x.fn == Fn::Neg || x.fn == Fn::Abs) && operands(0);
}

// Gives every conversion to bf16 within e whose operand is never subnormal its value.
void ContractCommon::round_sums(ExprId e, std::set<ExprId>& seen) {
    if (e == k_.reduce || !seen.insert(e).second) return;
    const math::Expr& x = c_.math.expr(e);
    for (ExprId a : x.args) round_sums(a, seen);
    if (x.kind != ExprKind::Cast || x.dtype != DType::BF16 || c_.math.expr(x.args[0]).dtype != DType::F32 || !never_subnormal(e)) return;
    const LExpr v = point_.eval(x.args[0], 0);
    if (v.type().is_vector()) point_.set_value(e, 0, loop::cast(loop::cast_normal(v), DType::F32));
}

void ContractCommon::finish(VarId lane, LExpr column, LExpr mask, LExpr sum, const std::function<LExpr(LExpr)>& correct) {
    const Point::Scope scope = point_.save();
    point_.bind(lane, column);
    point_.set_lanes(lane, lanes_, 1, mask);
    if (correct) sum = correct(sum);
    point_.set_value(k_.reduce, 0, b_.let("sum", sum));
    // Dot products of bf16 give no subnormal sums, which makes rounding to bf16 one instruction.
    if (std::set<ExprId> seen; parts_ == 2) round_sums(q_.rhs, seen);
    LExpr value = point_.eval(q_.rhs, 0);
    if (parts_ == 2 && c_.storage[q_.lhs].dtype == DType::BF16 && value.type() == loop::Type{DType::F32, static_cast<uint16_t>(lanes_)} &&
        never_subnormal(q_.rhs))
        value = loop::cast_normal(value);
    point_.store(q_, value, 0);
    point_.restore(scope);
}

}  // namespace opwright::target::cpu
