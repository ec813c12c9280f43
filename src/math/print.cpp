// Text of L1: for people (print) and for cache keys (canonical).
#include <fmt/format.h>

#include <cmath>
#include <unordered_map>

#include "math/program.h"

namespace opwright::math {
namespace {
constexpr size_t kLineLimit = 4000;  // shared subexpressions can be exponentially long as text

// In as few digits as tell the value from others of its type.
std::string number_text(double v, DType t) {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    const auto f = static_cast<float>(v);
    return t != DType::F64 && static_cast<double>(f) == v ? fmt::format("{}", f) : fmt::format("{}", v);
}
int precedence(Fn f) {
    switch (f) {
        case Fn::Or: return 1;
        case Fn::Xor: return 1;
        case Fn::And: return 2;
        case Fn::Eq: case Fn::Ne: case Fn::Lt: case Fn::Le: case Fn::Gt: case Fn::Ge: return 4;
        case Fn::BitOr: return 5;
        case Fn::BitXor: return 6;
        case Fn::BitAnd: return 7;
        case Fn::Shl: case Fn::Shr: return 8;
        case Fn::Add: case Fn::Sub: return 9;
        case Fn::Mul: case Fn::Div: case Fn::FloorDiv: case Fn::Mod: return 10;
        case Fn::Neg: case Fn::Not: case Fn::BitNot: return 11;
        case Fn::Pow: return 12;
        default: return 20;
    }
}
const char* outside_word(Outside o) {
    switch (o) {
        case Outside::Error: return "";
        case Outside::Value: return "";
        case Outside::Clamp: return " outside clamp";
        case Outside::Wrap: return " outside wrap";
        case Outside::Reflect: return " outside reflect";
        case Outside::Mirror: return " outside mirror";
    }
    return "";
}
const char* update_word(Update u) {
    switch (u) {
        case Update::Set: return "=";
        case Update::Add: return "+=";
        case Update::Mul: return "*=";
        case Update::Max: return "max=";
        case Update::Min: return "min=";
        case Update::Overwrite: return ":=";
    }
    return "=";
}

struct Printer {
    const Program& p;
    size_t used = 0;

    std::string list(const std::vector<ExprId>& args, size_t n) {
        std::string r;
        for (size_t i = 0; i < n; ++i) r += (i ? "," : "") + text(args[i], 0);
        return r;
    }
    std::string text(ExprId id, int outer) {
        if (used > kLineLimit) return "...";
        const Expr& e = p.expr(id);
        std::string r = raw(e);
        int inner = 20;
        if (e.kind == ExprKind::Call) inner = precedence(e.fn);
        if (e.kind == ExprKind::Size && (e.sym.kind() == SymKind::Add || e.sym.kind() == SymKind::Mul)) inner = 9;
        if (inner < outer) r = "(" + r + ")";
        return r;
    }
    std::string raw(const Expr& e) {
        used += 4;
        switch (e.kind) {
            case ExprKind::Literal:
                if (e.dtype == DType::Bool) return e.integer ? "true" : "false";
                return is_float(e.dtype) ? number_text(e.number, e.dtype) : std::to_string(e.integer);
            case ExprKind::Index: return p.vars[e.ref].name;
            case ExprKind::Size: return e.sym.str();
            case ExprKind::Load: {
                const size_t rank = p.tensors[e.ref].shape.size();
                std::string r = p.tensors[e.ref].name + "[" + list(e.args, rank) + "]" + outside_word(e.outside);
                if (e.outside == Outside::Value) r += " outside (" + text(e.args.back(), 0) + ")";
                return r;
            }
            case ExprKind::Inside: return "inside(" + p.tensors[e.ref].name + "[" + list(e.args, e.args.size()) + "])";
            case ExprKind::Call: {
                const FnInfo& f = info(e.fn);
                const int level = precedence(e.fn);
                if (f.op.empty()) return fmt::format("{}({})", f.name, list(e.args, e.args.size()));
                if (f.arity == 1)
                    return fmt::format("{}{}{}", f.op, e.fn == Fn::Not ? " " : "", text(e.args[0], level));
                // comparisons do not chain, so both sides bind tighter
                const int left = level == 4 ? level + 1 : level;
                return fmt::format("{} {} {}", text(e.args[0], left), f.op, text(e.args[1], level + 1));
            }
            case ExprKind::Cast: return fmt::format("cast({}, {})", text(e.args[0], 0), name(e.dtype));
            case ExprKind::Wrap: return fmt::format("wrap({}, {})", text(e.args[0], 0), name(e.dtype));
            case ExprKind::Bitcast: return fmt::format("bitcast({}, {})", text(e.args[0], 0), name(e.dtype));
            case ExprKind::Reduce: case ExprKind::Scan: {
                std::string v;
                for (VarId x : e.vars) v += (v.empty() ? "" : ",") + p.vars[x].name;
                const bool scan = e.kind == ExprKind::Scan;
                if (scan && e.exclusive) v += "; exclusive=1";
                if (scan && e.backward) v += e.exclusive ? ", reverse=1" : "; reverse=1";
                std::string body = text(e.args[0], 0);
                if (e.args.size() > 1) body = "select(" + text(e.args[1], 0) + ", " + body + ", nothing)";
                return fmt::format("{}{}[{}]({})", scan ? "cum" : "", name(e.reduce), v, body);
            }
        }
        return "";
    }
};
}  // namespace

std::string Program::print(ExprId e) const { return Printer{*this}.text(e, 0); }

std::string Program::print() const {
    std::string r;
    for (const Equation& q : equations) {
        Printer pr{*this};
        r += tensors[q.lhs].name + "[" + pr.list(q.at, q.at.size()) + "] " + update_word(q.update) + " ";
        r += pr.text(q.rhs, 0) + "\n";
    }
    return r;
}

std::string Program::canonical() const {
    // Names are replaced by numbers in the order in which they are met; every node is written once.
    std::unordered_map<std::string, std::string> symbol_name;
    std::map<std::string, Sym> renamed;
    for (const std::string& s : symbols()) renamed.emplace(s, Sym::symbol("s" + std::to_string(renamed.size())));
    const auto sym = [&](const Sym& s) {
        const Sym t = substitute(s, renamed);
        return t.is_const() ? t.str() : fmt::format("{}#{:x}", t.str(), t.hash());
    };
    std::string r;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const TensorInfo& t = tensors[i];
        r += fmt::format("t{}:{}:{}", i, opwright::name(t.dtype), static_cast<int>(t.role));
        for (const Sym& s : t.shape) r += "," + sym(s);
        if (t.role == Role::Constant)
            for (int64_t k = 0; k < t.data.size(); ++k)
                r += is_float(t.dtype) ? fmt::format(" {:a}", t.data.get(k)) : fmt::format(" {}", t.data.get_int(k));
        r += "\n";
    }
    for (size_t i = 0; i < vars.size(); ++i) r += fmt::format("v{}:{}\n", i, sym(vars[i].extent));
    for (ExprId i = 0; i < pool_.size(); ++i) {
        const Expr& e = pool_[i];
        r += fmt::format("e{}={}:{}:{}:{}:{}:{}{}:{}:{:a}:{}:{}", i, static_cast<int>(e.kind), static_cast<int>(e.dtype),
                         static_cast<int>(e.fn), static_cast<int>(e.reduce), static_cast<int>(e.outside),
                         int(e.exclusive), int(e.backward), e.ref, e.number, e.integer,
                         e.kind == ExprKind::Size ? sym(e.sym) : "");
        for (ExprId a : e.args) r += fmt::format(" {}", a);
        for (VarId v : e.vars) r += fmt::format(" v{}", v);
        r += "\n";
    }
    for (const Equation& q : equations) {
        r += fmt::format("q t{} {} {} e{}:", q.lhs, static_cast<int>(q.update), static_cast<int>(q.outside), q.rhs);
        for (ExprId a : q.at) r += fmt::format(" e{}", a);
        for (VarId v : q.vars) r += fmt::format(" v{}", v);
        r += "\n";
    }
    return r;
}

}  // namespace opwright::math
