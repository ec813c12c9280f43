// Statements other than equations and calls: ranges, lets, tables, conditions, loops over variadic parameters.
#include <algorithm>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::Sym;
using Kind = Value::Kind;

Status Elaborator::run() {
    OPW_CHECK(block(op_.body));
    for (const Param& o : op_.outputs)
        if (!views_.count(o.name)) {
            return error(o, fmt::format("No equation defines the output `{}` of `{}`.", o.name, op_.name),
                         fmt::format("Add {}[...] = ....", o.name));
        }
    return ok_status();
}

Status Elaborator::block(const std::vector<Stmt>& b) {
    for (const Stmt& s : b) OPW_CHECK(statement(s));
    return ok_status();
}

Status Elaborator::statement(const Stmt& s) {
    if (++s_.steps > kMaxSteps)
        return error(s, fmt::format("The elaboration of `{}` takes too many steps and was given up here.", op_.name),
                     "Lower the ranks or the number of unrolled terms.");
    switch (s.kind) {
        case StmtKind::Range: return range(s);
        case StmtKind::Let: return let(s);
        case StmtKind::Const: return constant(s);
        case StmtKind::Equation: return equation(s);
        case StmtKind::Call: return call_statement(s);
        case StmtKind::If: return conditional(s);
        case StmtKind::For: return loop(s);
        case StmtKind::Require: return require(s);
    }
    return ok_status();
}

Status Elaborator::free_name(const std::string& n, uint32_t at, uint32_t end) const {
    const char* what = values_.count(n)                   ? "an attribute or a let"
                       : dims_.count(n) || each_.count(n) ? "a dim or an index"
                       : views_.count(n) || absent_.count(n) || variadic_.count(n) || outputs_.count(n) ? "a tensor"
                                                                                                        : nullptr;
    if (!what) return ok_status();
    return error_at(at, end, fmt::format("`{}` is {} already.", n, what), "Choose another name.");
}

void Elaborator::add_requirement(Sym value, std::string message) {
    if (auto c = value.constant(); c && *c != 0) return;
    for (const math::Requirement& r : p_.requirements)
        if (r.value == value) return;
    p_.requirements.push_back({std::move(value), std::move(message)});
}

std::string Elaborator::fresh_name(const std::string& base) {
    const auto [it, fresh] = s_.tensor_names.emplace(base, 2);
    if (fresh) return base;
    for (int& next = it->second;;) {  // references into the map survive its growth
        std::string n = fmt::format("{}_{}", base, next++);
        if (s_.tensor_names.emplace(n, 2).second) return n;
    }
}

Result<Dim> Elaborator::stated_range(const Binding& b) {
    const bool outer = std::exchange(in_equation_, false);
    Dim d;
    d.stated = true;
    d.pack = b.pack;
    d.at = b.at;
    d.at_end = b.at_end;
    d.origin = "its range";
    const auto run = [&]() -> Status {
        std::optional<size_t> rank;
        if (b.rank) {
            OPW_TRY(Value v, eval(*b.rank, {}));
            const auto c = v.constant_integer();
            if (!c || *c < 0 || *c > kMaxRank)
                return error(
                    *b.rank,
                    fmt::format("The rank of `{}` is {}, where a number from 0 to {} known at elaboration is needed.",
                                b.name, v.str(), kMaxRank),
                    "Use constants, constant attributes, rank(...) and len(...).");
            rank = static_cast<size_t>(*c);
        }
        std::vector<Value> ends[2];
        const Expr* exprs[2] = {b.begin, b.end};
        bool listed[2] = {false, false};
        for (int i = 0; i < 2; ++i) {
            std::set<std::string> bound;
            std::vector<const Expr*> packs;
            packs_in(*exprs[i], bound, packs);
            listed[i] = !packs.empty();
            if (!listed[i]) {
                OPW_TRY(Value v, eval(*exprs[i], {}));
                ends[i] = {v};
                if (v.is(Kind::List)) {
                    ends[i] = *v.list;
                    listed[i] = true;
                }
            } else if (!b.pack) {
                return error(*exprs[i],
                             fmt::format("`{}` is a pack, but `{}` is one index.", source_of(*packs[0]), b.name),
                             fmt::format("Write {}... in ... for a pack of indices, or size({}) for a product.", b.name,
                                         source_of(*packs[0])));
            } else {
                OPW_TRY(ends[i], expand(*exprs[i], *exprs[i], {}));
            }
            if (!listed[i]) continue;
            if (rank && *rank != ends[i].size())
                return error(*exprs[i],
                             fmt::format("`{}` has {} elements where `{}` has {}.", source_of(*exprs[i]),
                                         ends[i].size(), b.name, *rank),
                             "Packs in one range need one length.");
            rank = ends[i].size();
        }
        if (b.pack && !rank)
            return error_at(b.at, b.at_end, fmt::format("The rank of the pack `{}` is not known.", b.name),
                            fmt::format("State it: {}...(2) in ....", b.name));
        const size_t n = b.pack ? *rank : 1;
        if (n > kMaxRank)
            return error_at(b.at, b.at_end,
                            fmt::format("The pack `{}` has rank {}, more than {}.", b.name, n, kMaxRank),
                            "Lower the rank.");
        for (size_t k = 0; k < n; ++k) {
            Sym at[2];
            for (int i = 0; i < 2; ++i) {
                const Value& v = ends[i][listed[i] ? k : 0];
                const auto s = v.as_sym();
                if (v.is(Kind::Computed))
                    return error(*exprs[i],
                                 fmt::format("`{}` is not known before run time, so it cannot end a range.",
                                             source_of(*exprs[i])),
                                 "Pass it as an integer attribute.");
                if (!s)
                    return error(*exprs[i],
                                 fmt::format("`{}` is {}, where the end of a range is an integer.",
                                             source_of(*exprs[i]), v.kind_name()),
                                 "Use extents, integer attributes and integers.");
                at[i] = *s;
            }
            OPW_TRY(Sym extent, checked_sym(*exprs[1], at[1] - at[0]));
            if (extent.upper() < 0) {
                return error_at(b.begin->begin, b.end->end,
                                fmt::format("The range of `{}` is {}..{}, which ends before it starts.", b.name,
                                            at[0].str(), at[1].str()),
                                "Check the extents: an input may be smaller than the window that goes over it.");
            }
            if (extent.lower() < 0)
                add_requirement(Sym(1) - math::less(extent, 0),
                                fmt::format("In `{}`, the range of `{}` has the extent {}, which must not be negative.",
                                            op_.name, b.name, extent.str()));
            d.extents.push_back(extent);
            d.begins.push_back(at[0]);
        }
        return ok_status();
    };
    const Status good = run();
    in_equation_ = outer;
    if (!good.ok()) return good.error();
    return d;
}

Status Elaborator::range(const Stmt& s) {
    OPW_CHECK(free_name(s.binding.name, s.binding.at, s.binding.at_end));
    OPW_TRY(Dim d, stated_range(s.binding));
    dims_[s.binding.name] = std::move(d);
    return ok_status();
}

Status Elaborator::let(const Stmt& s) {
    const Binding& b = s.binding;
    OPW_CHECK(free_name(b.name, b.at, b.at_end));
    in_equation_ = false;
    in_let_ = true;
    const bool listed = s.value->kind == ExprKind::Expand;
    Result<std::vector<Value>> all = listed ? expand(*s.value, {}) : std::vector<Value>();
    Result<Value> one = listed ? Result<Value>(Value()) : eval(*s.value, {});
    in_let_ = false;
    element_.clear();
    if (!all.ok()) return all.error();
    if (!one.ok()) return one.error();
    Value v = listed ? Value::of_list(std::move(*all)) : std::move(*one);
    if (b.pack && !v.is(Kind::List))
        return error(*s.value,
                     fmt::format("`{}` is {}, but `{}...` names a pack.", source_of(*s.value), v.kind_name(), b.name),
                     fmt::format("Write let {} = ..., or expand: ({})....", b.name, source_of(*s.value)));
    if (b.rank) return error(*b.rank, "A let states no rank.", "Remove it: the value has its length.");
    values_[b.name] = std::move(v);
    return ok_status();
}

Status Elaborator::constant(const Stmt& s) {
    const Binding& b = s.binding;
    OPW_CHECK(free_name(b.name, b.at, b.at_end));
    in_equation_ = false;
    DType type = DType::F32;
    if (s.type) {
        OPW_TRY(type, type_of(s.type));
    } else if (const auto t = types_.find("T"); t != types_.end()) {
        type = t->second;
    } else {
        return error_at(b.at, b.at_end, fmt::format("The table `{}` has no type.", b.name),
                        fmt::format("State it: const {}: f32[...].", b.name));
    }
    OPW_TRY(auto extents, items(s.dims, {}));
    Shape shape;
    for (const Value& v : extents) {
        const auto c = v.constant_integer();
        if (!c || *c < 0)
            return error_at(
                b.at, b.at_end,
                fmt::format("An extent of the table `{}` is {}, where a number known at elaboration is needed.", b.name,
                            v.str()),
                "Tables have constant extents.");
        shape.push_back(*c);
    }
    const int64_t count = element_count(shape);
    if (count < 0 || count > static_cast<int64_t>(kMaxList) || shape.size() > kMaxRank)
        return error_at(b.at, b.at_end, fmt::format("The table `{}` has more than {} values.", b.name, kMaxList),
                        "Pass so large a table as a parameter.");
    Value v;
    if (s.value->kind == ExprKind::Expand) {
        OPW_TRY(auto all, expand(*s.value, {}));
        v = Value::of_list(std::move(all));
    } else {
        OPW_TRY(v, eval(*s.value, {}));
    }
    std::vector<Value> flat;
    const std::function<Status(const Value&, size_t)> fill = [&](const Value& x, size_t level) -> Status {
        if (level == shape.size()) {
            flat.push_back(x);
            return ok_status();
        }
        if (!x.is(Kind::List))
            return error(*s.value,
                         fmt::format("The table `{}` is declared {}, but {} stands where a list of {} is needed.",
                                     b.name, to_string(shape), x.str(), shape[level]),
                         "Nest lists as the extents say.");
        if (static_cast<int64_t>(x.list->size()) != shape[level])
            return error(
                *s.value,
                fmt::format("The table `{}` is declared {}, but a list of {} stands where one of {} is needed.", b.name,
                            to_string(shape), x.list->size(), shape[level]),
                "Nest lists as the extents say.");
        for (const Value& y : *x.list) OPW_CHECK(fill(y, level + 1));
        return ok_status();
    };
    OPW_CHECK(fill(v, 0));
    Tensor data(type, shape);
    for (size_t i = 0; i < flat.size(); ++i) {
        const Value& x = flat[i];
        if (const auto c = x.constant_integer()) {
            if (is_float(type))
                data.set(static_cast<int64_t>(i), static_cast<double>(*c));
            else
                data.set_int(static_cast<int64_t>(i), *c);
            if (!is_float(type) && type != DType::I64 && type != DType::U64 &&
                (static_cast<double>(*c) > highest(type) || static_cast<double>(*c) < lowest(type)))
                return error(
                    *s.value,
                    fmt::format("The value {} of the table `{}` does not fit {}.", *c, b.name, opwright::name(type)),
                    "Use a wider type.");
        } else if (x.is(Kind::Literal) && is_float(type)) {
            data.set(static_cast<int64_t>(i), x.number);
        } else if (x.is(Kind::Condition) && x.sym.is_const() && type == DType::Bool) {
            data.set_int(static_cast<int64_t>(i), *x.sym.constant());
        } else {
            return error(*s.value,
                         fmt::format("The table `{}` of {} cannot hold {}.", b.name, opwright::name(type), x.str()),
                         "Its values are numbers of its type known at elaboration.");
        }
    }
    View view;
    view.name = b.name;
    view.type = type;
    view.at = b.at;
    view.at_end = b.at_end;
    for (size_t i = 0; i < shape.size(); ++i)
        view.dims.push_back({static_cast<int>(i), Sym(shape[i]), Sym(shape[i]), false});
    view.id = p_.add_constant(fresh_name(b.name), std::move(data));
    views_[b.name] = std::move(view);
    written_.insert(b.name);
    return ok_status();
}

Result<std::optional<bool>> Elaborator::decided(const Expr& condition) {
    in_equation_ = false;
    OPW_TRY(Value v, eval(condition, {}));
    if (!v.is(Kind::Condition))
        return error(condition,
                     fmt::format("`{}` is {}, where a condition is needed.", source_of(condition), v.kind_name()),
                     "Compare it with something.");
    if (auto c = v.sym.constant()) return std::optional<bool>(*c != 0);
    return std::optional<bool>();
}

Status Elaborator::conditional(const Stmt& s) {
    for (const Branch& b : s.branches) {
        if (!b.condition) return block(b.block);
        OPW_TRY(auto c, decided(*b.condition));
        if (!c)
            return error(*b.condition, fmt::format("`{}` is not known before run time.", source_of(*b.condition)),
                         "An 'if' is decided at elaboration; use select(condition, a, b) for values, or require for "
                         "conditions on extents.");
        if (*c) return block(b.block);
    }
    return ok_status();
}

Status Elaborator::loop(const Stmt& s) {
    const Binding& b = s.binding;
    const auto xs = variadic_.find(s.text);
    if (xs == variadic_.end())
        return error_at(s.begin, b.at_end, fmt::format("`{}` is no variadic parameter of `{}`.", s.text, op_.name),
                        "A for goes over a parameter declared as xs*.");
    if (loop_at_) return error_at(s.begin, b.at_end, "A for stands inside another one.", "Go over the tensors once.");
    OPW_CHECK(free_name(b.name, b.at, b.at_end));
    before_loop_ = written_;
    for (size_t t = 0; t < xs->second.size(); ++t) {
        const auto values = values_;
        const auto dims = dims_;
        loop_at_ = t;
        views_[b.name] = xs->second[t];
        for (const auto& [n, extents] : each_) {
            Dim d;
            d.extents = {extents[t]};
            d.begins = {Sym(0)};
            d.stated = true;  // its own part of what is written
            d.origin = fmt::format("a dim of `{}`", xs->second[t].name);
            dims_[n] = std::move(d);
        }
        const Status good = block(s.branches[0].block);
        loop_at_.reset();
        if (!good.ok()) return good;
        values_ = values;
        dims_ = dims;
        // Names of this round end with it; outputs stay.
        std::erase_if(views_, [&](const auto& v) {
            return v.first == b.name ||
                   (written_.count(v.first) && !outputs_.count(v.first) && !before_loop_.count(v.first));
        });
    }
    return ok_status();
}

Status Elaborator::require(const Stmt& s) {
    OPW_TRY(auto c, decided(*s.value));
    if (c && *c) return ok_status();
    std::string text;
    for (size_t i = 0; i < s.text.size(); ++i) {  // {name} shows a value
        const size_t close = s.text[i] == '{' ? s.text.find('}', i) : std::string::npos;
        if (close == std::string::npos) {
            text += s.text[i];
            continue;
        }
        const std::string n = s.text.substr(i + 1, close - i - 1);
        if (const auto v = values_.find(n); v != values_.end()) {
            text += v->second.str();
        } else if (const auto d = dims_.find(n); d != dims_.end()) {
            std::string all;
            for (const Sym& x : d->second.extents) all += (all.empty() ? "" : ", ") + x.str();
            text += d->second.pack ? "[" + all + "]" : all;
        } else {
            text += s.text.substr(i, close - i + 1);
        }
        i = close;
    }
    if (!c) {
        OPW_TRY(Value v, eval_static(*s.value));
        add_requirement(v.sym, text);
        return ok_status();
    }
    return error(*s.value, text).with_note(fmt::format("`{}` requires {}", op_.name, source_of(*s.value)));
}

}  // namespace opwright::lang
