// Runs one loop-level expression over arrays at each processor level that this machine has.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/tensor.h"
#include "loop/builder.h"
#include "loop/print.h"
#include "target/cpu/jit.h"

namespace opwright::target::cpu {

template <class T>
constexpr DType dtype_of() {
    if constexpr (std::is_same_v<T, bool>) return DType::Bool;
    else if constexpr (std::is_same_v<T, float>) return DType::F32;
    else if constexpr (std::is_same_v<T, double>) return DType::F64;
    else if constexpr (std::is_same_v<T, int8_t>) return DType::I8;
    else if constexpr (std::is_same_v<T, int16_t>) return DType::I16;
    else if constexpr (std::is_same_v<T, int32_t>) return DType::I32;
    else if constexpr (std::is_same_v<T, int64_t>) return DType::I64;
    else if constexpr (std::is_same_v<T, uint8_t>) return DType::U8;
    else if constexpr (std::is_same_v<T, uint16_t>) return DType::U16;
    else if constexpr (std::is_same_v<T, uint32_t>) return DType::U32;
    else {
        static_assert(std::is_same_v<T, uint64_t>);
        return DType::U64;
    }
}

inline std::vector<Features> machine_levels() {
    std::vector<Features> all;
    for (Level l : kLevels)
        if (auto f = features_at(l)) all.push_back(*f);
    return all;
}

inline ModuleRef compile_or_fail(const loop::Program& p, const Features& f) {
    auto object = compile_object(p, f);
    EXPECT_TRUE(object.ok());
    auto module = load_object(object->code);
    EXPECT_TRUE(module.ok()) << (module.ok() ? "" : module.error().message);
    return module.ok() ? *module : nullptr;
}

struct Call {
    std::vector<void*> buffers;
    std::vector<int64_t> symbols;
    int64_t tasks = 1;
};

// Runs all tasks in one call with scratch memory of the size asked for; returns the status.
inline int64_t run(const ModuleRef& m, std::string_view name, const Call& c) {
    const Entry k = m->entry(name);
    if (!k) {
        ADD_FAILURE() << "no kernel " << name;
        return -1;
    }
    int64_t status = 0;
    const auto bytes = static_cast<size_t>(k.scratch_bytes(c.symbols.data()));
    void* scratch = bytes ? ::operator new(bytes, std::align_val_t(64)) : nullptr;
    if (scratch) std::memset(scratch, 0, sizeof(int64_t));  // a job's first call
    k.run(c.buffers.data(), c.symbols.data(), 0, c.tasks, scratch, &status);
    if (scratch) ::operator delete(scratch, std::align_val_t(64));
    return status;
}

using Fn1 = std::function<loop::Expr(loop::Expr)>;
using Fn2 = std::function<loop::Expr(loop::Expr, loop::Expr)>;

// y[i] = f(x[i]) in vectors of `lanes`, the last one masked. Element types by DType; raw bytes in and out.
inline void map_bytes(const Features& f, int lanes, DType in, DType out, const Fn2& fn, const void* x, const void* x2, void* y,
                      int64_t n) {
    loop::Program p;
    loop::Builder b(p);
    auto count = b.symbol("n");
    auto bx = b.param("x", in, 0, loop::Access::Read), bx2 = b.param("x2", in, 1, loop::Access::Read);
    auto by = b.param("y", out, 2, loop::Access::Write);
    b.function("map", [&] {
        b.loop("i", 0, count, lanes, [&](loop::Expr i) {
            loop::Expr mask = loop::first_lanes(count - i, lanes);
            loop::Expr v = b.load(bx, i, lanes, mask);
            loop::Expr w = x2 ? b.load(bx2, i, lanes, mask) : v;
            b.store(by, i, fn(v, w), mask);
        });
    });
    auto m = compile_or_fail(p, f);
    ASSERT_EQ(run(m, "map", {{const_cast<void*>(x), const_cast<void*>(x2), y}, {n}}), 0);
}

// Several functions of x and x2 in one kernel, each into a tensor of its own, all padded to whole vectors.
struct Output { DType dtype; Fn2 fn; };
inline std::vector<Tensor> map_many(const Features& f, int lanes, const Tensor& x, const Tensor& x2, const std::vector<Output>& outputs) {
    const int64_t padded = (x.size() + lanes - 1) / lanes * lanes;
    auto pad = [&](const Tensor& t) {
        Tensor r(t.dtype(), {padded});
        std::memset(r.data(), 0, r.bytes());
        std::memcpy(r.data(), t.data(), t.bytes());
        return r;
    };
    Tensor px = pad(x), px2 = pad(x2);
    loop::Program p;
    loop::Builder b(p);
    auto count = b.symbol("n");
    auto bx = b.param("x", x.dtype(), 0, loop::Access::Read), bx2 = b.param("x2", x2.dtype(), 1, loop::Access::Read);
    std::vector<Tensor> results;
    std::vector<loop::BufferId> buffers;
    Call call{{px.data(), px2.data()}, {padded}};
    for (const Output& o : outputs) {
        buffers.push_back(b.param("y", o.dtype, static_cast<uint32_t>(call.buffers.size()), loop::Access::Write));
        call.buffers.push_back(results.emplace_back(o.dtype, Shape{padded}).data());
    }
    b.function("map", [&] {
        b.loop("i", 0, count, lanes, [&](loop::Expr i) {
            loop::Expr v = b.let("v", b.load(bx, i, lanes)), w = b.let("w", b.load(bx2, i, lanes));
            for (size_t k = 0; k < outputs.size(); ++k) b.store(buffers[k], i, outputs[k].fn(v, w));
        });
    });
    EXPECT_EQ(run(compile_or_fail(p, f), "map", call), 0);
    return results;
}

template <class Out, class In>
std::vector<Out> map(const Features& f, int lanes, const std::vector<In>& x, const Fn1& fn) {
    std::vector<Out> y(x.size());
    map_bytes(f, lanes, dtype_of<In>(), dtype_of<Out>(), [&](loop::Expr a, loop::Expr) { return fn(a); }, x.data(), nullptr,
              y.data(), static_cast<int64_t>(x.size()));
    return y;
}

template <class Out, class In>
std::vector<Out> map2(const Features& f, int lanes, const std::vector<In>& x, const std::vector<In>& x2, const Fn2& fn) {
    std::vector<Out> y(x.size());
    map_bytes(f, lanes, dtype_of<In>(), dtype_of<Out>(), fn, x.data(), x2.data(), y.data(), static_cast<int64_t>(x.size()));
    return y;
}

}  // namespace opwright::target::cpu
