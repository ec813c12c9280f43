#include <fmt/format.h>

#include <algorithm>

#include "math/program.h"

namespace opwright::math {
namespace {

class Verifier {
public:
    explicit Verifier(const Program& p) : p_(p), defined_(p.tensors.size()), checked_(p.expr_count()) {}

    std::vector<std::string> run() {
        for (TensorId t = 0; t < p_.tensors.size(); ++t)
            defined_[t] = p_.tensors[t].role == Role::Input || p_.tensors[t].role == Role::Constant;
        for (const Equation& q : p_.equations) equation(q);
        for (TensorId t : p_.outputs)
            if (!defined_[t]) say("output {} is never defined", p_.tensors[t].name);
        return std::move(problems_);
    }

private:
    template <class... A>
    void say(fmt::format_string<A...> f, A&&... a) {
        problems_.push_back(p_.name + ": " + fmt::format(f, std::forward<A>(a)...));
    }

    void equation(const Equation& q) {
        const TensorInfo& t = p_.tensors[q.lhs];
        if (q.at.size() != t.shape.size()) return say("{} has rank {} but is written with {} indices", t.name, t.shape.size(), q.at.size());
        if (t.role == Role::Constant) say("constant {} is written", t.name);
        std::vector<VarId> seen;
        for (ExprId a : q.at) {
            expression(a);
            if (p_.expr(a).dtype != DType::I64) say("an index of {} is not an integer", t.name);
            if (q.update != Update::Set || p_.is_integer_literal(a, 0)) continue;
            if (p_.expr(a).kind != ExprKind::Index) { say("{} is set at {}, which is no plain index", t.name, p_.print(a)); continue; }
            const VarId v = p_.expr(a).ref;
            if (std::find(seen.begin(), seen.end(), v) != seen.end()) say("{} is set with index {} twice", t.name, p_.vars[v].name);
            seen.push_back(v);
        }
        expression(q.rhs);
        if (p_.expr(q.rhs).dtype != t.dtype)
            say("{} is {} but its equation delivers {}", t.name, name(t.dtype), name(p_.expr(q.rhs).dtype));
        for (VarId v : p_.free_vars(q.rhs))
            if (std::find(q.vars.begin(), q.vars.end(), v) == q.vars.end())
                say("index {} on the right of {} is neither on the left nor reduced", p_.vars[v].name, t.name);
        for (TensorId r : p_.reads(q.rhs))
            if (!defined_[r] && r != q.lhs) say("{} is read before it is defined", p_.tensors[r].name);
        // Overwrites alone may define a tensor piece by piece (concat); the declaration answers for their covering it.
        if (q.update != Update::Set && q.update != Update::Overwrite && !defined_[q.lhs]) say("{} is updated before it is defined", t.name);
        defined_[q.lhs] = true;
    }

    void expression(ExprId id) {
        if (checked_[id]) return;
        checked_[id] = true;
        const Expr& e = p_.expr(id);
        for (ExprId a : e.args) {
            if (a >= id) return say("expression {} refers forward", id);
            expression(a);
        }
        const auto type = [&](size_t i) { return p_.expr(e.args[i]).dtype; };
        switch (e.kind) {
            case ExprKind::Literal: case ExprKind::Size: break;
            case ExprKind::Index:
                if (e.ref >= p_.vars.size()) say("unknown variable {}", e.ref);
                break;
            case ExprKind::Load: case ExprKind::Inside: {
                if (e.ref >= p_.tensors.size()) return say("unknown tensor {}", e.ref);
                const TensorInfo& t = p_.tensors[e.ref];
                const size_t fill = e.kind == ExprKind::Load && e.outside == Outside::Value;
                if (e.args.size() != t.shape.size() + fill) return say("{} of rank {} is read with {} indices", t.name, t.shape.size(), e.args.size() - fill);
                for (size_t i = 0; i < t.shape.size(); ++i)
                    if (type(i) != DType::I64) say("index {} of {} is {}", i, t.name, name(type(i)));
                if (fill && type(e.args.size() - 1) != t.dtype) say("the fill of {} has another type", t.name);
                break;
            }
            case ExprKind::Call: {
                const FnInfo& f = info(e.fn);
                const size_t first = e.fn == Fn::Select ? 1 : 0;
                if (e.fn == Fn::Select && type(0) != DType::Bool) say("select's condition is {}", name(type(0)));
                for (size_t i = first + 1; i < e.args.size(); ++i)
                    if (type(i) != type(first)) say("{} of {} and {}", f.name, name(type(first)), name(type(i)));
                if (f.float_only && !is_float(type(first))) say("{} of {}", f.name, name(type(first)));
                if (f.int_only && is_float(type(first))) say("{} of {}", f.name, name(type(first)));
                if (f.bool_args && type(first) != DType::Bool) say("{} of {}", f.name, name(type(first)));
                break;
            }
            case ExprKind::Cast: break;
            case ExprKind::Wrap:
                if (is_float(e.dtype) || is_float(type(0))) say("wrap between floats");
                break;
            case ExprKind::Bitcast:
                if (size_of(e.dtype) != size_of(type(0))) say("bitcast between sizes");
                break;
            case ExprKind::Reduce:
                if (e.args.size() > 1 && type(1) != DType::Bool) say("a reduction's condition is {}", name(type(1)));
                if (is_arg(e.reduce) ? e.dtype != DType::I64 : type(0) != e.dtype)
                    say("{} of {} delivers {}", name(e.reduce), name(type(0)), name(e.dtype));
                break;
            case ExprKind::Scan:
                if (e.vars.size() != 1) say("a scan along {} indices", e.vars.size());
                break;
        }
    }

    const Program& p_;
    std::vector<bool> defined_, checked_;
    std::vector<std::string> problems_;
};
}  // namespace

std::vector<std::string> verify(const Program& p) { return Verifier(p).run(); }

}  // namespace opwright::math
