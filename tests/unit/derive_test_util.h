// Short forms for building Programs and tensors in the tests of derive/ and verify/.
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "math/program.h"

namespace opwright::test {

inline math::Sym sym(const std::string& name) { return math::Sym::symbol(name); }

template <class T = double>
Tensor tensor(DType t, Shape shape, std::initializer_list<T> values) {
    Tensor r(t, std::move(shape));
    int64_t i = 0;
    for (T v : values) {
        if constexpr (std::is_integral_v<T>)
            r.set_int(i++, v);
        else
            r.set(i++, v);
    }
    EXPECT_EQ(i, r.size());
    return r;
}

// A Program under construction: p.x("x", f32, {m, k}), p(Fn::Add, a, b), ...
struct Build {
    math::Program p;

    explicit Build(std::string name) { p.name = std::move(name); }
    math::TensorId in(const std::string& n, DType t, std::vector<math::Sym> s) {
        return p.add_tensor(n, t, std::move(s), math::Role::Input);
    }
    math::TensorId out(const std::string& n, DType t, std::vector<math::Sym> s) {
        return p.add_tensor(n, t, std::move(s), math::Role::Output);
    }
    math::TensorId temp(const std::string& n, DType t, std::vector<math::Sym> s) {
        return p.add_tensor(n, t, std::move(s), math::Role::Temp);
    }
    math::VarId var(const std::string& n, math::Sym extent) { return p.add_var(n, extent); }
    math::ExprId at(math::VarId v) { return p.index(v); }
    std::vector<math::ExprId> at(std::initializer_list<math::VarId> vs) {
        std::vector<math::ExprId> r;
        for (math::VarId v : vs) r.push_back(p.index(v));
        return r;
    }
    math::ExprId load(math::TensorId t, std::initializer_list<math::VarId> vs) { return p.load(t, at(vs)); }
    math::ExprId operator()(math::Fn f, math::ExprId a) { return p.call(f, {a}); }
    math::ExprId operator()(math::Fn f, math::ExprId a, math::ExprId b) { return p.call(f, {a, b}); }
    math::ExprId f32(double v) { return p.literal(v, DType::F32); }
    math::ExprId sum(std::vector<math::VarId> over, math::ExprId body, DType t = DType::F32) {
        return p.reduce(math::ReduceOp::Sum, std::move(over), body, t);
    }
    void set(math::TensorId t, std::initializer_list<math::VarId> vs, math::ExprId rhs) {
        p.add_equation(t, at(vs), rhs);
    }

    const math::Program& done() {
        const auto problems = math::verify(p);
        EXPECT_TRUE(problems.empty()) << problems.front() << "\n" << p.print();
        return p;
    }
};

}  // namespace opwright::test
