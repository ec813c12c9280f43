#include "math/normal_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

namespace opwright::math {
namespace {

constexpr size_t kTerms = 48;        // of a sum, beyond which there is no form
constexpr double kEpsilon = 1e-2;    // a constant below it, added to something else, is an epsilon

using Names = std::set<std::string>;            // of index variables
using Product = std::map<std::string, double>;  // factor -> exponent
using Sum = std::map<Product, double>;          // product -> coefficient

struct TooLarge {};

std::string number(double v) { return fmt::format("{:.4g}", v == 0 ? 0 : v); }

Product times(const Product& a, const Product& b) {
    Product r = a;
    for (const auto& [f, e] : b)
        if (std::abs(r[f] += e) < 1e-9) r.erase(f);
    return r;
}
void add(Sum& to, const Product& p, double c) {
    double& v = to[p];
    v += c;
    if (std::abs(v) < 1e-12) to.erase(p);
    if (to.size() > kTerms) throw TooLarge();
}
Sum times(const Sum& a, const Sum& b) {
    Sum r;
    for (const auto& [p, c] : a)
        for (const auto& [q, d] : b) add(r, times(p, q), c * d);
    return r;
}
Sum constant(double v) { return v == 0 ? Sum{} : Sum{{Product{}, v}}; }
Sum factor(const std::string& f) { return {{Product{{f, 1}}, 1}}; }

std::string text(const Product& p) {
    std::string r;
    for (const auto& [f, e] : p) r += (r.empty() ? "" : "*") + f + (e == 1 ? "" : "^" + number(e));
    return r.empty() ? "1" : r;
}
std::string text(const Sum& s, bool epsilon = false) {
    std::string r;
    for (const auto& [p, c] : s) {
        const bool small = epsilon && p.empty() && s.size() > 1 && c > 1e-13 && c < kEpsilon;
        r += (r.empty() ? "" : " + ") + (small ? "eps" : number(c) + "*" + text(p));
    }
    return "(" + r + ")";
}

class Normal {
public:
    Normal(const Program& p, const std::vector<TensorId>& tensors, const std::map<TensorId, double>& numbers)
        : p_(p), tensors_(tensors), numbers_(numbers) {
        for (size_t e = 0; e < p.equations.size(); ++e) {
            const TensorId t = p.equations[e].lhs;
            set_by_[t] = set_by_.count(t) ? kSeveral : e;
        }
    }

    std::optional<std::string> run(size_t e) {
        const Equation& q = p_.equations[e];
        if (q.update != Update::Set) return std::nullopt;
        std::map<VarId, std::string> names;
        for (size_t d = 0; d < q.at.size(); ++d)
            if (p_.expr(q.at[d]).kind == ExprKind::Index) names[p_.expr(q.at[d]).ref] = fmt::format("i{}", d);
        try {
            const auto s = value(q.rhs, names);
            return s ? std::optional(text(*s)) : std::nullopt;
        } catch (const TooLarge&) {
            return std::nullopt;
        }
    }

private:
    static constexpr size_t kSeveral = SIZE_MAX;
    using Where = std::map<VarId, std::string>;  // names of the index variables in scope

    std::optional<Sum> value(ExprId id, const Where& names) {
        const Expr& e = p_.expr(id);
        switch (e.kind) {
            case ExprKind::Literal: return constant(is_float(e.dtype) ? e.number : static_cast<double>(e.integer));
            case ExprKind::Size:
                if (const auto c = e.sym.constant()) return constant(static_cast<double>(*c));
                return factor("{" + e.sym.str() + "}");
            case ExprKind::Cast: return value(e.args[0], names);
            case ExprKind::Load: return load(e, names);
            case ExprKind::Call: return call(e, names);
            case ExprKind::Reduce: return reduce(e, names);
            case ExprKind::Index: case ExprKind::Inside: case ExprKind::Wrap: case ExprKind::Bitcast: case ExprKind::Scan: break;
        }
        return std::nullopt;
    }

    // The name of a position: a variable in scope, or nothing in a dim of extent 1.
    std::optional<std::string> position(ExprId id, const Where& names) const {
        const Expr& e = p_.expr(id);
        if (e.kind == ExprKind::Index) {
            const auto it = names.find(e.ref);
            return it == names.end() ? std::nullopt : std::optional(it->second);
        }
        if (e.kind == ExprKind::Literal) return number(static_cast<double>(e.integer));
        return std::nullopt;
    }

    std::optional<Sum> load(const Expr& e, const Where& names) {
        if (e.outside != Outside::Error) return std::nullopt;
        if (const auto it = numbers_.find(e.ref); it != numbers_.end()) return constant(it->second);
        std::vector<std::string> at;
        for (size_t d = 0; d < p_.tensors[e.ref].shape.size(); ++d) {
            const auto n = position(e.args[d], names);
            if (!n) return std::nullopt;
            at.push_back(*n);
        }
        if (const auto it = std::find(tensors_.begin(), tensors_.end(), e.ref); it != tensors_.end()) {
            const std::string f = fmt::format("T{}[{}]", it - tensors_.begin(), fmt::join(at, ","));
            variables_[f] = {at.begin(), at.end()};
            return factor(f);
        }
        const auto it = set_by_.find(e.ref);
        if (it == set_by_.end()) {
            // A constant of one value is a number.
            const Tensor& data = p_.tensors[e.ref].data;
            if (p_.tensors[e.ref].role == Role::Constant && data.defined() && data.size() == 1) return constant(data.get(0));
            return std::nullopt;
        }
        if (it->second == kSeveral || ++depth_ > 200) return std::nullopt;
        const Equation& q = p_.equations[it->second];
        if (q.update != Update::Set) return std::nullopt;
        Where inner;
        for (size_t d = 0; d < q.at.size(); ++d)
            if (p_.expr(q.at[d]).kind == ExprKind::Index) inner[p_.expr(q.at[d]).ref] = at[d];
        auto r = value(q.rhs, inner);
        --depth_;
        return r;
    }

    std::optional<Sum> call(const Expr& e, const Where& names) {
        std::vector<Sum> a;
        for (ExprId x : e.args) {
            auto s = value(x, names);
            if (!s) return std::nullopt;
            a.push_back(std::move(*s));
        }
        const Sum minus = constant(-1);
        switch (e.fn) {
            case Fn::Neg: return times(a[0], minus);
            case Fn::Add: return plus(a[0], a[1]);
            case Fn::Sub: return plus(a[0], times(a[1], minus));
            case Fn::Mul: return times(a[0], a[1]);
            case Fn::Div: {
                const auto r = power(a[1], -1);
                return r ? std::optional(times(a[0], *r)) : std::nullopt;
            }
            case Fn::Sqrt: return power(a[0], 0.5);
            case Fn::Rsqrt: return power(a[0], -0.5);
            case Fn::Pow:
                if (a[1].empty()) return constant(1);
                if (a[1].size() == 1 && a[1].begin()->first.empty()) return power(a[0], a[1].begin()->second);
                break;
            case Fn::Exp: return exponential(a[0]);
            default: break;
        }
        std::string f = std::string(info(e.fn).name) + "(";
        Names used;
        for (size_t i = 0; i < a.size(); ++i) {
            f += (i ? "; " : "") + text(a[i]);
            for (const auto& [p, c] : a[i]) join(used, p);
        }
        f += ")";
        variables_[f] = used;
        return factor(f);
    }

    static Sum plus(Sum a, const Sum& b) {
        for (const auto& [p, c] : b) add(a, p, c);
        return a;
    }

    // exp(c1 p1 + c2 p2 + c) = exp(p1)^c1 exp(p2)^c2 e^c
    Sum exponential(const Sum& s) {
        Product r;
        double c = 1;
        for (const auto& [p, k] : s) {
            if (p.empty()) {
                c *= std::exp(k);
                continue;
            }
            const std::string f = "exp(" + text(p) + ")";
            join(variables_[f], p);
            r = times(r, Product{{f, k}});
        }
        return {{r, c}};
    }

    std::optional<Sum> power(const Sum& s, double e) {
        if (s.empty()) return e > 0 ? std::optional(Sum{}) : std::nullopt;
        if (s.size() == 1) {
            const auto& [p, c] = *s.begin();
            if (c < 0 && e != std::round(e)) return std::nullopt;
            Product r;
            for (const auto& [f, k] : p) r[f] = k * e;
            return Sum{{r, std::pow(c, e)}};
        }
        if (e == 2 || e == 3) return e == 2 ? times(s, s) : times(times(s, s), s);
        // What all terms share stands before the sum: 1 + 1/a is (a + 1)/a.
        Product common;
        for (const auto& [p, c] : s)
            for (const auto& [f, k] : p) common.emplace(f, 0);
        for (auto& [f, k] : common) {
            double least = 1e30;
            for (const auto& [p, c] : s) least = std::min(least, p.count(f) ? p.at(f) : 0);
            k = least;
        }
        std::erase_if(common, [](auto& x) { return x.second == 0; });
        Product inverse;
        for (const auto& [f, k] : common) inverse[f] = -k;
        Sum rest;
        for (const auto& [p, c] : s) add(rest, times(p, inverse), c);
        double scale = 1;
        const auto small = rest.find(Product{});
        const bool epsilon = small != rest.end() && small->second > 1e-13 && small->second < kEpsilon;
        if (!epsilon) {
            scale = std::abs(rest.begin()->second);
            for (auto& [p, c] : rest) c /= scale;
        }
        const std::string f = text(rest, true);
        Names& used = variables_[f];
        for (const auto& [p, c] : rest) join(used, p);
        Product r{{f, e}};
        for (const auto& [g, k] : common) r = times(r, Product{{g, k * e}});
        return Sum{{r, std::pow(scale, e)}};
    }

    std::optional<Sum> reduce(const Expr& e, const Where& names) {
        if (e.args.size() > 1 || is_arg(e.reduce)) return std::nullopt;
        Where inner = names;
        Names bound;
        Sum extents = constant(1);
        std::map<std::string, Sum> extent;
        for (VarId v : e.vars) {
            const auto n = dim_read_by(v, e.args[0]);
            if (!n) return std::nullopt;
            const std::string name = fmt::format("r{}", *n);
            if (!bound.insert(name).second) return std::nullopt;
            inner[v] = name;
            const auto c = p_.vars[v].extent.constant();
            extent[name] = c ? constant(static_cast<double>(*c)) : factor("{" + p_.vars[v].extent.str() + "}");
        }
        const auto body = value(e.args[0], inner);
        if (!body) return std::nullopt;
        const std::string over = fmt::format("{}", fmt::join(bound, ","));
        if (e.reduce != ReduceOp::Sum) {
            const std::string f = fmt::format("{}[{}]{}", name(e.reduce), over, text(*body));
            Names& used = variables_[f];
            for (const auto& [p, c] : *body) join(used, p);
            for (const std::string& b : bound) used.erase(b);
            return factor(f);
        }
        Sum r;
        for (const auto& [p, c] : *body) {
            Product within, outside;
            Names used;
            for (const auto& [f, k] : p) {
                const Names& of = variables_[f];
                const bool in = std::any_of(of.begin(), of.end(), [&](const std::string& n) { return bound.count(n) > 0; });
                (in ? within : outside)[f] = k;
                if (in) used.insert(of.begin(), of.end());
            }
            Sum term{{outside, c}};
            Names summed;
            for (const std::string& b : bound) {
                if (used.count(b)) summed.insert(b);
                else term = times(term, extent[b]);
            }
            if (!summed.empty()) {
                const std::string f = fmt::format("sum[{}]({})", fmt::join(summed, ","), text(within));
                for (const std::string& b : bound) used.erase(b);
                variables_[f] = used;
                term = times(term, factor(f));
            }
            for (const auto& [q, d] : term) add(r, q, d);
        }
        return r;
    }

    // The dim of the first tensor read in e that v is the position in: what an index of a reduction is called by.
    std::optional<size_t> dim_read_by(VarId v, ExprId root) const {
        std::vector<ExprId> stack{root};
        std::set<ExprId> seen;
        while (!stack.empty()) {
            const ExprId id = stack.back();
            stack.pop_back();
            if (!seen.insert(id).second) continue;
            const Expr& e = p_.expr(id);
            if (e.kind == ExprKind::Load)
                for (size_t d = 0; d < p_.tensors[e.ref].shape.size(); ++d)
                    if (p_.expr(e.args[d]).kind == ExprKind::Index && p_.expr(e.args[d]).ref == v) return d;
            stack.insert(stack.end(), e.args.rbegin(), e.args.rend());
        }
        return std::nullopt;
    }

    void join(Names& to, const Product& p) {
        for (const auto& [f, k] : p) {
            const auto it = variables_.find(f);
            if (it != variables_.end()) to.insert(it->second.begin(), it->second.end());
        }
    }

    const Program& p_;
    const std::vector<TensorId>& tensors_;
    const std::map<TensorId, double>& numbers_;
    std::unordered_map<TensorId, size_t> set_by_;
    std::map<std::string, Names> variables_;   // that a factor depends on
    int depth_ = 0;
};
}  // namespace

std::optional<std::string> normal_form(const Program& p, size_t equation, const std::vector<TensorId>& tensors,
                                       const std::map<TensorId, double>& numbers) {
    return Normal(p, tensors, numbers).run(equation);
}

std::vector<TensorId> depends_on(const Program& p, size_t equation, const std::vector<TensorId>& kept,
                                 const std::map<TensorId, double>& numbers) {
    std::vector<TensorId> r;
    std::set<TensorId> seen;
    std::vector<size_t> stack{equation};
    while (!stack.empty()) {
        const Equation& q = p.equations[stack.back()];
        stack.pop_back();
        for (TensorId t : p.reads(q.rhs)) {
            if (!seen.insert(t).second) continue;
            const bool keep = std::find(kept.begin(), kept.end(), t) != kept.end();
            bool set = false;
            for (size_t e = 0; e < p.equations.size() && !keep; ++e)
                if (p.equations[e].lhs == t) stack.push_back(e), set = true;
            const TensorInfo& info = p.tensors[t];
            const bool number = numbers.count(t) || (info.role == Role::Constant && info.data.defined() && info.data.size() == 1);
            if (!set && !number) r.push_back(t);
        }
    }
    return r;
}

}  // namespace opwright::math
