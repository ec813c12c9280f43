#include "target/triton/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "target/triton/expr.h"

namespace opwright::target::triton {
using namespace math;

std::string numpy_type(DType t) {
    if (is_float(t)) return "np.float64";
    return t == DType::Bool ? "np.bool_" : "np." + storage_name(t).substr(3);
}

namespace {

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
            const std::string line = vars_.size() == 1
                                         ? fmt::format("{} = np.ogrid[{}]", names[0], slices[0])
                                         : fmt::format("{} = np.ogrid[{}]", joined(names), joined(slices));
            if (line != ogrid_) out_.line(line);
            ogrid_ = line;
        }
        const std::string& lhs = file_.tensor(q.lhs);
        const DType t = p_.tensors[q.lhs].dtype;
        std::vector<std::string> shape, at, kept;
        for (const Sym& s : p_.tensors[q.lhs].shape) shape.push_back(size(s));
        for (size_t i = 0; i < vars_.size(); ++i) kept.push_back(i < q.vars.size() ? grid[i] : "1");
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
    std::string grid_, ogrid_;
};

}  // namespace

void write_equations(const Program& p, File& file, PythonWriter& out) { Reference(p, file, out).run(); }

}  // namespace opwright::target::triton
