// Partial results of reductions that several blocks share (split.h).
#include <algorithm>

#include "target/cuda/lower.h"
#include "target/cuda/packs.h"

namespace opwright::target::cuda {
using namespace math;
using L = Operand::Level;

namespace {
class SliceWriter {
public:
    SliceWriter(Context& c, Packs& packs, const Slices& s)
        : c_(c), packs_(packs), s_(s), x_(c.p.expr(s.reduce)), at_(c) {}

    // The threads of a block take the packs of a slice in turn, and fold what they have by shuffles.
    void row() {
        begin();
        c_.code.line("__shared__ long long partial[64];");
        const std::string results = product_text(c_, s_.grid);
        open_slices(results == "1" ? "" : results, " / VECTOR", [&](const std::string& task) {
            std::vector<VarId> vars = s_.grid;
            vars.push_back(s_.slice);
            decompose(at_, vars, task, false);
        });
        Point::Accumulator a = at_.declare(s_.reduce);
        a.ordered = true;
        walk("threadIdx.x", "256", true, [&](const std::string&) { at_.accumulate(s_.reduce, a); });
        fold_threads(at_, s_.reduce, a, "256");
        c_.code.open("if (threadIdx.x == 0)");
        store(a.value, a.best);
        c_.code.close_if();
        c_.code.close();
    }

    // Threads side by side take packs of results; the lines of threads take the terms of a slice in turn.
    void columns() {
        begin();
        const bool arg = is_arg(x_.reduce);
        const DType type = compute_type(arg ? c_.p.expr(x_.args[0]).dtype : x_.dtype);
        c_.code.line("constexpr int kLines = 256 / LANES, kColumns = LANES * VECTOR;");
        c_.code.line("const int lane = threadIdx.x % LANES, line = threadIdx.x / LANES;");
        c_.code.line("__shared__ {} of_line[kLines][kColumns];", c_type(type));
        if (arg) c_.code.line("__shared__ long long at_of_line[kLines][kColumns];");
        c_.code.line("const Index columns = {}, tiles = (columns + kColumns - 1) / kColumns;",
                     product_text(c_, s_.grid));
        open_slices("tiles", "", [&](const std::string& task) {
            const std::string slice = c_.names.fresh("slice");
            c_.code.line("const Index tile = {0} % tiles, {1} = {0} / tiles;  // neighbours read neighbouring columns",
                         task, slice);
            at_.bind(s_.slice, slice);
        });
        Point::Accumulator a;
        a.type = type;
        const std::string value = c_.names.fresh(accumulator_name(x_.reduce));
        const std::string best = arg ? c_.names.fresh("best_at") : "";
        c_.code.line("{} {}[VECTOR];", c_type(type), value);
        if (arg) c_.code.line("long long {}[VECTOR];", best);
        c_.code.raw("#pragma unroll");
        c_.code.line("for (int v = 0; v < VECTOR; ++v) {}[v] = {}{};", value, identity_text(x_.reduce, type),
                     arg ? fmt::format(", {}[v] = -1", best) : "");
        c_.code.line("const Index column = tile * kColumns + lane * VECTOR;");
        c_.code.open("if (column < columns)");
        const Point::Scope scope = at_.save();
        decompose(at_, s_.grid, "column / VECTOR", true);
        walk("line", "kLines", false, [&](const std::string& v) {
            const Point::Accumulator one{fmt::format("{}[{}]", value, v), fmt::format("{}[{}]", best, v), type, true};
            at_.accumulate(s_.reduce, one);
        });
        at_.restore(scope);
        c_.code.close();
        c_.code.line("__syncthreads();  // readers of the last slice are done");
        c_.code.raw("#pragma unroll");
        c_.code.line("for (int v = 0; v < VECTOR; ++v) of_line[line][lane * VECTOR + v] = {}[v]{};", value,
                     arg ? fmt::format(", at_of_line[line][lane * VECTOR + v] = {}[v]", best) : "");
        c_.code.line("__syncthreads();");
        c_.code.open(
            "for (int inside = threadIdx.x; inside < kColumns && tile * kColumns + inside < columns; inside += 256)");
        c_.code.line("const Index result = tile * kColumns + inside;");
        decompose(at_, s_.grid, "result", false);
        c_.code.line("{} folded = of_line[0][inside];", c_type(type));
        if (arg) c_.code.line("long long folded_at = at_of_line[0][inside];");
        c_.code.open("for (int other = 1; other < kLines; ++other)");
        if (arg) {
            c_.code.line("const {} candidate = of_line[other][inside];", c_type(type));
            c_.code.line("const long long candidate_at = at_of_line[other][inside];");
            c_.code.line("if ({}(candidate, candidate_at, folded, folded_at))", at_.better(s_.reduce));
            c_.code.line("    folded = candidate, folded_at = candidate_at;");
        } else {
            c_.code.line("folded = {};",
                         combine(x_.reduce, {"folded"}, {"of_line[other][inside]"}, type, c_.helpers).text);
        }
        c_.code.close();
        store("folded", "folded_at");
        c_.code.close();
        c_.code.close();
    }

private:
    void begin() {
        c_.cooperates = true;
        c_.names.keep({"partial", "lane",   "line",      "of_line", "at_of_line", "columns", "column",
                       "tiles",   "tile",   "task",      "terms",   "each",       "first",   "last",
                       "inside",  "folded", "folded_at", "other",   "candidate", "candidate_at", "result"});
    }
    // The loop over (result or tile, slice); declares the slice's first term and the one past its last, in `unit`s.
    void open_slices(const std::string& results, const std::string& unit,
                     const std::function<void(const std::string&)>& locate) {
        const auto part = [&](const Sym& s) {
            const Operand o = c_.size(s);
            return unit.empty() ? o.text : o.at(L::Product) + unit;
        };
        c_.code.line("const Index terms = {}, each = {};{}", part(s_.length), part(s_.slice_length),
                     unit.empty() ? "  // of a slice" : "  // packs of all and of a slice");
        const std::string slices = c_.size(c_.p.vars[s_.slice].extent).at(L::Product);
        c_.code.open("for (Index task = blockIdx.x; task < {}; task += gridDim.x)",
                     results.empty() ? slices : results + " * " + slices);
        locate("task");
        const std::string& slice = at_.variable(s_.slice);
        c_.code.line("const Index first = {0} * each, last = terms - first < each ? terms : first + each;", slice);
    }
    // The loop over the terms of this thread; inner() at each element of a pack.
    void walk(const std::string& from, const std::string& step, bool packed_terms,
              const std::function<void(const std::string&)>& inner) {
        const VarId lane = s_.lane();
        const Point::Scope scope = at_.save();
        for (ExprId a : x_.args) packs_.uniform_loads(at_, a, lane);
        at_.hoist(x_.args.back(), lane);
        at_.hoist_divisors(x_.args.back(), lane);
        at_.count_uses(s_.reduce);
        c_.code.raw("#pragma unroll 4");
        c_.code.open("for (Index term = first + {0}; term < last; term += {1})", from, step);
        const Point::Scope turn = at_.save();
        decompose(at_, s_.along, "term", packed_terms);
        std::vector<std::pair<ExprId, std::string>> loaded;
        for (ExprId a : x_.args) packs_.uniform_loads(at_, a, lane);
        for (ExprId a : x_.args) packs_.load(at_, a, loaded);
        const std::string base = at_.variable(lane), v = c_.names.fresh("v");
        c_.code.raw("#pragma unroll");
        c_.code.open("for (int {0} = 0; {0} < VECTOR; ++{0})", v);
        at_.bind(lane, fmt::format("({} + {})", base, v));
        packs_.take(at_, loaded, v);
        inner(v);
        c_.code.close();
        c_.code.close();
        at_.restore(turn);
        at_.restore(scope);
    }
    void store(const std::string& value, const std::string& best_at) {
        const auto put = [&](TensorId t, const std::string& v) {
            c_.touched[t] = c_.written[t] = true;
            c_.code.line("{}[{}] = {};", c_.pointers[t], at_.place(t, s_.at.data(), Outside::Error, "").offset, v);
        };
        put(s_.partial, value);
        if (s_.partial_at != kNone) put(s_.partial_at, best_at);
    }

    Context& c_;
    Packs& packs_;
    const Slices& s_;
    const Expr& x_;
    Point at_;
};
}  // namespace

void Lowering::slices_kernel(const Slices& s, const std::string& name, Stage& stage) {
    c_.name_size(c_.p.vars[s.slice].extent, "slices");
    c_.name_size(s.slice_length, "slice_length");
    Packs packs(c_.p, c_.stored);
    for (ExprId a : c_.p.expr(s.reduce).args) packs.add(a, s.lane(), true);
    const int64_t width = packs.width();
    const Sym results = points_of(c_.p, s.grid), slices = c_.p.vars[s.slice].extent;
    Variant v =
        s.columns
            ? kernel(
                  name, "__launch_bounds__(256)",
                  {fmt::format("Partial results: a block folds one slice of the terms of LANES * VECTOR results that "
                               "lie side by side along {}, so that every access is contiguous.",
                               c_.p.vars[s.lane()].name)},
                  [&] { SliceWriter(c_, packs, s).columns(); })
            : kernel(name, "__launch_bounds__(256)",
                     {"Partial results: a block folds one slice of the terms of one result, each thread every 256th "
                      "pack of it."},
                     [&] { SliceWriter(c_, packs, s).row(); });
    out_.macros["VECTOR"] = width;
    if (s.columns) out_.macros["LANES"] = 32;
    std::vector<int64_t> widths{1};
    if (width > 1) widths.insert(widths.begin(), width);
    for (int64_t w : widths)
        for (int lanes : s.columns ? std::vector<int>{4, 8, 16, 32} : std::vector<int>{0}) {
            Variant r = v;
            r.threads = 256;
            r.macros = {{"VECTOR", w}};
            if (w > 1) r.when = packs.conditions(s.lane());
            if (lanes) {
                r.macros.emplace_back("LANES", lanes);
                if (lanes < 32)
                    r.when.push_back({.kind = Condition::Kind::AtMost, .value = results, .number = lanes * w});
            }
            r.blocks = slices * (lanes ? ceil_div(results, lanes * w) : results);
            stage.variants.push_back(std::move(r));
        }
    stage.lane = s.lane();
    stage.pack = width;
    stage.about = s.columns ? "a reduction cut into slices: blocks fold a slice of neighbouring columns each"
                            : "a reduction cut into slices, a block each, folded by shuffles";
}

}  // namespace opwright::target::cuda
