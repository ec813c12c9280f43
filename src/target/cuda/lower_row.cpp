// Reductions along contiguous rows, and what follows them: THREADS threads share a row and fold their parts of its
// reductions by shuffles (and shared memory beyond one warp). While a row fits, it stays in registers between passes.
#include <algorithm>
#include <optional>

#include "target/cuda/lower.h"
#include "target/cuda/packs.h"

namespace opwright::target::cuda {
using namespace math;
using L = Operand::Level;

namespace {
bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

constexpr int64_t kShortRow = 24;  // up to here one thread does a row by itself
struct Shape {
    int threads, items;  // threads a row, packs of it in registers a thread
};
constexpr Shape kShapes[] = {{32, 1}, {32, 4}, {128, 4}, {256, 4}, {512, 4}, {512, 8}, {1024, 8}};
constexpr int kLongThreads = 1024, kMediumThreads = 128;

// The variable that THREADS threads share: of a reduction the innermost with contiguous loads, of a map its last.
VarId lane_of(const Program& p, ExprId reduce) {
    const Expr& x = p.expr(reduce);
    for (size_t i = x.vars.size(); i-- > 0;)
        for (ExprId a : x.args)
            for (ExprId l : loads_in(p, a, true))
                if (contiguous(p, p.expr(l).ref, p.expr(l).args, x.vars[i])) return x.vars[i];
    return kNone;
}

// The expression and its parts, but for the insides of reductions.
std::vector<ExprId> parts_of(const Program& p, ExprId root) {
    std::vector<ExprId> r;
    const std::function<void(ExprId)> walk = [&](ExprId e) {
        if (std::find(r.begin(), r.end(), e) != r.end()) return;
        r.push_back(e);
        if (p.expr(e).kind == ExprKind::Reduce) return;
        for (ExprId a : p.expr(e).args) walk(a);
    };
    walk(root);
    return r;
}
// Whether a float function of the part takes many instructions.
bool costly(const Program& p, ExprId e) {
    const auto parts = parts_of(p, e);
    return std::any_of(parts.begin(), parts.end(), [&](ExprId x) {
        if (p.expr(x).kind != ExprKind::Call || compute_type(p.expr(x).dtype) != DType::F32) return false;
        switch (p.expr(x).fn) {
            case Fn::Exp:
            case Fn::Exp2:
            case Fn::Expm1:
            case Fn::Log:
            case Fn::Log2:
            case Fn::Log1p:
            case Fn::Sin:
            case Fn::Cos:
            case Fn::Tanh:
            case Fn::Erf:
            case Fn::Pow: return true;
            default: return false;
        }
    });
}
// A part with costly functions that two passes of the row have in common: the largest; kNone where there is none.
ExprId common_part(const Program& p, const std::vector<std::vector<ExprId>>& passes, VarId lane,
                   const std::vector<VarId>& grid) {
    std::vector<ExprId> common;
    for (size_t a = 0; a < passes.size(); ++a)
        for (size_t b = a + 1; b < passes.size(); ++b)
            for (ExprId e : passes[a])
                if (std::find(passes[b].begin(), passes[b].end(), e) != passes[b].end()) common.push_back(e);
    ExprId best = kNone;
    size_t most = 0;
    for (ExprId e : common) {
        const auto free = p.free_vars(e);
        const bool of_row = std::all_of(free.begin(), free.end(), [&](VarId v) { return v == lane || has(grid, v); });
        if (!of_row || !has(free, lane) || p.expr(e).kind != ExprKind::Call ||
            compute_type(p.expr(e).dtype) != DType::F32 || !costly(p, e))
            continue;
        if (const size_t n = parts_of(p, e).size(); n > most) best = e, most = n;
    }
    return best;
}

class RowWriter {
public:
    // `cached`: loads along cached_lane that stay in registers; `kept`: a part of the expressions whose values do.
    RowWriter(Context& c, const Group& g, Packs& packs, const std::vector<ExprId>& cached, VarId cached_lane,
              ExprId kept)
        : c_(c), g_(g), packs_(packs), cached_(cached), cached_lane_(cached_lane), kept_(kept), at_(c) {}

    void write() {
        c_.cooperates = true;
        c_.names.keep({"row", "partial"});
        vector_ = packs_.any();
        c_.code.line("const int lane = threadIdx.x % THREADS;  // of those that share a row");
        c_.code.line("__shared__ long long partial[64];");
        const std::string rows = product_text(c_, g_.grid);
        c_.code.open(
            "for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS; row < {}; row += (Index)gridDim.x * "
            "ROWS)",
            rows);
        decompose(at_, g_.grid, "row", false);
        keep_row();
        for (uint32_t i : g_.equations) equation(c_.p.equations[i]);
        c_.code.close();
    }

private:
    void keep_row() {
        if (cached_.empty()) return;
        std::vector<std::string> arrays;
        for (ExprId l : cached_) {
            const Expr& x = c_.p.expr(l);
            const std::string name = c_.names.fresh(c_.p.tensors[x.ref].name + "_row");
            c_.helpers.use("Pack");
            from_memory({""}, c_.stored[x.ref], c_.helpers);
            c_.code.line("Pack<{}, VECTOR> {}[ITEMS];", memory_type(c_.stored[x.ref]), name);
            arrays.push_back(name);
            rows_.emplace_back(l, name);
        }
        if (kept_ != kNone) {
            kept_name_ = c_.names.fresh("kept");
            c_.code.line("float {}[ITEMS][VECTOR];", kept_name_);
        }
        const Point::Scope scope = at_.save();
        const std::string i = open_items(cached_lane_);
        for (size_t k = 0; k < cached_.size(); ++k) {
            const Expr& x = c_.p.expr(cached_[k]);
            c_.touched[x.ref] = true;
            const Place place = at_.place(x.ref, x.args.data(), x.outside, "");
            c_.code.line("{}[{}] = load_pack<VECTOR>(&{}[{}]);", arrays[k], i, c_.pointers[x.ref], place.offset);
        }
        c_.code.close();
        c_.code.close();
        at_.restore(scope);
    }

    // The loop over the packs that a thread holds; binds the lane variable to the first element.
    std::string open_items(VarId lane) {
        const std::string i = c_.names.fresh("i"), n = c_.names.fresh(c_.p.vars[lane].name);
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int {0} = 0; {0} < ITEMS; ++{0})", i);
        c_.code.line("const Index {} = ({} * THREADS + lane) * VECTOR;", n, i);
        c_.code.open("if ({} < {})", n, c_.size(c_.p.vars[lane].extent).at(L::Shift));
        at_.bind(lane, n);
        return i;
    }

    // Walks over `lane` with all threads of the row; inner() runs at each element; `before` and `after` at each pack.
    // `hoisted`: those of the roots that every element evaluates.
    void pass(VarId lane, const std::vector<VarId>& outer, const std::vector<ExprId>& roots,
              const std::vector<ExprId>& hoisted, const std::function<void()>& before,
              const std::function<void(const std::string&)>& inner, const std::function<void()>& after) {
        at_.loops(outer, hoisted, [&] {
            for (ExprId r : roots) packs_.uniform_loads(at_, r, lane);
            for (ExprId r : hoisted) at_.hoist(r, lane);
            for (ExprId r : hoisted) at_.hoist_divisors(r, lane);
            const Point::Scope scope = at_.save();
            const bool items = !cached_.empty() && lane == cached_lane_;
            // What an earlier pass computed and kept is not computed again.
            const bool keeps = items && in_any(kept_, roots), keep_now = keeps && !kept_ready_;
            if (keeps && kept_ready_) at_.set(kept_, {"kept"});
            std::string i;
            if (items) {
                i = open_items(lane);
            } else {
                const std::string n = c_.names.fresh(c_.p.vars[lane].name);
                const std::string extent = c_.size(c_.p.vars[lane].extent).at(L::Shift);
                if (outer.empty() && roots.size() == 1) c_.code.raw("#pragma unroll 4");
                if (vector_)
                    c_.code.open("for (Index {0} = lane * VECTOR; {0} < {1}; {0} += THREADS * VECTOR)", n, extent);
                else
                    c_.code.open("for (Index {0} = lane; {0} < {1}; {0} += THREADS)", n, extent);
                at_.bind(lane, n);
            }
            if (!vector_) {
                inner("");
            } else {
                std::vector<std::pair<ExprId, std::string>> loaded;
                if (items)
                    for (auto& [l, array] : rows_) loaded.emplace_back(l, fmt::format("{}[{}]", array, i));
                const size_t kept = loaded.size();
                for (ExprId r : roots) packs_.load(at_, r, loaded);
                // Rows that this pass does not read are not taken apart.
                std::vector<std::pair<ExprId, std::string>> wanted;
                for (size_t k = 0; k < loaded.size(); ++k)
                    if (k >= kept || reads(roots, loaded[k].first)) wanted.push_back(loaded[k]);
                before();
                const std::string v = c_.names.fresh("v"), base = at_.variable(lane);
                const Point::Scope pack = at_.save();
                c_.code.raw("#pragma unroll");
                c_.code.open("for (int {0} = 0; {0} < VECTOR; ++{0})", v);
                at_.bind(lane, fmt::format("({} + {})", base, v));
                packs_.take(at_, wanted, v);
                const std::string place = fmt::format("{}[{}][{}]", kept_name_, i, v);
                if (keep_now) c_.code.line("{} = {};", place, at_.eval(kept_).text);
                if (keeps) at_.set(kept_, {place});
                inner(v);
                c_.code.close();
                at_.restore(pack);
                after();
            }
            c_.code.close();
            if (items) c_.code.close();
            at_.restore(scope);
            kept_ready_ |= keep_now;
        });
    }
    // Whether the value of `part` is needed for one of the roots, apart from the insides of reductions.
    bool in_any(ExprId part, const std::vector<ExprId>& roots) const {
        return part != kNone && std::any_of(roots.begin(), roots.end(), [&](ExprId r) {
                   const auto all = parts_of(c_.p, r);
                   return std::find(all.begin(), all.end(), part) != all.end();
               });
    }
    // Whether a load is needed for the roots beyond what is kept.
    bool reads(const std::vector<ExprId>& roots, ExprId load) const {
        const std::function<bool(ExprId)> within = [&](ExprId e) {
            if (e == load) return true;
            const Expr& x = c_.p.expr(e);
            if (x.kind == ExprKind::Reduce || (e == kept_ && kept_ready_)) return false;
            return std::any_of(x.args.begin(), x.args.end(), within);
        };
        return std::any_of(roots.begin(), roots.end(), within);
    }

    void reduce(ExprId r) {
        const Expr& x = c_.p.expr(r);
        VarId lane = lane_of(c_.p, r);
        if (lane == kNone) lane = x.vars.back();
        std::vector<VarId> outer;
        for (VarId v : x.vars)
            if (v != lane) outer.push_back(v);
        const Point::Accumulator a = at_.declare(r);
        at_.count_uses(r);
        pass(lane, outer, x.args, {x.args.back()}, [] {}, [&](const std::string&) { at_.accumulate(r, a); }, [] {});
        const std::string type(c_type(a.type));
        if (is_arg(x.reduce)) {
            c_.code.line("{}<THREADS>({}, {}, partial, []({} v, long long at, {} best, long long best_at) {{",
                         c_.helpers.use("fold_best"), a.value, a.best, type, type);
            c_.code.line("    return {};", at_.better(r, a.type, "v", "at", "best", "best_at"));
            c_.code.line("}});");
        } else {
            c_.code.line("{} = {}<THREADS>({}, partial, []({} a, {} b) {{ return {}; }});", a.value,
                         c_.helpers.use("fold"), a.value, type, type,
                         combine(x.reduce, {"a"}, {"b"}, a.type, c_.helpers).text);
        }
        at_.set(r, at_.result(r, a));
    }

    void equation(const Equation& q) {
        std::vector<VarId> others;
        for (VarId v : q.vars)
            if (!has(g_.grid, v)) others.push_back(v);
        const std::vector<ExprId> reduces = reduces_in(c_.p, q.rhs);
        if (others.empty() || !reduces.empty()) {
            at_.loops(others, {}, [&] {
                for (ExprId r : reduces) reduce(r);
                at_.count_uses(q.rhs);
                Operand value = at_.eval(q.rhs);
                if (others.empty() && keeps(g_, q)) {
                    const TensorInfo& t = c_.p.tensors[q.lhs];
                    const bool stored = !c_.pointers[q.lhs].empty();
                    const std::string n = c_.names.fresh(t.name + (stored ? "_value" : ""));
                    c_.code.line("const {} {} = {};", c_type(t.dtype), n, value.text);
                    value = {n};
                    at_.hold(q.lhs, value);
                    if (!stored) return;
                }
                c_.code.open("if (lane == 0)");
                at_.store(q, value, false);
                c_.code.close();
            });
            return;
        }
        const VarId lane = others.back();
        others.pop_back();
        const bool packed = vector_ && contiguous(c_.p, q.lhs, q.at, lane);
        std::string result;
        at_.count_uses(q.rhs);
        pass(
            lane, others, {q.rhs}, {q.rhs},
            [&] {
                if (packed) result = packs_.declare(at_, q.lhs);
            },
            [&](const std::string& v) {
                const Operand value = at_.eval(q.rhs);
                if (packed)
                    c_.code.line("{}.at[{}] = {};", result, v, to_memory(value, c_.stored[q.lhs], c_.helpers).text);
                else
                    at_.store(q, value, false);
            },
            [&] {
                if (packed) packs_.store(at_, q, result);
            });
    }

    Context& c_;
    const Group& g_;
    Packs& packs_;
    const std::vector<ExprId>& cached_;
    VarId cached_lane_;
    ExprId kept_;
    std::string kept_name_;
    bool kept_ready_ = false;
    Point at_;
    bool vector_ = false;
    std::vector<std::pair<ExprId, std::string>> rows_;
};
}  // namespace

bool Lowering::row_kernel(const Group& g, const std::string& name, Stage& stage) {
    Packs packs(c_.p, c_.stored);
    std::vector<VarId> lanes;
    std::vector<std::pair<ExprId, VarId>> seen;  // a pack load and its lane, once for every pass that has it
    Sym length = 0;                              // of the longest walk
    bool row_like = false;
    std::vector<std::pair<VarId, std::vector<ExprId>>> passes;  // over which variable, and what it evaluates
    const auto note_pass = [&](const std::vector<ExprId>& roots, VarId lane) {
        passes.emplace_back(lane, parts_of(c_.p, roots.back()));
        if (!has(lanes, lane)) lanes.push_back(lane);
        for (ExprId r : roots) {
            packs.add(r, lane, true);
            for (ExprId l : loads_in(c_.p, r, false))
                if (packs.can(l, lane)) seen.emplace_back(l, lane);
        }
    };
    for (uint32_t i : g.equations) {
        const Equation& q = c_.p.equations[i];
        if (q.update != Update::Set || c_.p.expr(q.rhs).kind == ExprKind::Scan) return false;
        std::vector<VarId> others;
        for (VarId v : q.vars)
            if (!has(g.grid, v)) others.push_back(v);
        const auto reduces = reduces_in(c_.p, q.rhs);
        for (ExprId r : reduces) {
            const VarId lane = lane_of(c_.p, r);
            row_like |= lane != kNone;
            note_pass(c_.p.expr(r).args, lane == kNone ? c_.p.expr(r).vars.back() : lane);
            Sym n = 1;
            for (VarId v : c_.p.expr(r).vars) n = n * c_.p.vars[v].extent;
            length = max(length, n);
        }
        if (reduces.empty() && !others.empty()) {
            note_pass({q.rhs}, others.back());
            if (contiguous(c_.p, q.lhs, q.at, others.back())) packs.add_store(q.lhs);
        }
    }
    // With few rows even strided reductions gain from many threads.
    const Sym rows = points_of(c_.p, g.grid);
    const bool few_rows = rows.upper() <= 256;
    if (lanes.empty() || !(row_like || few_rows)) return false;
    if (length.upper() <= kShortRow) return false;

    // Loads that several passes over one variable share stay in registers.
    std::vector<ExprId> cached;
    VarId cached_lane = kNone;
    for (auto& [l, lane] : seen) {
        const auto uses =
            std::count_if(seen.begin(), seen.end(), [&](auto& o) { return o.first == l && o.second == lane; });
        const auto free = c_.p.free_vars(l);
        const bool only_grid =
            std::all_of(free.begin(), free.end(), [&](VarId v) { return v == lane || has(g.grid, v); });
        const Expr& x = c_.p.expr(l);
        bool affine_dims = true;
        for (size_t d = 0; d < c_.p.tensors[x.ref].shape.size(); ++d)
            affine_dims &= affine(c_.p, x.args[d]).has_value();
        if (uses < 2 || !only_grid || !affine_dims || x.outside != Outside::Error) continue;
        if (cached_lane != kNone && lane != cached_lane) continue;
        if (std::find(cached.begin(), cached.end(), l) == cached.end() && cached.size() < 2) cached.push_back(l);
        cached_lane = lane;
    }
    ExprId common = kNone;
    if (!cached.empty()) {
        std::vector<std::vector<ExprId>> of_lane;
        for (auto& [lane, parts] : passes)
            if (lane == cached_lane) of_lane.push_back(parts);
        common = common_part(c_.p, of_lane, cached_lane, g.grid);
    }
    const int64_t width = packs.width();
    std::vector<Condition> wide;
    for (VarId lane : lanes)
        for (Condition& x : packs.conditions(lane)) {
            const bool again = std::any_of(wide.begin(), wide.end(), [&](const Condition& o) {
                return o.kind == x.kind && o.tensor == x.tensor && o.number == x.number && o.value == x.value;
            });
            if (!again) wide.push_back(std::move(x));
        }
    const auto variant = [&](Variant v, int threads, int items, int64_t vector) {
        const int per_block = std::max(1, 128 / threads);
        v.macros = {{"THREADS", threads}};
        if (packs.any()) v.macros.emplace_back("VECTOR", vector);
        if (items) v.macros.emplace_back("ITEMS", items);
        v.threads = threads * per_block;
        v.blocks = ceil_div(rows, per_block);
        v.when.clear();
        if (vector > 1) v.when = wide;
        return v;
    };

    // A row so short that one thread does it.
    Variant one = point_kernel(g, c_.names.fresh(name + "_short"));
    one.when = {{.kind = Condition::Kind::AtMost, .value = length, .number = kShortRow}};
    const bool needs_short = length.lower() <= kShortRow;
    if (needs_short) one.when.push_back({.kind = Condition::Kind::AtLeast, .value = rows, .number = 4096});
    std::optional<Variant> kept, kept_less;
    if (!cached.empty())
        kept = kernel(
            name, "__launch_bounds__(THREADS * ROWS)",
            {common == kNone ? "A row stays in registers: it is read once, whatever the number of passes over it."
                             : "A row stays in registers, and so does what several passes need of it: it is "
                               "read and computed once."},
            [&] { RowWriter(c_, g, packs, cached, cached_lane, common).write(); });
    // Values of 16-bit elements take twice the registers of the elements.
    const auto fits = [&](const Shape& s, int64_t w) { return s.threads * s.items * w <= 32768; };
    if (common != kNone && !fits(kShapes[std::size(kShapes) - 1], width))
        kept_less = kernel(c_.names.fresh(name + "_again"), "__launch_bounds__(THREADS * ROWS)",
                           {"For longer rows: the row stays in registers; what several passes need of it is computed "
                            "again."},
                           [&] { RowWriter(c_, g, packs, cached, cached_lane, kNone).write(); });
    const Variant longer =
        kernel(cached.empty() ? name : c_.names.fresh(name + "_long"), "__launch_bounds__(THREADS * ROWS, 1)",
               {cached.empty() ? "Each thread takes every THREADS-th pack of the row."
                               : "Rows longer than what registers hold: every pass reads the row again, from the "
                                 "second on mostly out of the L2 cache."},
               [&] { RowWriter(c_, g, packs, {}, kNone, kNone).write(); });
    if (needs_short) stage.variants.push_back(one);
    std::vector<int64_t> widths;
    if (width > 1) widths.push_back(width);
    widths.push_back(1);
    for (int64_t w : widths) {
        if (kept)
            for (const Shape& s : kShapes) {
                if (cached.size() > 1 && s.threads * s.items > 2048) continue;
                Variant v = variant(common == kNone || fits(s, w) ? *kept : *kept_less, s.threads, s.items, w);
                v.when.push_back({.kind = Condition::Kind::AtMost,
                                  .value = c_.p.vars[cached_lane].extent,
                                  .number = int64_t{s.threads} * s.items * w});
                stage.variants.push_back(std::move(v));
            }
        Variant medium = variant(longer, kMediumThreads, 0, w);
        medium.when.push_back({.kind = Condition::Kind::AtMost, .value = length, .number = 2048 * w});
        if (!kept) stage.variants.push_back(std::move(medium));
        stage.variants.push_back(variant(longer, kLongThreads, 0, w));
    }
    out_.macros["THREADS"] = 128;
    if (packs.any()) out_.macros["VECTOR"] = width;
    if (kept) out_.macros["ITEMS"] = 4;
    stage.about = cached.empty() ? "rows: a warp or block each, folded by shuffles"
                                 : "rows: a warp or block each, kept in registers, folded by shuffles";
    return true;
}

}  // namespace opwright::target::cuda
