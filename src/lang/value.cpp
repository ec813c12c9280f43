#include "lang/value.h"

#include <fmt/format.h>

namespace opwright::lang {

const math::Sym& Value::zero() {
    static const math::Sym z(0);
    return z;
}
Value Value::of_integer(int64_t v) {
    Value r;
    r.kind = Kind::Literal;
    r.integer = v;
    r.number = static_cast<double>(v);
    return r;
}
Value Value::of_real(double v) {
    Value r;
    r.kind = Kind::Literal;
    r.real = true;
    r.number = v;
    return r;
}
Value Value::of_size(math::Sym s) {
    Value r;
    r.kind = Kind::Size;
    r.sym = std::move(s);
    return r;
}
Value Value::of_condition(math::Sym s) {
    Value r;
    r.kind = Kind::Condition;
    r.sym = std::move(s);
    return r;
}
Value Value::of_text(std::string s) {
    Value r;
    r.kind = Kind::Text;
    r.text = std::move(s);
    return r;
}
Value Value::of_type(DType t) {
    Value r;
    r.kind = Kind::Type;
    r.type = t;
    return r;
}
Value Value::of_list(std::vector<Value> v) {
    Value r;
    r.kind = Kind::List;
    r.list = std::make_shared<const std::vector<Value>>(std::move(v));
    return r;
}
Value Value::of_expr(math::ExprId e, DType t, bool index) {
    Value r;
    r.kind = Kind::Computed;
    r.expr = e;
    r.type = t;
    r.index = index;
    return r;
}

std::optional<int64_t> Value::constant_integer() const {
    if (kind == Kind::Literal && !real) return integer;
    if (kind == Kind::Size) return sym.constant();
    return std::nullopt;
}
std::optional<math::Sym> Value::as_sym() const {
    if (kind == Kind::Literal && !real) return math::Sym(integer);
    if (kind == Kind::Size) return sym;
    return std::nullopt;
}
std::string Value::kind_name() const {
    switch (kind) {
        case Kind::None: return "none";
        case Kind::Literal: return real ? "a floating-point number" : "an integer";
        case Kind::Size: return "an integer (i64)";
        case Kind::Condition: return "a condition";
        case Kind::Text: return "a string";
        case Kind::Type: return "a dtype";
        case Kind::List: return "a list";
        case Kind::Computed: return std::string(name(type));
    }
    return {};
}
std::string Value::str() const {
    switch (kind) {
        case Kind::None: return "none";
        case Kind::Literal: return real ? fmt::format("{}", number) : std::to_string(integer);
        case Kind::Size: return sym.str();
        case Kind::Condition: return sym.is(1) ? "true" : sym.is(0) ? "false" : sym.str();
        case Kind::Text: return "\"" + text + "\"";
        case Kind::Type: return std::string(name(type));
        case Kind::List: {
            std::string r = "[";
            for (const Value& v : *list) r += (r.size() > 1 ? ", " : "") + v.str();
            return r + "]";
        }
        case Kind::Computed: return "a computed value";
    }
    return {};
}

}  // namespace opwright::lang
