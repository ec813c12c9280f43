#include "explain/recognise.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "lang/library.h"
#include "math/inline.h"
#include "math/normal_form.h"
#include "math/unit_dims.h"

namespace opwright::explain {
namespace {
using math::Program;
using math::Sym;
using math::TensorId;

// An operator of the library, and how its parameters are made from the shape of its first.
struct Pattern {
    const char* op;
    enum Kind { Map, TrailingAxis, Axes } kind;
    int extra = 0;            // further parameters that it has, each over the dims that are reduced
};
constexpr Pattern kPatterns[] = {
    {"layer_norm", Pattern::TrailingAxis, 2}, {"rms_norm", Pattern::TrailingAxis, 1}, {"softmax", Pattern::Axes}, {"log_softmax", Pattern::Axes},
    {"mean_variance_norm", Pattern::Axes},    {"gelu", Pattern::Map},                 {"gelu_tanh", Pattern::Map}, {"quick_gelu", Pattern::Map},
    {"silu", Pattern::Map},                   {"mish", Pattern::Map},                 {"hard_swish", Pattern::Map}, {"sigmoid", Pattern::Map},
    {"softplus", Pattern::Map},               {"softsign", Pattern::Map},             {"swiglu", Pattern::Map, 1},
};

// Normal forms of the patterns for tensors of this shape, with the dims that are reduced.
std::map<std::string, std::string> forms(const std::vector<Sym>& shape, const std::vector<bool>& reduced) {
    const lang::Library& library = lang::Library::standard();
    const size_t rank = shape.size();
    size_t axis = rank;
    while (axis > 0 && reduced[axis - 1]) --axis;
    const bool trailing = axis < rank && std::none_of(reduced.begin(), reduced.begin() + static_cast<std::ptrdiff_t>(axis), [](bool b) { return b; });
    const bool reduces = std::find(reduced.begin(), reduced.end(), true) != reduced.end();
    std::map<std::string, std::string> r;
    for (const Pattern& pattern : kPatterns) {
        if ((pattern.kind == Pattern::Map) == reduces || (pattern.kind == Pattern::TrailingAxis && !trailing)) continue;
        for (int present = 0; present < 1 << pattern.extra; ++present) {   // each further parameter there or not
            if (pattern.kind == Pattern::Map && present != (1 << pattern.extra) - 1) continue;
            std::vector<lang::Argument> arguments{{DType::F32, shape}};
            for (int i = 0; i < pattern.extra; ++i) {
                lang::Argument a{DType::F32, pattern.kind == Pattern::Map ? shape : std::vector<Sym>(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end())};
                a.present = present >> i & 1;
                if (!a.present) a.shape.clear();
                arguments.push_back(std::move(a));
            }
            lang::Attributes attributes;
            if (pattern.kind == Pattern::TrailingAxis) attributes.emplace("axis", Sym(static_cast<int64_t>(axis)));
            if (pattern.kind == Pattern::Axes) {
                std::vector<Sym> axes;
                for (size_t d = 0; d < rank; ++d)
                    if (reduced[d]) axes.emplace_back(static_cast<int64_t>(d));
                attributes.emplace("axes", axes);
            }
            auto elaborated = library.elaborate(pattern.op, arguments, attributes, lang::Broadcasting::Known);
            if (!elaborated.ok()) continue;
            const Program p = math::drop_unit_variables(*elaborated);
            for (size_t e = 0; e < p.equations.size(); ++e) {
                if (p.equations[e].lhs != p.outputs[0]) continue;
                std::vector<TensorId> inputs;
                const std::vector<TensorId> used = math::depends_on(p, e, {});
                for (TensorId t : p.inputs)
                    if (std::find(used.begin(), used.end(), t) != used.end()) inputs.push_back(t);
                if (const auto form = math::normal_form(p, e, inputs)) r.emplace(*form, pattern.op);
            }
        }
    }
    return r;
}

const std::map<std::string, std::string>& remembered_forms(const std::vector<Sym>& shape, const std::vector<bool>& reduced) {
    static std::mutex mutex;
    static std::map<std::string, std::map<std::string, std::string>> known;
    std::string key;
    for (size_t d = 0; d < shape.size(); ++d) key += shape[d].str() + (reduced[d] ? "! " : " ");
    const std::lock_guard lock(mutex);
    auto it = known.find(key);
    if (it == known.end()) it = known.emplace(key, forms(shape, reduced)).first;
    return it->second;
}

class Recogniser {
public:
    Recogniser(const graph::Graph& g, const graph::Node& n) : p_(n.program) {
        for (size_t i = 0; i < n.inputs.size(); ++i)
            if (const auto& c = g.values[n.inputs[i]].constant; c && c->size() == 1 && is_float(c->dtype())) numbers_[p_.inputs[i]] = c->get(0);
    }

    std::vector<std::string> run() {
        std::vector<std::string> found;
        // From the last equation back: what lies behind a part that was recognised belongs to it.
        for (size_t e = p_.equations.size(); e-- > 0;) {
            if (std::find(inside_.begin(), inside_.end(), e) != inside_.end()) continue;
            if (const std::string name = name_of(e); !name.empty()) found.push_back(name);
        }
        std::reverse(found.begin(), found.end());
        return found;
    }

    // Whether what was found is all of the program.
    bool whole() const {
        for (size_t e = 0; e < p_.equations.size(); ++e)
            if (std::find(inside_.begin(), inside_.end(), e) == inside_.end()) return false;
        return true;
    }

private:
    // The operator that equation e ends, over the program's inputs or over one tensor that an earlier equation sets.
    std::string name_of(size_t e) {
        std::vector<std::vector<TensorId>> starts{{}};
        for (size_t b = e; b-- > 0;) starts.push_back({p_.equations[b].lhs});
        for (const auto& kept : starts) {
            std::vector<TensorId> used = math::depends_on(p_, e, kept, numbers_);
            if (used.empty() || used.size() > 3) continue;
            std::sort(used.begin(), used.end());
            do {
                const std::vector<Sym>& shape = p_.tensors[used[0]].shape;
                if (shape.size() != p_.tensors[p_.equations[e].lhs].shape.size()) continue;
                const auto form = math::normal_form(p_, e, used, numbers_);
                if (!form) break;
                const auto& known = remembered_forms(shape, reduced(e, used, shape.size()));
                if (const auto it = known.find(*form); it != known.end()) {
                    mark(e, kept);
                    return it->second;
                }
            } while (std::next_permutation(used.begin(), used.end()));
        }
        return "";
    }

    // Dims of the first tensor that some reduction on the way runs over.
    std::vector<bool> reduced(size_t e, const std::vector<TensorId>& used, size_t rank) const {
        std::vector<bool> r(rank);
        const auto form = math::normal_form(p_, e, used, numbers_);
        for (size_t d = 0; d < rank; ++d) r[d] = form->find(fmt::format("r{}", d)) != std::string::npos;
        return r;
    }

    void mark(size_t end, const std::vector<TensorId>& kept) {
        std::vector<size_t> stack{end};
        while (!stack.empty()) {
            const size_t e = stack.back();
            stack.pop_back();
            inside_.push_back(e);
            for (TensorId t : p_.reads(p_.equations[e].rhs))
                for (size_t b = 0; b < e; ++b)
                    if (p_.equations[b].lhs == t && std::find(kept.begin(), kept.end(), t) == kept.end() &&
                        std::find(inside_.begin(), inside_.end(), b) == inside_.end())
                        stack.push_back(b);
        }
    }

    const Program& p_;
    std::map<TensorId, double> numbers_;
    std::vector<size_t> inside_;
};
}  // namespace

namespace {
bool small_enough(const graph::Node& n) { return n.kind == graph::NodeKind::Compute && n.sources.size() >= 2 && n.program.equations.size() <= 16; }
}  // namespace

std::vector<std::string> recognise(const graph::Graph& g, const graph::Node& n) {
    return small_enough(n) ? Recogniser(g, n).run() : std::vector<std::string>{};
}

std::string recognised_text(const graph::Graph& g, const graph::Node& n, bool parts) {
    if (!small_enough(n)) return "";
    Recogniser r(g, n);
    const auto names = r.run();
    if (names.empty() || !(parts || r.whole())) return "";
    return fmt::format("{} ({} {} operators)", fmt::join(names, " + "), r.whole() ? "from" : "a part of", n.sources.size());
}

}  // namespace opwright::explain
