#include "lang/elaborate.h"

#include <algorithm>
#include <cassert>

#include "lang/elaborator.h"
#include "lang/parser.h"

namespace opwright::lang {

using math::Sym;
using Kind = Value::Kind;

namespace {

Value to_value(const Attribute& a) {
    const auto list = [](const auto& v, auto&& one) {
        std::vector<Value> all;
        for (const auto& x : v) all.push_back(one(x));
        return Value::of_list(std::move(all));
    };
    if (const auto* s = std::get_if<Sym>(&a)) return Value::of_size(*s);
    if (const auto* d = std::get_if<double>(&a)) return Value::of_real(*d);
    if (const auto* b = std::get_if<bool>(&a)) return Value::of_condition(*b);
    if (const auto* t = std::get_if<std::string>(&a)) return Value::of_text(*t);
    if (const auto* t = std::get_if<DType>(&a)) return Value::of_type(*t);
    if (const auto* v = std::get_if<std::vector<Sym>>(&a))
        return list(*v, [](const Sym& s) { return Value::of_size(s); });
    if (const auto* v = std::get_if<std::vector<double>>(&a))
        return list(*v, [](double d) { return Value::of_real(d); });
    return list(std::get<std::vector<std::string>>(a), [](const std::string& s) { return Value::of_text(s); });
}

// nullopt for values that no attribute can have.
std::optional<Attribute> to_attribute(const Value& v) {
    switch (v.kind) {
        case Kind::Literal: return v.real ? Attribute(v.number) : Attribute(Sym(v.integer));
        case Kind::Size: return Attribute(v.sym);
        case Kind::Condition: return v.sym.is_const() ? std::optional<Attribute>(!v.sym.is(0)) : std::nullopt;
        case Kind::Text: return Attribute(v.text);
        case Kind::Type: return Attribute(v.type);
        case Kind::List: {
            std::vector<Sym> ints;
            std::vector<double> reals;
            std::vector<std::string> texts;
            for (const Value& x : *v.list) {
                if (const auto s = x.as_sym()) ints.push_back(*s);
                if (x.is(Kind::Literal)) reals.push_back(x.number);
                if (x.is(Kind::Text)) texts.push_back(x.text);
            }
            const size_t n = v.list->size();
            if (ints.size() == n) return Attribute(std::move(ints));
            if (reals.size() == n) return Attribute(std::move(reals));
            if (texts.size() == n) return Attribute(std::move(texts));
            return std::nullopt;
        }
        case Kind::None:
        case Kind::Computed: break;
    }
    return std::nullopt;
}

// Removes equations of temporaries that nothing reads: outputs of a called operator that the caller leaves out.
void prune(math::Program& p) {
    std::vector<bool> live(p.tensors.size());
    for (math::TensorId t : p.outputs) live[t] = true;
    std::vector<bool> keep(p.equations.size());
    for (size_t i = p.equations.size(); i-- > 0;) {
        const math::Equation& q = p.equations[i];
        keep[i] = live[q.lhs];
        if (!keep[i]) continue;
        for (math::TensorId t : p.reads(q.rhs)) live[t] = true;
        for (math::ExprId a : q.at)
            for (math::TensorId t : p.reads(a)) live[t] = true;
    }
    size_t n = 0;
    for (size_t i = 0; i < keep.size(); ++i)
        if (keep[i]) {
            if (n != i) p.equations[n] = std::move(p.equations[i]);
            ++n;
        }
    p.equations.resize(n);
}

Result<math::Program> run(const OpDecl& op, std::vector<BoundArg> flat, const std::map<std::string, Value>& attributes,
                          Broadcasting broadcasting, const Resolver& r) {
    Shared s;
    s.broadcasting = broadcasting;
    s.find = r.find;
    s.operator_names = r.names;
    s.stack = {&op};
    math::Program& p = s.program;
    p.name = op.name;
    p.doc = op.doc;
    for (const BoundArg& a : flat)
        for (const Sym& e : a.shape) s.symbol_limit += 16 * std::min<uint64_t>(e.size(), 1u << 20);
    for (const auto& [n, v] : attributes) {
        s.symbol_limit += 16 * std::min<uint64_t>(v.sym.size(), 1u << 20);
        if (v.list)
            for (const Value& x : *v.list) s.symbol_limit += 16 * std::min<uint64_t>(x.sym.size(), 1u << 20);
    }
    OPW_TRY(auto args, group_arguments(op, std::move(flat), {}));
    for (size_t i = 0; i < op.params.size(); ++i) {
        for (size_t t = 0; t < args[i].size(); ++t) {
            BoundArg& a = args[i][t];
            if (!a.present) continue;
            std::string n = op.params[i].name;
            if (op.params[i].variadic) n += std::to_string(t);
            s.tensor_names.emplace(n, 2);
            a.id = p.add_tensor(n, a.type, a.shape, math::Role::Input);
        }
    }
    std::vector<OutputSlot> slots;
    for (const Param& o : op.outputs) {
        s.tensor_names.emplace(o.name, 2);
        slots.push_back({o.name, math::Role::Output});
    }
    Elaborator e(s, op);
    OPW_CHECK(e.bind_attributes(attributes, {}));
    OPW_CHECK(e.bind_arguments(std::move(args), std::move(slots), {}));
    OPW_CHECK(e.run());
    p.outputs.clear();
    for (size_t i = 0; i < op.outputs.size(); ++i) p.outputs.push_back(e.output(i).id);
    prune(p);
    assert(math::verify(p).empty());
    return std::move(p);
}
}  // namespace

Result<math::Program> elaborate(const OpDecl& op, const std::vector<Argument>& arguments, const Attributes& attributes,
                                Broadcasting broadcasting, const Resolver& r) {
    std::vector<BoundArg> flat;
    for (const Argument& a : arguments) {
        BoundArg b;
        b.present = a.present;
        b.type = a.dtype;
        b.shape = a.shape;
        flat.push_back(std::move(b));
    }
    std::map<std::string, Value> given;
    for (const auto& [n, v] : attributes) given.emplace(n, to_value(v));
    return run(op, std::move(flat), given, broadcasting, r);
}

Result<math::Program> elaborate_symbolic(const OpDecl& op, int pack_rank, std::optional<DType> floats,
                                         const Resolver& r) {
    std::map<std::string, Value> given;
    std::vector<std::vector<BoundArg>> like;
    if (!op.examples.empty()) {
        OPW_TRY(auto all, examples_of(op));
        const Example& x = all.front();
        std::vector<BoundArg> flat;
        for (const Argument& a : x.arguments) {
            BoundArg b;
            b.present = a.present;
            b.type = a.dtype;
            b.shape = a.shape;
            flat.push_back(std::move(b));
        }
        OPW_TRY(like, group_arguments(op, std::move(flat), {}));
        for (const auto& [n, v] : x.attributes) given.emplace(n, to_value(v));
    } else {
        for (const AttributeDecl& a : op.attributes)
            if (!a.value && a.kind == AttributeKind::Int)
                given.emplace(a.name, Value::of_size(Sym::symbol(a.name, std::numeric_limits<int64_t>::min())));
    }
    Shared s;
    s.find = r.find;
    s.operator_names = r.names;
    Elaborator e(s, op);
    OPW_CHECK(e.bind_attributes(given, {}));
    OPW_TRY(auto args, e.symbolic_arguments(like, pack_rank));
    std::vector<BoundArg> flat;
    for (auto& list : args)
        for (BoundArg& a : list) {
            if (floats && a.present && is_float(a.type)) a.type = *floats;
            flat.push_back(std::move(a));
        }
    return run(op, std::move(flat), given, Broadcasting::AtRunTime, r);
}

Result<std::vector<Example>> examples_of(const OpDecl& op) {
    std::vector<Example> out;
    for (const ExampleDecl& d : op.examples) {
        Shared s;
        s.find = [](const std::string&, const OpDecl&) { return nullptr; };
        s.operator_names = [] { return std::vector<std::string>(); };
        Elaborator e(s, op);
        Example x;
        x.span = op.span(d.begin, d.end);
        for (const Param& p : op.params) {
            bool found = false;
            for (const ExampleTensor& t : d.tensors) {
                if (t.name != p.name) continue;
                if (found && !p.variadic)
                    return Diagnostic(fmt::format("The example gives `{}` twice.", t.name), op.span(t.at, t.at_end),
                                      "Give it once; only a variadic parameter takes several tensors.");
                found = true;
                Argument a;
                const auto type = dtype_from_name(t.type.name);
                if (!type || t.type.accumulate)
                    return Diagnostic(fmt::format("`{}` is no dtype.", t.type.name), op.span(t.type.begin, t.type.end),
                                      "Write f32[2,3].");
                a.dtype = *type;
                for (const Expr* dim : t.dims) {
                    OPW_TRY(Value v, e.eval_static(*dim));
                    const auto c = v.constant_integer();
                    if (!c || *c < 0)
                        return Diagnostic("An extent of an example is a number that is not negative.", op.span(*dim),
                                          "Write f32[2,3].");
                    a.shape.emplace_back(*c);
                }
                std::optional<ValueRange> range;
                if (t.low) {
                    double ends[2];
                    const Expr* exprs[2] = {t.low, t.high};
                    for (int i = 0; i < 2; ++i) {
                        OPW_TRY(Value v, e.eval_static(*exprs[i]));
                        if (!v.is(Kind::Literal))
                            return Diagnostic("A range of values is given by two numbers.", op.span(*exprs[i]),
                                              fmt::format("Write {} = i64[5] in 0..3.", t.name));
                        ends[i] = v.number;
                    }
                    if (!(ends[0] < ends[1]))
                        return Diagnostic("This range holds no value.", Span{op.source, t.low->begin, t.high->end},
                                          "Write the lower end first; the upper end is not in the range.");
                    range = ValueRange{ends[0], ends[1]};
                }
                x.arguments.push_back(std::move(a));
                x.values.push_back(range);
            }
            if (!found && !p.variadic) {
                Argument absent;
                absent.present = false;
                x.arguments.push_back(absent);
                x.values.emplace_back();
                if (!p.optional)
                    return Diagnostic(fmt::format("The example leaves out `{}`, which is not optional.", p.name),
                                      x.span, fmt::format("Add {} = f32[...].", p.name));
            }
        }
        for (const ExampleTensor& t : d.tensors) {
            std::vector<std::string> names;
            for (const Param& p : op.params) names.push_back(p.name);
            if (std::find(names.begin(), names.end(), t.name) != names.end()) continue;
            const std::string near = did_you_mean(t.name, names);
            return Diagnostic(fmt::format("`{}` has no parameter `{}`.", op.name, t.name), op.span(t.at, t.at_end),
                              near.empty() ? "Attributes follow a ';'." : fmt::format("Did you mean `{}`?", near));
        }
        for (const Setting& a : d.settings) {
            OPW_TRY(Value v, e.eval_static(*a.value));
            if (v.is(Kind::None)) continue;
            auto attribute = to_attribute(v);
            if (!attribute)
                return Diagnostic(
                    fmt::format("The attribute `{}` of the example has no value that an attribute can have.", a.name),
                    op.span(*a.value), "Write a number, a string, true, false, a dtype, or a list of one kind.");
            if (!x.attributes.emplace(a.name, std::move(*attribute)).second)
                return Diagnostic(fmt::format("The attribute `{}` is given twice.", a.name), op.span(a.at, a.at_end),
                                  "Give it once.");
        }
        out.push_back(std::move(x));
    }
    return out;
}

Result<Attributes> attributes_of(const OpDecl& op, SourceRef text) {
    const SettingsResult r = parse_settings(text);
    if (!r.errors.empty()) return r.errors.front();
    OpDecl at = OpDecl();  // expressions of `text` are shown in it
    at.source = text;
    at.name = op.name;
    Shared s;
    s.find = [](const std::string&, const OpDecl&) { return nullptr; };
    s.operator_names = [] { return std::vector<std::string>(); };
    Elaborator values(s, at);
    Elaborator declared(s, op);
    Attributes out;
    for (const Setting& a : r.settings) {
        const Span place{text, a.at, a.value->end};
        OPW_TRY(Value v, values.eval_static(*a.value));
        if (out.count(a.name))
            return Diagnostic(fmt::format("The attribute `{}` is given twice.", a.name), place, "Give it once.");
        const auto decl = std::find_if(op.attributes.begin(), op.attributes.end(),
                                       [&](const AttributeDecl& d) { return d.name == a.name; });
        if (decl == op.attributes.end()) {
            const Status unknown = declared.bind_attributes({{a.name, v}}, place);
            return unknown.error();
        }
        if (v.is(Kind::None)) continue;
        OPW_TRY(v, declared.to_attribute(*decl, v, place));
        auto attribute = to_attribute(v);
        if (!attribute)
            return Diagnostic(fmt::format("The attribute `{}` has no value that an attribute can have.", a.name), place,
                              "Write a number, a string, true, false, a dtype, or a list of one kind.");
        out.emplace(a.name, std::move(*attribute));
    }
    return out;
}

}  // namespace opwright::lang
