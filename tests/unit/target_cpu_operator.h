// Runs a declared operator on the CPU at each processor level that this machine has.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "lang/library.h"
#include "math/localise.h"
#include "runtime/thread_pool.h"
#include "target/cpu/cpu.h"
#include "target/cpu/features.h"

namespace opwright::target::cpu {

inline std::vector<std::string> levels() {
    std::vector<std::string> r;
    for (Level l : kLevels)
        if (features_at(l)) r.emplace_back(name(l));
    return r;
}

struct CompiledOperator {
    math::Localised program;
    std::vector<std::string> symbols;  // of the inputs' extents, in order
    KernelRef kernel;                  // none: it failed
};

// Compiled once for each source, level, types and pattern of equal extents.
inline const CompiledOperator& compiled_operator(const std::string& source, const std::vector<Tensor>& inputs, const std::string& level) {
    static std::map<std::string, CompiledOperator> known;
    std::string key = level + "|" + source;
    std::vector<int64_t> extents;
    std::vector<lang::Argument> arguments;
    std::vector<std::string> symbols;
    for (const Tensor& t : inputs) {
        lang::Argument a{t.dtype(), {}, true};
        for (int64_t d : t.shape()) {
            symbols.push_back("e" + std::to_string(std::find(extents.begin(), extents.end(), d) - extents.begin()));
            if (std::find(extents.begin(), extents.end(), d) == extents.end()) extents.push_back(d);
            a.shape.push_back(math::Sym::symbol(symbols.back()));
        }
        key += "|" + std::string(name(t.dtype()));
        arguments.push_back(std::move(a));
    }
    for (const std::string& s : symbols) key += " " + s;
    const auto [at, fresh] = known.try_emplace(key);
    if (!fresh) return at->second;
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<Source>(Source{"test", source})).ok());
    auto elaborated = library.elaborate("f", arguments, {});
    if (!elaborated.ok()) {
        ADD_FAILURE() << render(elaborated.error());
        return at->second;
    }
    at->second.program = math::localise(*elaborated);
    at->second.symbols = std::move(symbols);
    const Request request{.program = &at->second.program.program, .constant_inputs = std::vector<bool>(inputs.size())};
    auto k = compile(std::span(&request, 1), {.level = level, .cache = false});
    if (k[0].ok())
        at->second.kernel = *k[0];
    else
        ADD_FAILURE() << render(k[0].error());
    return at->second;
}

// The first result of the operator `f` of the source, compiled for open extents (equal ones are one symbol). Guard bytes stand
// before and behind it, which begins at a multiple of 64 bytes.
inline Tensor run_operator(const std::string& source, const std::vector<Tensor>& inputs, const Shape& out, const std::string& level) {
    const CompiledOperator& f = compiled_operator(source, inputs, level);
    if (!f.kernel) return {};
    const math::Localised& l = f.program;
    math::SymValues named;
    auto symbol = f.symbols.begin();
    for (const Tensor& t : inputs)
        for (int64_t d : t.shape()) named[*symbol++] = d;
    std::vector<int64_t> symbols;
    for (const math::Sym& v : l.values) symbols.push_back(*evaluate(v, named));
    constexpr int64_t kGuard = 256;
    Tensor result(l.program.tensors[l.program.outputs[0]].dtype, out);
    Tensor memory(DType::U8, {static_cast<int64_t>(result.bytes()) + 2 * kGuard});
    std::memset(memory.data(), 0x5a, memory.bytes());
    char* place = static_cast<char*>(memory.data()) + kGuard;
    std::vector<const void*> in;
    for (const Tensor& t : inputs) in.push_back(t.data());
    math::SymValues local;
    for (size_t i = 0; i < symbols.size(); ++i) local[l.program.symbols()[i]] = symbols[i];
    std::vector<Tensor> others;  // of further results
    std::vector<void*> to{place};
    for (size_t o = 1; o < l.program.outputs.size(); ++o) {
        const math::TensorInfo& info = l.program.tensors[l.program.outputs[o]];
        Shape shape;
        for (const math::Sym& d : info.shape) shape.push_back(*evaluate(d, local));
        to.push_back(others.emplace_back(info.dtype, shape).data());
    }
    const Tensor workspace(DType::U8, {std::max<int64_t>(64, f.kernel->workspace_bytes(symbols))});
    static runtime::ThreadPool pool(2);
    EXPECT_TRUE(f.kernel->run({in, to, symbols, const_cast<void*>(workspace.data())}, pool).ok());
    std::memcpy(result.data(), place, result.bytes());
    for (int64_t g = 0; g < kGuard; ++g) {
        EXPECT_EQ(place[-1 - g], 0x5a) << "written in front of the output";
        EXPECT_EQ(place[static_cast<int64_t>(result.bytes()) + g], 0x5a) << "written behind the output";
    }
    return result;
}

inline Tensor numbers(DType t, Shape s, uint64_t seed) {
    Tensor r(t, std::move(s));
    std::mt19937_64 rng(seed);
    for (int64_t i = 0; i < r.size(); ++i) r.set(i, static_cast<double>(static_cast<int64_t>(rng() % 101) - (is_unsigned_int(t) ? 0 : 50)));
    return r;
}

}  // namespace opwright::target::cpu
