// Reductions along contiguous rows, and what follows them: THREADS threads share a row and fold their parts of its
// reductions by shuffles (and shared memory beyond one warp). While a row fits, it stays in registers between passes.
#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "math/rescale.h"
#include "math/short_exponent.h"
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
    int shared, blocks;  // packs of it in shared memory a thread; blocks of a multiprocessor that registers must allow
    int cluster = 1;     // blocks that share a row
    int64_t packs() const { return int64_t{threads} * cluster * (items + shared); }
};
// Rows alone: beyond registers for two blocks, most of a row is in shared memory. Where passes load more than the row,
// that comes through the L1 cache, which is what shared memory leaves over: registers hold as much as they can. Of a row
// of 256 KB even so most of it comes from the L2 cache, for each row; blocks of a cluster share the columns, so that
// more of what belongs to a block's own stays in its multiprocessor's L1 cache from row to row. By measurement on an H200.
constexpr Shape kShapes[] = {{8, 1, 0, 1},   {16, 2, 0, 1},   {32, 2, 0, 1},    {32, 4, 0, 1},
                             {128, 4, 0, 1}, {256, 4, 0, 4},  {512, 4, 0, 2},   {512, 8, 0, 2},
                             {512, 4, 8, 2}, {512, 2, 14, 2}, {1024, 2, 14, 1}, {1024, 8, 12, 1},
                             {512, 8, 0, 2, 8}, {1024, 8, 0, 1, 8}};
constexpr Shape kShapesBesideOthers[] = {{8, 1, 0, 1},      {16, 2, 0, 1},      {32, 2, 0, 1},      {32, 4, 0, 1},
                                         {128, 4, 0, 1},    {256, 4, 0, 4},     {512, 4, 0, 2},     {512, 8, 0, 2},
                                         {512, 8, 0, 2, 2}, {1024, 8, 0, 1},    {1024, 8, 0, 1, 2}, {512, 8, 0, 2, 8},
                                         {1024, 8, 0, 1, 8}, {1024, 8, 8, 1},   {1024, 8, 12, 1}};
constexpr int kLongThreads = 1024, kMediumThreads = 128;

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

// What stays on the chip between the passes over a row.
struct Kept {
    std::vector<ExprId> loads;  // along `lane`
    VarId lane = kNone;
    ExprId part = kNone;              // of the expressions, whose values are kept too
    bool in_place = false;            // where the row was, which no pass reads after it is computed
    bool shared = false;              // packs beyond ITEMS are in shared memory
    bool cluster = false;             // CLUSTER blocks share the row
    std::vector<ExprId> approximate;  // exponentials of which 16-bit results take fewer digits than exp gives
};

// Whether a value is computed from `load` without `part`; insides of reductions apart.
bool needs(const Program& p, ExprId root, ExprId load, ExprId part) {
    if (root == load) return true;
    if (root == part || p.expr(root).kind == ExprKind::Reduce) return false;
    const auto& args = p.expr(root).args;
    return std::any_of(args.begin(), args.end(), [&](ExprId a) { return needs(p, a, load, part); });
}

class RowWriter {
public:
    RowWriter(Context& c, const Group& g, Packs& packs, const Kept& k)
        : c_(c),
          g_(g),
          packs_(packs),
          cached_(k.loads),
          cached_lane_(k.lane),
          kept_(k.part),
          in_place_(k.in_place),
          shared_(k.shared),
          cluster_(k.cluster),
          all_threads_(k.cluster ? "THREADS * CLUSTER" : "THREADS"),
          at_(c) {
        if (cluster_) pairs_ = rescales(c.p, g.equations);
        for (ExprId e : k.approximate) at_.approximate(e);
        const bool short_results = std::all_of(g.equations.begin(), g.equations.end(), [&](uint32_t i) {
            const TensorId t = c.p.equations[i].lhs;
            return c.pointers[t].empty() || c.stored[t] == DType::F16 || c.stored[t] == DType::BF16;
        });
        if (short_results) at_.short_results();
    }

    void write() {
        c_.cooperates = true;
        c_.names.keep({"row", "partial"});
        vector_ = packs_.any();
        if (cluster_)
            c_.code.line(
                "const int lane = blockIdx.x % CLUSTER * THREADS + threadIdx.x;  // of the cluster, which shares a row");
        else
            c_.code.line("const int lane = threadIdx.x % THREADS;  // of those that share a row");
        c_.code.line("__shared__ long long partial[64];");
        if (cluster_) {
            for (const char* h : {"IN_CLUSTERS", "fold_cluster"}) c_.helpers.use(h);
            c_.code.line("__shared__ ClusterSlots slots[2];  // used in turn");
            c_.code.line("int turn = 0;");
            c_.code.line("meet_cluster();  // all blocks are there");
        }
        if (shared_) c_.code.line("extern __shared__ __align__(128) unsigned char shared[];");
        const std::string rows = product_text(c_, g_.grid);
        if (cluster_)
            c_.code.open("for (Index row = blockIdx.x / CLUSTER; row < {}; row += gridDim.x / CLUSTER)", rows);
        else
            c_.code.open(
                "for (Index row = blockIdx.x * (Index)ROWS + threadIdx.x / THREADS; row < {}; row += "
                "(Index)gridDim.x * ROWS)",
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
        if (shared_) {
            const std::string type = fmt::format("Pack<{}, VECTOR>", memory_type(c_.stored[c_.p.expr(cached_[0]).ref]));
            rest_ = c_.names.fresh(c_.p.tensors[c_.p.expr(cached_[0]).ref].name + "_rest");
            c_.code.line("{0}* const {1} = ({0}*)shared + lane;  // packs beyond ITEMS, THREADS apart", type,
                         rest_);
        }
        if (kept_ != kNone && !in_place_) {
            kept_name_ = c_.names.fresh("kept");
            c_.code.line("float {}[ITEMS][VECTOR];", kept_name_);
        }
        const auto read = [&](const std::string& count, const std::string& first, const auto& put) {
            const Point::Scope scope = at_.save();
            const std::string i = open_items(cached_lane_, count, first);
            for (size_t k = 0; k < cached_.size(); ++k) {
                const Expr& x = c_.p.expr(cached_[k]);
                c_.touched[x.ref] = true;
                const Place place = at_.place(x.ref, x.args.data(), x.outside, "");
                put(k, i, fmt::format("&{}[{}]", c_.pointers[x.ref], place.offset));
            }
            c_.code.close();
            c_.code.close();
            at_.restore(scope);
        };
        if (shared_)
            read("SHARED", "(ITEMS + {})", [&](size_t, const std::string& i, const std::string& from) {
                c_.code.line("{}(&{}[{} * THREADS], {}, 16);", c_.helpers.use("copy_async"), rest_, i, from);
            });
        read("ITEMS", "{}", [&](size_t k, const std::string& i, const std::string& from) {
            const TensorId t = c_.p.expr(cached_[k]).ref;
            const bool written = std::any_of(g_.equations.begin(), g_.equations.end(),
                                             [&](uint32_t q) { return c_.p.equations[q].lhs == t; });
            c_.code.line("{}[{}] = {}<VECTOR>({});", arrays[k], i, written ? "load_pack" : c_.helpers.use("load_once"),
                         from);
        });
        if (shared_) {
            c_.code.line("commit_copies();");
            c_.code.line("wait_copies<0>();  // each thread reads what it has copied itself: no barrier");
        }
    }

    // The loop over the packs that a thread holds; binds the lane variable to the first element.
    std::string open_items(VarId lane, const std::string& count, const std::string& first) {
        const std::string i = c_.names.fresh("i"), n = c_.names.fresh(c_.p.vars[lane].name);
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int {0} = 0; {0} < {1}; ++{0})", i, count);
        c_.code.line("const Index {} = ({} * {} + lane) * VECTOR;", n, fmt::format(fmt::runtime(first), i),
                     cluster_ ? "(THREADS * CLUSTER)" : "THREADS");
        c_.code.open("if ({} < {})", n, c_.size(c_.p.vars[lane].extent).at(L::Shift));
        at_.bind(lane, n);
        return i;
    }
    // The pack of a row that loop `i` is at; with `assign`, puts it there.
    std::string row_pack(const std::string& array, const std::string& i) const {
        if (!shared_) return fmt::format("{}[{}]", array, i);
        return fmt::format("{1} < ITEMS ? {0}[{1}] : {2}[({1} - ITEMS) * THREADS]", array, i, rest_);
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
            std::string i;
            if (items) {
                i = open_items(lane, shared_ ? "ITEMS + SHARED" : "ITEMS", "{}");
            } else {
                const std::string n = c_.names.fresh(c_.p.vars[lane].name);
                const std::string extent = c_.size(c_.p.vars[lane].extent).at(L::Shift);
                if (outer.empty() && roots.size() == 1) c_.code.raw("#pragma unroll 4");
                if (vector_)
                    c_.code.open("for (Index {0} = lane * VECTOR; {0} < {1}; {0} += {2} * VECTOR)", n, extent,
                                 all_threads_);
                else
                    c_.code.open("for (Index {0} = lane; {0} < {1}; {0} += {2})", n, extent, all_threads_);
                at_.bind(lane, n);
            }
            if (!vector_) {
                inner("");
            } else {
                // What an earlier pass computed and kept is not computed again, and rows that this pass does not read
                // are not taken apart.
                if (keeps && kept_ready_) at_.set(kept_, {"kept"});
                std::vector<std::pair<ExprId, std::string>> loaded;
                std::string kept_pack;
                if (items)
                    for (auto& [l, array] : rows_) {
                        const bool holds_kept = in_place_ && kept_ready_ && keeps;
                        if (!holds_kept && !reads(roots, l)) {
                            loaded.emplace_back(l, "");
                            continue;
                        }
                        std::string pack = row_pack(array, i);
                        if (shared_) {
                            const std::string n =
                                c_.names.fresh(holds_kept ? "kept" : c_.p.tensors[c_.p.expr(l).ref].name + "_pack");
                            c_.code.line("const auto {} = {};", n, pack);
                            pack = n;
                        }
                        if (holds_kept) kept_pack = pack;
                        loaded.emplace_back(l, holds_kept ? "" : pack);
                    }
                for (ExprId r : roots) packs_.load(at_, r, loaded);
                std::erase_if(loaded, [](const auto& x) { return x.second.empty(); });
                if (keep_now && in_place_) {
                    kept_pack = c_.names.fresh("kept");
                    c_.code.line("Pack<float, VECTOR> {};", kept_pack);
                }
                before();
                const std::string v = c_.names.fresh("v"), base = at_.variable(lane);
                const Point::Scope pack = at_.save();
                c_.code.raw("#pragma unroll");
                c_.code.open("for (int {0} = 0; {0} < VECTOR; ++{0})", v);
                at_.bind(lane, fmt::format("({} + {})", base, v));
                packs_.take(at_, loaded, v);
                const std::string place =
                    in_place_ ? fmt::format("{}.at[{}]", kept_pack, v) : fmt::format("{}[{}][{}]", kept_name_, i, v);
                if (keep_now) c_.code.line("{} = {};", place, at_.eval(kept_).text);
                if (keeps) at_.set(kept_, {place});
                inner(v);
                c_.code.close();
                at_.restore(pack);
                if (keep_now && in_place_) {
                    if (shared_) {
                        c_.code.line("if ({0} < ITEMS) {1}[{0}] = {2};", i, rows_[0].second, kept_pack);
                        c_.code.line("else {}[({} - ITEMS) * THREADS] = {};", rest_, i, kept_pack);
                    } else {
                        c_.code.line("{}[{}] = {};", rows_[0].second, i, kept_pack);
                    }
                }
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

    // A sum and squared deviations from its mean, in a cluster: each block has them of its own part of the row, and one
    // exchange makes them those of the row (math/rescale.h).
    bool reduce_pair(ExprId r) {
        if (const auto known = parts_.find(r); known != parts_.end()) {
            const Part& part = known->second;
            const std::string type(c_type(part.type)), s = c_.names.fresh("squares");
            c_.helpers.use("deviations_from");
            Operand centre = at_.eval(part.shift);
            if (centre.text.find_first_of(" (.") != std::string::npos) centre = at_.named(part.shift, "centre");
            c_.code.line("{} {} = 0;", type, s);
            c_.code.raw("#pragma unroll");
            c_.code.open("for (int block = 0; block < CLUSTER; ++block)");
            c_.code.line("{0} += deviations_from({1}.first<{2}>(block), {1}.second<{2}>(block),", s, part.slots, type);
            c_.code.line("    {}, {});", count_of(part.extent, "block"), centre.text);
            c_.code.close();
            at_.set(r, {s});
            return true;
        }
        const auto x = std::find_if(pairs_.begin(), pairs_.end(), [&](const Rescale& p) {
            return p.first == r && p.kind == Rescale::Kind::Deviations && !at_.known(p.second) &&
                   c_.p.expr(p.second).vars == c_.p.expr(r).vars && c_.p.expr(r).vars == std::vector{cached_lane_};
        });
        if (x == pairs_.end()) return false;
        const std::string extent = c_.size(c_.p.vars[cached_lane_].extent).at(L::Unary);
        const Point::Accumulator a = fold_part(r);
        const Point::Scope scope = at_.save();
        const std::string type(c_type(a.type)), mean = c_.names.fresh("part_mean"), s = c_.names.fresh("slots_of_row");
        c_.code.line("// Of this block's part of the row; then of the row, by one exchange.");
        c_.code.line("const {} {} = {} / ({}){};", type, mean, a.value, type,
                     count_of(extent, "blockIdx.x % CLUSTER"));
        at_.set(x->shift, {mean});
        for (ExprId l : loads_in(c_.p, x->shift, false))  // what it is made of is not there yet
            if (!at_.known(l)) at_.set(l, {mean});
        const Point::Accumulator b = fold_part(x->second);
        at_.restore(scope);
        c_.code.line("const ClusterSlots& {} = slots[turn];", s);
        c_.code.line("exchange<CLUSTER>(slots[turn], {}, {});", a.value, b.value);
        c_.code.line("turn ^= 1;");
        c_.code.line("{} = 0;", a.value);
        c_.code.raw("#pragma unroll");
        c_.code.line("for (int block = 0; block < CLUSTER; ++block) {} += {}.first<{}>(block);", a.value, s, type);
        at_.set(r, at_.result(r, a));
        parts_[x->second] = {s, extent, x->shift, a.type};
        return true;
    }
    // Elements of a row in the part of block `block`.
    std::string count_of(const std::string& extent, const std::string& block) {
        return fmt::format("{}<THREADS * VECTOR, CLUSTER>({}, {})", c_.helpers.use("part_of_row"), extent, block);
    }
    // The fold of what this block alone has.
    Point::Accumulator fold_part(ExprId r) {
        const Expr& x = c_.p.expr(r);
        const Point::Accumulator a = at_.declare(r);
        at_.count_uses(r);
        pass(cached_lane_, {}, x.args, {x.args.back()}, [] {}, [&](const std::string&) { at_.accumulate(r, a); },
             [] {});
        fold_threads(at_, r, a, "THREADS");
        return a;
    }

    void reduce(ExprId r) {
        if (cluster_ && reduce_pair(r)) return;
        const Expr& x = c_.p.expr(r);
        VarId lane = row_lane(c_.p, r);
        if (lane == kNone) lane = x.vars.back();
        std::vector<VarId> outer;
        for (VarId v : x.vars)
            if (v != lane) outer.push_back(v);
        Point::Accumulator a = at_.declare(r);
        a.ordered = lane == x.vars.back();
        at_.count_uses(r);
        pass(lane, outer, x.args, {x.args.back()}, [] {}, [&](const std::string&) { at_.accumulate(r, a); }, [] {});
        if (cluster_)
            c_.code.line(
                "{0} = fold_cluster<THREADS, CLUSTER>({0}, partial, slots, turn, []({1} a, {1} b) {{ return {2}; }});",
                a.value, c_type(a.type), combine(x.reduce, {"a"}, {"b"}, a.type, c_.helpers).text);
        else
            fold_threads(at_, r, a, "THREADS");
        if (cluster_) at_.set(r, at_.result(r, a));
    }

    void equation(const Equation& q) {
        std::vector<VarId> others;
        for (VarId v : q.vars)
            if (!has(g_.grid, v)) others.push_back(v);
        const std::vector<ExprId> reduces = reduces_in(c_.p, q.rhs);
        if (others.empty() || !reduces.empty()) {
            at_.loops(others, {}, [&] {
                for (ExprId r : reduces)
                    if (!at_.known(r)) reduce(r);
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
                c_.code.close_if();
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
                if (packed) packs_.store(at_, q, result, !cached_.empty());
            });
    }

    Context& c_;
    const Group& g_;
    Packs& packs_;
    const std::vector<ExprId> cached_;
    VarId cached_lane_;
    ExprId kept_;
    std::string kept_name_, rest_;
    bool in_place_, shared_, cluster_, kept_ready_ = false;
    std::string all_threads_;  // of a row
    std::vector<Rescale> pairs_;
    struct Part {
        std::string slots, extent;
        ExprId shift;
        DType type;
    };
    std::map<ExprId, Part> parts_;  // second folds of which each block has its part
    Point at_;
    bool vector_ = false;
    std::vector<std::pair<ExprId, std::string>> rows_;
};
}  // namespace

VarId row_lane(const Program& p, ExprId reduce) {
    const Expr& x = p.expr(reduce);
    for (size_t i = x.vars.size(); i-- > 0;)
        for (ExprId a : x.args)
            for (ExprId l : loads_in(p, a, true))
                if (contiguous(p, p.expr(l).ref, p.expr(l).args, x.vars[i])) return x.vars[i];
    return kNone;
}

void fold_threads(Point& at, ExprId reduce, const Point::Accumulator& a, const std::string& threads) {
    Context& c = at.context();
    const Expr& x = c.p.expr(reduce);
    const std::string type(c_type(a.type));
    if (is_arg(x.reduce)) {
        c.code.line("{}<{}>({}, {}, partial, {});", c.helpers.use("fold_best"), threads, a.value, a.best,
                    at.better(reduce));
    } else {
        c.code.line("{} = {}<{}>({}, partial, []({} a, {} b) {{ return {}; }});", a.value, c.helpers.use("fold"),
                    threads, a.value, type, type, combine(x.reduce, {"a"}, {"b"}, a.type, c.helpers).text);
    }
    at.set(reduce, at.result(reduce, a));
}

bool Lowering::row_kernel(const Group& g, const std::string& name, Stage& stage) {
    Packs packs(c_.p, c_.stored);
    std::vector<VarId> lanes;
    std::vector<std::pair<ExprId, VarId>> seen;  // a pack load and its lane, once for every pass that has it
    Sym length = 0;                              // of the longest walk
    bool row_like = false, folds_positions = false;
    std::vector<std::pair<VarId, std::vector<ExprId>>> passes;  // over which variable, and what it evaluates
    std::vector<std::vector<ExprId>> pass_roots;
    const auto note_pass = [&](const std::vector<ExprId>& roots, VarId lane) {
        passes.emplace_back(lane, parts_of(c_.p, roots.back()));
        pass_roots.push_back(roots);
        if (!has(lanes, lane)) lanes.push_back(lane);
        for (ExprId r : roots) {
            if (g.partials == Group::Partials::None) packs.add(r, lane, true);  // those are few
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
            folds_positions |= is_arg(c_.p.expr(r).reduce);
            const VarId lane = row_lane(c_.p, r);
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
    const bool partials = g.partials != Group::Partials::None;
    if (length.upper() <= kShortRow && !partials) return false;

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
    const bool others = std::any_of(seen.begin(), seen.end(), [&](auto& o) {
        return o.second == cached_lane && std::find(cached.begin(), cached.end(), o.first) == cached.end();
    });
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
    const auto variant = [&](Variant v, const Shape& s, int64_t vector) {
        const int per_block = std::max(1, 128 / s.threads);
        v.macros = {{"THREADS", s.threads}};
        if (packs.any()) v.macros.emplace_back("VECTOR", vector);
        if (s.items) v.macros.insert(v.macros.end(), {{"ITEMS", s.items}, {"BLOCKS", s.blocks}});
        if (s.shared) v.macros.emplace_back("SHARED", s.shared);
        if (s.cluster > 1) v.macros.emplace_back("CLUSTER", s.cluster);
        v.threads = s.threads * per_block;
        v.cluster = s.cluster;
        v.blocks = ceil_div(rows, per_block) * s.cluster;
        v.dynamic_shared = int64_t{s.threads} * s.shared * 16;
        v.when.clear();
        if (vector > 1) v.when = wide;
        return v;
    };

    // A row so short that one thread does it.
    std::optional<Variant> one;
    if (length.lower() <= kShortRow && g.partials != Group::Partials::Rows) {
        one = point_kernel(g, c_.names.fresh(name + "_short"));
        one->when = {{.kind = Condition::Kind::AtMost, .value = length, .number = kShortRow},
                     {.kind = Condition::Kind::AtLeast, .value = rows, .number = 4096}};
    }
    Kept all{.loads = cached, .lane = cached_lane, .part = common};
    all.approximate = short_exponentials(c_.p, g.equations, [&](TensorId t) {
        return c_.pointers[t].empty() ? std::nullopt : std::optional(c_.stored[t]);
    });
    bool packs_of_16 = false, in_place = false;
    if (!cached.empty()) {
        const DType t = c_.stored[c_.p.expr(cached[0]).ref];
        packs_of_16 = cached.size() == 1 && width * static_cast<int64_t>(size_of(t)) == 16;
        in_place = common != kNone && cached.size() == 1 && t == DType::F32;
        bool ready = false;
        for (size_t i = 0; i < passes.size(); ++i) {
            if (passes[i].first != cached_lane) continue;
            for (ExprId r : pass_roots[i]) in_place &= !ready || !needs(c_.p, r, cached[0], common);
            ready |= std::find(passes[i].second.begin(), passes[i].second.end(), common) != passes[i].second.end();
        }
        all.in_place = in_place;
    }
    // Without it: the values of 16-bit elements take twice the registers of the elements.
    Kept less = all;
    if (!in_place) less.part = kNone;
    const bool cheap = std::find(all.approximate.begin(), all.approximate.end(), common) != all.approximate.end();
    const auto keeps_part = [&](const Shape& s) {
        return in_place || (cheap ? s.threads <= 128 : s.threads <= 512 && s.items <= 4);
    };
    const std::string bounds = "__launch_bounds__(THREADS * ROWS, BLOCKS)";
    std::optional<Variant> kept, kept_less, kept_shared, kept_cluster;
    if (!cached.empty()) {
        kept = kernel(
            name, bounds,
            {common == kNone ? "A row stays in registers: it is read once, whatever the number of passes over it."
                             : "A row stays in registers, and so does what several passes need of it: it is "
                               "read and computed once."},
            [&] { RowWriter(c_, g, packs, all).write(); });
        if (common != kNone && !in_place)
            kept_less = kernel(c_.names.fresh(name + "_again"), bounds,
                               {"For longer rows: the row stays in registers; what several passes need of it is "
                                "computed again."},
                               [&] { RowWriter(c_, g, packs, less).write(); });
        if (packs_of_16) {
            less.shared = true;
            kept_shared = kernel(c_.names.fresh(name + "_shared"), bounds,
                                 {"For rows longer than what registers hold: the rest of the row is in shared memory, "
                                  "and it is still read once."},
                                 [&] { RowWriter(c_, g, packs, less).write(); });
            less.shared = false;
            less.cluster = true;
            const bool one_lane =
                std::all_of(passes.begin(), passes.end(), [&](auto& x) { return x.first == cached_lane; });
            if (one_lane && !folds_positions)
                kept_cluster =
                    kernel(c_.names.fresh(name + "_cluster"), "IN_CLUSTERS\n    " + bounds,
                           {"For rows longer still: CLUSTER blocks share a row, which stays in their registers, and "
                            "what goes with its columns stays in their L1 caches."},
                           [&] { RowWriter(c_, g, packs, less).write(); });
        }
    }
    const Variant longer = kernel(
        cached.empty() ? name : c_.names.fresh(name + "_long"), "__launch_bounds__(THREADS * ROWS, 1)",
        {partials         ? "Folds the partial results, always in the same order."
         : cached.empty() ? "Each thread takes every THREADS-th pack of the row."
                          : "Rows longer than what a multiprocessor holds: every pass reads the row again, from the "
                            "second on mostly out of the L2 cache."},
        [&] { RowWriter(c_, g, packs, {.approximate = all.approximate}).write(); });
    // A person's shape comes first; what it does not serve goes on as without it.
    const VarId lane = cached.empty() ? lanes[0] : cached_lane;
    RowShape usual{128, cached.empty() ? 0 : 4, 0};
    if (plan_ && !partials) {
        const RowShape r = pinned(pinned_row(*plan_, subject(g), lane, width, cached.size()), usual);
        if (r.shared && !kept_shared)
            refusal_ =
                Diagnostic(fmt::format("The schedule of {} keeps a part of index {} in shared memory.",
                                       subject(g).equation(), c_.p.vars[lane].name),
                           {}, "Its packs have less than 16 bytes here: hold fewer elements, or use more warps.");
        const bool part = common != kNone && keeps_part({r.threads, r.items, r.shared, 1});
        const Shape shape{r.threads, r.items, r.shared, 1};
        Variant v = variant(r.shared && kept_shared   ? *kept_shared
                            : r.items == 0            ? longer
                            : common == kNone || part ? *kept
                                                      : *kept_less,
                            shape, width);
        if (r.items)
            v.when.push_back(
                {.kind = Condition::Kind::AtMost, .value = c_.p.vars[lane].extent, .number = shape.packs() * width});
        usual = r;
        if (v.when.empty()) v.when.push_back({.kind = Condition::Kind::AtLeast, .value = rows, .number = 0});
        stage.variants.push_back(std::move(v));
    }
    if (!partials) record(plan_of(usual, lane, width));
    if (one) stage.variants.push_back(*one);
    std::vector<int64_t> widths;
    if (width > 1) widths.push_back(width);
    widths.push_back(1);
    for (int64_t w : widths) {
        if (kept)
            for (Shape s : others ? std::span<const Shape>(kShapesBesideOthers) : std::span<const Shape>(kShapes)) {
                if (cached.size() > 1 && s.threads * s.items > 2048) continue;
                if (s.shared && (!kept_shared || w != width)) continue;
                if (s.cluster > 1 && (!kept_cluster || w != width)) continue;
                // Of 16-bit rows two to a multiprocessor are better than one; of others one is.
                if (s.cluster == 2 && s.threads == 512 && width <= 4) continue;
                // A part that is kept beside the row takes the registers of a second block.
                const bool part = common != kNone && keeps_part(s);
                if ((part && !in_place) || cached.size() > 1 || s.threads < 128) s.blocks = 1;
                Variant v = variant(s.cluster > 1             ? *kept_cluster
                                    : s.shared                ? *kept_shared
                                    : common == kNone || part ? *kept
                                                              : *kept_less,
                                    s, w);
                if (s.cluster > 1) v.when.push_back({.kind = Condition::Kind::Clusters});
                v.when.push_back(
                    {.kind = Condition::Kind::AtMost, .value = c_.p.vars[cached_lane].extent, .number = s.packs() * w});
                stage.variants.push_back(std::move(v));
            }
        constexpr Shape kWarp{32, 0, 0, 0}, kMedium{kMediumThreads, 0, 0, 0}, kLong{kLongThreads, 0, 0, 0};
        if (partials) {
            Variant few = variant(longer, kWarp, w);
            few.when.push_back({.kind = Condition::Kind::AtMost, .value = length, .number = 64});
            stage.variants.push_back(std::move(few));
            stage.variants.push_back(variant(longer, kMedium, w));
            continue;
        }
        Variant medium = variant(longer, kMedium, w);
        medium.when.push_back({.kind = Condition::Kind::AtMost, .value = length, .number = 2048 * w});
        if (!kept) stage.variants.push_back(std::move(medium));
        stage.variants.push_back(variant(longer, kLong, w));
    }
    out_.macros["THREADS"] = usual.threads;
    if (packs.any()) out_.macros["VECTOR"] = width;
    if (kept) out_.macros["ITEMS"] = usual.items ? usual.items : 4, out_.macros["BLOCKS"] = 1;
    if (kept_shared) out_.macros["SHARED"] = usual.shared;
    if (kept_cluster) out_.macros["CLUSTER"] = 1;
    stage.lane = lane;
    stage.pack = packs.any() ? width : 1;
    stage.about = partials         ? "partial results folded, always in the same order"
                  : cached.empty() ? "rows: a warp or block each, folded by shuffles"
                                   : "rows: a warp or block each, kept in registers, folded by shuffles";
    return true;
}

}  // namespace opwright::target::cuda
