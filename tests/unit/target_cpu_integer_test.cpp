// Integer functions against the constant folder, and conversions between all types against the base library.
#include <cmath>
#include <random>

#include "base/tensor.h"
#include "loop/fold.h"
#include "target_cpu_test_util.h"

namespace opwright::target::cpu {
namespace {

using namespace loop;

class TargetCpuInteger : public testing::TestWithParam<int> {
protected:
    const Features& f() const {
        static const std::vector<Features> all = machine_levels();
        return all[static_cast<size_t>(GetParam())];
    }
};

constexpr DType kIntegers[] = {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64};

std::vector<int64_t> values_of(DType t) {
    std::vector<int64_t> v;
    const int bits = static_cast<int>(size_of(t)) * 8;
    for (int64_t x : {0, 1, 2, 3, 5, 7, 8, 31, 63, 64, 100, -1, -2, -3, -7, -8, -100, -128, -129}) v.push_back(x);
    for (int64_t x : {INT64_MIN, INT64_MAX, int64_t{INT32_MIN}, int64_t{INT32_MAX}, static_cast<int64_t>(uint64_t{1} << (bits - 1)), static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1),
                      int64_t{1} << 53, (int64_t{1} << 53) + 1, int64_t{0x7fffffffffff1234}})
        v.push_back(x);
    std::mt19937_64 random(3);
    for (int i = 0; i < 12; ++i) v.push_back(static_cast<int64_t>(random() >> (random() % 60)));
    for (int64_t& x : v) x = wrap_to(t, x);
    std::sort(v.begin(), v.end());
    v.erase(std::unique(v.begin(), v.end()), v.end());
    return v;
}

Tensor tensor_of(DType t, const std::vector<int64_t>& v) {
    Tensor x(t, {static_cast<int64_t>(v.size())});
    for (size_t i = 0; i < v.size(); ++i) {
        const int64_t bits = v[i];
        std::memcpy(x.as<char>() + i * size_of(t), &bits, size_of(t));  // little-endian low bits
    }
    return x;
}

int64_t element(const Tensor& x, int64_t i) {
    int64_t bits = 0;
    std::memcpy(&bits, x.as<char>() + static_cast<size_t>(i) * size_of(x.dtype()), size_of(x.dtype()));
    return wrap_to(x.dtype(), bits);
}

int64_t power(DType t, int64_t x, int64_t y) {
    if (is_signed_int(t) && y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t r = 1, square = static_cast<uint64_t>(x);
    for (auto n = static_cast<uint64_t>(y); n; n >>= 1, square *= square)
        if (n & 1) r *= square;
    return wrap_to(t, static_cast<int64_t>(r));
}

TEST_P(TargetCpuInteger, EveryFunctionOfEveryType) {
    for (DType t : kIntegers) {
        const std::vector<int64_t> v = values_of(t);
        std::vector<int64_t> a, b;
        for (int64_t x : v)
            for (int64_t y : v) a.push_back(x), b.push_back(y);
        const Tensor x = tensor_of(t, a), y = tensor_of(t, b);
        const auto n = static_cast<int64_t>(a.size());
        for (int lanes : {1, f().lanes(t)}) {
            std::vector<BinaryFn> fns;
            std::vector<UnaryFn> unaries{UnaryFn::Neg, UnaryFn::Abs, UnaryFn::Sign, UnaryFn::Not};
            for (int k = 0; k < kBinaryFnCount; ++k)
                if (static_cast<BinaryFn>(k) != BinaryFn::Atan2) fns.push_back(static_cast<BinaryFn>(k));
            std::vector<Output> outputs;
            for (BinaryFn fn : fns)
                outputs.push_back({is_comparison(fn) ? DType::Bool : t, [fn](Expr u, Expr w) { return binary(fn, u, w); }});
            for (UnaryFn fn : unaries) outputs.push_back({t, [fn](Expr u, Expr) { return unary(fn, u); }});
            const std::vector<Tensor> out = map_many(f(), lanes, x, y, outputs);
            for (size_t k = 0; k < fns.size(); ++k)
                for (int64_t i = 0; i < n; ++i) {
                    const int64_t l = a[static_cast<size_t>(i)], r = b[static_cast<size_t>(i)];
                    const int64_t want = fns[k] == BinaryFn::Pow ? power(t, l, r) : *fold_int(fns[k], t, l, r);
                    ASSERT_EQ(element(out[k], i), want) << name(t) << " " << name(fns[k]) << "(" << l << ", " << r << ") lanes " << lanes;
                }
            for (size_t k = 0; k < unaries.size(); ++k)
                for (int64_t i = 0; i < n; ++i)
                    ASSERT_EQ(element(out[fns.size() + k], i), *fold_int(unaries[k], t, a[static_cast<size_t>(i)]))
                        << name(t) << " " << name(unaries[k]) << a[static_cast<size_t>(i)];
        }
    }
}

// Division by a literal, shifts and powers take other ways than by a variable.
TEST_P(TargetCpuInteger, LiteralOperands) {
    for (DType t : {DType::I8, DType::U16, DType::I32, DType::I64, DType::U64}) {
        const std::vector<int64_t> v = values_of(t);
        const Tensor x = tensor_of(t, v);
        const auto n = static_cast<int64_t>(v.size());
        const std::vector<int64_t> literals{0, 1, 2, 3, 7, 8, 64, -1, -3, -8, wrap_to(t, static_cast<int64_t>(uint64_t{1} << (8 * size_of(t) - 1)))};
        for (int lanes : {1, f().lanes(t)}) {
            std::vector<std::pair<BinaryFn, int64_t>> cases;
            std::vector<Output> outputs;
            for (BinaryFn fn : {BinaryFn::Div, BinaryFn::FloorDiv, BinaryFn::Mod, BinaryFn::FMod, BinaryFn::Shl, BinaryFn::Shr, BinaryFn::Pow})
                for (int64_t l : literals) {
                    cases.emplace_back(fn, wrap_to(t, l));
                    outputs.push_back({t, [fn, l](Expr u, Expr) { return binary(fn, u, like_int(u, l)); }});
                }
            const std::vector<Tensor> out = map_many(f(), lanes, x, x, outputs);
            for (size_t k = 0; k < cases.size(); ++k)
                for (int64_t i = 0; i < n; ++i) {
                    const auto [fn, l] = cases[k];
                    const int64_t value = v[static_cast<size_t>(i)];
                    const int64_t want = fn == BinaryFn::Pow ? power(t, value, l) : *fold_int(fn, t, value, l);
                    ASSERT_EQ(element(out[k], i), want) << name(t) << " " << name(fn) << "(" << value << ", " << l << ") lanes " << lanes;
                }
        }
    }
}

// ---- conversions ----

// The value x[i] in type `to`, by the meaning of cast.
template <class Float>
int64_t saturated(Float v, DType to) {
    if (std::isnan(v)) return 0;
    if (to == DType::Bool) return v != 0;
    v = std::trunc(v);
    if (v <= static_cast<Float>(lowest(to))) return is_signed_int(to) ? static_cast<int64_t>(uint64_t{1} << 63) >> (64 - 8 * size_of(to)) : 0;
    if (v >= static_cast<Float>(highest(to))) return wrap_to(to, is_signed_int(to) ? INT64_MAX >> (64 - 8 * size_of(to)) : -1);
    return to == DType::U64 ? static_cast<int64_t>(static_cast<uint64_t>(v)) : static_cast<int64_t>(v);
}

// Reads a float element of any float type exactly.
double read_float(const Tensor& x, int64_t i) { return x.get(i); }

std::vector<double> float_values() {
    std::vector<double> v{0.0, -0.0, 0.5, -0.5, 1, -1, 1.5, 2.5, -2.5, 127, 127.5, 128, -128, -128.9, -129, 255, 255.9, 256, 32767.9, 32768, 65504,
                          65519.99, 65520, 65535, 65536, 2147483647, 2147483648.0, -2147483648.0, -2147483649.0, 4294967295.0, 4294967296.0,
                          9007199254740993.0, 9223372036854775807.0, -9223372036854775808.0, 18446744073709551615.0, 1e20, -1e20, 1e38, 3.3999e38, 1e300, -1e300,
                          INFINITY, -INFINITY, NAN, 6e-8, 3e-8, 2.98e-8, 5.96e-8, 6.1e-5, 6.09e-5, 1e-40, 1e-45, 1e-310, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40,
                          1 + 0x3p-11, 1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-45, 1 + 0x3p-8, 1 - 0x1p-9, 0x1.fffp15, 0x1.ffdp15, 0x1.ffep15};
    std::mt19937_64 random(5);
    for (int i = 0; i < 300; ++i) v.push_back(std::ldexp(std::uniform_real_distribution<double>(-2, 2)(random), static_cast<int>(random() % 60) - 40));
    return v;
}

std::vector<Output> casts() {
    std::vector<Output> outputs;
    for (int k = 0; k < kDTypeCount; ++k) {
        const auto to = static_cast<DType>(k);
        outputs.push_back({to, [to](Expr a, Expr) { return cast(a, to); }});
    }
    return outputs;
}

TEST_P(TargetCpuInteger, ConversionsFromFloats) {
    for (DType from : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
        const std::vector<double> v = float_values();
        Tensor x(from, {static_cast<int64_t>(v.size())});
        for (size_t i = 0; i < v.size(); ++i) x.set(static_cast<int64_t>(i), v[i]);
        for (int lanes : {1, f().lanes(from)}) {
            const std::vector<Tensor> all = map_many(f(), lanes, x, x, casts());
            for (int k = 0; k < kDTypeCount; ++k) {
                const auto to = static_cast<DType>(k);
                const Tensor& y = all[static_cast<size_t>(k)];
                for (int64_t i = 0; i < x.size(); ++i) {
                    const double exact = read_float(x, i);
                    if (!is_float(to)) {
                        const int64_t want = to == DType::Bool ? (exact != 0) : saturated(exact, to);
                        ASSERT_EQ(element(y, i), want) << name(from) << " to " << name(to) << " of " << exact << " lanes " << lanes;
                        continue;
                    }
                    Tensor want(to, {1});
                    want.set(0, exact);
                    if (std::isnan(exact)) ASSERT_TRUE(std::isnan(y.get(i))) << name(from) << " to " << name(to);
                    else ASSERT_EQ(std::memcmp(y.as<char>() + static_cast<size_t>(i) * size_of(to), want.data(), size_of(to)), 0)
                            << name(from) << " to " << name(to) << " of " << exact << " gives " << y.get(i) << " for " << want.get(0);
                }
            }
        }
    }
}

TEST_P(TargetCpuInteger, EveryHalfBitPattern) {
    for (DType from : {DType::F16, DType::BF16}) {
        std::vector<uint16_t> x(65536);
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
        std::vector<float> y(x.size());
        std::vector<uint16_t> back(x.size());
        map_bytes(f(), f().lanes(DType::F32), from, DType::F32, [&](Expr a, Expr) { return cast(a, DType::F32); }, x.data(), nullptr, y.data(), 65536);
        map_bytes(f(), f().lanes(DType::F32), DType::F32, from, [&](Expr a, Expr) { return cast(a, from); }, y.data(), nullptr, back.data(), 65536);
        for (size_t i = 0; i < x.size(); ++i) {
            const float want = from == DType::F16 ? f16_to_f32(x[i]) : bf16_to_f32(x[i]);
            if (std::isnan(want)) {
                ASSERT_TRUE(std::isnan(y[i])) << i;
                ASSERT_TRUE(std::isnan(from == DType::F16 ? f16_to_f32(back[i]) : bf16_to_f32(back[i]))) << i;
            } else {
                ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want)) << name(from) << i;
                ASSERT_EQ(back[i], x[i]) << name(from);
            }
        }
    }
}

TEST_P(TargetCpuInteger, ConversionsFromIntegers) {
    std::vector<DType> sources(std::begin(kIntegers), std::end(kIntegers));
    sources.push_back(DType::Bool);
    for (DType from : sources) {
        std::vector<int64_t> v = values_of(from);
        if (size_of(from) == 8)  // around the ties of bf16 and f32
            for (int64_t x : {(int64_t{0x81} << 50) - 1, int64_t{0x81} << 50, (int64_t{0x101} << 50), (int64_t{0x101} << 50) + 1, (int64_t{0x101} << 50) - 1})
                v.push_back(x), v.push_back(wrap_to(from, -x));
        if (size_of(from) == 4)
            for (int64_t x : {0x1010001, 0x1010000, 0x100ffff, 0x1030000}) v.push_back(x), v.push_back(wrap_to(from, -x));
        const Tensor x = tensor_of(from, v);
        for (int lanes : {1, f().lanes(from)}) {
            std::vector<Output> outputs = casts();
            for (int k = 0; k < kDTypeCount; ++k)
                if (const auto to = static_cast<DType>(k); !is_float(to))
                    outputs.push_back({to, [to](Expr a, Expr) { return wrap(a, to); }});
            const std::vector<Tensor> all = map_many(f(), lanes, x, x, outputs);
            for (int k = 0; k < kDTypeCount; ++k) {
                const auto to = static_cast<DType>(k);
                const Tensor &y = all[static_cast<size_t>(k)], &wrapped = all[static_cast<size_t>(is_float(to) ? k : kDTypeCount + k)];
                for (int64_t i = 0; i < x.size(); ++i) {
                    const int64_t value = v[static_cast<size_t>(i)];
                    const auto wide = is_unsigned_int(from) ? static_cast<long double>(static_cast<uint64_t>(value)) : static_cast<long double>(value);
                    if (is_float(to)) {
                        // long double holds every 64-bit integer; one rounding from there.
                        double want = static_cast<double>(wide);
                        if (to == DType::F32) want = static_cast<float>(wide);
                        Tensor narrow(to, {1});
                        narrow.set(0, want);
                        if (to == DType::BF16 && static_cast<long double>(want) != wide) {
                            // Keep what rounding to double lost as a sticky bit.
                            const double toward = static_cast<long double>(want) > wide ? std::nextafter(want, -INFINITY) : std::nextafter(want, INFINITY);
                            Tensor other(to, {1});
                            other.set(0, toward);
                            if (other.get(0) != narrow.get(0)) narrow.set(0, static_cast<double>(wide) == want ? toward : want);
                        }
                        ASSERT_EQ(y.get(i), narrow.get(0)) << name(from) << " to " << name(to) << " of " << value << " lanes " << lanes;
                        continue;
                    }
                    ASSERT_EQ(element(wrapped, i), to == DType::Bool ? (value & 1) : wrap_to(to, value)) << name(from) << " wrap " << name(to) << " " << value;
                    ASSERT_EQ(element(y, i), to == DType::Bool ? (value != 0) : saturated(wide, to)) << name(from) << " to " << name(to) << " of " << value;
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Levels, TargetCpuInteger, testing::Range(0, static_cast<int>(machine_levels().size())),
                         [](const testing::TestParamInfo<int>& i) {
                             return std::string(name(machine_levels()[static_cast<size_t>(i.param)].level));
                         });

}  // namespace
}  // namespace opwright::target::cpu
