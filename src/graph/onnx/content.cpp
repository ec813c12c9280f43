#include "graph/onnx/content.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "graph/onnx/content_math.h"

namespace opwright::graph::onnx {

using math::Sym;

std::optional<Known> known_content(const Value& v) {
    if (!v.content) return std::nullopt;
    Known k{v.dtype, {}, *v.content};
    for (const Sym& s : v.shape) {
        if (!s.is_const()) return std::nullopt;
        k.shape.push_back(*s.constant());
    }
    if (element_count(k.shape) != static_cast<int64_t>(k.elements.size())) return std::nullopt;
    return k;
}

namespace {

using Ints = std::vector<int64_t>;
using MaybeKnown = std::optional<Known>;

Shape strides_of(const Shape& s) {
    Shape r(s.size(), 1);
    for (size_t d = s.size(); d-- > 1;) r[d - 1] = r[d] * s[d];
    return r;
}
// Row-major position -> index, and back.
Shape unravel(int64_t i, const Shape& s) {
    Shape r(s.size());
    for (size_t d = s.size(); d-- > 0;) {
        r[d] = i % s[d];
        i /= s[d];
    }
    return r;
}
int64_t ravel(const Shape& index, const Shape& s) {
    int64_t r = 0;
    for (size_t d = 0; d < s.size(); ++d) r = r * s[d] + index[d];
    return r;
}

// Operators that move elements. Every function returns nullopt for what is not known or not right.
class Mover {
public:
    Mover(const NodeContext& c, SymMeasure& m) : c_(c), measure_(m) {}

    std::optional<std::vector<Known>> run() {
        using Method = MaybeKnown (Mover::*)();
        static const std::map<std::string, Method> methods = {{"Shape", &Mover::shape},
                                                              {"Size", &Mover::size},
                                                              {"Gather", &Mover::gather},
                                                              {"GatherElements", &Mover::gather_elements},
                                                              {"GatherND", &Mover::gather_nd},
                                                              {"Slice", &Mover::slice},
                                                              {"Concat", &Mover::concat},
                                                              {"Squeeze", &Mover::squeeze},
                                                              {"Unsqueeze", &Mover::unsqueeze},
                                                              {"Reshape", &Mover::reshape},
                                                              {"Flatten", &Mover::flatten},
                                                              {"Transpose", &Mover::transpose},
                                                              {"Expand", &Mover::expand},
                                                              {"Tile", &Mover::tile},
                                                              {"ConstantOfShape", &Mover::constant_of_shape},
                                                              {"Range", &Mover::range},
                                                              {"ScatterElements", &Mover::scatter_elements},
                                                              {"Scatter", &Mover::scatter_elements},
                                                              {"ScatterND", &Mover::scatter_nd},
                                                              {"CumSum", &Mover::cumsum},
                                                              {"NonZero", &Mover::non_zero}};
        if (c_.op_type() == "Split") return split();
        const auto it = methods.find(c_.op_type());
        if (it == methods.end()) return std::nullopt;
        auto r = (this->*it->second)();
        if (!r) return std::nullopt;
        return std::vector<Known>{std::move(*r)};
    }

private:
    const Value* value(size_t i) const {
        return i < c_.input_count() && c_.input(i) != kNone ? &c_.value(c_.input(i)) : nullptr;
    }
    bool absent(size_t i) const { return value(i) == nullptr; }
    MaybeKnown known(size_t i) const { return value(i) ? known_content(*value(i)) : std::nullopt; }
    std::optional<Ints> numbers(size_t i) const {
        const auto k = known(i);
        if (!k) return std::nullopt;
        Ints r;
        for (const Sym& e : k->elements) {
            if (!e.is_const()) return std::nullopt;
            r.push_back(*e.constant());
        }
        return r;
    }
    std::optional<int64_t> axis(int64_t a, size_t rank) const {
        const auto n = static_cast<int64_t>(rank);
        if (a < -n || a >= n) return std::nullopt;
        return a < 0 ? a + n : a;
    }
    // Attribute `name`, or input `i` where the opset moved it there. `given` tells an absent one from a wrong one.
    std::optional<Ints> ints_or_input(const std::string& name, size_t i, bool& given) const {
        given = true;
        if (auto a = c_.ints(name)) return a;
        if (!absent(i)) return numbers(i);
        given = false;
        return std::nullopt;
    }
    // A tensor of `shape` whose element k is x's element map(index of k).
    MaybeKnown pick(const Known& x, Shape shape, const std::function<int64_t(const Shape&)>& map) const {
        const int64_t n = element_count(shape);
        if (n < 0 || n > kContentLimit || shape.size() > 32) return std::nullopt;
        Known r{x.dtype, std::move(shape), {}};
        r.elements.reserve(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
            const int64_t at = map(unravel(i, r.shape));
            if (at < 0 || at >= static_cast<int64_t>(x.elements.size())) return std::nullopt;
            r.elements.push_back(x.elements[static_cast<size_t>(at)]);
        }
        return r;
    }

    MaybeKnown shape() {
        if (absent(0)) return std::nullopt;
        const auto& s = value(0)->shape;
        const auto rank = static_cast<int64_t>(s.size());
        const auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
        const int64_t start = clamp(c_.int_attribute("start", 0)),
                      end = std::max(start, clamp(c_.int_attribute("end", rank)));
        return Known{DType::I64, {end - start}, {s.begin() + start, s.begin() + end}};
    }
    MaybeKnown size() {
        if (absent(0)) return std::nullopt;
        std::optional<Sym> n = Sym(1);
        for (const Sym& s : value(0)->shape)
            if (n) n = multiply(*n, s, DType::I64, measure_);
        if (!n) return std::nullopt;
        return Known{DType::I64, {}, {*n}};
    }
    MaybeKnown gather() {
        const auto x = known(0), index = known(1);
        const auto at = numbers(1);
        if (!x || !index || !at) return std::nullopt;
        const auto a = axis(c_.int_attribute("axis", 0), x->shape.size());
        if (!a) return std::nullopt;
        const auto n = static_cast<int64_t>(index->shape.size());
        Shape out(x->shape.begin(), x->shape.begin() + *a);
        out.insert(out.end(), index->shape.begin(), index->shape.end());
        out.insert(out.end(), x->shape.begin() + *a + 1, x->shape.end());
        const int64_t extent = x->shape[static_cast<size_t>(*a)];
        for (int64_t i : *at)
            if (i < -extent || i >= extent) return std::nullopt;
        return pick(*x, out, [&](const Shape& i) {
            const int64_t k =
                (*at)[static_cast<size_t>(ravel(Shape(i.begin() + *a, i.begin() + *a + n), index->shape))];
            Shape from(i.begin(), i.begin() + *a);
            from.push_back(k < 0 ? k + extent : k);
            from.insert(from.end(), i.begin() + *a + n, i.end());
            return ravel(from, x->shape);
        });
    }
    MaybeKnown gather_elements() {
        const auto x = known(0), index = known(1);
        const auto at = numbers(1);
        if (!x || !at || index->shape.size() != x->shape.size()) return std::nullopt;
        const auto a = axis(c_.int_attribute("axis", 0), x->shape.size());
        if (!a) return std::nullopt;
        const auto d = static_cast<size_t>(*a);
        return pick(*x, index->shape, [&](Shape i) -> int64_t {
            const int64_t k = (*at)[static_cast<size_t>(ravel(i, index->shape))];
            i[d] = k < 0 ? k + x->shape[d] : k;
            for (size_t j = 0; j < i.size(); ++j)
                if (i[j] < 0 || i[j] >= x->shape[j]) return -1;
            return ravel(i, x->shape);
        });
    }
    MaybeKnown gather_nd() {
        const auto x = known(0), index = known(1);
        const auto at = numbers(1);
        if (!x || !at || c_.int_attribute("batch_dims", 0) != 0 || index->shape.empty()) return std::nullopt;
        const int64_t depth = index->shape.back();
        if (depth > static_cast<int64_t>(x->shape.size())) return std::nullopt;
        Shape out(index->shape.begin(), index->shape.end() - 1);
        const size_t outer = out.size();
        out.insert(out.end(), x->shape.begin() + depth, x->shape.end());
        return pick(*x, out, [&](const Shape& i) -> int64_t {
            const int64_t row = ravel(Shape(i.begin(), i.begin() + static_cast<long>(outer)),
                                      Shape(index->shape.begin(), index->shape.end() - 1));
            Shape from;
            for (int64_t d = 0; d < depth; ++d) {
                const int64_t k = (*at)[static_cast<size_t>(row * depth + d)],
                              extent = x->shape[static_cast<size_t>(d)];
                if (k < -extent || k >= extent) return -1;
                from.push_back(k < 0 ? k + extent : k);
            }
            from.insert(from.end(), i.begin() + static_cast<long>(outer), i.end());
            return ravel(from, x->shape);
        });
    }
    MaybeKnown slice() {
        const auto x = known(0);
        if (!x) return std::nullopt;
        bool given = false, has_axes = false, has_steps = false;
        const auto starts = ints_or_input("starts", 1, given), ends = ints_or_input("ends", 2, given);
        auto axes = ints_or_input("axes", 3, has_axes), steps = ints_or_input("steps", 4, has_steps);
        if (!starts || !ends || starts->size() != ends->size() || (has_axes && !axes) || (has_steps && !steps))
            return std::nullopt;
        if (!has_axes) {
            axes.emplace(starts->size());
            std::iota(axes->begin(), axes->end(), 0);
        }
        if (!has_steps) steps.emplace(starts->size(), 1);
        if (axes->size() != starts->size() || steps->size() != starts->size()) return std::nullopt;
        const size_t rank = x->shape.size();
        Shape begin(rank, 0), step(rank, 1), out = x->shape;
        for (size_t i = 0; i < starts->size(); ++i) {
            const auto a = axis((*axes)[i], rank);
            const int64_t by = (*steps)[i];
            if (!a || by == 0 || by == INT64_MIN) return std::nullopt;
            const auto d = static_cast<size_t>(*a);
            const int64_t n = x->shape[d];
            if (n == 0) continue;
            const auto place = [&](int64_t v, int64_t low, int64_t high) {
                return std::clamp(v < 0 ? v + n : v, low, high);
            };
            const int64_t s = by > 0 ? place((*starts)[i], 0, n) : place((*starts)[i], 0, n - 1);
            const int64_t e = by > 0 ? place((*ends)[i], 0, n) : place((*ends)[i], -1, n - 1);
            begin[d] = s;
            step[d] = by;
            out[d] = by > 0 ? (e > s ? (e - s - 1) / by + 1 : 0) : (s > e ? (s - e - 1) / -by + 1 : 0);
        }
        return pick(*x, out, [&](Shape i) {
            for (size_t d = 0; d < rank; ++d) i[d] = begin[d] + i[d] * step[d];
            return ravel(i, x->shape);
        });
    }
    MaybeKnown concat() {
        std::vector<Known> parts;
        for (size_t i = 0; i < c_.input_count(); ++i) {
            auto k = known(i);
            if (!k) return std::nullopt;
            parts.push_back(std::move(*k));
        }
        if (parts.empty()) return std::nullopt;
        const size_t rank = parts[0].shape.size();
        const auto a = axis(c_.int_attribute("axis", c_.opset() < 4 ? 1 : 0), rank);
        if (!a) return std::nullopt;
        const auto d = static_cast<size_t>(*a);
        Known r{parts[0].dtype, parts[0].shape, {}};
        for (size_t i = 1; i < parts.size(); ++i) {
            if (parts[i].shape.size() != rank || parts[i].dtype != r.dtype) return std::nullopt;
            for (size_t j = 0; j < rank; ++j)
                if (j != d && parts[i].shape[j] != r.shape[j]) return std::nullopt;
            r.shape[d] += parts[i].shape[d];
        }
        if (element_count(r.shape) > kContentLimit) return std::nullopt;
        const int64_t outer = element_count(Shape(r.shape.begin(), r.shape.begin() + *a));
        for (int64_t o = 0; o < outer; ++o)
            for (const Known& p : parts) {
                const auto n = static_cast<long>(p.elements.size()) / outer;
                r.elements.insert(r.elements.end(), p.elements.begin() + o * n, p.elements.begin() + (o + 1) * n);
            }
        return r;
    }
    MaybeKnown squeeze() {
        auto x = known(0);
        bool given = false;
        const auto axes = ints_or_input("axes", 1, given);
        if (!x || (given && !axes)) return std::nullopt;
        std::vector<bool> drop(x->shape.size());
        for (size_t d = 0; d < drop.size(); ++d) drop[d] = !given && x->shape[d] == 1;
        for (int64_t a : given ? *axes : Ints{}) {
            const auto d = axis(a, x->shape.size());
            if (!d || x->shape[static_cast<size_t>(*d)] != 1) return std::nullopt;
            drop[static_cast<size_t>(*d)] = true;
        }
        Shape s;
        for (size_t d = 0; d < drop.size(); ++d)
            if (!drop[d]) s.push_back(x->shape[d]);
        x->shape = s;
        return x;
    }
    MaybeKnown unsqueeze() {
        auto x = known(0);
        bool given = false;
        const auto axes = ints_or_input("axes", 1, given);
        if (!x || !axes || axes->size() > 32) return std::nullopt;
        const size_t rank = x->shape.size() + axes->size();
        std::vector<bool> added(rank, false);
        for (int64_t a : *axes) {
            const auto d = axis(a, rank);
            if (!d || added[static_cast<size_t>(*d)]) return std::nullopt;
            added[static_cast<size_t>(*d)] = true;
        }
        Shape s;
        size_t from = 0;
        for (size_t d = 0; d < rank; ++d) s.push_back(added[d] ? 1 : x->shape[from++]);
        x->shape = s;
        return x;
    }
    MaybeKnown reshape() {
        auto x = known(0);
        bool given = false;
        auto s = ints_or_input("shape", 1, given);
        if (!x || !s || s->size() > 32) return std::nullopt;
        int open = -1;
        int64_t rest = 1;
        for (size_t d = 0; d < s->size(); ++d) {
            if ((*s)[d] == 0 && !c_.int_attribute("allowzero", 0)) {
                if (d >= x->shape.size()) return std::nullopt;
                (*s)[d] = x->shape[d];
            }
            if ((*s)[d] == -1) {
                if (open >= 0) return std::nullopt;
                open = static_cast<int>(d);
            } else if ((*s)[d] < 0 || (*s)[d] > kContentLimit) {
                return std::nullopt;
            } else if (__builtin_mul_overflow(rest, (*s)[d], &rest)) {
                return std::nullopt;
            }
        }
        const auto n = static_cast<int64_t>(x->elements.size());
        if (open >= 0) {
            if (rest == 0 || n % rest != 0) return std::nullopt;
            (*s)[static_cast<size_t>(open)] = n / rest;
        } else if (rest != n) {
            return std::nullopt;
        }
        x->shape = *s;
        return x;
    }
    MaybeKnown flatten() {
        auto x = known(0);
        if (!x) return std::nullopt;
        const auto rank = static_cast<int64_t>(x->shape.size());
        int64_t a = c_.int_attribute("axis", 1);
        if (a < -rank || a > rank) return std::nullopt;
        if (a < 0) a += rank;
        x->shape = {element_count(Shape(x->shape.begin(), x->shape.begin() + a)),
                    element_count(Shape(x->shape.begin() + a, x->shape.end()))};
        return x;
    }
    MaybeKnown transpose() {
        const auto x = known(0);
        if (!x) return std::nullopt;
        const size_t rank = x->shape.size();
        Ints perm(rank);
        std::iota(perm.rbegin(), perm.rend(), 0);
        if (auto p = c_.ints("perm")) perm = *p;
        Ints sorted = perm;
        std::sort(sorted.begin(), sorted.end());
        for (size_t d = 0; d < rank; ++d)
            if (sorted.size() != rank || sorted[d] != static_cast<int64_t>(d)) return std::nullopt;
        Shape out;
        for (int64_t p : perm) out.push_back(x->shape[static_cast<size_t>(p)]);
        return pick(*x, out, [&](const Shape& i) {
            Shape from(rank);
            for (size_t d = 0; d < rank; ++d) from[static_cast<size_t>(perm[d])] = i[d];
            return ravel(from, x->shape);
        });
    }
    MaybeKnown expand() {
        const auto x = known(0);
        const auto to = numbers(1);
        if (!x || !to || to->size() > 32) return std::nullopt;
        Shape out(std::max(to->size(), x->shape.size()), 1);
        for (size_t d = 0; d < out.size(); ++d) {
            const int64_t a = d < to->size() ? (*to)[to->size() - 1 - d] : 1;
            const int64_t b = d < x->shape.size() ? x->shape[x->shape.size() - 1 - d] : 1;
            if (a < 0 || (a != b && a != 1 && b != 1)) return std::nullopt;
            out[out.size() - 1 - d] = b == 1 ? a : b;
        }
        return pick(*x, out, [&](const Shape& i) {
            Shape from(i.end() - static_cast<long>(x->shape.size()), i.end());
            for (size_t d = 0; d < from.size(); ++d)
                if (x->shape[d] == 1) from[d] = 0;
            return ravel(from, x->shape);
        });
    }
    MaybeKnown tile() {
        const auto x = known(0);
        const auto times = numbers(1);
        if (!x || !times || times->size() != x->shape.size()) return std::nullopt;
        Shape out;
        for (size_t d = 0; d < times->size(); ++d) {
            int64_t n;
            if ((*times)[d] < 0 || __builtin_mul_overflow((*times)[d], x->shape[d], &n)) return std::nullopt;
            out.push_back(n);
        }
        return pick(*x, out, [&](Shape i) {
            for (size_t d = 0; d < i.size(); ++d) i[d] %= x->shape[d];
            return ravel(i, x->shape);
        });
    }
    MaybeKnown constant_of_shape() {
        const auto s = numbers(0);
        const auto fill = c_.tensor("value");
        if (!s || s->size() > 32 || !fill || fill->size() != 1 || is_float(fill->dtype())) return std::nullopt;
        const int64_t n = element_count(*s);
        if (n < 0 || n > kContentLimit) return std::nullopt;
        return Known{fill->dtype(), *s, std::vector<Sym>(static_cast<size_t>(n), fill->get_int(0))};
    }
    MaybeKnown range() {
        const auto start = known(0), limit = known(1), delta = known(2);
        if (!start || !limit || !delta || start->elements.size() != 1 || limit->elements.size() != 1 ||
            delta->elements.size() != 1)
            return std::nullopt;
        const auto by = delta->elements[0].constant();
        if (!by || *by == 0 || std::abs(*by) > (int64_t{1} << 40)) return std::nullopt;
        for (const auto* k : {&start, &limit})
            if (measure_.magnitude((*k)->elements[0]) > 0x1p53) return std::nullopt;
        // The count may be a number where the ends are not.
        const Sym first = start->elements[0], span = *by > 0 ? limit->elements[0] - first : first - limit->elements[0];
        const auto n = math::max(0, math::ceil_div(span, Sym(std::abs(*by)))).constant();
        if (!n || *n > kContentLimit) return std::nullopt;
        Known r{start->dtype, {*n}, {}};
        for (int64_t i = 0; i < *n; ++i) r.elements.push_back(first + Sym(i * *by));
        return r;
    }
    // Combines an update with what stood there, by the attribute `reduction`.
    std::optional<Sym> combine(const Sym& old, const Sym& update, DType t) {
        const std::string how = c_.string_attribute("reduction", "none");
        if (how == "none") return update;
        if (how == "add") return add(old, update, t, measure_);
        if (how == "mul") return multiply(old, update, t, measure_);
        if (how == "min") return minimum(old, update, t, measure_);
        if (how == "max") return maximum(old, update, t, measure_);
        return std::nullopt;
    }
    MaybeKnown scatter_elements() {
        auto x = known(0);
        const auto index = known(1), updates = known(2);
        const auto at = numbers(1);
        if (!x || !at || !updates || index->shape != updates->shape || index->shape.size() != x->shape.size() ||
            updates->dtype != x->dtype)
            return std::nullopt;
        const auto a = axis(c_.int_attribute("axis", 0), x->shape.size());
        if (!a) return std::nullopt;
        const auto d = static_cast<size_t>(*a);
        for (size_t k = 0; k < updates->elements.size(); ++k) {
            Shape i = unravel(static_cast<int64_t>(k), index->shape);
            i[d] = (*at)[k] < 0 ? (*at)[k] + x->shape[d] : (*at)[k];
            for (size_t j = 0; j < i.size(); ++j)
                if (i[j] < 0 || i[j] >= x->shape[j]) return std::nullopt;
            Sym& place = x->elements[static_cast<size_t>(ravel(i, x->shape))];
            const auto v = combine(place, updates->elements[k], x->dtype);
            if (!v) return std::nullopt;
            place = *v;
        }
        return x;
    }
    MaybeKnown scatter_nd() {
        auto x = known(0);
        const auto index = known(1), updates = known(2);
        const auto at = numbers(1);
        if (!x || !at || !updates || index->shape.empty() || updates->dtype != x->dtype) return std::nullopt;
        const int64_t depth = index->shape.back();
        if (depth < 0 || depth > static_cast<int64_t>(x->shape.size())) return std::nullopt;
        const int64_t rows = element_count(Shape(index->shape.begin(), index->shape.end() - 1));
        const int64_t run = element_count(Shape(x->shape.begin() + depth, x->shape.end()));
        if (rows < 0 || rows > kContentLimit) return std::nullopt;
        if (rows * run != static_cast<int64_t>(updates->elements.size())) return std::nullopt;
        for (int64_t row = 0; row < rows; ++row) {
            int64_t base = 0;
            for (int64_t d = 0; d < depth; ++d) {
                const int64_t extent = x->shape[static_cast<size_t>(d)];
                int64_t k = (*at)[static_cast<size_t>(row * depth + d)];
                if (k < -extent || k >= extent) return std::nullopt;
                base = base * extent + (k < 0 ? k + extent : k);
            }
            for (int64_t i = 0; i < run; ++i) {
                Sym& place = x->elements[static_cast<size_t>(base * run + i)];
                const auto v = combine(place, updates->elements[static_cast<size_t>(row * run + i)], x->dtype);
                if (!v) return std::nullopt;
                place = *v;
            }
        }
        return x;
    }
    MaybeKnown cumsum() {
        const auto x = known(0);
        const auto which = numbers(1);
        if (!x || !which || which->size() != 1) return std::nullopt;
        const auto a = axis((*which)[0], x->shape.size());
        if (!a) return std::nullopt;
        const auto d = static_cast<size_t>(*a);
        const bool exclusive = c_.int_attribute("exclusive", 0) != 0, reverse = c_.int_attribute("reverse", 0) != 0;
        Known r = *x;
        const int64_t stride = strides_of(x->shape)[d], extent = x->shape[d];
        for (int64_t i = 0; i < static_cast<int64_t>(x->elements.size()); ++i) {
            if (i / stride % extent != 0) continue;  // i is the first element of its line
            std::optional<Sym> sum = Sym(0);
            for (int64_t k = 0; k < extent; ++k) {
                const auto at = static_cast<size_t>(i + (reverse ? extent - 1 - k : k) * stride);
                if (exclusive) r.elements[at] = *sum;
                sum = add(*sum, x->elements[at], x->dtype, measure_);
                if (!sum) return std::nullopt;
                if (!exclusive) r.elements[at] = *sum;
            }
        }
        return r;
    }
    MaybeKnown non_zero() {
        const auto x = known(0);
        const auto at = numbers(0);
        if (!x || !at) return std::nullopt;
        std::vector<Shape> places;
        for (size_t i = 0; i < at->size(); ++i)
            if ((*at)[i] != 0) places.push_back(unravel(static_cast<int64_t>(i), x->shape));
        Known r{DType::I64, {static_cast<int64_t>(x->shape.size()), static_cast<int64_t>(places.size())}, {}};
        if (element_count(r.shape) > kContentLimit) return std::nullopt;
        for (size_t d = 0; d < x->shape.size(); ++d)
            for (const Shape& p : places) r.elements.emplace_back(p[d]);
        return r;
    }
    std::optional<std::vector<Known>> split() {
        const auto x = known(0);
        if (!x) return std::nullopt;
        const auto a = axis(c_.int_attribute("axis", 0), x->shape.size());
        bool given = false;
        auto sizes = ints_or_input("split", 1, given);
        if (!a || (given && !sizes)) return std::nullopt;
        const auto d = static_cast<size_t>(*a);
        const int64_t extent = x->shape[d];
        if (!given) {
            const auto n = static_cast<int64_t>(c_.output_count());
            if (n == 0) return std::nullopt;
            const int64_t each = (extent + n - 1) / n;  // the last may be smaller
            sizes.emplace();
            for (int64_t left = extent, i = 0; i < n; ++i, left -= sizes->back())
                sizes->push_back(std::min(each, left));
        }
        if (sizes->size() != c_.output_count()) return std::nullopt;
        std::vector<Known> r;
        int64_t start = 0;
        for (int64_t n : *sizes) {
            if (n < 0 || n > extent - start) return std::nullopt;
            Shape out = x->shape;
            out[d] = n;
            auto part = pick(*x, out, [&](Shape i) {
                i[d] += start;
                return ravel(i, x->shape);
            });
            if (!part) return std::nullopt;
            r.push_back(std::move(*part));
            start += n;
        }
        if (start != extent) return std::nullopt;
        return r;
    }

    const NodeContext& c_;
    SymMeasure& measure_;
};
}  // namespace

std::optional<std::vector<Known>> evaluate_content(const NodeContext& c, SymMeasure& measure) {
    if (auto r = Mover(c, measure).run()) return r;
    if (auto r = evaluate_math(c, measure)) return std::vector<Known>{std::move(*r)};
    return std::nullopt;
}

}  // namespace opwright::graph::onnx
