#include "target/ascend/scalar.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace opwright::target::ascend {
using namespace math;

namespace {
// Ranks of C++ operators.
enum Level {
    kPrimary = 0,
    kUnary = 2,
    kMul = 3,
    kAdd = 4,
    kShift = 5,
    kLess = 6,
    kEqual = 7,
    kBitAnd = 8,
    kBitXor = 9,
    kBitOr = 10,
    kAnd = 11,
    kOr = 12,
    kChoice = 13
};

std::string within(const Text& t, int level) { return t.level > level ? "(" + t.s + ")" : t.s; }
Text infix(const Text& a, const char* op, const Text& b, int level) {
    return {within(a, level) + " " + op + " " + within(b, level - 1), level};
}
Text application(const std::string& f, const std::vector<Text>& a) {
    std::string r = f + "(";
    for (size_t i = 0; i < a.size(); ++i) r += (i ? ", " : "") + a[i].s;
    return {r + ")", kPrimary};
}
// An I64 expression of variables and sizes alone: places, which do not wrap.
bool is_place(const Program& p, ExprId e) { return p.expr(e).dtype == DType::I64 && p.reads(e).empty(); }
}  // namespace

std::string Scalar::function_name(Fn f) {
    if (f == Fn::IsNan) return "ScalarIsNan";
    if (f == Fn::IsInf) return "ScalarIsInf";
    return "Scalar" + upper_camel(std::string(info(f).name));
}

std::string Scalar::literal(double v, DType t) {
    if (t == DType::F64) throw Unsupported{"The chip does not compute in f64."};
    if (std::isnan(v)) return "__builtin_nanf(\"\")";
    if (std::isinf(v)) return v > 0 ? "__builtin_inff()" : "-__builtin_inff()";
    std::string s = fmt::format("{}", static_cast<float>(v));
    if (s.find_first_of(".e") == std::string::npos) s += ".0";
    return s + "f";
}
std::string Scalar::literal(int64_t v, DType t) {
    if (t == DType::Bool) return v ? "true" : "false";
    if (t == DType::U64 && v < 0) return fmt::format("{}ULL", static_cast<uint64_t>(v));
    if (v == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807LL - 1)";
    if (v == std::numeric_limits<int32_t>::min()) return "(-2147483647 - 1)";
    if (v > std::numeric_limits<int32_t>::max() || v < std::numeric_limits<int32_t>::min())
        return fmt::format("{}{}", v, t == DType::U32 ? "U" : "LL");
    return std::to_string(v);
}

bool is_factor(const std::string& s) {
    int depth = 0;
    for (char c : s) {
        depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
        if (c == ' ' && depth == 0) return false;
    }
    return true;
}
std::string factor(const std::string& s) { return is_factor(s) ? s : "(" + s + ")"; }
std::string product_of(const std::vector<std::string>& factors) {
    std::string r;
    for (const std::string& f : factors) {
        std::string outside;  // the operators that stand in no parentheses
        int depth = 0;
        for (size_t i = 0; i < f.size(); ++i) {
            depth += f[i] == '(' ? 1 : f[i] == ')' ? -1 : 0;
            if (depth == 0 && i > 0 && f[i - 1] == ' ' && f[i] != ' ' && !std::isalnum(f[i]) && f[i] != '(')
                outside += f[i];
        }
        const bool plain = factors.size() == 1 || outside.find_first_not_of('*') == std::string::npos;
        r += (r.empty() ? "" : " * ") + (plain ? f : "(" + f + ")");
    }
    return r.empty() ? "1" : r;
}

std::string Scalar::sym(const Sym& s) {
    if (auto c = s.constant()) return std::to_string(*c);
    if (s.kind() == SymKind::Symbol) return sizes + names_.field(s.symbol_name());
    const auto& o = s.operands();
    std::string r;
    // A product without its sign.
    const auto product = [&](const Sym& x, bool& negative) {
        std::string t;
        for (const Sym& f : x.operands()) {
            const auto c = f.constant();
            if (c && *c < 0) negative = !negative;
            if (c && (*c == 1 || *c == -1)) continue;
            t += (t.empty() ? "" : " * ") + (c ? std::to_string(*c < 0 ? -*c : *c) : factor(sym(f)));
        }
        return t.empty() ? std::string("1") : t;
    };
    switch (s.kind()) {
        case SymKind::Add: {
            bool first_negative = false;
            for (const Sym& x : o) {
                const auto c = x.constant();
                bool negative = c && *c < 0;
                const bool quotient = x.kind() == SymKind::FloorDiv || x.kind() == SymKind::Mod;
                const std::string t = c                            ? std::to_string(std::abs(*c))
                                      : x.kind() == SymKind::Mul ? product(x, negative)
                                      : quotient                 ? sym(x)
                                                                 : factor(sym(x));
                if (r.empty()) first_negative = negative;
                r += r.empty() ? t : (negative ? " - " : " + ") + t;
            }
            return first_negative ? "-" + r : r;
        }
        case SymKind::Mul: {
            bool negative = false;
            r = product(s, negative);
            return negative ? "-" + r : r;
        }
        case SymKind::Select:
            return fmt::format("({} ? {} : {})", factor(sym(o[0])), factor(sym(o[1])), factor(sym(o[2])));
        case SymKind::Less: return fmt::format("({} < {} ? 1 : 0)", factor(sym(o[0])), factor(sym(o[1])));
        case SymKind::Equal: return fmt::format("({} == {} ? 1 : 0)", factor(sym(o[0])), factor(sym(o[1])));
        case SymKind::FloorDiv:
        case SymKind::Mod:  // of what is not negative they are those of C++
            if (o.size() == 2 && o[0].lower() >= 0 && o[1].lower() >= 1)
                return fmt::format("{} {} {}", factor(sym(o[0])), s.kind() == SymKind::Mod ? "%" : "/",
                                   factor(sym(o[1])));
            break;
        default: break;
    }
    std::string f = s.kind() == SymKind::FloorDiv ? "FloorDiv"
                    : s.kind() == SymKind::Mod    ? "FloorMod"
                    : s.kind() == SymKind::Min    ? "Lower"
                                                  : "Higher";
    if (host)
        f = "Host" + f;
    else
        helpers_.use(f);
    r = sym(o[0]);
    if (!host && (s.kind() == SymKind::Min || s.kind() == SymKind::Max)) f += "<int64_t>";
    for (size_t i = 1; i < o.size(); ++i) r = fmt::format("{}({}, {})", f, r, sym(o[i]));
    return r;
}

Scalar::Sides Scalar::sides(ExprId index, const Sym& extent) const {
    const Expr& x = p_.expr(index);
    if (x.kind == ExprKind::Literal) return {x.integer >= 0, extent.lower() > x.integer};
    if (x.kind == ExprKind::Index && p_.vars[x.ref].extent == extent) return {true, true};
    const auto f = affine(p_, index);
    if (!f) return {false, false};
    // Constant bounds of an affine index of constant coefficients.
    Sym low = f->offset, high = f->offset;
    for (const auto& [v, c] : f->terms) {
        const auto k = c.constant();
        if (!k) return {false, false};
        (*k < 0 ? low : high) = (*k < 0 ? low : high) + c * (p_.vars[v].extent - 1);
    }
    return {low.lower() >= 0, (extent - high).lower() >= 1};
}

std::string Scalar::fresh_name(const std::string& wish) {
    for (int i = 0;; ++i) {
        const std::string n = i == 0 ? wish : wish + std::to_string(i);
        if ((!taken || !taken(n)) && !names_.taken(n) && given_.insert(n).second) return n;
    }
}
std::string Scalar::wish_for(ExprId e) const {
    const Expr& x = p_.expr(e);
    return x.kind == ExprKind::Load ? names_.tensor(x.ref) + "Value" : "part";
}

std::string Scalar::flat(TensorId t, const ExprId* at, Outside outside, std::string& condition,
                         std::vector<std::string>& lines, bool row) {
    const auto& shape = p_.tensors[t].shape;
    condition.clear();
    std::string place;
    for (size_t d = 0; d < shape.size(); ++d) {
        if (row && d + 1 == shape.size()) {  // where the row begins
            if (!place.empty() && place != "0") place = factor(place) + " * " + factor(sym(shape[d]));
            continue;
        }
        if (shape[d].is(1) && outside != Outside::Value && p_.reads(at[d]).empty()) continue;
        Text i = text(at[d], lines);
        const bool data = !p_.reads(at[d]).empty();
        const Sides safe = sides(at[d], shape[d]);
        const std::string n = sym(shape[d]);
        const auto name = [&] {  // for an index that is used twice
            if (i.level == kPrimary && i.s.find('(') == std::string::npos) return;
            const std::string v = fresh_name("at");
            lines.push_back(fmt::format("const int64_t {} = {};", v, i.s));
            i = {v, kPrimary};
        };
        if (!safe.both()) {
            switch (outside) {
                case Outside::Error:
                    if (!data) break;
                    i = {fmt::format("Checked({}, {})", i.s, n), kPrimary};
                    faults = checks = true;
                    break;
                case Outside::Value:
                    name();
                    if (!safe.low) condition += fmt::format("{}{} >= 0", condition.empty() ? "" : " && ", i.s);
                    if (!safe.high)
                        condition += fmt::format("{}{} < {}", condition.empty() ? "" : " && ", i.s, factor(n));
                    break;
                case Outside::Clamp:
                    helpers_.use("Clamp");
                    i = {fmt::format("Clamp({}, {})", i.s, n), kPrimary};
                    break;
                case Outside::Wrap:
                    helpers_.use("FloorMod");
                    i = {fmt::format("FloorMod({}, {})", i.s, n), kPrimary};
                    break;
                case Outside::Reflect:
                    helpers_.use("Reflect");
                    i = {fmt::format("Reflect({}, {})", i.s, n), kPrimary};
                    break;
                case Outside::Mirror:
                    helpers_.use("Mirror");
                    i = {fmt::format("Mirror({}, {})", i.s, n), kPrimary};
                    break;
            }
        }
        if (place.empty() || place == "0")
            place = i.s;
        else if (i.s == "0")
            place = fmt::format("{} * {}", factor(place), factor(n));
        else
            place = fmt::format("{} * {} + {}", factor(place), factor(n), within(i, kAdd));
    }
    return place.empty() ? "0" : place;
}

Scalar::Window Scalar::window(TensorId t, const ExprId* at, Outside outside, std::vector<std::string>& lines) {
    uses_.clear();
    named_.clear();
    const size_t last = p_.tensors[t].shape.size() - 1;
    for (size_t d = 0; d <= last; ++d) count(at[d]);
    Window w;
    w.row = flat(t, at, outside, w.condition, lines, true);
    w.start = text(at[last], lines).s;
    return w;
}

std::string Scalar::from_memory(const std::string& v, DType t) {
    if (t == DType::Bool) return v + " != 0";
    if (t == DType::F16) return "static_cast<float>(" + v + ")";
    if (t == DType::BF16) return "ToFloat(" + v + ")";
    return v;
}
std::string Scalar::to_memory(const std::string& v, DType t) {
    if (t == DType::Bool) return "static_cast<uint8_t>(" + v + ")";
    if (t == DType::F16) return "static_cast<half>(" + v + ")";
    if (t == DType::BF16) return "ToBfloat16(" + v + ")";
    return v;
}

std::string Scalar::value(ExprId e, std::vector<std::string>& lines) {
    uses_.clear();
    named_.clear();
    count(e);
    return text(e, lines).s;
}

void Scalar::count(ExprId e) {
    if (uses_[e]++ > 0) return;
    if (held && !held(e).empty()) return;
    for (ExprId a : p_.expr(e).args) count(a);
}

Text Scalar::text(ExprId e, std::vector<std::string>& lines) {
    if (auto it = named_.find(e); it != named_.end()) return it->second;
    Text t = node(e, lines);
    const Expr& x = p_.expr(e);
    const bool trivial = x.kind == ExprKind::Literal || x.kind == ExprKind::Index || x.kind == ExprKind::Size ||
                         t.s.find_first_of(" (") == std::string::npos;
    if (uses_[e] > 1 && !trivial) {
        const std::string n = fresh_name(wish_for(e));
        lines.push_back(fmt::format("const {} {} = {};", scalar_type(x.dtype), n, t.s));
        t = {n, kPrimary};
        named_[e] = t;
    }
    return t;
}

Text Scalar::node(ExprId e, std::vector<std::string>& lines) {
    if (held)
        if (const std::string h = held(e); !h.empty()) {
            const bool test = h.find(" != ") != std::string::npos;
            return {h, test ? kEqual : kPrimary};
        }
    const Expr& x = p_.expr(e);
    switch (x.kind) {
        case ExprKind::Literal: {
            const std::string s = is_float(x.dtype) ? literal(x.number, x.dtype) : literal(x.integer, x.dtype);
            return {s, s[0] == '-' ? kUnary : kPrimary};
        }
        case ExprKind::Index: {
            const std::string& v = vars.at(x.ref);
            return {v, v.find(' ') == std::string::npos ? kPrimary : kAdd};
        }
        case ExprKind::Size: return {sym(x.sym), kAdd};
        case ExprKind::Load: {
            const TensorInfo& t = p_.tensors[x.ref];
            std::string condition;
            const std::string at = flat(x.ref, x.args.data(), x.outside, condition, lines);
            const DType memory = t.role == Role::Temp ? compute_type(t.dtype) : t.dtype;  // temporaries are not rounded
            const std::string v = from_memory(fmt::format("{}.GetValue({})", global(x.ref), at), memory);
            if (condition.empty()) return {v, t.dtype == DType::Bool ? kEqual : kPrimary};
            const Text fill = text(x.args[t.shape.size()], lines);
            return {fmt::format("{} ? {} : {}", condition, v, within(fill, kChoice - 1)), kChoice};
        }
        case ExprKind::Inside: {
            std::string condition;
            flat(x.ref, x.args.data(), Outside::Value, condition, lines);
            return condition.empty() ? Text{"true", kPrimary} : Text{condition, kAnd};
        }
        case ExprKind::Call:
            if (auto t = linear(e)) return *t;
            return call(x, lines);
        case ExprKind::Cast:
        case ExprKind::Wrap:
        case ExprKind::Bitcast: return convert(x, lines);
        case ExprKind::Reduce:
        case ExprKind::Scan: break;
    }
    throw std::logic_error("a reduction that no buffer holds");
}

Text Scalar::call(const Expr& x, std::vector<std::string>& lines) {
    std::vector<Text> a;
    for (ExprId i : x.args) a.push_back(text(i, lines));
    if (x.fn == Fn::Select)
        return {
            fmt::format("{} ? {} : {}", within(a[0], kChoice - 1), within(a[1], kChoice - 1), within(a[2], kChoice)),
            kChoice};
    const DType t = p_.expr(x.args[0]).dtype;
    if (is_float(t)) return float_call(x, std::move(a));
    bool places = true;
    for (ExprId i : x.args) places = places && is_place(p_, i);
    return int_call(x, std::move(a), places);
}

Text Scalar::float_call(const Expr& x, std::vector<Text> a) {
    if (p_.expr(x.args[0]).dtype == DType::F64) throw Unsupported{"The chip does not compute in f64."};
    switch (x.fn) {
        case Fn::Neg: return {"-" + within(a[0], kUnary - 1), kUnary};
        case Fn::Add: return infix(a[0], "+", a[1], kAdd);
        case Fn::Sub: return infix(a[0], "-", a[1], kAdd);
        case Fn::Mul: return infix(a[0], "*", a[1], kMul);
        case Fn::Div: return infix(a[0], "/", a[1], kMul);
        case Fn::Eq: return infix(a[0], "==", a[1], kEqual);
        case Fn::Ne: return infix(a[0], "!=", a[1], kEqual);
        case Fn::Lt: return infix(a[0], "<", a[1], kLess);
        case Fn::Le: return infix(a[0], "<=", a[1], kLess);
        case Fn::Gt: return infix(a[0], ">", a[1], kLess);
        case Fn::Ge: return infix(a[0], ">=", a[1], kLess);
        case Fn::Sqrt: return application("sqrt", a);
        case Fn::Rsqrt: return {"1.0f / sqrt(" + a[0].s + ")", kMul};
        case Fn::FloorDiv:
            helpers_.use("ScalarFloor");
            return application("ScalarFloor", {infix(a[0], "/", a[1], kMul)});
        default: break;
    }
    const std::string f = function_name(x.fn);
    helpers_.use(f);
    return application(f, a);
}

// A sum of multiples of variables and a constant, in this form: "h - 1" for h + 0 - 1. nullopt: it has another form.
std::optional<Text> Scalar::linear(ExprId e) {
    const Expr& x = p_.expr(e);
    if (x.kind != ExprKind::Call || (x.fn != Fn::Add && x.fn != Fn::Sub) || !is_place(p_, e)) return std::nullopt;
    const auto f = affine(p_, e);
    if (!f || !f->offset.is_const()) return std::nullopt;
    std::string r;
    for (const auto& [v, c] : f->terms) {
        const auto k = c.constant();
        if (!k || !vars.count(v)) return std::nullopt;
        std::string name = vars.at(v);
        if (*k != 1 && *k != -1 && name.find(' ') != std::string::npos) name = "(" + name + ")";
        if (*k == -1 && name.find(' ') != std::string::npos) name = "(" + name + ")";
        const int64_t m = *k < 0 ? -*k : *k;
        const std::string term = m == 1 ? name : std::to_string(m) + " * " + name;
        r += r.empty() ? (*k < 0 ? "-" : "") + term : (*k < 0 ? " - " : " + ") + term;
    }
    const int64_t c = *f->offset.constant();
    if (r.empty()) return Text{std::to_string(c), c < 0 ? kUnary : kPrimary};
    if (c != 0) r += (c < 0 ? " - " : " + ") + std::to_string(c < 0 ? -c : c);
    return Text{r, r.find(' ') == std::string::npos ? kPrimary : kAdd};
}

Text Scalar::int_call(const Expr& x, std::vector<Text> a, bool place) {
    const DType t = p_.expr(x.args[0]).dtype;
    const std::string type = scalar_type(t);
    const auto helper = [&](const std::string& name) {
        helpers_.use(name);
        return application(fmt::format("{}<{}>", name, type), a);
    };
    const auto plain = [&](const std::string& name) {
        helpers_.use(name);
        return application(name, a);
    };
    switch (x.fn) {
        case Fn::Neg: return place ? Text{"-" + within(a[0], kUnary - 1), kUnary} : helper("WrapNeg");
        case Fn::Add: return place ? infix(a[0], "+", a[1], kAdd) : helper("WrapAdd");
        case Fn::Sub: return place ? infix(a[0], "-", a[1], kAdd) : helper("WrapSub");
        case Fn::Mul: return place ? infix(a[0], "*", a[1], kMul) : helper("WrapMul");
        case Fn::Div: return helper("IntDiv");
        case Fn::FloorDiv: return place ? plain("FloorDiv") : helper("IntFloorDiv");
        case Fn::Mod: return place ? plain("FloorMod") : helper("IntMod");
        case Fn::Fmod: return helper("IntFmod");
        case Fn::Pow: return helper("IntPow");
        case Fn::Abs: return helper("IntAbs");
        case Fn::Sign: return helper("IntSign");
        case Fn::Min: return helper("Lower");
        case Fn::Max: return helper("Higher");
        case Fn::Shl: return helper("IntShl");
        case Fn::Shr: return helper("IntShr");
        case Fn::BitNot: return {fmt::format("static_cast<{}>(~{})", type, within(a[0], kUnary)), kPrimary};
        case Fn::BitAnd: return {fmt::format("static_cast<{}>({})", type, infix(a[0], "&", a[1], kBitAnd).s), kPrimary};
        case Fn::BitOr: return {fmt::format("static_cast<{}>({})", type, infix(a[0], "|", a[1], kBitOr).s), kPrimary};
        case Fn::BitXor: return {fmt::format("static_cast<{}>({})", type, infix(a[0], "^", a[1], kBitXor).s), kPrimary};
        case Fn::Not: return {"!" + within(a[0], kUnary - 1), kUnary};
        case Fn::And: return {within(a[0], kAnd) + " && " + within(a[1], kAnd), kAnd};
        case Fn::Or: return {within(a[0], kAnd - 1) + " || " + within(a[1], kAnd - 1), kOr};
        case Fn::Xor:
        case Fn::Ne: return infix(a[0], "!=", a[1], kEqual);
        case Fn::Eq: return infix(a[0], "==", a[1], kEqual);
        case Fn::Lt: return infix(a[0], "<", a[1], kLess);
        case Fn::Le: return infix(a[0], "<=", a[1], kLess);
        case Fn::Gt: return infix(a[0], ">", a[1], kLess);
        case Fn::Ge: return infix(a[0], ">=", a[1], kLess);
        default: throw std::logic_error("not a function of integers");
    }
}

Text Scalar::convert(const Expr& x, std::vector<std::string>& lines) {
    const DType from = p_.expr(x.args[0]).dtype;
    Text a = text(x.args[0], lines);
    const std::string type = scalar_type(x.dtype);
    if (x.kind == ExprKind::Bitcast) {
        if (from == x.dtype) return a;
        if (from == DType::F16 || from == DType::BF16 || x.dtype == DType::F16 || x.dtype == DType::BF16)
            throw Unsupported{"The bits of a 16-bit float can't be taken on the scalar unit."};
        if (is_float(from) || is_float(x.dtype)) {
            helpers_.use("BitCast");
            return {fmt::format("BitCast<{}, {}>({})", type, scalar_type(from), a.s), kPrimary};
        }
        return {fmt::format("static_cast<{}>({})", type, a.s), kPrimary};
    }
    if (from == DType::F64 || x.dtype == DType::F64) throw Unsupported{"The chip does not compute in f64."};
    if (is_float(from) && is_float(x.dtype)) return a;  // all are computed in float; rounding is memory's
    if (x.dtype == DType::Bool)
        return is_float(from) ? infix(a, "!=", {"0.0f", 0}, kEqual) : infix(a, "!=", {"0", 0}, kEqual);
    if (from == x.dtype) return a;
    if (x.kind == ExprKind::Wrap || from == DType::Bool || is_float(x.dtype))
        return {fmt::format("static_cast<{}>({})", type, a.s), kPrimary};
    if (is_float(from)) {
        helpers_.use("Saturate");
        return {fmt::format("Saturate<{}>({})", type, a.s), kPrimary};
    }
    const bool fits = size_of(from) < size_of(x.dtype) && (is_signed_int(x.dtype) || is_unsigned_int(from));
    if (fits) return {fmt::format("static_cast<{}>({})", type, a.s), kPrimary};
    helpers_.use("SaturateInt");
    return {fmt::format("SaturateInt<{}, {}>({})", type, scalar_type(from), a.s), kPrimary};
}

std::string Scalar::identity(ReduceOp op, DType t) {
    if (t == DType::Bool) return op == ReduceOp::All || op == ReduceOp::Min || op == ReduceOp::Prod ? "true" : "false";
    const double v = math::identity(op, t);
    if (is_float(t)) return literal(v, compute_type(t));
    if (t == DType::U64 && v > 0x1p60) return literal(int64_t{-1}, t);
    if (t == DType::I64 && std::fabs(v) > 0x1p60)
        return literal(v < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max(), t);
    return literal(static_cast<int64_t>(v), t);
}

std::string Scalar::combine(ReduceOp op, DType t, const std::string& a, const std::string& b) {
    const auto helper = [&](const std::string& n) {
        helpers_.use(n);
        return fmt::format("{}<{}>({}, {})", n, scalar_type(t), a, b);
    };
    const auto plain = [&](const std::string& n) {
        helpers_.use(n);
        return fmt::format("{}({}, {})", n, a, b);
    };
    switch (op) {
        case ReduceOp::Sum: return is_float(t) ? a + " + " + b : helper("WrapAdd");
        case ReduceOp::Prod: return is_float(t) ? a + " * " + b : helper("WrapMul");
        case ReduceOp::Max:
            return t == DType::Bool ? a + " || " + b : is_float(t) ? plain("ScalarMax") : helper("Higher");
        case ReduceOp::Min:
            return t == DType::Bool ? a + " && " + b : is_float(t) ? plain("ScalarMin") : helper("Lower");
        case ReduceOp::Any: return a + " || " + b;
        case ReduceOp::All: return a + " && " + b;
        default: throw std::logic_error("arg reductions combine two values");
    }
}

}  // namespace opwright::target::ascend
