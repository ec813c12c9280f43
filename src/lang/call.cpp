// Calls of other operators: their equations become part of the caller's Program.
#include <algorithm>

#include "lang/elaborator.h"

namespace opwright::lang {

using Kind = Value::Kind;

Status Elaborator::call_statement(const Stmt& s) {
    std::vector<OutputSlot> slots;
    for (const Binding& b : s.names) {
        if (b.name == "_") {
            slots.push_back({"", math::Role::Temp});
            continue;
        }
        if (views_.count(b.name))
            return error_at(b.at, b.at_end, fmt::format("`{}` is defined already.", b.name), "Use another name.");
        const auto out = outputs_.find(b.name);
        if (out == outputs_.end()) {
            OPW_CHECK(free_name(b.name, b.at, b.at_end));
            slots.push_back({scalar_mode ? "" : fresh_name(b.name), math::Role::Temp});
        } else {
            OutputSlot slot = out->second.second;
            if (slot.name.empty() && !scalar_mode) slot.name = fresh_name(b.name);
            slots.push_back(slot);
        }
    }
    OPW_TRY(auto views, call(*s.value, std::move(slots)));
    if (views.size() < s.names.size())
        return error(*s.value,
                     fmt::format("`{}` has {} output{}, but {} names stand on the left.", s.value->name, views.size(),
                                 views.size() == 1 ? "" : "s", s.names.size()),
                     "Give one name for each output; _ leaves one out.");
    for (size_t i = 0; i < s.names.size(); ++i) {
        const Binding& b = s.names[i];
        if (b.name == "_") continue;
        View v = views[i];
        v.name = b.name;
        v.at = b.at;
        v.at_end = b.at_end;
        if (v.id != math::kNone) {
            v.dims.clear();
            const auto& shape = p_.tensors[v.id].shape;
            for (size_t d = 0; d < shape.size(); ++d)
                v.dims.push_back({static_cast<int>(d), shape[d], shape[d], false});
        }
        if (const auto out = outputs_.find(b.name); out != outputs_.end()) {
            OPW_TRY(auto type, output_type(*out->second.first));
            if (type && *type != v.type)
                return error(*s.value,
                             fmt::format("`{}` is {}, but `{}` delivers {}.", b.name, opwright::name(*type),
                                         s.value->name, opwright::name(v.type)),
                             fmt::format("Name the result otherwise and convert it: {}[...] = cast(..., {}).", b.name,
                                         opwright::name(*type)));
            OPW_CHECK(check_declared(*out->second.first, v, *s.value));
        }
        views_[b.name] = std::move(v);
        written_.insert(b.name);
    }
    return ok_status();
}

Result<std::vector<View>> Elaborator::call(const Expr& e, std::vector<OutputSlot> slots) {
    const OpDecl* callee = s_.find(e.name, op_);
    if (!callee) {
        const std::string near = did_you_mean(e.name, s_.operator_names());
        return error(
            e, fmt::format("There is no operator `{}`.", e.name),
            near.empty()
                ? "A name without indices is the result of an operator; write an equation with indices for functions."
                : fmt::format("Did you mean `{}`?", near));
    }
    std::vector<BoundArg> args;
    const auto push = [&](const View& v) {
        BoundArg b;
        b.type = v.type;
        b.id = v.id;
        if (v.id == math::kNone)
            b.scalar = v.scalar;
        else
            b.shape = p_.tensors[v.id].shape;
        args.push_back(std::move(b));
    };
    for (const Expr* a : e.args) {
        const Expr& base = a->kind == ExprKind::Expand ? *a->args[0] : *a;
        if (base.kind == ExprKind::Name) {
            if (a->kind == ExprKind::Expand) {
                const auto xs = variadic_.find(base.name);
                if (xs == variadic_.end())
                    return error(*a, fmt::format("`{}` is no variadic parameter.", base.name),
                                 "Only xs... of a parameter xs* can stand here.");
                for (const View& v : xs->second) push(v);
                continue;
            }
            if (base.name == "none" || absent_.count(base.name)) {
                args.emplace_back().present = false;
                continue;
            }
            OPW_TRY(const View* v, tensor(base.name, base));
            push(*v);
        } else if (base.kind == ExprKind::Call && a->kind != ExprKind::Expand) {
            OPW_TRY(auto inner, call(base, {{scalar_mode ? "" : fresh_name(base.name + "_result"), math::Role::Temp}}));
            push(inner[0]);
        } else {
            return error(*a, fmt::format("`{}` is no tensor, and an operator takes whole tensors.", source_of(*a)),
                         "Name a tensor, or compute it by an equation before.");
        }
    }
    return call_with(e, *callee, std::move(args), std::move(slots), scalar_mode);
}

Result<std::vector<View>> Elaborator::call_with(const Expr& e, const OpDecl& callee, std::vector<BoundArg> args,
                                                std::vector<OutputSlot> slots, bool on_numbers) {
    if (std::find(s_.stack.begin(), s_.stack.end(), &callee) != s_.stack.end())
        return error(e, fmt::format("`{}` calls itself.", callee.name),
                     "An operator cannot be recursive; write its equations out.");
    if (s_.stack.size() >= kMaxCalls)
        return error(e, fmt::format("Operators call each other more than {} deep.", kMaxCalls),
                     "Flatten the chain of calls.");
    std::map<std::string, Value> given;
    const bool outer = std::exchange(in_equation_, false);
    for (const Setting& a : e.settings) {
        Result<Value> v = eval(*a.value, {});
        if (!v.ok()) {
            in_equation_ = outer;
            return v.error();
        }
        if (!given.emplace(a.name, std::move(*v)).second) {
            in_equation_ = outer;
            return error_at(a.at, a.at_end, fmt::format("The attribute `{}` is given twice.", a.name), "Give it once.");
        }
    }
    in_equation_ = outer;
    const Span place = op_.span(e);
    OPW_TRY(auto grouped, group_arguments(callee, std::move(args), place));
    slots.resize(callee.outputs.size(), {"", math::Role::Temp});
    Elaborator inner(s_, callee);
    inner.scalar_mode = on_numbers;
    s_.stack.push_back(&callee);
    const auto run = [&]() -> Status {
        OPW_CHECK(inner.bind_attributes(given, place));
        OPW_CHECK(inner.bind_arguments(std::move(grouped), std::move(slots), place));
        const Status good = inner.run();
        if (good.ok()) return good;
        Diagnostic d = good.error();
        return d.with_note(fmt::format("`{}` is called from `{}` here", callee.name, op_.name), place);
    };
    const Status good = run();
    s_.stack.pop_back();
    if (!good.ok()) return good.error();
    std::vector<View> out;
    for (size_t i = 0; i < callee.outputs.size(); ++i) out.push_back(inner.output(i));
    return out;
}

Result<std::vector<std::vector<BoundArg>>> group_arguments(const OpDecl& op, std::vector<BoundArg> args,
                                                           const Span& place) {
    const bool variadic = !op.params.empty() && op.params.back().variadic;
    const size_t fixed = op.params.size() - variadic;
    size_t least = fixed;
    while (least > 0 && op.params[least - 1].optional) --least;
    if (args.size() < least || (args.size() > fixed && !variadic)) {
        const std::string takes = variadic         ? fmt::format("at least {}", least + 1)
                                  : least == fixed ? std::to_string(fixed)
                                                   : fmt::format("{} to {}", least, fixed);
        std::string list;
        for (const Param& p : op.params)
            list += (list.empty() ? "" : ", ") + p.name + (p.optional ? "?" : p.variadic ? "*" : "");
        return Diagnostic(fmt::format("`{}` takes {} tensor{}, but {} {} given.", op.name, takes,
                                      takes == "1" ? "" : "s", args.size(), args.size() == 1 ? "is" : "are"),
                          place.source ? place : op.span(op.name_at, op.name_end),
                          list.empty() ? "It takes none." : fmt::format("Its parameters are {}.", list));
    }
    std::vector<std::vector<BoundArg>> out(op.params.size());
    for (size_t i = 0; i < fixed; ++i) {
        BoundArg absent;
        absent.present = false;
        out[i].push_back(i < args.size() ? std::move(args[i]) : absent);
    }
    if (variadic)
        for (size_t i = fixed; i < args.size(); ++i) out.back().push_back(std::move(args[i]));
    return out;
}

}  // namespace opwright::lang
