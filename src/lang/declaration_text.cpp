#include "lang/declaration_text.h"

#include <fmt/format.h>

#include <cmath>

namespace opwright::lang {
using namespace math;
namespace {
constexpr int kAdd = 9, kMul = 10, kUnary = 11, kAtom = 20;

std::string in_parentheses(std::string s, bool yes) { return yes ? "(" + s + ")" : s; }

int level_of(Fn f) {
    switch (f) {
        case Fn::Or: return 1;
        case Fn::And: return 2;
        case Fn::Not: return 3;
        case Fn::Eq:
        case Fn::Ne:
        case Fn::Lt:
        case Fn::Le:
        case Fn::Gt:
        case Fn::Ge: return 4;
        case Fn::BitOr: return 5;
        case Fn::BitXor: return 6;
        case Fn::BitAnd: return 7;
        case Fn::Shl:
        case Fn::Shr: return 8;
        case Fn::Add:
        case Fn::Sub: return kAdd;
        case Fn::Mul:
        case Fn::Div:
        case Fn::FloorDiv:
        case Fn::Mod: return kMul;
        case Fn::Neg:
        case Fn::BitNot: return kUnary;
        default: return kAtom;
    }
}
}  // namespace

std::string sym_text(const Sym& s, const std::function<std::string(const std::string&)>& rename, int outer) {
    const auto& o = s.operands();
    const auto two = [&](const char* sign, int level) {
        return in_parentheses(sym_text(o[0], rename, level) + " " + sign + " " + sym_text(o[1], rename, level + 1),
                              outer > level);
    };
    switch (s.kind()) {
        case SymKind::Const:
            return *s.constant() < 0 && outer > 0 ? fmt::format("({})", *s.constant()) : std::to_string(*s.constant());
        case SymKind::Symbol: return rename ? rename(s.symbol_name()) : s.symbol_name();
        case SymKind::Add: {
            std::string r = sym_text(o[0], rename, kAdd);
            for (size_t i = 1; i < o.size(); ++i) {
                const bool away = o[i].constant().value_or(0) < 0 ||
                                  (o[i].kind() == SymKind::Mul && o[i].operands()[0].constant().value_or(0) < 0);
                r += (away ? " - " : " + ") + sym_text(away ? -o[i] : o[i], rename, kAdd + 1);
            }
            return in_parentheses(r, outer > kAdd);
        }
        case SymKind::Mul: {
            std::string r;
            for (const Sym& f : o) {
                if (f.is(-1) && r.empty()) {
                    r = "-";
                    continue;
                }
                r += (r.empty() || r == "-" ? "" : "*") + sym_text(f, rename, kMul + 1);
            }
            return in_parentheses(r, outer > (r[0] == '-' ? 0 : kMul));
        }
        case SymKind::FloorDiv: return two("//", kMul);
        case SymKind::Mod: return two("%", kMul);
        case SymKind::Min: return "min(" + sym_text(o[0], rename) + ", " + sym_text(o[1], rename) + ")";
        case SymKind::Max: return "max(" + sym_text(o[0], rename) + ", " + sym_text(o[1], rename) + ")";
        case SymKind::Less:
            return "select(" + sym_text(o[0], rename, 5) + " < " + sym_text(o[1], rename, 5) + ", 1, 0)";
        case SymKind::Equal:
            return "select(" + sym_text(o[0], rename, 5) + " == " + sym_text(o[1], rename, 5) + ", 1, 0)";
        case SymKind::Select: {
            const Sym& c = o[0];
            const bool test = c.kind() == SymKind::Less || c.kind() == SymKind::Equal;
            const std::string cond = test ? sym_text(c.operands()[0], rename, 5) +
                                                (c.kind() == SymKind::Less ? " < " : " == ") +
                                                sym_text(c.operands()[1], rename, 5)
                                          : sym_text(c, rename, 5) + " != 0";
            return "select(" + cond + ", " + sym_text(o[1], rename) + ", " + sym_text(o[2], rename) + ")";
        }
    }
    return "";
}

std::string condition_text(const Sym& s) {
    if (s.kind() == SymKind::Less) return sym_text(s.operands()[0], {}, 5) + " < " + sym_text(s.operands()[1], {}, 5);
    if (s.kind() == SymKind::Equal) return sym_text(s.operands()[0], {}, 5) + " == " + sym_text(s.operands()[1], {}, 5);
    return sym_text(s, {}, 5) + " != 0";
}

std::string number_text(double v, DType t) {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "(-inf)" : "inf";
    std::string r = t == DType::F64 ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
    if (r.find_first_of(".e") == std::string::npos) r += std::signbit(v) || std::fabs(v) >= 1e15 ? ".0" : "";
    return std::signbit(v) ? "(" + r + ")" : r;
}

std::string ExpressionText::text(ExprId id, int outer) {
    if (++used_ > kLimit) return "...";
    int level = kAtom;
    std::string r = raw(p_.expr(id), level);
    return in_parentheses(std::move(r), level < outer);
}

std::string ExpressionText::typed(ExprId id) {
    const Expr& e = p_.expr(id);
    const bool plain = e.kind == ExprKind::Literal && e.dtype != DType::Bool;
    return plain ? fmt::format("cast({}, {})", text(id, 0), opwright::name(e.dtype)) : text(id, 0);
}

std::string ExpressionText::access(const Expr& e) {
    const size_t rank = p_.tensors[e.ref].shape.size();
    std::string r = names_.tensor(e.ref) + "[";
    for (size_t d = 0; d < rank; ++d) r += (d ? "," : "") + text(e.args[d], 0);
    r += "]";
    switch (e.kind == ExprKind::Load ? e.outside : Outside::Error) {
        case Outside::Error: return r;
        case Outside::Clamp: return r + " outside clamp";
        case Outside::Wrap: return r + " outside wrap";
        case Outside::Reflect: return r + " outside reflect";
        case Outside::Mirror: return r + " outside mirror";
        case Outside::Value: {
            const Expr& fill = p_.expr(e.args.back());
            const bool zero =
                fill.kind == ExprKind::Literal && fill.integer == 0 && fill.number == 0 && !std::signbit(fill.number);
            return r + (zero ? " outside zero" : " outside (" + text(e.args.back(), 0) + ")");
        }
    }
    return r;
}

std::string ExpressionText::call(const Expr& e, int& level) {
    const FnInfo& f = info(e.fn);
    const auto literal = [&](size_t i) { return p_.expr(e.args[i]).kind == ExprKind::Literal; };
    if (e.fn == Fn::Select) {
        const std::string a = literal(1) && literal(2) ? typed(e.args[1]) : text(e.args[1], 0);
        return fmt::format("select({}, {}, {})", text(e.args[0], 0), a, text(e.args[2], 0));
    }
    const bool infix = !f.op.empty() && e.fn != Fn::Pow && e.fn != Fn::Xor;
    if (!infix) {
        std::string r = std::string(f.name) + "(";
        for (size_t i = 0; i < e.args.size(); ++i) r += (i ? ", " : "") + text(e.args[i], 0);
        return r + ")";
    }
    level = level_of(e.fn);
    if (f.arity == 1) return fmt::format("{}{}{}", f.op, e.fn == Fn::Not ? " " : "", text(e.args[0], level + 1));
    const int left = level == 4 ? 5 : level;  // comparisons do not chain
    return fmt::format("{} {} {}", text(e.args[0], left), f.op, text(e.args[1], level + 1));
}

std::string ExpressionText::raw(const Expr& e, int& level) {
    switch (e.kind) {
        case ExprKind::Literal:
            if (e.dtype == DType::Bool) return e.integer ? "true" : "false";
            if (is_float(e.dtype)) return number_text(e.number, e.dtype);
            if (e.dtype == DType::U64) return std::to_string(static_cast<uint64_t>(e.integer));
            return e.integer < 0 ? fmt::format("({})", e.integer) : std::to_string(e.integer);
        case ExprKind::Index: return names_.index(e.ref);
        case ExprKind::Size:
            return sym_text(
                e.sym, [&](const std::string& n) { return names_.is_dim(n) ? "size(" + n + ")" : n; }, kUnary);
        case ExprKind::Load: return access(e);
        case ExprKind::Inside: return "inside(" + access(e) + ")";
        case ExprKind::Call: return call(e, level);
        case ExprKind::Cast: return fmt::format("cast({}, {})", text(e.args[0], 0), opwright::name(e.dtype));
        case ExprKind::Wrap: return fmt::format("wrap({}, {})", text(e.args[0], 0), opwright::name(e.dtype));
        case ExprKind::Bitcast: return fmt::format("bitcast({}, {})", text(e.args[0], 0), opwright::name(e.dtype));
        case ExprKind::Reduce:
        case ExprKind::Scan: {
            std::string over;
            for (VarId v : e.vars) over += (over.empty() ? "" : ",") + names_.index(v);
            if (e.args.size() > 1) over += " where " + text(e.args[1], 0);
            if (e.kind == ExprKind::Scan && (e.exclusive || e.backward))
                over += fmt::format("; {}{}{}", e.exclusive ? "exclusive = true" : "",
                                    e.exclusive && e.backward ? ", " : "", e.backward ? "reverse = true" : "");
            return fmt::format("{}{}[{}]({})", e.kind == ExprKind::Scan ? "cum" : "", math::name(e.reduce), over,
                               typed(e.args[0]));
        }
    }
    return "";
}

}  // namespace opwright::lang
