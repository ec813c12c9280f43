// Programs and targets for tests of the verifier: the reference rounded to the outputs' types, then spoilt.
#pragma once
#include <functional>

#include "derive_test_util.h"
#include "verify/check.h"

namespace opwright::verify::test {
using namespace opwright::test;
using math::Program;
using math::SymValues;

using Spoil = std::function<void(const Program&, const SymValues&, const std::vector<Tensor>&, std::vector<Tensor>&)>;
inline Compile spoilt(Spoil spoil) {
    return [spoil](const Program& p) -> Result<Compiled> {
        return Compiled(
            [&p, spoil](const SymValues& s, const std::vector<Tensor>& in, std::vector<Tensor>& out) -> Status {
                OPW_TRY(auto r, derive::reference(p, in, s));
                for (size_t o = 0; o < out.size(); ++o)
                    for (int64_t i = 0; i < out[o].size(); ++i)
                        if (is_float(out[o].dtype()))
                            out[o].set(i, r[o].value.get(i));
                        else
                            out[o].set_int(i, r[o].value.get_int(i));
                if (spoil) spoil(p, s, in, out);
                return ok_status();
            });
    };
}

// y[m,n] = exp(x[m,n]) / sum[n](exp(x[m,n])), in three stages.
inline Program row_weights() {
    using math::Fn;
    Build b("row_weights");
    const math::Sym m = sym("m"), n = sym("n");
    const auto x = b.in("x", DType::F32, {m, n});
    const auto e = b.temp("e", DType::F32, {m, n}), s = b.temp("s", DType::F32, {m});
    const auto y = b.out("y", DType::F32, {m, n});
    const auto i = b.var("i", m), j = b.var("j", n);
    b.set(e, {i, j}, b(Fn::Exp, b.load(x, {i, j})));
    const auto i2 = b.var("i", m), j2 = b.var("j", n);
    b.set(s, {i2}, b.sum({j2}, b.load(e, {i2, j2})));
    const auto i3 = b.var("i", m), j3 = b.var("j", n);
    b.set(y, {i3, j3}, b(Fn::Div, b.load(e, {i3, j3}), b.load(s, {i3})));
    return b.done();
}
// y[n] = -x[n].
inline Program negation() {
    Build b("negation");
    const math::Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), y = b.out("y", DType::F32, {n});
    const auto i = b.var("i", n);
    b.set(y, {i}, b(math::Fn::Neg, b.load(x, {i})));
    return b.done();
}

}  // namespace opwright::verify::test
