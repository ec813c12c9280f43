// A kernel for tests: evaluates a Program in f32 (and integers in their types), one element at a time, adding the terms
// of every reduction in a random order and tree and fusing multiply-adds at random. What it delivers is what some legal
// kernel delivers. Slow and simple on purpose; independent of the reference's machinery.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "math/program.h"

namespace opwright::test {

class F32Evaluator {
public:
    F32Evaluator(const math::Program& p, const math::SymValues& v, uint64_t seed) : p_(p), values_(v), random_(seed) {}

    std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
        tensors_.resize(p_.tensors.size());
        for (size_t i = 0; i < p_.tensors.size(); ++i) {
            Shape s;
            for (const math::Sym& d : p_.tensors[i].shape) s.push_back(*math::evaluate(d, values_));
            tensors_[i] =
                p_.tensors[i].role == math::Role::Constant ? p_.tensors[i].data : Tensor(p_.tensors[i].dtype, s);
        }
        for (size_t i = 0; i < inputs.size(); ++i) tensors_[p_.inputs[i]] = inputs[i];
        for (const math::Equation& q : p_.equations) points(q, 0);
        std::vector<Tensor> r;
        for (math::TensorId t : p_.outputs) r.push_back(tensors_[t]);
        return r;
    }

private:
    struct Value {
        float f = 0;
        int64_t i = 0;
    };

    int64_t extent(math::VarId v) { return *math::evaluate(p_.vars[v].extent, values_); }
    void points(const math::Equation& q, size_t d) {
        if (d < q.vars.size()) {
            for (int64_t i = 0, n = extent(q.vars[d]); i < n; ++i) {
                at_[q.vars[d]] = i;
                points(q, d + 1);
            }
            return;
        }
        const Value v = eval(q.rhs);
        Tensor& t = tensors_[q.lhs];
        const int64_t k = offset(t, q.at);
        if (is_float(t.dtype()))
            t.set(k, v.f);
        else
            t.set_int(k, v.i);
    }
    int64_t offset(const Tensor& t, const std::vector<math::ExprId>& at) {
        int64_t k = 0;
        for (size_t d = 0; d < t.shape().size(); ++d) {
            const int64_t i = eval(at[d]).i;
            if (i < 0 || i >= t.shape()[d]) return -1;
            k = k * t.shape()[d] + i;
        }
        return k;
    }
    bool coin() { return random_() & 1; }

    Value eval(math::ExprId id) {
        using namespace math;
        const Expr& e = p_.expr(id);
        switch (e.kind) {
            case ExprKind::Literal: return {static_cast<float>(e.number), e.integer};
            case ExprKind::Index: return {0, at_.at(e.ref)};
            case ExprKind::Size: return {0, *evaluate(e.sym, values_)};
            case ExprKind::Load: {
                const Tensor& t = tensors_[e.ref];
                const int64_t k = offset(t, e.args);
                if (k < 0) return eval(e.args.back());
                return is_float(t.dtype()) ? Value{static_cast<float>(t.get(k)), 0} : Value{0, t.get_int(k)};
            }
            case ExprKind::Call: return call(e);
            case ExprKind::Cast: {
                const DType from = p_.expr(e.args[0]).dtype;
                const Value a = eval(e.args[0]);
                if (is_float(from)) return is_float(e.dtype) ? a : Value{0, saturate_to(a.f, e.dtype)};
                return is_float(e.dtype) ? Value{static_cast<float>(a.i), 0} : Value{0, wrap_to(a.i, e.dtype)};
            }
            case ExprKind::Reduce: return reduce(e);
            default: std::abort();
        }
    }
    Value call(const math::Expr& e) {
        using math::Fn;
        const DType t = p_.expr(e.args.back()).dtype;
        Value a[3];
        if (e.fn == Fn::Add && t == DType::F32 && coin()) {  // a fused multiply-add
            const math::Expr& m = p_.expr(e.args[0]);
            if (m.kind == math::ExprKind::Call && m.fn == Fn::Mul)
                return {std::fma(eval(m.args[0]).f, eval(m.args[1]).f, eval(e.args[1]).f), 0};
        }
        for (size_t i = 0; i < e.args.size(); ++i) a[i] = eval(e.args[i]);
        if (e.fn == Fn::Select) return a[0].i ? a[1] : a[2];
        if (!is_float(t)) {
            const int64_t v[3] = {a[0].i, a[1].i, a[2].i};
            return {0, math::apply_int(e.fn, {v, e.args.size()}, t)};
        }
        const double v[2] = {a[0].f, a[1].f};
        const double r = math::apply(e.fn, v);
        return math::info(e.fn).bool_result ? Value{0, static_cast<int64_t>(r)} : Value{static_cast<float>(r), 0};
    }
    Value reduce(const math::Expr& e) {
        using math::ReduceOp;
        std::vector<Value> terms;
        std::vector<int64_t> order;
        gather(e, 0, terms);
        if (is_arg(e.reduce)) {
            int64_t best = 0;
            for (size_t i = 1; i < terms.size(); ++i)
                if (e.reduce == ReduceOp::ArgMax ? terms[i].f > terms[best].f : terms[i].f < terms[best].f)
                    best = static_cast<int64_t>(i);
            return {0, best};
        }
        if (terms.empty())
            return {static_cast<float>(math::identity(e.reduce, e.dtype)),
                    math::saturate_to(math::identity(e.reduce, e.dtype), DType::I64)};
        std::shuffle(terms.begin(), terms.end(), random_);
        const bool chain = coin();
        while (terms.size() > 1) {
            const size_t i = chain ? 0 : random_() % (terms.size() - 1);
            const float x = terms[i].f, y = terms[i + 1].f;
            const double v[2] = {x, y};
            terms[i].f =
                e.reduce == ReduceOp::Sum ? x + y
                : e.reduce == ReduceOp::Prod
                    ? x * y
                    : static_cast<float>(math::apply(e.reduce == ReduceOp::Max ? math::Fn::Max : math::Fn::Min, v));
            terms.erase(terms.begin() + static_cast<long>(i) + 1);
        }
        return terms[0];
    }
    void gather(const math::Expr& e, size_t d, std::vector<Value>& terms) {
        if (d == e.vars.size()) {
            terms.push_back(eval(e.args[0]));
            return;
        }
        for (int64_t i = 0, n = extent(e.vars[d]); i < n; ++i) {
            at_[e.vars[d]] = i;
            gather(e, d + 1, terms);
        }
    }

    const math::Program& p_;
    const math::SymValues& values_;
    std::mt19937_64 random_;
    std::vector<Tensor> tensors_;
    std::map<math::VarId, int64_t> at_;
};

}  // namespace opwright::test
