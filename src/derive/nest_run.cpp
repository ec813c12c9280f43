#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "derive/accumulate.h"
#include "derive/nest.h"

namespace opwright::derive {
using namespace math;
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kInterleave = 16;  // accumulators of a long reduction: its additions need not wait for each other
using Lanes = std::array<int64_t, kLanes>;

// The position that an index outside 0..n-1 stands for, or -1 for none.
int64_t resolve(int64_t i, int64_t n, Outside o) {
    if (i >= 0 && i < n) return i;
    if (n == 0) return -1;
    const auto floor_mod = [](int64_t a, int64_t b) { return (a % b + b) % b; };
    switch (o) {
        case Outside::Error:
        case Outside::Value: return -1;
        case Outside::Clamp: return i < 0 ? 0 : n - 1;
        case Outside::Wrap: return floor_mod(i, n);
        case Outside::Reflect: {
            if (n == 1) return 0;
            const int64_t r = floor_mod(i, 2 * (n - 1));
            return r < n ? r : 2 * (n - 1) - r;
        }
        case Outside::Mirror: {
            const int64_t r = floor_mod(i, 2 * n);
            return r < n ? r : 2 * n - 1 - r;
        }
    }
    return -1;
}

class Runner {
public:
    Runner(const Program& p, Nest& n, double scale, std::vector<Store>& stores)
        : p_(p),
          n_(n),
          scale_(scale),
          stores_(stores),
          index_(n.vars.size()),
          fixed_(n.vars.size()),
          varies_(n.vars.size(), true) {
        for (int t = 0; t < kDTypeCount; ++t) rounding_.emplace_back(compute_type(static_cast<DType>(t)), scale);
    }

    Status run() {
        switch (n_.kind) {
            case NestKind::Map: map(); break;
            case NestKind::Scan: scan(); break;
            case NestKind::Reduce: reduce(); break;
        }
        if (error_) return *error_;
        return ok_status();
    }

private:
    Register& reg(int r) { return n_.registers[r]; }
    const Rounding& rounding(DType t) const { return rounding_[static_cast<int>(t)]; }

    // ---- lanes
    // ------------------------------------------------------------------------------------------------------- Sets the
    // lanes of variables first..last-1 to `count` consecutive points from `start`, row-major.
    void fill(size_t first, size_t last, int64_t start, int64_t count) {
        if (first + 1 == last) {
            for (int64_t l = 0; l < count; ++l) index_[first][l] = start + l;
            return;
        }
        std::vector<int64_t> at(last - first);
        for (size_t v = last; v-- > first; start /= n_.extents[v]) at[v - first] = start % n_.extents[v];
        for (int64_t l = 0; l < count; ++l) {
            for (size_t v = first; v < last; ++v) index_[v][l] = at[v - first];
            for (size_t v = last; v-- > first;) {
                if (++at[v - first] < n_.extents[v]) break;
                at[v - first] = 0;
            }
        }
    }
    void fix(size_t first, size_t last, int64_t point) {
        for (size_t v = last; v-- > first; point /= n_.extents[v]) fixed_[v] = point % n_.extents[v];
    }
    void vary(size_t first, size_t last) {
        for (size_t v = 0; v < varies_.size(); ++v) varies_[v] = v >= first && v < last;
    }
    int64_t value_of(int var, int64_t lane) const { return varies_[var] ? index_[var][lane] : fixed_[var]; }

    void affine_lanes(const Dim& d, int64_t count, Lanes& to) const {
        int64_t base = d.constant;
        for (auto& [v, c] : d.terms)
            if (!varies_[v]) base += c * fixed_[v];
        std::fill_n(to.begin(), count, base);
        for (auto& [v, c] : d.terms)
            if (varies_[v])
                for (int64_t l = 0; l < count; ++l) to[l] += c * index_[v][l];
    }
    // Offsets of an access, -1 where it is outside and that is allowed; `doubt` where a data index is uncertain.
    void offsets(const Access& a, int64_t count, Lanes& to, std::array<bool, kLanes>& doubt, bool writes) {
        if (a.proved) {
            affine_lanes(a.flat, count, to);
            return;
        }
        std::fill_n(to.begin(), count, 0);
        Lanes at;
        for (size_t d = 0; d < a.dims.size(); ++d) {
            const Dim& dim = a.dims[d];
            if (dim.reg < 0)
                affine_lanes(dim, count, at);
            else
                std::copy_n(reg(dim.reg).i.begin(), count, at.begin());
            for (int64_t l = 0; l < count; ++l) {
                if (dim.reg >= 0 && reg(dim.reg).e[l] > 0) doubt[l] = true;
                if (to[l] < 0) continue;
                const int64_t i = resolve(at[l], dim.extent, a.outside);
                if (i < 0 && a.outside != Outside::Value) return outside(a, d, at[l], l, writes);
                to[l] = i < 0 ? -1 : to[l] + i * dim.stride;
            }
        }
    }
    void outside(const Access& a, size_t dim, int64_t index, int64_t lane, bool writes) {
        if (error_) return;
        Diagnostic d(fmt::format("operator {} {} {} outside: the index of dim {} is {}, and the extent is {}", p_.name,
                                 writes ? "writes" : "reads", stores_[a.store].name, dim, index, a.dims[dim].extent),
                     n_.span);
        std::string where;
        for (size_t v = 0; v < n_.vars.size(); ++v)
            where +=
                fmt::format("{}{} = {}", v ? ", " : "", p_.vars[n_.vars[v]].name, value_of(static_cast<int>(v), lane));
        if (!where.empty()) d.with_note("at " + where);
        error_ = d.with_next("Give indices inside the tensor, or say what lies outside, as in 'outside clamp'.");
    }

    // ---- steps
    // -------------------------------------------------------------------------------------------------------
    void run_code(int64_t count) {
        for (const Step& s : n_.code) {
            step(s, count);
            if (error_) return;
        }
    }

    void step(const Step& s, int64_t n) {
        Register& r = reg(s.to);
        const Register* a = s.a >= 0 && s.what != Do::Index ? &reg(s.a) : nullptr;
        const Register* b = s.b >= 0 ? &reg(s.b) : nullptr;
        const Register* c = s.c >= 0 ? &reg(s.c) : nullptr;
        switch (s.what) {
            case Do::Index:
                for (int64_t l = 0; l < n; ++l) r.i[l] = value_of(s.a, l);
                break;
            case Do::Load: load(s, n, r, c); break;
            case Do::Inside: inside(s, n, r); break;
            case Do::Float: float_step(s, n, r, *a, b); break;
            case Do::Test: test_step(s, n, r, *a, b); break;
            case Do::Int: int_step(s, n, r, *a, b); break;
            case Do::Select: select_step(n, r, *a, *b, *c); break;
            case Do::FloatToFloat:
                r.wild = false;
                for (int64_t l = 0; l < n; ++l) {
                    const bool half = size_of(s.type) == 2;
                    put(r, l, round_bounded({a->v[l], a->e[l]}, s.from, s.type, half, scale_), rounding(s.type));
                }
                break;
            case Do::FloatToInt:
                for (int64_t l = 0; l < n; ++l)
                    put(r, l, float_to_int(rounding(s.from).settle({a->v[l], a->e[l]}), s.type));
                break;
            case Do::IntToFloat:
                r.wild = false;
                for (int64_t l = 0; l < n; ++l) {
                    Bounded x = int_to_float({a->i[l], a->e[l]}, s.from, compute_type(s.type), scale_);
                    if (size_of(s.type) == 2) x = round_bounded(x, compute_type(s.type), s.type, true, scale_);
                    put(r, l, x, rounding(s.type));
                }
                break;
            case Do::IntToInt:
                for (int64_t l = 0; l < n; ++l) put(r, l, int_to_int({a->i[l], a->e[l]}, s.from, s.type));
                break;
            case Do::Wrap:
                for (int64_t l = 0; l < n; ++l) put(r, l, wrap_bounded({a->i[l], a->e[l]}, s.type));
                break;
            case Do::FloatBits:
                for (int64_t l = 0; l < n; ++l)
                    put(r, l,
                        BoundedInt{wrap_to(bits_of(a->v[l], s.from), s.type),
                                   a->e[l] > 0 || std::isnan(a->v[l]) ? kInf : 0});
                break;
            case Do::BitsToFloat:
                r.wild = false;
                for (int64_t l = 0; l < n; ++l)
                    put(r, l, Bounded{from_bits(a->i[l], s.type), a->e[l] > 0 ? kInf : 0}, rounding(s.type));
                break;
            case Do::TermsLoad: load(s, n, r, c); break;
            case Do::TermsAbs:
                for (int64_t l = 0; l < n; ++l) r.v[l] = std::fabs(a->v[l]);
                break;
            case Do::TermsAdd:
                for (int64_t l = 0; l < n; ++l) r.v[l] = a->v[l] + b->v[l];
                break;
            case Do::TermsMul:
                for (int64_t l = 0; l < n; ++l) r.v[l] = a->v[l] * b->v[l];
                break;
            case Do::TermsDiv:
                for (int64_t l = 0; l < n; ++l) r.v[l] = a->v[l] / std::fabs(b->v[l]);
                break;
            case Do::TermsMax:
                for (int64_t l = 0; l < n; ++l) r.v[l] = std::max(a->v[l], b->v[l]);
                break;
            case Do::TermsSelect:
                for (int64_t l = 0; l < n; ++l) r.v[l] = a->i[l] ? b->v[l] : c->v[l];
                break;
        }
    }
    static void put(Register& r, int64_t l, Bounded x, const Rounding& c) {
        r.v[l] = x.v;
        r.e[l] = x.e;
        r.wild |= !c.in_range(x);
    }
    static void put(Register& r, int64_t l, BoundedInt x) {
        r.i[l] = x.v;
        r.e[l] = x.e;
    }

    void load(const Step& s, int64_t n, Register& r, const Register* fill) {
        const Access& a = n_.accesses[s.access];
        const Store& t = stores_[a.store];
        Lanes at;
        std::array<bool, kLanes> doubt{};
        offsets(a, n, at, doubt, false);
        if (error_) return;
        if (s.what == Do::TermsLoad) {
            for (int64_t l = 0; l < n; ++l)
                r.v[l] = at[l] < 0 ? std::fabs(fill->v[l]) : t.t.empty() ? std::fabs(t.v[at[l]]) : t.t[at[l]];
            return;
        }
        if (!r.is_float) {
            for (int64_t l = 0; l < n; ++l) {
                const int64_t k = at[l];
                r.i[l] = k < 0 ? fill->i[l] : t.i[k];
                double e = k < 0 ? fill->e[l] : t.bound(k);
                r.e[l] = doubt[l] || e < 0 ? kInf : e;  // e < 0: never written
            }
            return;
        }
        r.wild = t.wild || (fill && fill->wild);
        const bool simple = a.proved && !r.wild;
        for (int64_t l = 0; simple && l < n; ++l) r.v[l] = t.v[at[l]];
        if (simple && !t.e.empty())
            for (int64_t l = 0; l < n; ++l) r.e[l] = t.e[at[l]];
        else if (simple)
            std::fill_n(r.e.begin(), n, 0.0);
        for (int64_t l = 0; !simple && l < n; ++l) {
            const int64_t k = at[l];
            Bounded x = k < 0 ? Bounded{fill->v[l], fill->e[l]} : Bounded{t.v[k], t.bound(k)};
            if (x.e < 0 || doubt[l]) x.e = kInf;
            // Whether an intermediate of a 16-bit type overflowed depends on whether it was stored or fused.
            if (k >= 0 && t.output && size_of(t.dtype) == 2 && !Rounding(t.dtype).in_range(x) && std::isfinite(x.v))
                x.e = kInf;
            r.wild |= std::isinf(x.e);
            r.v[l] = x.v;
            r.e[l] = x.e;
        }
    }

    void inside(const Step& s, int64_t n, Register& r) {
        const Access& a = n_.accesses[s.access];
        std::fill_n(r.i.begin(), n, 1);
        std::fill_n(r.e.begin(), n, 0.0);
        Lanes at;
        for (const Dim& d : a.dims) {
            if (d.reg < 0) affine_lanes(d, n, at);
            for (int64_t l = 0; l < n; ++l) {
                const int64_t i = d.reg < 0 ? at[l] : reg(d.reg).i[l];
                if (i < 0 || i >= d.extent) r.i[l] = 0;
                if (d.reg >= 0 && reg(d.reg).e[l] > 0) r.e[l] = 1;
            }
        }
    }

    // f delivers {value, propagated error}; the rounding of the result is added here. False if a lane left the plain
    // case.
    template <class F>
    static bool plain(Fn fn, int64_t n, Register& r, const Register& a, const Register& b, const Rounding& c, F f) {
        bool good = true;
        for (int64_t l = 0; l < n; ++l) {
            const Bounded x = f(a.v[l], a.e[l], b.v[l], b.e[l]);
            double e = x.e;
            if (e > 0 || !is_exact(fn, a.v[l], b.v[l], x.v, c)) e += c.error(std::fabs(x.v) + x.e);
            if (e == 0 && a.e[l] + b.e[l] > 0) e = c.tiny;  // a zero times a zero of unknown sign
            r.v[l] = x.v;
            r.e[l] = e;
            good &= std::fabs(x.v) + e <= c.highest;
        }
        return good;
    }
    void float_step(const Step& s, int64_t n, Register& r, const Register& a, const Register* b) {
        const Rounding& c = rounding(s.type);
        if (!a.wild && !(b && b->wild) && s.flush == FlushFactors::None) {
            bool done = false;
            switch (s.fn) {
                case Fn::Neg:
                    for (int64_t l = 0; l < n; ++l) {
                        r.v[l] = -a.v[l];
                        r.e[l] = a.e[l];
                    }
                    done = true;
                    break;
                case Fn::Add:
                    done = plain(s.fn, n, r, a, *b, c,
                                 [](double x, double ex, double y, double ey) { return Bounded{x + y, ex + ey}; });
                    break;
                case Fn::Sub:
                    done = plain(s.fn, n, r, a, *b, c,
                                 [](double x, double ex, double y, double ey) { return Bounded{x - y, ex + ey}; });
                    break;
                case Fn::Mul:
                    // A product of nonzero factors is 0 only where double itself underflows: left to the general form.
                    done = s.type != DType::F64 &&
                           plain(s.fn, n, r, a, *b, c, [](double x, double ex, double y, double ey) {
                               return Bounded{x * y, std::fabs(x) * ey + std::fabs(y) * ex + ex * ey};
                           });
                    break;
                case Fn::Max:
                case Fn::Min: {
                    const bool up = s.fn == Fn::Max;
                    for (int64_t l = 0; l < n; ++l) {
                        const double x = a.v[l], y = b->v[l];
                        const bool first = x == y ? std::signbit(x) != up : (x > y) == up;
                        r.v[l] = first ? x : y;
                        const double gap = std::fabs(x - y), sum = a.e[l] + b->e[l];
                        r.e[l] = gap > sum ? (first ? a.e[l] : b->e[l]) : std::max(a.e[l], b->e[l]);
                    }
                    done = true;
                    break;
                }
                default: break;
            }
            if (done) {
                r.wild = false;
                return;
            }
        }
        r.wild = false;
        for (int64_t l = 0; l < n; ++l) {
            const Bounded x[2] = {{a.v[l], a.e[l]}, b ? Bounded{b->v[l], b->e[l]} : Bounded{}};
            Bounded y = apply_bounded(s.fn, x, c);
            if (s.flush != FlushFactors::None) y = flushed_product(s.flush, x, y, c);
            if (s.flush_sum && std::isfinite(y.v)) y.e += c.tiny / c.unit;  // the smallest normal number
            put(r, l, y, c);
        }
    }
    void test_step(const Step& s, int64_t n, Register& r, const Register& a, const Register* b) {
        const Rounding& c = rounding(s.type);
        for (int64_t l = 0; l < n; ++l) {
            const Bounded x[2] = {{a.v[l], a.e[l]}, b ? Bounded{b->v[l], b->e[l]} : Bounded{}};
            put(r, l, test_bounded(s.fn, x, c));
        }
    }
    void int_step(const Step& s, int64_t n, Register& r, const Register& a, const Register* b) {
        const auto each = [&](auto f) {
            for (int64_t l = 0; l < n; ++l) r.i[l] = f(static_cast<uint64_t>(a.i[l]), static_cast<uint64_t>(b->i[l]));
        };
        if (r.exact && s.type == DType::I64) {  // index arithmetic, mostly
            switch (s.fn) {
                case Fn::Add: return each([](uint64_t x, uint64_t y) { return static_cast<int64_t>(x + y); });
                case Fn::Sub: return each([](uint64_t x, uint64_t y) { return static_cast<int64_t>(x - y); });
                case Fn::Mul: return each([](uint64_t x, uint64_t y) { return static_cast<int64_t>(x * y); });
                default: break;
            }
        }
        for (int64_t l = 0; l < n; ++l) {
            const BoundedInt x[2] = {{a.i[l], a.e[l]}, b ? BoundedInt{b->i[l], b->e[l]} : BoundedInt{}};
            put(r, l, apply_bounded(s.fn, x, s.type));
        }
    }
    void select_step(int64_t n, Register& r, const Register& c, const Register& a, const Register& b) {
        r.wild = a.wild || b.wild;
        for (int64_t l = 0; l < n; ++l) {
            const BoundedInt k{c.i[l], c.e[l]};
            if (!r.is_float) {
                put(r, l, select_bounded(k, BoundedInt{a.i[l], a.e[l]}, BoundedInt{b.i[l], b.e[l]}));
                continue;
            }
            const Bounded x = select_bounded(k, Bounded{a.v[l], a.e[l]}, Bounded{b.v[l], b.e[l]});
            r.v[l] = x.v;
            r.e[l] = x.e;
            r.wild |= std::isinf(x.e);
        }
    }

    // ---- results
    // ----------------------------------------------------------------------------------------------------- What the
    // type of the target keeps of x: the rounding of a 16-bit store, exact where x is.
    Bounded stored(Bounded x, const Store& t) const {
        if (size_of(t.dtype) != 2 || !std::isfinite(x.v) || std::isinf(x.e)) return x;
        if (!t.output) return round_bounded(x, compute_type(t.dtype), t.dtype, true, scale_);
        if (x.e == 0) {
            const double r = round_to(x.v, t.dtype);
            return {x.v, std::isfinite(r) ? std::fabs(r - x.v) : 0};
        }
        return {x.v, x.e + Rounding(t.dtype, scale_).error(std::fabs(x.v) + x.e)};
    }
    void write(Store& t, int64_t k, Bounded x) {
        x = stored(x, t);
        t.v[k] = x.v;
        t.e[k] = x.e;
        t.wild |= !Rounding(t.dtype).in_range(x);
    }
    void write(Store& t, int64_t k, BoundedInt x) {
        t.i[k] = x.v;
        t.e[k] = x.e;
    }
    Bounded lane_float(const Register& r, int64_t l) const { return {r.v[l], r.e[l]}; }
    BoundedInt lane_int(const Register& r, int64_t l) const { return {r.i[l], r.e[l]}; }

    void map() {
        Store& t = stores_[n_.target];
        t.e.resize(t.size);
        if (n_.terms >= 0 && n_.update == Update::Set)
            t.t.resize(t.size);
        else if (!t.t.empty())
            t.t.clear();  // terms of updated tensors are not kept
        const bool combine = n_.update != Update::Set && n_.update != Update::Overwrite;
        if (combine)
            return is_float(t.dtype) ? (n_.update == Update::Add ? update<Sums>(t) : update<Floats>(t))
                                     : update<Ints>(t);
        if (is_float(t.dtype) && n_.update == Update::Set) t.wild = false;
        bool anything = false;  // written through an uncertain index: it may be anywhere
        each_strip([&](int64_t, int64_t count, const Lanes& at, const std::array<bool, kLanes>& doubt) {
            const Register& r = reg(n_.body);
            for (int64_t l = 0; l < count; ++l) {
                anything |= doubt[l];
                if (at[l] < 0) continue;
                if (r.is_float)
                    write(t, at[l], lane_float(r, l));
                else
                    write(t, at[l], lane_int(r, l));
                if (!t.t.empty()) t.t[at[l]] = reg(n_.terms).v[l];
            }
        });
        finish(t, anything);
    }
    template <class F>
    void each_strip(F f) {
        const int64_t total = n_.point_count();
        vary(0, n_.points);
        for (int64_t start = 0; start < total && !error_; start += kLanes) {
            const int64_t count = std::min(kLanes, total - start);
            fill(0, n_.points, start, count);
            run_code(count);
            Lanes at;
            std::array<bool, kLanes> doubt{};
            if (!error_) offsets(n_.at, count, at, doubt, true);
            if (!error_) f(start, count, at, doubt);
        }
    }
    void finish(Store& t, bool anything) {
        if (anything) {
            std::fill(t.e.begin(), t.e.end(), kInf);
            t.wild = true;
        }
        if (std::all_of(t.e.begin(), t.e.end(), [](double e) { return e == 0; })) t.e.clear();
    }

    // ---- accumulators of the three kinds behind one interface
    // -----------------------------------------------------------
    struct Sums {
        SumAccumulator a;
        Sums(ReduceOp, DType, const Rounding&) {}
        void add(const Register& r, int64_t l, int64_t) {
            r.wild ? a.add_wild({r.v[l], r.e[l]}) : a.add({r.v[l], r.e[l]});
        }
        void old(const Store& t, int64_t k) { a.add_wild({t.v[k], t.bound(k)}); }
        void maybe(const Register& r, int64_t l) {
            const double e = std::fabs(r.v[l]) + r.e[l];
            a.add_doubtful(std::isnan(e) ? std::numeric_limits<double>::infinity() : e);
        }
        void merge(const Sums& o) { a.merge(o.a); }
        Bounded result(double n, ReduceOp, const Rounding& c) const { return a.result(n, c); }
        double terms() const { return a.terms(); }
    };
    struct Floats {
        FloatAccumulator a;
        Floats(ReduceOp op, DType, const Rounding& c) : a(op, c) {}
        void add(const Register& r, int64_t l, int64_t position) { a.add({r.v[l], r.e[l]}, position); }
        void old(const Store& t, int64_t k) { a.add({t.v[k], t.bound(k)}, 0); }
        void maybe(const Register& r, int64_t l) {
            a.doubt();
            if (!std::isnan(r.v[l])) a.add({r.v[l], r.e[l]}, 0);  // else the result would surely be NaN
        }
        void merge(const Floats& o) { a.merge(o.a); }
        Bounded result(double, ReduceOp, const Rounding&) const { return a.result(); }
        double terms() const { return 0; }
    };
    struct Indices {  // arg forms of floats
        FloatAccumulator a;
        Indices(ReduceOp op, DType, const Rounding& c) : a(op, c) {}
        void add(const Register& r, int64_t l, int64_t position) { a.add({r.v[l], r.e[l]}, position); }
        void maybe(const Register& r, int64_t l) {
            a.doubt();
            a.add({r.v[l], r.e[l]}, 0);
        }
        void merge(const Indices& o) { a.merge(o.a); }
        BoundedInt result(double, ReduceOp, const Rounding&) const { return a.index(); }
        double terms() const { return 0; }
    };
    struct Ints {
        IntAccumulator a;
        Ints(ReduceOp op, DType t, const Rounding&) : a(op, t) {}
        void add(const Register& r, int64_t l, int64_t position) { a.add({r.i[l], r.e[l]}, position); }
        void old(const Store& t, int64_t k) { a.add({t.i[k], t.bound(k)}, 0); }
        void maybe(const Register& r, int64_t l) {
            a.doubt();
            a.add({r.i[l], r.e[l]}, 0);
        }
        void merge(const Ints& o) { a.merge(o.a); }
        BoundedInt result(double, ReduceOp, const Rounding&) const { return a.result(); }
        double terms() const { return 0; }
    };

    static ReduceOp reduction_of(Update u) {
        switch (u) {
            case Update::Mul: return ReduceOp::Prod;
            case Update::Max: return ReduceOp::Max;
            case Update::Min: return ReduceOp::Min;
            case Update::Add:
            case Update::Set:
            case Update::Overwrite: break;
        }
        return ReduceOp::Sum;
    }
    template <class Acc>
    void update(Store& t) {
        const ReduceOp op = reduction_of(n_.update);
        // In memory each step may round to the stored type.
        const Rounding c(t.dtype, scale_);
        std::vector<Acc> acc;
        acc.reserve(t.size);
        for (int64_t k = 0; k < t.size; ++k) {
            acc.emplace_back(op, t.dtype, c);
            acc.back().old(t, k);
        }
        std::vector<int64_t> count_at(t.size, 1);
        bool anything = false;
        each_strip([&](int64_t, int64_t count, const Lanes& at, const std::array<bool, kLanes>& doubt) {
            for (int64_t l = 0; l < count; ++l) {
                anything |= doubt[l];
                if (at[l] < 0) continue;
                acc[at[l]].add(reg(n_.body), l, 0);
                ++count_at[at[l]];
            }
        });
        for (int64_t k = 0; k < t.size && !error_; ++k)
            if (count_at[k] > 1) write(t, k, acc[k].result(static_cast<double>(count_at[k]), op, c));
        finish(t, anything);
    }

    void scan() {
        Store& t = stores_[n_.target];
        t.e.resize(t.size);
        t.wild = false;
        if (!is_float(t.dtype))
            scan_as<Ints>(t);
        else if (n_.reduce == ReduceOp::Sum)
            scan_as<Sums>(t);
        else
            scan_as<Floats>(t);
        finish(t, false);
    }
    template <class Acc>
    void scan_as(Store& t) {
        const int64_t points = n_.point_count(), length = n_.over_count();
        const size_t along = n_.points;
        const Rounding& c = rounding(n_.dtype);
        vary(along, along + 1);
        for (int64_t p = 0; p < points && !error_; ++p) {
            fix(0, along, p);
            Acc acc(n_.reduce, n_.dtype, c);
            for (int64_t start = 0; start < length && !error_; start += kLanes) {
                const int64_t count = std::min(kLanes, length - start);
                for (int64_t l = 0; l < count; ++l) index_[along][l] = n_.backward ? length - 1 - start - l : start + l;
                run_code(count);
                Lanes at;
                std::array<bool, kLanes> doubt{};
                if (!error_) offsets(n_.at, count, at, doubt, true);
                for (int64_t l = 0; l < count && !error_; ++l) {
                    const auto n = static_cast<double>(start + l);
                    if (n_.exclusive) write(t, at[l], acc.result(n, n_.reduce, c));
                    acc.add(reg(n_.body), l, 0);
                    if (!n_.exclusive) write(t, at[l], acc.result(n + 1, n_.reduce, c));
                }
            }
        }
    }

    void reduce() {
        Store& t = stores_[n_.target];
        if (is_float(t.dtype))
            t.v.resize(t.size);
        else
            t.i.resize(t.size);
        if (!t.e.empty()) t.e.resize(t.size);
        if (!t.t.empty()) t.t.resize(t.size);
        const bool floats = reg(n_.body).is_float;
        if (!floats)
            reduce_as<Ints>(t);
        else if (is_arg(n_.reduce))
            reduce_as<Indices>(t);
        else if (n_.reduce == ReduceOp::Sum)
            reduce_as<Sums>(t);
        else
            reduce_as<Floats>(t);
    }
    template <class Acc>
    void accumulate(Acc& acc, int64_t l, int64_t position) {
        const Register& r = reg(n_.body);
        if (n_.condition >= 0) {
            const Register& c = reg(n_.condition);
            if (c.e[l] > 0) return acc.maybe(r, l);
            if (!c.i[l]) return;
        }
        acc.add(r, l, position);
    }
    template <class Acc>
    void keep(Store& t, int64_t k, const Acc& acc, int64_t over) {
        const Rounding& c = rounding(n_.dtype);
        const auto x = acc.result(static_cast<double>(over), n_.reduce, c);
        if constexpr (std::is_same_v<decltype(x), const Bounded>) {
            t.v[k] = x.v;
            t.wild |= !c.in_range(x);
        } else {
            t.i[k] = x.v;
        }
        if (!t.e.empty()) t.e[k] = x.e;
        if (!t.t.empty()) t.t[k] = acc.terms();
    }
    template <class Acc>
    void reduce_as(Store& t) {
        const int64_t points = n_.point_count(), over = n_.over_count();
        // The arg forms compare in the body's type, the others compute in the accumulator's.
        const DType t_acc = is_arg(n_.reduce) ? n_.body_type : n_.dtype;
        const Acc fresh(n_.reduce, t_acc, rounding(t_acc));
        if (over >= 2 * kInterleave || points == 1) {  // lanes along the reduction
            vary(n_.points, n_.vars.size());
            std::vector<Acc> acc;
            for (int64_t p = 0; p < points && !error_; ++p) {
                fix(0, n_.points, p);
                acc.assign(kInterleave, fresh);
                for (int64_t start = 0; start < over && !error_; start += kLanes) {
                    const int64_t count = std::min(kLanes, over - start);
                    fill(n_.points, n_.vars.size(), start, count);
                    run_code(count);
                    if (error_) return;
                    for (int64_t l = 0; l < count; ++l) accumulate(acc[l % kInterleave], l, start + l);
                }
                for (int64_t j = 1; j < std::min(kInterleave, over); ++j) acc[0].merge(acc[j]);
                keep(t, p, acc[0], over);
            }
            return;
        }
        vary(0, n_.points);
        std::vector<Acc> acc;
        for (int64_t start = 0; start < points && !error_; start += kLanes) {
            const int64_t count = std::min(kLanes, points - start);
            fill(0, n_.points, start, count);
            acc.assign(count, fresh);
            for (int64_t o = 0; o < over && !error_; ++o) {
                fix(n_.points, n_.vars.size(), o);
                run_code(count);
                for (int64_t l = 0; l < count && !error_; ++l) accumulate(acc[l], l, o);
            }
            for (int64_t l = 0; l < count && !error_; ++l) keep(t, start + l, acc[l], over);
        }
    }

    const Program& p_;
    Nest& n_;
    double scale_;
    std::vector<Store>& stores_;
    std::vector<Lanes> index_;    // of the variables that vary over the lanes
    std::vector<int64_t> fixed_;  // of the others
    std::vector<bool> varies_;
    std::vector<Rounding> rounding_;
    std::optional<Diagnostic> error_;
};
}  // namespace

Status run_nest(const Program& p, Nest& n, double scale, std::vector<Store>& stores) {
    return Runner(p, n, scale, stores).run();
}

}  // namespace opwright::derive
