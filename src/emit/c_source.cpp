#include "emit/c_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "emit/c_point.h"
#include "math/folded_reads.h"
#include "math/unroll.h"
#include "schedule/kernel.h"
#include "tile/apply.h"

namespace opwright::emit {
using namespace math;
using tile::Stmt;
using tile::StmtKind;

namespace {

// Keywords, and the functions of the headers that the source includes.
constexpr const char* kReserved =
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true "
    "false "
    "main error abs abort acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh div erf erfc exit exp "
    "exp2 "
    "expm1 fabs fdim floor fma fmax fmin fmod free frexp gamma hypot ilogb index isinf isnan j0 j1 jn labs ldexp ldiv "
    "lgamma log log10 log1p log2 logb malloc memcpy modf nan pow random remainder rint round scalb signbit sin sinh "
    "sqrt "
    "system tan tanh tgamma time trunc y0 y1 yn";

// Every equation on its own, a point at a time: no lanes, no packing.
schedule::Schedule plain_schedule(const schedule::Kernel& k) {
    schedule::Schedule s;
    for (const schedule::Nest& n : k.nests) {
        schedule::NestPlan plan;
        plan.grid_tile.assign(n.grid.size(), 1);
        plan.equations.resize(n.equations.size());
        s.nests.push_back(std::move(plan));
    }
    return s;
}

class Writer {
public:
    explicit Writer(const tile::Program& t)
        : t_(t),
          p_(t.kernel.program),
          dialect_(emit::c99()),
          functions_(dialect_),
          names_(kReserved),
          point_(p_, functions_, names_) {
        dialect_.report = "error = {}";
    }

    CSource run(const Program& original) {
        CSource s;
        s.function = names_.take(original.name);
        if (s.function != emit::Names::identifier(original.name)) s.function = names_.take(original.name + "_kernel");
        s.symbols = original.symbols();
        for (const std::string& n : s.symbols) point_.symbols[n] = names_.take(emit::Names::extent(n));
        std::string parameters;
        size_t column = s.function.size() + 5;
        const auto parameter = [&](const std::string& text) {
            const bool breaks = column + text.size() > 116;
            column = breaks ? 8 + text.size() : column + text.size() + 2;
            parameters += (parameters.empty() ? "" : breaks ? ",\n        " : ", ") + text;
        };
        for (const std::string& n : s.symbols) parameter("int64_t " + point_.symbols[n]);
        for (TensorId t : p_.inputs) parameter(fmt::format("const {}* {}", element(t), pointer(t)));
        for (TensorId t : p_.outputs) parameter(fmt::format("{}* {}", element(t), pointer(t)));

        depth_ = 1;
        name_extents();
        std::vector<TensorId> memory;
        for (TensorId t = 0; t < p_.tensors.size(); ++t)
            if (p_.tensors[t].role == Role::Constant) constant(t);
        for (const schedule::Nest& n : t_.kernel.nests)
            for (TensorId t : n.local) local(n, t, memory);
        for (TensorId t : t_.kernel.workspace) {
            pointer(t);
            memory.push_back(t);
        }
        for (TensorId t : memory) line(allocation(t));
        if (!memory.empty()) {
            std::string missing;
            for (TensorId t : memory) missing += fmt::format("{}!{}", missing.empty() ? "" : " || ", pointer(t));
            line("if (" + missing + ") {");
            ++depth_;
            for (TensorId t : memory) line(fmt::format("free({});", pointer(t)));
            line("return -1;");
            --depth_;
            line("}");
        }
        for (size_t i = 0; i < t_.nests.size(); ++i) nest(i);
        for (TensorId t : memory) line(fmt::format("free({});", pointer(t)));
        const bool reports = !point_.faults.empty();
        body_ = empty_reads() + body_;
        if (reports) body_ = "    int error = 0;\n" + body_;
        line(reports ? "return error;" : "return 0;");

        std::string equations, faults;
        for (std::string text = original.print(); !text.empty();) {
            const size_t end = std::min(text.find('\n'), text.size());
            equations += " *     " + text.substr(0, end) + "\n";
            text.erase(0, end + 1);
        }
        for (size_t i = 0; i < point_.faults.size(); ++i)
            faults += fmt::format(" * {} means: {}.\n", i + 1, point_.faults[i]);
        s.faults = point_.faults;
        const std::string helpers = functions_.text();
        s.text = fmt::format(
            "/* {}{}{}\n *\n{} *\n * Tensors are dense and row-major. The result is 0, or -1 when memory runs out.\n{} "
            "*/\n"
            "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
            "{}{}int {}({}) {{\n{}}}\n",
            original.name, original.doc.empty() ? "" : ": ", original.doc, equations, faults, helpers,
            helpers.empty() ? "" : "\n", s.function, parameters, body_);
        return s;
    }

private:
    // Returns before anything is read where an index would fold back into an empty tensor.
    std::string empty_reads() {
        std::string r;
        for (const FoldedRead& f : folded_reads(p_)) {
            point_.faults.push_back(empty_read_message(p_, f.tensor));
            r += fmt::format("    if ({} == 0 && {} != 0) return {};\n", point_.sym(f.elements), point_.sym(f.points),
                             point_.faults.size());
        }
        return r;
    }
    // Extents that are computed get a name: "P" of an index p.
    void name_extents() {
        std::vector<bool> used(p_.vars.size());
        for (const Equation& q : p_.equations)
            for (VarId v : q.vars) used[v] = true;
        for (VarId v = 0; v < p_.vars.size(); ++v) {
            const Sym& n = p_.vars[v].extent;
            if (!used[v] || n.kind() == SymKind::Const || n.kind() == SymKind::Symbol) continue;
            const auto known = [&](const auto& x) { return x.first == n; };
            if (std::any_of(point_.extents.begin(), point_.extents.end(), known)) continue;
            const std::string name = names_.take(emit::Names::extent(p_.vars[v].name));
            line(fmt::format("const int64_t {} = {};", name, point_.sym(n, 0)));
            point_.extents.emplace_back(n, name);
        }
    }
    std::string element(TensorId t) const { return dialect_.element.at(p_.tensors[t].dtype); }
    const std::string& pointer(TensorId t) {
        auto [it, fresh] = point_.pointers.try_emplace(t);
        if (fresh) it->second = names_.take(p_.tensors[t].name);
        return it->second;
    }
    void line(const std::string& s) { body_ += std::string(static_cast<size_t>(depth_) * 4, ' ') + s + "\n"; }
    void flush() {
        for (const std::string& s : point_.lines) line(s);
        point_.lines.clear();
    }

    void constant(TensorId t) {
        const Tensor& data = p_.tensors[t].data;
        std::string values;
        for (int64_t i = 0; i < data.size(); ++i) {
            const DType d = data.dtype();
            values += fmt::format("{}{}", i ? ", " : "",
                                  d == DType::F16 || d == DType::BF16 ? fmt::format("{}", data.as<uint16_t>()[i])
                                  : is_float(d)                       ? point_.literal(data.get(i), d)
                                                                      : point_.integer(data.get_int(i), d));
        }
        line(fmt::format("static const {} {}[] = {{{}}};", element(t), pointer(t), values.empty() ? "0" : values));
    }

    // A temporary of a nest needs memory only for what the grid leaves of it.
    void local(const schedule::Nest& n, TensorId t, std::vector<TensorId>& memory) {
        for (uint32_t i : n.equations) {
            const Equation& q = p_.equations[i];
            if (q.lhs != t) continue;
            std::vector<bool> kept;
            for (ExprId a : q.at) {
                const Expr& e = p_.expr(a);
                kept.push_back(e.kind == ExprKind::Index &&
                               std::find(n.grid.begin(), n.grid.end(), e.ref) == n.grid.end());
            }
            if (std::find(kept.begin(), kept.end(), true) == kept.end()) {
                point_.scalars[t] = names_.take(p_.tensors[t].name);
            } else {
                point_.kept[t] = std::move(kept);
                pointer(t);
                memory.push_back(t);
            }
        }
    }
    std::string allocation(TensorId t) {
        Sym n = 1;
        for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d)
            if (const auto k = point_.kept.find(t); k == point_.kept.end() || k->second[d])
                n = n * p_.tensors[t].shape[d];
        // Temporaries of 16-bit floats are held in the type they are computed in.
        const std::string type = dialect_.value.at(p_.tensors[t].dtype);
        return fmt::format("{0}* {1} = ({0}*)malloc((size_t)({2} + 1) * sizeof *{1});", type, pointer(t),
                           point_.sym(n, 12));
    }

    void nest(size_t i) {
        const tile::Nest& n = t_.nests[i];
        point_.held.clear();
        for (const tile::GridAxis& g : n.grid) open(g.var);
        for (TensorId t : t_.kernel.nests[i].local)
            if (const auto s = point_.scalars.find(t); s != point_.scalars.end())
                line(fmt::format("{} {};", dialect_.value.at(p_.tensors[t].dtype), s->second));
        block(n.body);
        for (size_t g = n.grid.size(); g-- > 0;) close_loop(n.grid[g].var);
    }
    void open(VarId v) {
        const std::string name = names_.take(p_.vars[v].name);
        point_.vars[v] = name;
        line(fmt::format("for (int64_t {0} = 0; {0} < {1}; {0}++) {{", name, point_.sym(p_.vars[v].extent)));
        ++depth_;
    }
    void close() {
        --depth_;
        line("}");
    }
    void close_loop(VarId v) {
        close();
        names_.release(point_.vars.at(v));
    }

    void block(const std::vector<Stmt>& body) {
        for (const Stmt& s : body) statement(s);
    }
    void statement(const Stmt& s) {
        switch (s.kind) {
            case StmtKind::For: {
                const auto held = point_.held;
                open(s.var);
                block(s.body);
                close_loop(s.var);
                point_.held = held;
                return;
            }
            case StmtKind::Load:
            case StmtKind::Gather:
            case StmtKind::Map: return;  // C's expressions say it where it is used
            case StmtKind::Fill: return fill(s);
            case StmtKind::Accumulate: return accumulate(s);
            case StmtKind::Reduce: return;
            case StmtKind::Scan: return scan(s);
            case StmtKind::Store:
            case StmtKind::ScatterReduce: return store(p_.equations[s.equation], t_.buffers[s.a].value);
            case StmtKind::AccumulatePair:
            case StmtKind::ReducePair: throw std::logic_error("two folds in one walk in plain C");
            case StmtKind::Contract: throw std::logic_error("a packed contraction in plain C");
        }
    }

    std::string identity_text(ReduceOp op, DType t) const {
        const DType c = compute_type(t);
        if (is_float(c)) return point_.literal(identity(op, c), c);
        if (op == ReduceOp::Max || op == ReduceOp::Min) {
            const bool low = op == ReduceOp::Max;
            if (c == DType::I64) return point_.integer(low ? INT64_MIN : INT64_MAX, c);
            if (c == DType::U64) return point_.integer(low ? 0 : -1, c);
        }
        return point_.integer(static_cast<int64_t>(identity(op, c)), c);
    }
    void fill(const Stmt& s) {
        const ExprId e = t_.buffers[s.dst].value;
        const Expr& x = p_.expr(e);
        const std::string name = names_.take(math::name(x.reduce));
        if (is_arg(x.reduce)) {
            const std::string best = names_.take("best");
            best_[s.dst] = best;
            line(fmt::format("int64_t {} = 0, {}_count = 0;", name, best));
            line(fmt::format("{} {} = 0;", dialect_.value.at(p_.expr(x.args[0]).dtype), best));
        } else {
            line(fmt::format("{} {} = {};", dialect_.value.at(x.dtype), name, identity_text(x.reduce, x.dtype)));
        }
        accumulators_[s.dst] = name;
        // From here on the name stands for the reduction: nothing reads it before it is complete.
        point_.held[e] = name;
        finished_[e] = name;
    }

    void accumulate(const Stmt& s) {
        const ExprId e = t_.buffers[s.dst].value;
        const Expr x = p_.expr(e);
        const std::string acc = accumulators_.at(s.dst);
        std::string guard;
        if (x.args.size() > 1) {
            guard = point_.value(x.args[1]);
            flush();
            line("if (" + guard + ") {");
            ++depth_;
        }
        if (is_arg(x.reduce)) {
            accumulate_arg(s, x, acc);
        } else {
            const std::string term = point_.value(x.args[0]);
            flush();
            const DType t = compute_type(x.dtype);
            const std::string type(opwright::name(t));
            switch (x.reduce) {
                case ReduceOp::Sum:
                case ReduceOp::Prod: {
                    const char* op = x.reduce == ReduceOp::Sum ? "+" : "*";
                    if (is_float(t) || t == DType::U32 || t == DType::U64)
                        line(fmt::format("{} {}= {};", acc, op, term));
                    else
                        line(fmt::format("{0} = ({1})(({2}){0} {3} ({2})({4}));", acc, dialect_.value.at(t),
                                         size_of(t) == 8 ? "uint64_t" : "uint32_t", op, term));
                    break;
                }
                case ReduceOp::Max:
                case ReduceOp::Min:
                    if (t == DType::Bool)
                        line(fmt::format("{0} = {0} {1} ({2});", acc, x.reduce == ReduceOp::Max ? "||" : "&&", term));
                    else
                        line(fmt::format("{0} = {1}({0}, {2});", acc,
                                         functions_.use((x.reduce == ReduceOp::Max ? "max_" : "min_") + type), term));
                    break;
                case ReduceOp::Any: line(fmt::format("{0} = {0} || ({1});", acc, term)); break;
                case ReduceOp::All: line(fmt::format("{0} = {0} && ({1});", acc, term)); break;
                case ReduceOp::ArgMax:
                case ReduceOp::ArgMin:
                case ReduceOp::ArgMaxLast:
                case ReduceOp::ArgMinLast: break;
            }
        }
        if (!guard.empty()) close();
        point_.held = without_loop_values(point_.held);
    }
    // Variables declared inside a guard or a loop are out of scope after it; those of complete values stay.
    std::unordered_map<ExprId, std::string> without_loop_values(
        const std::unordered_map<ExprId, std::string>& held) const {
        std::unordered_map<ExprId, std::string> r;
        for (const auto& [e, name] : held)
            if (finished_.count(e)) r[e] = name;
        return r;
    }

    void accumulate_arg(const Stmt& s, const Expr& x, const std::string& acc) {
        const std::string best = best_.at(s.dst);
        const bool maximum = x.reduce == ReduceOp::ArgMax || x.reduce == ReduceOp::ArgMaxLast;
        const bool last = x.reduce == ReduceOp::ArgMaxLast || x.reduce == ReduceOp::ArgMinLast;
        const DType t = p_.expr(x.args[0]).dtype;
        const std::string v = names_.take("v");
        const std::string term = point_.value(x.args[0]);
        flush();
        line(fmt::format("const {} {} = {};", dialect_.value.at(t), v, term));
        std::string better = fmt::format("{} {}{} {}", v, maximum ? ">" : "<", last ? "=" : "", best);
        if (is_float(t))  // NaN is the greatest and the least
            better += last ? fmt::format(" || isnan({})", v) : fmt::format(" || (isnan({}) && !isnan({}))", v, best);
        std::string position;
        for (VarId k : x.vars)
            position = position.empty()
                           ? point_.vars.at(k)
                           : fmt::format("({}) * {} + {}", position, point_.sym(p_.vars[k].extent), point_.vars.at(k));
        line(fmt::format("if ({}_count++ == 0 || {}) {{", best, better));
        ++depth_;
        line(fmt::format("{} = {};", best, v));
        line(fmt::format("{} = {};", acc, position));
        close();
    }

    void scan(const Stmt& s) {
        const Equation& q = p_.equations[s.equation];
        const Expr x = p_.expr(q.rhs);
        const DType t = compute_type(x.dtype);
        const std::string acc = names_.take(math::name(x.reduce)), step = names_.take(p_.vars[s.var].name);
        const std::string n = point_.sym(p_.vars[s.var].extent);
        line(fmt::format("{} {} = {};", dialect_.value.at(t), acc, identity_text(x.reduce, t)));
        line(x.backward ? fmt::format("for (int64_t {0} = {1} - 1; {0} >= 0; {0}--) {{", step, n)
                        : fmt::format("for (int64_t {0} = 0; {0} < {1}; {0}++) {{", step, n));
        ++depth_;
        point_.vars[s.var] = step;
        const auto held = point_.held;
        const std::string term = point_.value(x.args[0]);
        flush();
        std::string next;
        const std::string type(opwright::name(t));
        if (x.reduce == ReduceOp::Max || x.reduce == ReduceOp::Min)
            next = fmt::format("{}({}, {})", functions_.use((x.reduce == ReduceOp::Max ? "max_" : "min_") + type), acc,
                               term);
        else if (x.reduce == ReduceOp::Any || x.reduce == ReduceOp::All)
            next = fmt::format("{} {} ({})", acc, x.reduce == ReduceOp::Any ? "||" : "&&", term);
        else if (is_float(t))
            next = fmt::format("{} {} ({})", acc, x.reduce == ReduceOp::Sum ? "+" : "*", term);
        else
            next = fmt::format("({0})(({1}){2} {3} ({1})({4}))", dialect_.value.at(t),
                               size_of(t) == 8 ? "uint64_t" : "uint32_t", acc, x.reduce == ReduceOp::Sum ? "+" : "*",
                               term);
        const auto update = [&] { line(fmt::format("{} = {};", acc, next)); };
        if (!x.exclusive) update();
        write(q, acc, x.dtype);
        if (x.exclusive) update();
        close_loop(s.var);
        point_.held = held;
    }

    void store(const Equation& q, ExprId value) {
        const std::string v = point_.value(value);
        write(q, v, p_.expr(value).dtype);
    }

    void write(const Equation& q, const std::string& value, DType) {
        flush();
        if (const auto s = point_.scalars.find(q.lhs); s != point_.scalars.end()) {
            line(fmt::format("{} = {};", s->second, value));
            return;
        }
        const TensorInfo& t = p_.tensors[q.lhs];
        const emit::CPoint::Place at = point_.place(q.lhs, q.at, q.outside);
        flush();
        if (!at.condition.empty()) {
            line("if (" + at.condition + ") {");
            ++depth_;
        }
        const std::string place = fmt::format("{}[{}]", pointer(q.lhs), at.offset);
        const bool memory = t.role != Role::Temp;  // temporaries hold values
        const std::string old = memory ? point_.from_element(place, t.dtype) : place;
        const DType c = compute_type(t.dtype);
        const std::string type(opwright::name(c));
        std::string v = value;
        switch (q.update) {
            case Update::Set:
            case Update::Overwrite: break;
            case Update::Add:
            case Update::Mul: {
                const char* op = q.update == Update::Add ? "+" : "*";
                v = is_float(c) ? fmt::format("{} {} ({})", old, op, value)
                                : fmt::format("({0})(({1}){2} {3} ({1})({4}))", dialect_.value.at(c),
                                              size_of(c) == 8 ? "uint64_t" : "uint32_t", old, op, value);
                break;
            }
            case Update::Max:
            case Update::Min:
                v = fmt::format("{}({}, {})", functions_.use((q.update == Update::Max ? "max_" : "min_") + type), old,
                                value);
                break;
        }
        line(fmt::format("{} = {};", place, memory ? point_.to_element(v, t.dtype) : v));
        if (!at.condition.empty()) close();
    }

    const tile::Program& t_;
    const Program& p_;
    emit::CDialect dialect_;
    emit::CFunctions functions_;
    emit::Names names_;
    emit::CPoint point_;
    std::unordered_map<tile::BufferId, std::string> accumulators_, best_;
    std::unordered_map<ExprId, std::string> finished_;
    std::string body_;
    int depth_ = 0;
};
}  // namespace

namespace {
struct Plan {
    schedule::Kernel kernel;
    schedule::Schedule schedule;
};
Result<Plan> plan(const Program& p, const std::string& schedule) {
    Plan r;
    r.kernel = schedule::form_kernel(unroll_tables(p));
    for (schedule::Nest& n : r.kernel.nests) n.contraction.reset();
    r.schedule = plain_schedule(r.kernel);
    if (!schedule.empty()) { OPW_TRY(r.schedule, schedule::from_json(schedule, r.kernel)); }
    return r;
}
}  // namespace

Result<CSource> write_c(const Program& p, const std::string& schedule) {
    OPW_TRY(Plan r, plan(p, schedule));
    OPW_TRY(const tile::Program t, tile::apply(std::move(r.kernel), std::move(r.schedule), {}));
    return Writer(t).run(p);
}

Result<std::string> c_level(const Program& p, const std::string& level, const std::string& schedule) {
    OPW_TRY(Plan r, plan(p, schedule));
    if (level == "schedule") return schedule::print(r.schedule, r.kernel);
    if (level == "schedule-json") return schedule::to_json(r.schedule, r.kernel);
    OPW_TRY(const tile::Program t, tile::apply(std::move(r.kernel), std::move(r.schedule), {}));
    return tile::print(t);
}

}  // namespace opwright::emit
