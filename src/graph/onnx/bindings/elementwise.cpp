// Functions of one, two or three elements, conversions and the variadic forms.
#include <cmath>
#include <map>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

// ONNX operators that are an operator of the library under another name, without attributes.
const std::map<std::string_view, const char*> kSameMeaning = {{"Abs", "abs"},
                                                              {"Acos", "acos"},
                                                              {"Acosh", "acosh"},
                                                              {"Asin", "asin"},
                                                              {"Asinh", "asinh"},
                                                              {"Atan", "atan"},
                                                              {"Atanh", "atanh"},
                                                              {"BitwiseNot", "bitwise_not"},
                                                              {"Ceil", "ceil"},
                                                              {"Cos", "cos"},
                                                              {"Cosh", "cosh"},
                                                              {"Erf", "erf"},
                                                              {"Exp", "exp"},
                                                              {"Floor", "floor"},
                                                              {"HardSwish", "hard_swish"},
                                                              {"IsNaN", "is_nan"},
                                                              {"Log", "log"},
                                                              {"Mish", "mish"},
                                                              {"Neg", "neg"},
                                                              {"Not", "logical_not"},
                                                              {"Reciprocal", "reciprocal"},
                                                              {"Relu", "relu"},
                                                              {"Round", "round"},
                                                              {"Sigmoid", "sigmoid"},
                                                              {"Sign", "sign"},
                                                              {"Sin", "sin"},
                                                              {"Sinh", "sinh"},
                                                              {"Softplus", "softplus"},
                                                              {"Softsign", "softsign"},
                                                              {"Sqrt", "sqrt"},
                                                              {"Tan", "tan"},
                                                              {"Tanh", "tanh"},
                                                              {"Add", "add"},
                                                              {"And", "logical_and"},
                                                              {"BitwiseAnd", "bitwise_and"},
                                                              {"BitwiseOr", "bitwise_or"},
                                                              {"BitwiseXor", "bitwise_xor"},
                                                              {"Div", "div"},
                                                              {"Equal", "equal"},
                                                              {"Greater", "greater"},
                                                              {"GreaterOrEqual", "greater_equal"},
                                                              {"Less", "less"},
                                                              {"LessOrEqual", "less_equal"},
                                                              {"Mul", "mul"},
                                                              {"Or", "logical_or"},
                                                              {"Pow", "pow"},
                                                              {"Sub", "sub"},
                                                              {"Xor", "logical_xor"},
                                                              {"Where", "where_select"}};

Out same_meaning(NodeContext& c) {
    Values in;
    for (size_t i = 0; i < c.input_count(); ++i) in.push_back(c.input(i));
    return c.emit(kSameMeaning.at(c.op_type()), in);
}

// One float attribute `alpha` under the same name.
Out with_alpha(NodeContext& c) {
    static const std::map<std::string_view, std::pair<const char*, double>> ops = {
        {"LeakyRelu", {"leaky_relu", 0.01}},
        {"Elu", {"elu", 1.0}},
        {"Celu", {"celu", 1.0}},
        {"ThresholdedRelu", {"thresholded_relu", 1.0}},
        {"Swish", {"silu", 1.0}}};
    const auto& [op, alpha] = ops.at(c.op_type());
    return c.emit(op, {c.input(0)}, {{"alpha", c.float_attribute("alpha", alpha)}});
}
Out selu(NodeContext& c) {
    return c.emit("selu", {c.input(0)},
                  {{"alpha", c.float_attribute("alpha", 1.67326319217681884765625)},
                   {"gamma", c.float_attribute("gamma", 1.05070102214813232421875)}});
}
Out hard_sigmoid(NodeContext& c) {
    return c.emit(
        "hard_sigmoid", {c.input(0)},
        {{"alpha", c.float_attribute("alpha", static_cast<double>(0.2f))}, {"beta", c.float_attribute("beta", 0.5)}});
}
Out shrink(NodeContext& c) {
    return c.emit("shrink", {c.input(0)},
                  {{"lambda", c.float_attribute("lambd", 0.5)}, {"bias", c.float_attribute("bias", 0.0)}});
}
Out gelu(NodeContext& c) {
    return c.emit(c.string_attribute("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu", {c.input(0)});
}
Out is_inf(NodeContext& c) {
    return c.emit("is_inf", {c.input(0)},
                  {{"negative", c.int_attribute("detect_negative", 1) != 0},
                   {"positive", c.int_attribute("detect_positive", 1) != 0}});
}
Out mod(NodeContext& c) { return c.emit(c.int_attribute("fmod", 0) != 0 ? "fmod" : "mod", {c.input(0), c.input(1)}); }
Out bit_shift(NodeContext& c) {
    const std::string direction = c.string_attribute("direction", "");
    if (direction != "LEFT" && direction != "RIGHT")
        return c.unsupported("the attribute direction must be LEFT or RIGHT");
    return c.emit(direction == "LEFT" ? "shift_left" : "shift_right", {c.input(0), c.input(1)});
}

// The slope has the shape of x, broadcasts to it, or (as some exporters write) is one value a channel.
Out prelu(NodeContext& c) {
    const Dims x = shape_of(c, c.input(0));
    ValueId slope = c.input(1);
    const Dims s = shape_of(c, slope);
    if (s.size() == 1 && x.size() > 2 && !s[0].is(1) && s[0].known_equal(x[1]) && !s[0].known_equal(x.back())) {
        Dims channel(x.size() - 1, Sym(1));
        channel[0] = s[0];
        slope = c.view(slope, channel);
    }
    return c.emit("prelu", {c.input(0), slope});
}

// Left to right, as the operators they fold are of two.
Out folded(NodeContext& c) {
    const std::string op = c.op_type() == "Max" ? "maximum" : c.op_type() == "Min" ? "minimum" : "add";
    ValueId v = c.input(0);
    for (size_t i = 1; i < c.input_count(); ++i) { OPW_TRY(v, emit1(c, op, {v, c.input(i)})); }
    if (c.op_type() != "Mean" || c.input_count() == 1) return Values{v};
    return c.emit("div", {v, scalar(c, static_cast<double>(c.input_count()), type_of(c, v))});
}

Out clip(NodeContext& c) {
    const ValueId x = c.input(0);
    const DType t = type_of(c, x);
    if (c.opset() < 11) {
        Attributes a;
        if (c.has("min")) a["low"] = c.float_attribute("min", 0);
        if (c.has("max")) a["high"] = c.float_attribute("max", 0);
        return a.empty() ? Out(Values{x}) : c.emit("clamp_between", {x}, a);
    }
    ValueId low = input_or_none(c, 1), high = input_or_none(c, 2);
    if (low == kNone && high == kNone) return Values{x};
    // Numbers known now become literals of the kernel.
    Attributes a;
    bool literal = is_float(t);
    for (const auto& [v, name] : {std::pair(low, "low"), std::pair(high, "high")}) {
        if (v == kNone) continue;
        const auto& k = c.value(v).constant;
        if (k && k->size() == 1 && !std::isnan(k->get(0)))
            a[name] = k->get(0);
        else
            literal = false;
    }
    if (literal) return c.emit("clamp_between", {x}, a);
    if (low != kNone) low = as_scalar(c, low);
    if (high != kNone) high = as_scalar(c, high);
    return c.emit("clip", {x, low, high});
}

Out cast(NodeContext& c) {
    OPW_TRY(DType to, element_type(c, c.int_attribute("to", 0)));
    OPW_TRY(ValueId v, converted(c, c.input(0), to));
    return Values{v};
}
Out cast_like(NodeContext& c) {
    OPW_TRY(ValueId v, converted(c, c.input(0), type_of(c, c.input(1))));
    return Values{v};
}
Out bit_cast(NodeContext& c) {
    OPW_TRY(DType to, element_type(c, c.int_attribute("to", 0)));
    const DType from = type_of(c, c.input(0));
    if (from == to) return Values{c.input(0)};
    if (size_of(from) != size_of(to)) return c.unsupported("BitCast needs two element types of one size");
    // A truth value is a byte of 0 or 1.
    return c.emit(from == DType::Bool || to == DType::Bool ? "cast" : "bitcast", {c.input(0)}, {{"to", to}});
}

}  // namespace

std::span<const Entry> elementwise() {
    static const std::vector<Entry> entries = [] {
        std::vector<Entry> e = {{"LeakyRelu", with_alpha},
                                {"Elu", with_alpha},
                                {"Celu", with_alpha},
                                {"ThresholdedRelu", with_alpha},
                                {"Swish", with_alpha},
                                {"Selu", selu},
                                {"HardSigmoid", hard_sigmoid},
                                {"Shrink", shrink},
                                {"Gelu", gelu},
                                {"IsInf", is_inf},
                                {"Mod", mod},
                                {"BitShift", bit_shift},
                                {"PRelu", prelu},
                                {"Max", folded},
                                {"Min", folded},
                                {"Sum", folded},
                                {"Mean", folded},
                                {"Clip", clip},
                                {"Cast", cast},
                                {"CastLike", cast_like},
                                {"BitCast", bit_cast}};
        for (const auto& [type, op] : kSameMeaning) e.push_back({type, same_meaning});
        return e;
    }();
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
