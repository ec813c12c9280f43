#include "target/ascend/vector.h"

#include <fmt/format.h>

#include <algorithm>

namespace opwright::target::ascend {
using namespace math;

namespace {
// Functions with an instruction of one operand.
const char* unary_instruction(Fn f) {
    switch (f) {
        case Fn::Abs: return "Abs";
        case Fn::Sqrt: return "Sqrt";
        case Fn::Exp: return "Exp";
        case Fn::Log: return "Ln";
        default: return nullptr;
    }
}
// Functions with a sequence of instructions (helpers_vectors.cpp).
const char* sequence(Fn f) {
    switch (f) {
        case Fn::Tanh: return "VectorTanh";
        case Fn::Erf: return "VectorErf";
        case Fn::Expm1: return "VectorExpm1";
        case Fn::Log1p: return "VectorLog1p";
        default: return nullptr;
    }
}
const char* rounding(Fn f) {
    switch (f) {
        case Fn::Floor: return "CAST_FLOOR";
        case Fn::Ceil: return "CAST_CEIL";
        case Fn::Round: return "CAST_RINT";
        case Fn::Trunc: return "CAST_TRUNC";
        default: return nullptr;
    }
}
const char* binary_instruction(Fn f) {
    switch (f) {
        case Fn::Add: return "Add";
        case Fn::Sub: return "Sub";
        case Fn::Mul: return "Mul";
        case Fn::Div: return "Div";
        case Fn::Max: return "Max";
        case Fn::Min: return "Min";
        default: return nullptr;
    }
}
const char* comparison(Fn f) {
    switch (f) {
        case Fn::Eq: return "EQ";
        case Fn::Ne: return "NE";
        case Fn::Lt: return "LT";
        case Fn::Le: return "LE";
        case Fn::Gt: return "GT";
        case Fn::Ge: return "GE";
        default: return nullptr;
    }
}
const char* mirrored(Fn f) {
    switch (f) {
        case Fn::Lt: return "GT";
        case Fn::Le: return "GE";
        case Fn::Gt: return "LT";
        case Fn::Ge: return "LE";
        default: return comparison(f);
    }
}
bool is_float_compute(DType t) { return t == DType::F16 || t == DType::BF16 || t == DType::F32; }
bool is_simple(const std::string& s) { return s.find_first_of(" (") == std::string::npos; }
std::string negated(const std::string& s) {
    return !is_factor(s) ? "-(" + s + ")" : s[0] == '-' ? s.substr(1) : "-" + s;
}
}  // namespace

bool Vector::varies(ExprId e) const {
    const auto v = p_.free_vars(e);
    return lane != kNone && std::find(v.begin(), v.end(), lane) != v.end();
}

bool Vector::can(ExprId e) { return can_node(e); }

bool Vector::can_node(ExprId e) {
    const Expr& x = p_.expr(e);
    if (x.dtype == DType::F64) return false;
    if (!varies(e)) return is_float_compute(x.dtype) || x.dtype == DType::I32;
    if (at(e)) return is_float_compute(x.dtype) || x.dtype == DType::I32 || x.dtype == DType::Bool;
    const auto all = [&] { return std::all_of(x.args.begin(), x.args.end(), [&](ExprId a) { return can_node(a); }); };
    switch (x.kind) {
        case ExprKind::Call: {
            const DType t = p_.expr(x.args[0]).dtype;
            if (x.fn == Fn::Select)
                return is_float_compute(x.dtype) && varies(x.args[0]) && can_node(x.args[0]) && can_node(x.args[1]) &&
                       can_node(x.args[2]);
            if (x.fn == Fn::And || x.fn == Fn::Or) return varies(x.args[0]) && varies(x.args[1]) && all();
            if (x.fn == Fn::Not) return all();
            if (comparison(x.fn) || x.fn == Fn::IsNan || x.fn == Fn::IsInf) return is_float_compute(t) && all();
            if (t == DType::I32)
                return (binary_instruction(x.fn) && x.fn != Fn::Div && all()) || (x.fn == Fn::Neg && all());
            return is_float_compute(t) && all();
        }
        case ExprKind::Cast: {
            const DType from = p_.expr(x.args[0]).dtype, to = x.dtype;
            if (is_float_compute(to)) {
                if (is_float_compute(from) || from == DType::I32) return can_node(x.args[0]);
                if (from == DType::Bool) return varies(x.args[0]) && can_node(x.args[0]);
                const auto v = at(x.args[0]);  // other integers only as they come from memory
                return v && v->kind == Value::Tensor && from != DType::U16 && from != DType::U32 && from != DType::U64;
            }
            if (to == DType::Bool) return is_float_compute(from) && can_node(x.args[0]);
            return (to == DType::I32 || to == DType::I16 || to == DType::I8 || to == DType::U8) &&
                   is_float_compute(from) && can_node(x.args[0]);
        }
        default: return false;
    }
}

// Conversions among floats are none here: all is computed in float, and rounding is memory's.
ExprId Vector::strip(ExprId e) const {
    for (;;) {
        const Expr& x = p_.expr(e);
        if (x.kind != ExprKind::Cast || !is_float_compute(x.dtype) || !is_float_compute(p_.expr(x.args[0]).dtype) ||
            at(e))
            return e;
        e = x.args[0];
    }
}

void Vector::count_uses(ExprId e) {
    e = strip(e);
    if (uses_[e]++ > 0) return;
    if (!varies(e) || at(e)) return;
    for (ExprId a : p_.expr(e).args) count_uses(a);
}

std::string Vector::tensor(int slot, const std::string& type) {
    const std::string suffix = type == "half" ? "Half" : type == "int32_t" ? "Int" : type == "int16_t" ? "Short" : "";
    const std::string name = fmt::format("tmp{}{}", slot, suffix);
    if (declared_.insert(name).second)
        line(fmt::format("LocalTensor<{}> {} = tmpBuf{}.Get<{}>();", type, name, slot, type));
    return name;
}
Value Vector::fresh(const std::string& into, DType t) {
    if (!into.empty()) return {Value::Tensor, into, t, -1};
    const int slot = tensors.take();
    return {Value::Tensor, tensor(slot, is_float(t) ? "float" : memory_type(t)), t, slot};
}
Value Vector::fresh_mask() {
    compares_ = true;
    const int slot = masks.take();
    const std::string name = fmt::format("mask{}", slot);
    if (declared_.insert(name).second)
        line(fmt::format("LocalTensor<uint8_t> {} = maskBuf{}.Get<uint8_t>();", name, slot));
    return {Value::Mask, name, DType::Bool, slot};
}
void Vector::release(const Value& v) {
    if (v.slot < 0) return;
    (v.kind == Value::Mask ? masks : tensors).give(v.slot);
}

Value Vector::uniform(ExprId e) {
    std::vector<std::string> lines;
    std::string s = scalar_.value(e, lines);
    for (std::string& l : lines) line(std::move(l));
    return {Value::Uniform, s, p_.expr(e).dtype, -1};
}

Value Vector::eval(ExprId e, const std::string& into) {
    uses_.clear();
    done_.clear();
    e = strip(e);
    count_uses(e);
    Value v = node(e, into);
    if (v.kind == Value::Tensor && !into.empty() && v.text != into) {  // a buffer that exists: a copy is wanted
        line(fmt::format("Muls({}, {}, {}, {});", into, v.text, is_float(v.dtype) ? "1.0f" : "1", count));
        release(v);
        v = {Value::Tensor, into, v.dtype, -1};
    }
    if (v.kind == Value::Uniform && (!into.empty())) {
        line(fmt::format("Duplicate({}, {}, {});", into, v.text, count));
        v = {Value::Tensor, into, v.dtype, -1};
    }
    return v;
}

// Computes all operands of x before the first is taken: while one is computed, another that it shares values with must
// not count as read, or its place would be used again.
void Vector::ready(const Expr& x) {
    for (ExprId a : x.args) node(strip(a), "");
}
// The operand e. Temporaries that nobody reads after this are put into `spare`.
Value Vector::take(ExprId e, std::vector<Value>& spare) {
    e = strip(e);
    const Value v = node(e, "");
    if (--uses_[e] == 0 && v.slot >= 0) spare.push_back(v);
    return v;
}
// Where a result goes: as wished, over an operand that is no longer needed, or into a new temporary.
Value Vector::pick(const std::string& into, DType t, std::vector<Value>& spare) {
    if (into.empty())
        for (auto it = spare.begin(); it != spare.end(); ++it)
            if (it->kind == Value::Tensor && is_float(it->dtype) == is_float(t)) {
                const Value v{Value::Tensor, it->text, t, it->slot};
                spare.erase(it);
                return v;
            }
    return fresh(into, t);
}
void Vector::give_back(std::vector<Value>& spare) {
    for (const Value& v : spare) release(v);
    spare.clear();
}

Value Vector::node(ExprId e, const std::string& into) {
    if (auto it = done_.find(e); it != done_.end()) return it->second;
    if (auto v = at(e)) {
        if (v->kind != Value::Tensor || v->dtype != DType::Bool) return *v;
        // Bytes as they come from memory, to a mask of bits.
        const Value d = load(v->text, DType::Bool, ""), m = fresh_mask();
        line(fmt::format("CompareScalar({}, {}, 0.0f, CMPMODE::NE, {});", m.text, d.text, count));
        release(d);
        done_[e] = m;
        return m;
    }
    if (!varies(e)) {
        Value v = uniform(e);
        if (uses_[e] > 1 && !is_simple(v.text)) {
            const std::string name = scalar_.fresh_name(scalar_.wish_for(e));
            line(fmt::format("const {} {} = {};", scalar_type(v.dtype), name, v.text));
            v.text = name;
        }
        done_[e] = v;
        return v;
    }
    // A value that is read more than once may not sit where the result goes before all readers are done.
    const Value v = p_.expr(e).kind == ExprKind::Cast ? cast(e, into) : call(e, into);
    done_[e] = v;
    return v;
}

Value Vector::lanewise(const std::string& f, const std::vector<Value>& a, const std::string& into,
                       std::vector<Value>& spare) {
    const Value d = pick(into, DType::F32, spare);
    scalar_.helpers().use("Await");
    std::string arguments;
    for (const Value& v : a)
        arguments += (arguments.empty() ? "" : ", ") +
                     (v.kind == Value::Uniform ? v.text : fmt::format("{}.GetValue(lane)", v.text));
    line("Await<HardEvent::V_S>();");
    line(fmt::format("for (uint32_t lane = 0; lane < {}; ++lane) {{  // no instruction computes this", count));
    line(fmt::format("    {}.SetValue(lane, {}({}));", d.text, f, arguments));
    line("}");
    line("Await<HardEvent::S_V>();");
    return d;
}

Value Vector::compare(const Expr& x) {
    std::vector<Value> spare;
    ready(x);
    Value a = take(x.args[0], spare);
    if (x.fn == Fn::IsNan) {
        const Value m = fresh_mask();
        line(fmt::format("Compare({}, {}, {}, CMPMODE::NE, {});", m.text, a.text, a.text, count));
        give_back(spare);
        return m;
    }
    if (x.fn == Fn::IsInf) {
        const Value d = pick("", DType::F32, spare), m = fresh_mask();
        line(fmt::format("Abs({}, {}, {});", d.text, a.text, count));
        line(fmt::format("CompareScalar({}, {}, __builtin_inff(), CMPMODE::EQ, {});", m.text, d.text, count));
        give_back(spare);
        release(d);
        return m;
    }
    const Value b = take(x.args[1], spare), m = fresh_mask();
    if (b.kind == Value::Uniform)
        line(fmt::format("CompareScalar({}, {}, {}, CMPMODE::{}, {});", m.text, a.text, b.text, comparison(x.fn),
                         count));
    else if (a.kind == Value::Uniform)
        line(fmt::format("CompareScalar({}, {}, {}, CMPMODE::{}, {});", m.text, b.text, a.text, mirrored(x.fn), count));
    else
        line(fmt::format("Compare({}, {}, {}, CMPMODE::{}, {});", m.text, a.text, b.text, comparison(x.fn), count));
    give_back(spare);
    return m;
}

Value Vector::select(ExprId e, const std::string& into) {
    const Expr x = p_.expr(e);
    std::vector<Value> spare;
    // select(x < 0, alpha * x, x)
    const Expr& c = p_.expr(x.args[0]);
    const Expr& yes = p_.expr(x.args[1]);
    const auto is_zero = [&](ExprId z) {
        return p_.expr(z).kind == ExprKind::Literal && is_float(p_.expr(z).dtype) && p_.expr(z).number == 0;
    };
    if (c.kind == ExprKind::Call && c.fn == Fn::Lt && c.args[0] == x.args[2] && is_zero(c.args[1]) &&
        uses_[x.args[0]] == 1 && uses_[x.args[1]] == 1 && yes.kind == ExprKind::Call && yes.fn == Fn::Mul) {
        const bool left = yes.args[0] == x.args[2];
        const ExprId alpha = left ? yes.args[1] : yes.args[0];
        if ((left || yes.args[1] == x.args[2]) && !varies(alpha)) {
            const Value s = uniform(alpha);
            uses_[x.args[2]] -= 2;
            const Value a = take(x.args[2], spare);
            const Value d = pick(into, DType::F32, spare);
            line(fmt::format("LeakyRelu({}, {}, {}, {});", d.text, a.text, s.text, count));
            give_back(spare);
            return d;
        }
    }
    ready(x);
    const Value m = take(x.args[0], spare);
    const Value a = take(x.args[1], spare), b = take(x.args[2], spare);
    if (a.kind == Value::Uniform) {
        std::vector<Value> none;
        // The scalar that is selected becomes a tensor; over nothing that is still read.
        const Value d = fresh(into, DType::F32);
        line(fmt::format("Duplicate({}, {}, {});", d.text, a.text, count));
        if (b.kind == Value::Uniform)
            line(fmt::format("Select({}, {}, {}, {}, SELMODE::VSEL_TENSOR_SCALAR_MODE, {});", d.text, m.text, d.text,
                             b.text, count));
        else
            line(fmt::format("Select({}, {}, {}, {}, SELMODE::VSEL_TENSOR_TENSOR_MODE, {});", d.text, m.text, d.text,
                             b.text, count));
        give_back(spare);
        return d;
    }
    const Value d = pick(into, DType::F32, spare);
    if (b.kind == Value::Uniform)
        line(fmt::format("Select({}, {}, {}, {}, SELMODE::VSEL_TENSOR_SCALAR_MODE, {});", d.text, m.text, a.text,
                         b.text, count));
    else
        line(fmt::format("Select({}, {}, {}, {}, SELMODE::VSEL_TENSOR_TENSOR_MODE, {});", d.text, m.text, a.text,
                         b.text, count));
    give_back(spare);
    return d;
}

Value Vector::call(ExprId e, const std::string& into) {
    const Expr x = p_.expr(e);
    if (x.fn == Fn::Select) return select(e, into);
    const DType t = p_.expr(x.args[0]).dtype;
    const bool floats = is_float(t);
    if (comparison(x.fn) || x.fn == Fn::IsNan || x.fn == Fn::IsInf) return compare(x);
    std::vector<Value> spare;
    ready(x);
    if (x.fn == Fn::And || x.fn == Fn::Or || x.fn == Fn::Not) {
        const Value a = take(x.args[0], spare);
        const Value b = x.fn == Fn::Not ? Value{} : take(x.args[1], spare);
        const Value m = fresh_mask();
        const auto bits = [](const Value& v) { return v.text + ".ReinterpretCast<uint16_t>()"; };
        if (x.fn == Fn::Not)
            line(fmt::format("Not({}, {}, {} / 16);", bits(m), bits(a), count));
        else
            line(fmt::format("{}({}, {}, {}, {} / 16);", x.fn == Fn::And ? "And" : "Or", bits(m), bits(a), bits(b),
                             count));
        give_back(spare);
        return m;
    }
    const DType result = floats ? DType::F32 : DType::I32;
    const Value a = take(x.args[0], spare);
    if (const char* f = unary_instruction(x.fn); f && floats) {
        const Value d = pick(into, result, spare);
        line(fmt::format("{}({}, {}, {});", f, d.text, a.text, count));
        give_back(spare);
        return d;
    }
    if (const char* mode = rounding(x.fn)) {
        const Value d = pick(into, result, spare);
        line(fmt::format("Cast({}, {}, RoundMode::{}, {});", d.text, a.text, mode, count));
        give_back(spare);
        return d;
    }
    if (x.fn == Fn::Neg) {
        const Value d = pick(into, result, spare);
        line(fmt::format("Muls({}, {}, {}, {});", d.text, a.text, floats ? "-1.0f" : "-1", count));
        give_back(spare);
        return d;
    }
    if (x.fn == Fn::Rsqrt) {  // the instruction Rsqrt is an approximation
        const Value d = fresh(into, result), root = pick("", result, spare);
        line(fmt::format("Sqrt({}, {}, {});", root.text, a.text, count));
        line(fmt::format("Duplicate({}, 1.0f, {});", d.text, count));
        line(fmt::format("Div({}, {}, {}, {});", d.text, d.text, root.text, count));
        release(root);
        give_back(spare);
        return d;
    }
    if (x.fn == Fn::Sign) {  // NaN and zeros are their own sign
        const Value m = fresh_mask(), d = fresh(into, result);
        line(fmt::format("Duplicate({}, 1.0f, {});", d.text, count));
        line(fmt::format("CompareScalar({}, {}, 0.0f, CMPMODE::GT, {});", m.text, a.text, count));
        line(fmt::format("Select({}, {}, {}, {}, SELMODE::VSEL_TENSOR_TENSOR_MODE, {});", d.text, m.text, d.text,
                         a.text, count));
        line(fmt::format("CompareScalar({}, {}, 0.0f, CMPMODE::GE, {});", m.text, a.text, count));
        const Value keep = fresh_mask();
        line(fmt::format("Compare({}, {}, {}, CMPMODE::NE, {});", keep.text, a.text, a.text, count));
        line(
            fmt::format("Or({0}.ReinterpretCast<uint16_t>(), {0}.ReinterpretCast<uint16_t>(), "
                        "{1}.ReinterpretCast<uint16_t>(), {2} / 16);",
                        m.text, keep.text, count));
        line(fmt::format("Select({}, {}, {}, -1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, {});", d.text, m.text, d.text,
                         count));
        release(keep);
        release(m);
        give_back(spare);
        return d;
    }
    if (const char* f = sequence(x.fn)) {
        scalar_.helpers().use(f);
        const Value d = fresh(into, result), s0 = fresh("", result), s1 = fresh("", result), m = fresh_mask();
        line(fmt::format("{}({}, {}, {}, {}, {}, {});", f, d.text, a.text, s0.text, s1.text, m.text, count));
        for (const Value& v : {s0, s1, m}) release(v);
        give_back(spare);
        return d;
    }
    const char* instruction = binary_instruction(x.fn);
    if (!instruction) {
        std::vector<Value> operands{a};
        for (size_t i = 1; i < x.args.size(); ++i) operands.push_back(take(x.args[i], spare));
        const std::string f = x.fn == Fn::FloorDiv ? "ScalarFloorDiv" : Scalar::function_name(x.fn);
        scalar_.helpers().use(f);
        const Value d = lanewise(f, operands, into, spare);
        give_back(spare);
        return d;
    }
    const Value b = take(x.args[1], spare);
    const Value& tensor = a.kind == Value::Tensor ? a : b;
    const std::string& s = a.kind == Value::Uniform ? a.text : b.text;
    const bool one_scalar = a.kind == Value::Uniform || b.kind == Value::Uniform;
    if (one_scalar && (x.fn == Fn::Add || x.fn == Fn::Mul || x.fn == Fn::Max || x.fn == Fn::Min)) {
        const Value d = pick(into, result, spare);
        if (x.fn == Fn::Max && s == "0.0f")
            line(fmt::format("Relu({}, {}, {});", d.text, tensor.text, count));
        else
            line(fmt::format("{}s({}, {}, {}, {});", instruction, d.text, tensor.text, s, count));
        give_back(spare);
        return d;
    }
    if (one_scalar && x.fn == Fn::Sub) {
        const Value d = pick(into, result, spare);
        if (b.kind == Value::Uniform) {
            line(fmt::format("Adds({}, {}, {}, {});", d.text, a.text, negated(s), count));
        } else {
            line(fmt::format("Muls({}, {}, {}, {});", d.text, b.text, floats ? "-1.0f" : "-1", count));
            line(fmt::format("Adds({}, {}, {}, {});", d.text, d.text, s, count));
        }
        give_back(spare);
        return d;
    }
    if (one_scalar) {  // Div: a product with the reciprocal would round twice
        const Value d = fresh(into, result);
        line(fmt::format("Duplicate({}, {}, {});", d.text, s, count));
        line(fmt::format("Div({}, {}, {}, {});", d.text, a.kind == Value::Uniform ? d.text : a.text,
                         b.kind == Value::Uniform ? d.text : b.text, count));
        give_back(spare);
        return d;
    }
    const Value d = pick(into, result, spare);
    line(fmt::format("{}({}, {}, {}, {});", instruction, d.text, a.text, b.text, count));
    give_back(spare);
    return d;
}

Value Vector::cast(ExprId e, const std::string& into) {
    const Expr x = p_.expr(e);
    const DType from = p_.expr(x.args[0]).dtype, to = x.dtype;
    std::vector<Value> spare;
    const Value a = take(x.args[0], spare);
    if (to == DType::Bool) {
        const Value m = fresh_mask();
        line(fmt::format("CompareScalar({}, {}, 0.0f, CMPMODE::NE, {});", m.text, a.text, count));
        give_back(spare);
        return m;
    }
    if (a.kind == Value::Mask) {
        const Value d = fresh(into, DType::F32);
        line(fmt::format("Duplicate({}, 1.0f, {});", d.text, count));
        line(fmt::format("Select({}, {}, {}, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, {});", d.text, a.text, d.text,
                         count));
        give_back(spare);
        return d;
    }
    if (is_float_compute(to)) {
        const Value d = fresh(into, DType::F32);
        load(a.text, from, d.text);
        give_back(spare);
        return d;
    }
    // To an integer: toward zero and saturating.
    if (to == DType::I32) {
        const Value d = fresh(into, DType::I32);
        line(fmt::format("Cast({}, {}, RoundMode::CAST_TRUNC, {});", d.text, a.text, count));
        give_back(spare);
        return d;
    }
    return {Value::Tensor, a.text, to, spare.empty() ? -1 : a.slot};  // narrower ones are converted by store()
}

Value Vector::load(const std::string& name, DType memory, const std::string& into) {
    if (memory == DType::F32 || (memory == DType::I32 && into.empty())) return {Value::Tensor, name, memory, -1};
    const Value d = fresh(into, DType::F32);
    if (memory == DType::I8 || memory == DType::U8 || memory == DType::Bool) {
        const int slot = tensors.take();
        const std::string half = tensor(slot, "half");
        line(fmt::format("Cast({}, {}, RoundMode::CAST_NONE, {});", half, name, count));
        line(fmt::format("Cast({}, {}, RoundMode::CAST_NONE, {});", d.text, half, count));
        tensors.give(slot);
    } else {
        const bool exact = memory == DType::F16 || memory == DType::BF16 || memory == DType::I16;
        line(fmt::format("Cast({}, {}, RoundMode::{}, {});", d.text, name, exact ? "CAST_NONE" : "CAST_RINT", count));
    }
    return d;
}

void Vector::store(const Value& v, DType memory, const std::string& into) {
    if (v.kind == Value::Mask) {  // bits to bytes: 1 where set, else 0
        const int slot = tensors.take();
        const std::string half = tensor(slot, "half");
        line(fmt::format("Duplicate({}, static_cast<half>(1.0f), {});", half, count));
        line(fmt::format("Select({}, {}, {}, static_cast<half>(0.0f), SELMODE::VSEL_TENSOR_SCALAR_MODE, {});", half,
                         v.text, half, count));
        line(fmt::format("Cast({}, {}, RoundMode::CAST_TRUNC, {});", into, half, count));
        tensors.give(slot);
        return;
    }
    if (memory == DType::I16) {
        line(fmt::format("Cast({}, {}, RoundMode::CAST_TRUNC, {});", into, v.text, count));
    } else if (memory == DType::I8 || memory == DType::U8) {
        // No float becomes a byte at once: through int16, which saturates far beyond a byte, and half.
        const int s0 = tensors.take(), s1 = tensors.take();
        const std::string wide = tensor(s0, "int16_t"), half = tensor(s1, "half");
        line(fmt::format("Cast({}, {}, RoundMode::CAST_TRUNC, {});", wide, v.text, count));
        line(fmt::format("Cast({}, {}, RoundMode::CAST_NONE, {});", half, wide, count));
        line(fmt::format("Cast({}, {}, RoundMode::CAST_TRUNC, {});", into, half, count));
        tensors.give(s0);
        tensors.give(s1);
    } else {
        line(fmt::format("Cast({}, {}, RoundMode::CAST_RINT, {});", into, v.text, count));
    }
}

}  // namespace opwright::target::ascend
