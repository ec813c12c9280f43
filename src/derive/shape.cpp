#include "derive/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_set>

namespace opwright::derive {
using namespace math;
namespace {

std::string shape_text(const std::vector<Sym>& shape) {
    std::string r;
    for (const Sym& s : shape) r += (r.empty() ? "" : ", ") + s.str();
    return "[" + r + "]";
}

// Solves s == value for the one unbound symbol in s, where s is that symbol times a positive constant plus a constant.
// Found by evaluating at two points and confirmed at the solution, so that no form of expression needs to be
// recognised.
std::optional<std::pair<std::string, int64_t>> solve(const Sym& s, int64_t value, const SymValues& known) {
    std::vector<std::string> names;
    collect_symbols(s, names);
    std::erase_if(names, [&](const std::string& n) { return known.count(n) > 0; });
    if (names.size() != 1) return std::nullopt;
    SymValues v = known;
    const auto at = [&](int64_t x) {
        v[names[0]] = x;
        return evaluate(s, v);
    };
    const auto f1 = at(1), f2 = at(2);
    if (!f1 || !f2) return std::nullopt;
    const int64_t slope = *f2 - *f1, rest = value - *f1;
    if (slope <= 0 || rest % slope != 0 || rest / slope + 1 < 0) return std::nullopt;
    const int64_t x = rest / slope + 1;
    // Linear on the way: otherwise another value might do as well.
    for (int64_t probe : {int64_t{3}, int64_t{7}, x}) {
        const auto f = at(probe);
        if (!f || *f != *f1 + slope * (probe - 1)) return std::nullopt;
    }
    return std::pair{names[0], x};
}

class AccessChecker {
public:
    AccessChecker(const Program& p, const SymValues& v) : p_(p), values_(v), extents_(p.vars.size()) {}

    Status run() {
        for (VarId v : used_vars()) {
            const auto e = evaluate(p_.vars[v].extent, values_);
            if (!e) return unknown(p_.vars[v].extent, "index " + p_.vars[v].name);
            if (*e < 0)
                return Diagnostic(fmt::format("the index {} of operator {} would run over {} = {} values",
                                              p_.vars[v].name, p_.name, p_.vars[v].extent.str(), *e))
                    .with_next("Give larger tensors, or attributes that leave at least zero positions.");
            extents_[v] = *e;
        }
        for (const Equation& q : p_.equations) {
            if (std::any_of(q.vars.begin(), q.vars.end(), [&](VarId v) { return extents_[v] == 0; })) continue;
            for (ExprId a : q.at) OPW_CHECK(visit(a, q));
            OPW_CHECK(visit(q.rhs, q));
            if (q.update != Update::Set && q.outside == Outside::Error) OPW_CHECK(access(q.lhs, q.at, q));
        }
        return ok_status();
    }

    Diagnostic unknown(const Sym& s, const std::string& of) {
        std::vector<std::string> names;
        collect_symbols(s, names);
        for (const std::string& n : names)
            if (!values_.count(n))
                return Diagnostic(fmt::format("{} of operator {} has the extent {}, and {} is not known", of, p_.name,
                                              s.str(), n))
                    .with_next(fmt::format("Give a value for {}, as in {}=1.", n, n));
        return Diagnostic(fmt::format("{} of operator {} has the extent {}, which divides by zero or overflows 64 bits",
                                      of, p_.name, s.str()))
            .with_next("Check the sizes and attributes given.");
    }

private:
    std::set<VarId> used_vars() const {
        std::set<VarId> r;
        std::vector<bool> seen(p_.expr_count());
        for (const Equation& q : p_.equations) {
            r.insert(q.vars.begin(), q.vars.end());
            std::vector<ExprId> stack = q.at;
            stack.push_back(q.rhs);
            while (!stack.empty()) {
                const ExprId id = stack.back();
                stack.pop_back();
                if (seen[id]) continue;
                seen[id] = true;
                const Expr& e = p_.expr(id);
                r.insert(e.vars.begin(), e.vars.end());
                stack.insert(stack.end(), e.args.begin(), e.args.end());
            }
        }
        return r;
    }

    Status visit(ExprId root, const Equation& q) {
        std::vector<ExprId> stack{root};
        while (!stack.empty()) {
            const ExprId id = stack.back();
            stack.pop_back();
            if (!seen_.insert(id).second) continue;
            const Expr& e = p_.expr(id);
            if (e.kind == ExprKind::Reduce &&
                std::any_of(e.vars.begin(), e.vars.end(), [&](VarId v) { return extents_[v] == 0; }))
                continue;
            if (e.kind == ExprKind::Load && e.outside == Outside::Error) OPW_CHECK(access(e.ref, e.args, q));
            stack.insert(stack.end(), e.args.begin(), e.args.end());
        }
        return ok_status();
    }

    Status access(TensorId t, const std::vector<ExprId>& at, const Equation& q) {
        const TensorInfo& info = p_.tensors[t];
        for (size_t d = 0; d < info.shape.size(); ++d) {
            // Affine, or the quotient of that by a number: both ends of the range are reached. Of anything else, and of
            // data, the kernel reports it.
            const Expr& index = p_.expr(at[d]);
            const bool quotient = index.kind == ExprKind::Call && index.fn == Fn::FloorDiv &&
                                  p_.expr(index.args[1]).kind == ExprKind::Literal && p_.expr(index.args[1]).integer > 0;
            const auto a = affine(p_, quotient ? index.args[0] : at[d]);
            if (!a) continue;
            const auto extent = evaluate(info.shape[d], values_);
            auto lo = evaluate(a->offset, values_);
            if (!extent || !lo) return unknown(extent ? a->offset : info.shape[d], "tensor " + info.name);
            int64_t low = *lo, high = *lo;
            bool overflow = false;
            for (auto& [v, c] : a->terms) {
                const auto k = evaluate(c, values_);
                if (!k) return unknown(c, "index " + p_.vars[v].name);
                int64_t reach;
                overflow |= __builtin_mul_overflow(*k, extents_[v] - 1, &reach);
                int64_t& end = reach < 0 ? low : high;
                overflow |= __builtin_add_overflow(end, reach, &end);
            }
            if (quotient) {
                const int64_t by = p_.expr(index.args[1]).integer;
                low = low / by - (low % by < 0);
                high = high / by - (high % by < 0);
            }
            if (!overflow && low >= 0 && high < *extent) continue;
            std::string text = info.name + "[";
            for (size_t i = 0; i < info.shape.size(); ++i) text += (i ? ", " : "") + p_.print(at[i]);
            Diagnostic r(
                fmt::format("operator {} reaches outside {}: in {}] the index of dim {} runs from {} to {}, and "
                            "the extent is {}",
                            p_.name, info.name, text, d, low, high, *extent),
                q.span);
            for (auto& [v, c] : a->terms)
                r.with_note(
                    fmt::format("{} runs over {} values ({})", p_.vars[v].name, extents_[v], p_.vars[v].extent.str()));
            return r.with_next("Say what lies outside, as in 'outside zero', or keep the index inside.");
        }
        return ok_status();
    }

    const Program& p_;
    const SymValues& values_;
    std::vector<int64_t> extents_;
    std::unordered_set<ExprId> seen_;
};
}  // namespace

Result<SymValues> bind_symbols(const Program& p, const std::vector<Shape>& shapes, const SymValues& given) {
    if (shapes.size() != p.inputs.size())
        return Diagnostic(fmt::format("operator {} takes {} tensor{} and was given {}", p.name, p.inputs.size(),
                                      p.inputs.size() == 1 ? "" : "s", shapes.size()))
            .with_next("Call it as " + print_shape_rule(p) + ".");
    SymValues v = given;
    std::map<std::string, std::string> bound_by;
    const auto place = [&](size_t i, size_t d) { return fmt::format("dim {} of {}", d, p.tensors[p.inputs[i]].name); };
    for (size_t i = 0; i < shapes.size(); ++i) {
        const TensorInfo& t = p.tensors[p.inputs[i]];
        if (shapes[i].size() != t.shape.size())
            return Diagnostic(fmt::format("{} of operator {} has rank {}, the given tensor {} has rank {}", t.name,
                                          p.name, t.shape.size(), to_string(shapes[i]), shapes[i].size()))
                .with_next(fmt::format("Give a tensor of shape {}.", shape_text(t.shape)));
        for (size_t d = 0; d < t.shape.size(); ++d)
            if (t.shape[d].kind() == SymKind::Symbol && v.emplace(t.shape[d].symbol_name(), shapes[i][d]).second)
                bound_by.emplace(t.shape[d].symbol_name(), place(i, d));
    }
    // Expressions wait until the plain dims have bound what they can; solving one may make another solvable.
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < shapes.size(); ++i)
            for (size_t d = 0; d < shapes[i].size(); ++d)
                if (auto s = solve(p.tensors[p.inputs[i]].shape[d], shapes[i][d], v)) {
                    v[s->first] = s->second;
                    bound_by.emplace(s->first, place(i, d));
                    again = true;
                }
    }
    for (size_t i = 0; i < shapes.size(); ++i)
        for (size_t d = 0; d < shapes[i].size(); ++d) {
            const Sym& want = p.tensors[p.inputs[i]].shape[d];
            const auto e = evaluate(want, v);
            if (!e) return AccessChecker(p, v).unknown(want, place(i, d));
            if (*e == shapes[i][d]) continue;
            Diagnostic r(fmt::format("{} of operator {} must have the extent {}{} and has {}", place(i, d), p.name,
                                     want.str(), want.is_const() ? "" : fmt::format(" = {}", *e), shapes[i][d]));
            std::vector<std::string> names;
            collect_symbols(want, names);
            for (const std::string& n : names)
                r.with_note(
                    fmt::format("{} = {}, {}", n, v[n], bound_by.count(n) ? "from " + bound_by[n] : "as given"));
            return r.with_next(fmt::format("The shapes must fit {}.", print_shape_rule(p)));
        }
    return v;
}

Status check_requirements(const Program& p, const SymValues& values) {
    AccessChecker checker(p, values);
    for (const Requirement& r : p.requirements) {
        const auto v = evaluate(r.value, values);
        if (!v) return checker.unknown(r.value, "a requirement");
        if (*v) continue;
        Diagnostic d(r.message);
        std::vector<std::string> names;
        collect_symbols(r.value, names);
        std::string facts;
        for (const std::string& n : names)
            facts += fmt::format("{}{} = {}", facts.empty() ? "" : ", ", n, values.at(n));
        if (!facts.empty()) d.with_note(fmt::format("of operator {}, with {}", p.name, facts));
        return d;
    }
    return checker.run();
}

Result<Shape> concrete_shape(const Program& p, TensorId t, const SymValues& values) {
    const TensorInfo& info = p.tensors[t];
    Shape s;
    for (size_t d = 0; d < info.shape.size(); ++d) {
        const auto e = evaluate(info.shape[d], values);
        if (!e) return AccessChecker(p, values).unknown(info.shape[d], fmt::format("dim {} of {}", d, info.name));
        if (*e < 0)
            return Diagnostic(fmt::format("dim {} of {}, which operator {} delivers, would have the extent {} = {}", d,
                                          info.name, p.name, info.shape[d].str(), *e))
                .with_next("Give larger tensors, or attributes that leave at least zero positions.");
        s.push_back(*e);
    }
    const int64_t n = element_count(s);
    if (n < 0 || n > std::numeric_limits<int64_t>::max() / 8)
        return Diagnostic(fmt::format("{} of operator {} would have the shape {}, which no memory holds", info.name,
                                      p.name, to_string(s)));
    return s;
}

Result<std::vector<Shape>> output_shapes(const Program& p, const SymValues& values) {
    std::vector<Shape> r;
    for (TensorId t : p.outputs) {
        OPW_TRY(Shape s, concrete_shape(p, t, values));
        r.push_back(std::move(s));
    }
    return r;
}

std::string print_shape_rule(const Program& p) {
    const auto list = [&](const std::vector<TensorId>& ts) {
        std::string r;
        for (TensorId t : ts) r += (r.empty() ? "" : ", ") + p.tensors[t].name + shape_text(p.tensors[t].shape);
        return r;
    };
    std::string conditions;
    for (const Requirement& r : p.requirements)
        if (!r.value.is_const()) conditions += (conditions.empty() ? "" : ", ") + r.value.str();
    std::string r = list(p.inputs) + " -> " + list(p.outputs);
    return conditions.empty() ? r : r + "   where " + conditions;
}

}  // namespace opwright::derive
