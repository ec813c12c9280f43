#include "target/triton/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "target/triton/expr.h"
#include "target/triton/range.h"

namespace opwright::target::triton {
using namespace math;

namespace {

constexpr int64_t kWork = 20'000;  // points of an equation that NumPy holds at once

std::string numpy_type(DType t) {
    if (is_float(t)) return "np.float64";
    return t == DType::Bool ? "np.bool_" : "np." + storage_name(t).substr(3);
}
std::string joined(const std::vector<std::string>& v) { return fmt::format("{}", fmt::join(v, ", ")); }
std::string tuple(const std::vector<std::string>& v) { return "(" + joined(v) + (v.size() == 1 ? ",)" : ")"); }

// One equation as NumPy: every index variable, reduced ones too, is an axis of a grid.
class Reference {
public:
    Reference(const Program& p, File& file, PythonWriter& out) : p_(p), file_(file), out_(out) {
        for (const TensorInfo& t : p.tensors) names_.reserve(t.name);
        file.reserve_sizes(names_);
    }

    void equation(const Equation& q) {
        vars_.clear();
        index_.clear();
        seen_.clear();
        for (VarId v : q.vars) add(v);
        for (ExprId a : q.at) collect(a);
        collect(q.rhs);
        Names local = names_;
        std::vector<std::string> names, slices, grid;
        for (VarId v : vars_) {
            index_[v] = local.take(p_.vars[v].name);
            names.push_back(index_[v]);
            grid.push_back(size(p_.vars[v].extent));
            slices.push_back((grid.back().find(' ') == std::string::npos ? ":" : ": ") + grid.back());
        }
        if (!vars_.empty()) {
            out_.line(vars_.size() == 1 ? fmt::format("{} = np.ogrid[{}]", names[0], slices[0])
                                        : fmt::format("{} = np.ogrid[{}]", joined(names), joined(slices)));
        }
        const std::string& lhs = file_.tensor(q.lhs);
        const DType t = p_.tensors[q.lhs].dtype;
        std::vector<std::string> shape, at, kept;
        for (const Sym& s : p_.tensors[q.lhs].shape) shape.push_back(size(s));
        for (size_t i = 0; i < vars_.size(); ++i) kept.push_back(i < q.vars.size() ? grid[i] : "1");
        const Expr& x = p_.expr(q.rhs);
        grid_ = tuple(grid);
        const std::string value = bare(text(q.rhs));
        if (q.update == Update::Set) {
            out_.line(fmt::format("{} = {}({}, {}, {}, {})", lhs, helper("_whole"), value, tuple(kept), tuple(shape),
                                  numpy_type(t)));
            return;
        }
        if (!started_.count(q.lhs)) out_.line(fmt::format("{} = np.zeros({}, {})", lhs, tuple(shape), numpy_type(t)));
        for (ExprId a : q.at) at.push_back(text(a));
        const char* f = q.update == Update::Add   ? "np.add"
                        : q.update == Update::Mul ? "np.multiply"
                        : q.update == Update::Max ? "np.maximum"
                        : q.update == Update::Min ? "np.minimum"
                                                  : "None";
        out_.line(fmt::format("{}({}, {}, [{}], {}, {})", helper("_update"), f, lhs, joined(at), value, tuple(kept)));
        started_.insert(q.lhs);
    }
    void run() {
        for (const Equation& q : p_.equations) {
            equation(q);
            started_.insert(q.lhs);
        }
    }

private:
    std::string size(const Sym& s) { return python(s, file_.symbols()); }
    const std::string& helper(const std::string& n) { return file_.numpy_helper(n); }
    void add(VarId v) {
        if (std::find(vars_.begin(), vars_.end(), v) == vars_.end()) vars_.push_back(v);
    }
    void collect(ExprId e) {
        if (!seen_.insert(e).second) return;
        const Expr& x = p_.expr(e);
        if (x.kind == ExprKind::Reduce)
            for (VarId v : x.vars) add(v);
        for (ExprId a : x.args) collect(a);
    }
    size_t axis(VarId v) const { return static_cast<size_t>(std::find(vars_.begin(), vars_.end(), v) - vars_.begin()); }

    static std::string nothing(ReduceOp op, DType t) {
        if (op == ReduceOp::Max) return is_float(t) ? "-np.inf" : fmt::format("np.iinfo({}).min", numpy_type(t));
        if (op == ReduceOp::Min) return is_float(t) ? "np.inf" : fmt::format("np.iinfo({}).max", numpy_type(t));
        return op == ReduceOp::Prod || op == ReduceOp::All ? "1" : "0";
    }

    // Without the brackets around all of it.
    static std::string bare(std::string s) {
        if (s.empty() || s[0] != '(') return s;
        int depth = 0;
        for (size_t i = 0; i < s.size(); ++i) {
            if (s[i] == '(') ++depth;
            if (s[i] == ')' && --depth == 0) {
                if (i + 1 < s.size()) return s;
                std::string inner = s.substr(1, s.size() - 2);
                return inner.find(',') == std::string::npos || inner.find('(') != std::string::npos ? inner : s;
            }
        }
        return s;
    }

    std::string scan(const Expr& x) {
        const char* f = x.reduce == ReduceOp::Sum    ? "np.cumsum"
                        : x.reduce == ReduceOp::Prod ? "np.cumprod"
                        : x.reduce == ReduceOp::Max  ? "np.maximum.accumulate"
                                                     : "np.minimum.accumulate";
        return fmt::format("{}({}, {}, {}, {}, {}, {}, {})", helper("_running"), f, bare(text(x.args[0])),
                           axis(x.vars[0]), grid_, nothing(x.reduce, x.dtype), x.exclusive ? "True" : "False",
                           x.backward ? "True" : "False");
    }

    std::string reduce(const Expr& x) {
        std::vector<std::string> axes;
        for (VarId v : x.vars) axes.push_back(std::to_string(axis(v)));
        const DType t = p_.expr(x.args[0]).dtype;
        // Axes that the body lacks count too; axes of others stay as they are in the body.
        std::vector<std::string> grid;
        for (VarId v : vars_) {
            const auto& f = p_.free_vars(x.args[0]);
            const bool has = std::find(f.begin(), f.end(), v) != f.end() ||
                             std::find(x.vars.begin(), x.vars.end(), v) != x.vars.end();
            bool in_condition = false;
            if (x.args.size() > 1) {
                const auto c = p_.free_vars(x.args[1]);
                in_condition = std::find(c.begin(), c.end(), v) != c.end();
            }
            grid.push_back(has || in_condition ? size(p_.vars[v].extent) : "1");
        }
        std::string body = bare(text(x.args[0]));
        if (is_arg(x.reduce)) {
            const bool max = x.reduce == ReduceOp::ArgMax || x.reduce == ReduceOp::ArgMaxLast;
            if (x.args.size() > 1)
                body = fmt::format("np.where({}, {}, {})", text(x.args[1]), body,
                                   nothing(max ? ReduceOp::Max : ReduceOp::Min, t));
            return fmt::format("{}({}, {}, {}, {}, {})", helper("_position"), max ? "np.argmax" : "np.argmin", body,
                               tuple(axes), tuple(grid),
                               x.reduce == ReduceOp::ArgMaxLast || x.reduce == ReduceOp::ArgMinLast ? "True" : "False");
        }
        if (x.args.size() > 1) body = fmt::format("np.where({}, {}, {})", text(x.args[1]), body, nothing(x.reduce, t));
        const bool boolean = x.reduce == ReduceOp::Any || x.reduce == ReduceOp::All;
        const char* f = x.reduce == ReduceOp::Sum                                ? "np.sum"
                        : x.reduce == ReduceOp::Prod                             ? "np.prod"
                        : x.reduce == ReduceOp::Max || x.reduce == ReduceOp::Any ? "np.max"
                                                                                 : "np.min";
        const std::string r = fmt::format("{}({}, {}, {}, {}, {})", helper("_fold"), f, body, tuple(axes), tuple(grid),
                                          nothing(x.reduce, x.dtype));
        return boolean ? "(" + r + " != 0)" : r;
    }

    std::string text(ExprId e) {
        const Expr& x = p_.expr(e);
        const auto arg = [&](size_t i) { return text(x.args[i]); };
        switch (x.kind) {
            case ExprKind::Literal: {
                if (x.dtype == DType::Bool) return x.integer ? "True" : "False";
                if (!is_float(x.dtype)) return literal_text(x);
                if (std::isnan(x.number)) return "np.nan";
                if (std::isinf(x.number)) return x.number < 0 ? "-np.inf" : "np.inf";
                return fmt::format("{}", x.number).find_first_of(".e") == std::string::npos
                           ? fmt::format("{}.0", x.number)
                           : fmt::format("{}", x.number);
            }
            case ExprKind::Index: return index_.at(x.ref);
            case ExprKind::Size:
                return x.sym.is_const() || x.sym.kind() == SymKind::Symbol ? size(x.sym) : "(" + size(x.sym) + ")";
            case ExprKind::Load: return load(x);
            case ExprKind::Inside: return fmt::format("{}({}, [{}])", helper("_inside"), file_.tensor(x.ref), at(x));
            case ExprKind::Reduce: return reduce(x);
            case ExprKind::Scan: return scan(x);
            case ExprKind::Cast:
                if (is_float(x.dtype)) return fmt::format("np.float64({})", arg(0));
                if (x.dtype == DType::Bool) return fmt::format("({} != 0)", arg(0));
                if (p_.expr(x.args[0]).dtype == DType::Bool) return fmt::format("{}({})", numpy_type(x.dtype), arg(0));
                return fmt::format("{}({}, {})", helper("_as_int"), arg(0), numpy_type(x.dtype));
            case ExprKind::Wrap: return fmt::format("np.asarray({}).astype({})", arg(0), numpy_type(x.dtype));
            case ExprKind::Bitcast: {
                const DType from = p_.expr(x.args[0]).dtype;
                const auto real = [](DType t) { return "np." + storage_name(t).substr(3); };
                if (from == DType::BF16 || x.dtype == DType::BF16) throw Refusal("NumPy has no bf16 to take bits from");
                return fmt::format("np.asarray({}).astype({}).view({}).astype({})", arg(0), real(from), real(x.dtype),
                                   numpy_type(x.dtype));
            }
            case ExprKind::Call: return call(x);
        }
        return "";
    }
    std::string at(const Expr& x) {
        std::vector<std::string> r;
        for (size_t d = 0; d < p_.tensors[x.ref].shape.size(); ++d) r.push_back(bare(text(x.args[d])));
        return joined(r);
    }
    std::string load(const Expr& x) {
        const std::string& n = file_.tensor(x.ref);
        const std::string places = at(x);
        if (p_.tensors[x.ref].shape.empty()) return n + "[()]";
        const char* word = nullptr;
        switch (x.outside) {
            case Outside::Error: {
                bool data = false;
                for (size_t d = 0; d < p_.tensors[x.ref].shape.size(); ++d) data |= !p_.reads(x.args[d]).empty();
                if (!data) return fmt::format("{}[{}]", n, places);
                word = "clamp";  // what is read there is not used, or an error
                break;
            }
            case Outside::Value: word = "value"; break;
            case Outside::Clamp: word = "clamp"; break;
            case Outside::Wrap: word = "wrap"; break;
            case Outside::Reflect: word = "reflect"; break;
            case Outside::Mirror: word = "mirror"; break;
        }
        return fmt::format("{}({}, [{}], \"{}\"{})", helper("_read"), n, places, word,
                           x.outside == Outside::Value ? ", " + text(x.args.back()) : "");
    }
    std::string call(const Expr& x) {
        const DType t = p_.expr(x.args[0]).dtype;
        const bool real = is_float(t);
        const auto a = [&](size_t i) { return text(x.args[i]); };
        const auto infix = [&](const char* op) { return fmt::format("({} {} {})", a(0), op, a(1)); };
        const auto one = [&](const char* f) { return fmt::format("{}({})", f, bare(a(0))); };
        const auto two = [&](const std::string& f) { return fmt::format("{}({}, {})", f, bare(a(0)), bare(a(1))); };
        switch (x.fn) {
            case Fn::Neg: return "(-" + a(0) + ")";
            case Fn::Abs: return one("np.abs");
            case Fn::Sign: return one("np.sign");
            case Fn::Floor: return one("np.floor");
            case Fn::Ceil: return one("np.ceil");
            case Fn::Round: return one("np.rint");
            case Fn::Trunc: return one("np.trunc");
            case Fn::Sqrt: return one("np.sqrt");
            case Fn::Rsqrt: return fmt::format("(1.0 / np.sqrt({}))", a(0));
            case Fn::Exp: return one("np.exp");
            case Fn::Exp2: return one("np.exp2");
            case Fn::Expm1: return one("np.expm1");
            case Fn::Log: return one("np.log");
            case Fn::Log2: return one("np.log2");
            case Fn::Log1p: return one("np.log1p");
            case Fn::Sin: return one("np.sin");
            case Fn::Cos: return one("np.cos");
            case Fn::Tan: return one("np.tan");
            case Fn::Asin: return one("np.arcsin");
            case Fn::Acos: return one("np.arccos");
            case Fn::Atan: return one("np.arctan");
            case Fn::Sinh: return one("np.sinh");
            case Fn::Cosh: return one("np.cosh");
            case Fn::Tanh: return one("np.tanh");
            case Fn::Asinh: return one("np.arcsinh");
            case Fn::Acosh: return one("np.arccosh");
            case Fn::Atanh: return one("np.arctanh");
            case Fn::Erf: return one(helper("_erf").c_str());
            case Fn::Not: return one("np.logical_not");
            case Fn::BitNot: return one("np.invert");
            case Fn::IsNan: return one("np.isnan");
            case Fn::IsInf: return one("np.isinf");
            case Fn::Add: return infix("+");
            case Fn::Sub: return t == DType::Bool ? infix("^") : infix("-");
            case Fn::Mul: return infix("*");
            case Fn::Div: return real ? infix("/") : two(helper("_divide"));
            case Fn::FloorDiv:
                return real ? fmt::format("np.floor({} / {})", a(0), a(1)) : two(helper("_floor_divide"));
            case Fn::Mod: return two(helper("_modulo"));
            case Fn::Fmod: return two(helper("_remainder"));
            case Fn::Pow: return real ? two("np.power") : two(helper("_power"));
            case Fn::Atan2: return two("np.arctan2");
            case Fn::Min: return two("np.minimum");
            case Fn::Max: return two("np.maximum");
            case Fn::And:
            case Fn::BitAnd: return infix("&");
            case Fn::Or:
            case Fn::BitOr: return infix("|");
            case Fn::Xor:
            case Fn::BitXor: return infix("^");
            case Fn::Shl: return fmt::format("{}(np.left_shift, {}, {})", helper("_shift"), a(0), a(1));
            case Fn::Shr: return fmt::format("{}(np.right_shift, {}, {})", helper("_shift"), a(0), a(1));
            case Fn::Eq: return infix("==");
            case Fn::Ne: return infix("!=");
            case Fn::Lt: return infix("<");
            case Fn::Le: return infix("<=");
            case Fn::Gt: return infix(">");
            case Fn::Ge: return infix(">=");
            case Fn::Select: return fmt::format("np.where({}, {}, {})", bare(a(0)), bare(a(1)), bare(a(2)));
        }
        return "";
    }

    const Program& p_;
    File& file_;
    PythonWriter& out_;
    Names names_;
    std::vector<VarId> vars_;
    std::map<VarId, std::string> index_;
    std::set<ExprId> seen_;
    std::set<TensorId> started_;
    std::string grid_;
};

// ---- sizes and inputs ----------------------------------------------------------------------------------------------

// Tensors whose values become positions in a dim with nothing said about the outside, with its extent: inputs, through
// intermediates.
std::map<TensorId, std::vector<Sym>> positions(const Program& p) {
    std::map<TensorId, std::set<TensorId>> from;  // tensor -> inputs that it depends on
    for (TensorId t : p.inputs) from[t] = {t};
    for (const Equation& q : p.equations) {
        std::set<TensorId> all = from[q.lhs];
        for (TensorId t : p.reads(q.rhs)) all.insert(from[t].begin(), from[t].end());
        from[q.lhs] = all;
    }
    std::map<TensorId, std::vector<Sym>> r;
    const auto access = [&](TensorId t, const std::vector<ExprId>& at) {
        for (size_t d = 0; d < p.tensors[t].shape.size(); ++d)
            for (TensorId read : p.reads(at[d]))
                for (TensorId input : from[read])
                    if (!is_float(p.tensors[input].dtype)) r[input].push_back(p.tensors[t].shape[d]);
    };
    for (const Equation& q : p.equations) {
        if (q.update != Update::Set && q.outside == Outside::Error) access(q.lhs, q.at);
        std::vector<ExprId> stack = q.at;
        stack.push_back(q.rhs);
        std::set<ExprId> seen;
        while (!stack.empty()) {
            const ExprId e = stack.back();
            stack.pop_back();
            if (!seen.insert(e).second) continue;
            const Expr& x = p.expr(e);
            if (x.kind == ExprKind::Load && x.outside == Outside::Error) access(x.ref, x.args);
            stack.insert(stack.end(), x.args.begin(), x.args.end());
        }
    }
    return r;
}

class Sizes {
public:
    explicit Sizes(const Program& p) : p_(p) {}

    bool admissible(const SymValues& v) {
        for (const Requirement& r : p_.requirements)
            if (evaluate(r.value, v).value_or(0) == 0) return false;
        for (const TensorInfo& t : p_.tensors)
            for (const Sym& s : t.shape)
                if (evaluate(s, v).value_or(-1) < 0) return false;
        for (const Equation& q : p_.equations) {
            int64_t work = 1;
            std::set<VarId> vars(q.vars.begin(), q.vars.end());
            bool fits = true;
            std::set<ExprId> seen;
            const auto visit = [&](auto&& self, ExprId e) -> void {
                if (!seen.insert(e).second) return;
                const Expr& x = p_.expr(e);
                if (x.kind == ExprKind::Reduce) vars.insert(x.vars.begin(), x.vars.end());
                if (x.kind == ExprKind::Load && x.outside != Outside::Value)
                    fits = fits && stays(x.ref, x.args, x.outside, v);
                for (ExprId a : x.args) self(self, a);
            };
            for (ExprId a : q.at) visit(visit, a);
            visit(visit, q.rhs);
            if (q.update != Update::Set && q.outside == Outside::Error) fits = fits && stays(q.lhs, q.at, q.outside, v);
            if (!fits) return false;
            for (VarId x : vars) {
                const int64_t n = evaluate(p_.vars[x].extent, v).value_or(-1);
                if (n < 0) return false;
                work *= std::max<int64_t>(n, 1);
                if (work > kWork) return false;
            }
        }
        return true;
    }

    std::vector<SymValues> choose(const std::vector<std::string>& symbols, const SymValues& asked, bool positive) {
        std::vector<SymValues> r;
        const auto offer = [&](SymValues v) {
            if (r.size() < 8 && admissible(v) && std::find(r.begin(), r.end(), v) == r.end()) r.push_back(std::move(v));
        };
        if (!asked.empty()) offer(asked);
        const auto all = [&](auto value) {
            SymValues v;
            for (size_t i = 0; i < symbols.size(); ++i) v[symbols[i]] = value(i);
            offer(std::move(v));
        };
        constexpr int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19};
        all([](size_t) { return 1; });
        all([&](size_t i) { return primes[i % 8]; });
        all([&](size_t i) { return primes[7 - i % 8]; });
        all([](size_t) { return 3; });
        for (size_t k = 0; k < symbols.size(); ++k)
            for (int64_t n : {33, 129}) all([&](size_t i) { return i == k ? n : primes[i % 4]; });
        all([](size_t) { return 16; });
        all([](size_t) { return 65; });
        if (!positive)
            for (size_t k = 0; k < symbols.size(); ++k) all([&](size_t i) { return i == k ? 0 : 4; });
        for (int64_t n = 2; r.empty() && n < 40; ++n) all([&](size_t) { return n; });
        return r;
    }

private:
    bool stays(TensorId t, const std::vector<ExprId>& at, Outside outside, const SymValues& v) {
        for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) {
            const int64_t n = evaluate(p_.tensors[t].shape[d], v).value_or(-1);
            const auto range = index_range(p_, at[d]);
            if (outside != Outside::Error || !range) {
                if (n < 1) return false;
                continue;
            }
            const auto low = evaluate(range->low, v), high = evaluate(range->high, v);
            if (!low || !high || (*high >= *low && (*low < 0 || *high >= n))) return false;
        }
        return true;
    }
    const Program& p_;
};
}  // namespace

void write_check(const Program& p, File& file, const std::string& function, const std::vector<std::string>& inputs,
                 const std::vector<std::pair<std::string, std::string>>& keywords, const SymValues& asked,
                 PythonWriter& out) {
    const std::vector<std::string> symbols = p.symbols();
    const auto bounds = positions(p);
    const auto sizes = Sizes(p).choose(symbols, asked, !bounds.empty());
    const auto size = [&](const Sym& s) { return python(s, file.symbols()); };

    PythonWriter body;
    body.indent();
    for (TensorId c = 0; c < p.tensors.size(); ++c)
        if (p.tensors[c].role == Role::Constant) {
            const Tensor& t = p.tensors[c].data;
            std::vector<std::string> values, shape;
            for (int64_t i = 0; i < t.size(); ++i) {
                const double v = t.get(i);
                values.push_back(std::isnan(v)         ? "np.nan"
                                 : std::isinf(v)       ? (v < 0 ? "-np.inf" : "np.inf")
                                 : is_float(t.dtype()) ? fmt::format("{}", v)
                                                       : std::to_string(t.get_int(i)));
            }
            for (const Sym& s : p.tensors[c].shape) shape.push_back(size(s));
            body.line(fmt::format("{} = np.array([{}], {}).reshape({})", file.tensor(c), joined(values),
                                  numpy_type(t.dtype()), tuple(shape)));
        }
    Reference(p, file, body).run();
    std::vector<std::string> outputs;
    for (TensorId t : p.outputs) outputs.push_back(file.tensor(t));
    body.line("return " + tuple(outputs));

    std::vector<std::string> parameters = inputs, names;
    for (const std::string& s : symbols) names.push_back(file.symbols().at(s));
    parameters.insert(parameters.end(), names.begin(), names.end());
    out.blank(2);
    out.append(file.numpy_helpers());
    out.line(fmt::format("def reference({}):", joined(parameters)));
    out.indent();
    out.docstring({"The declaration in NumPy, equation by equation, in float64."});
    out.outdent();
    out.append(body.text());
    out.blank(2);

    out.line("def check():");
    out.indent();
    out.docstring(
        {"Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."});
    out.line("device = \"cuda\" if torch.cuda.is_available() else \"cpu\"");
    out.line("torch.manual_seed(0)");
    if (!symbols.empty()) {
        std::vector<std::string> rows;
        for (const SymValues& v : sizes) {
            std::vector<std::string> row;
            for (const std::string& s : symbols) row.push_back(std::to_string(v.at(s)));
            rows.push_back(symbols.size() == 1 ? row[0] : tuple(row));
        }
        out.line(fmt::format("for {} in [{}]:", joined(names), joined(rows)));
        out.indent();
    }
    for (TensorId t : p.inputs) {
        const TensorInfo& info = p.tensors[t];
        std::vector<std::string> shape;
        for (const Sym& s : info.shape) shape.push_back(size(s));
        const std::string& n = file.tensor(t);
        const std::string type =
            info.dtype == DType::BF16
                ? "torch.bfloat16"
                : "torch." + (info.dtype == DType::Bool ? "bool" : storage_name(info.dtype).substr(3));
        if (is_float(info.dtype)) {
            out.line(fmt::format("{} = torch.randn({}).to({})", n, tuple(shape), type));
        } else if (const auto b = bounds.find(t); b != bounds.end()) {
            std::vector<std::string> extents;
            for (const Sym& s : b->second)
                if (const std::string e = size(s); std::find(extents.begin(), extents.end(), e) == extents.end())
                    extents.push_back(e);
            const std::string high = extents.size() == 1 ? extents[0] : "min(" + joined(extents) + ")";
            out.line(fmt::format("{} = torch.randint(0, {}, {}).to({})", n, high, tuple(shape), type));
        } else {
            out.line(fmt::format("{} = torch.randint({}, {}).to({})", n,
                                 info.dtype == DType::Bool   ? "0, 2"
                                 : is_signed_int(info.dtype) ? "-5, 6"
                                                             : "0, 10",
                                 tuple(shape), type));
        }
    }
    std::vector<std::string> host, device_arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
        host.push_back(is_float(p.tensors[p.inputs[i]].dtype) ? inputs[i] + ".double().numpy()"
                                                              : inputs[i] + ".numpy()");
        device_arguments.push_back(inputs[i] + ".to(device)");
    }
    host.insert(host.end(), names.begin(), names.end());
    for (const auto& [n, symbol] : keywords) device_arguments.push_back(n + "=" + n);
    out.line(fmt::format("expected = reference({})", joined(host)));
    out.line(fmt::format("results = {}({})", function, joined(device_arguments)));
    if (p.outputs.size() == 1) out.line("results = (results,)");
    double tolerance = 0;
    for (TensorId t : p.inputs)
        if (is_float(p.tensors[t].dtype)) tolerance = std::max(tolerance, 64 * unit_roundoff(p.tensors[t].dtype));
    for (TensorId t : p.outputs)
        if (is_float(p.tensors[t].dtype)) tolerance = std::max(tolerance, 8 * unit_roundoff(p.tensors[t].dtype));
    if (tolerance == 0) tolerance = 1e-6;
    out.line("for result, wanted in zip(results, expected):");
    out.indent();
    out.line("result = result.cpu()");
    out.line("result = (result.double() if result.is_floating_point() else result).numpy()");
    out.line(fmt::format("np.testing.assert_allclose(result, wanted, rtol={0:.1g}, atol={0:.1g})", tolerance));
    out.outdent();
    if (!symbols.empty()) out.outdent();
    out.line(fmt::format("print(\"{}: {} agree with the reference\")", p.name,
                         symbols.empty() ? "the results" : fmt::format("the results at {} sizes", sizes.size())));
    out.outdent();
    out.blank(2);
    out.line("if __name__ == \"__main__\":");
    out.indent();
    out.line("check()");
    out.outdent();
}

}  // namespace opwright::target::triton
