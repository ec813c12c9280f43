#include "verify/operator.h"

#include <fmt/format.h>

#include <algorithm>

#include "derive/bounded.h"

namespace opwright::verify {
using namespace math;
namespace {

class OperatorCheck {
public:
    OperatorCheck(const lang::Library& l, const std::string& op, const CompileFor& target, const OperatorOptions& o)
        : library_(l), op_(op), target_(target), options_(o) {
        report_.name = op;
    }

    Report run() {
        const lang::OpDecl* d = library_.find(op_);
        const auto examples =
            d ? library_.examples(*d) : Result<std::vector<lang::Example>>(Diagnostic("unknown operator " + op_));
        if (!examples.ok()) {
            fail(one_line(examples.error()));
            return std::move(report_);
        }
        if (examples->empty()) {  // nothing says which ranks, types or values it is meant for
            const auto p = library_.elaborate_symbolic(op_);
            if (!p.ok()) {
                fail(one_line(p.error()));
                return std::move(report_);
            }
            Report r = check_program(*p, target_({}), options_.check);
            for (TensorId t : p->inputs) r.types.emplace_back(opwright::name(p->tensors[t].dtype));
            come_from(r, {op_, {}, {}, true});
            report_.add(r);
            return std::move(report_);
        }
        bool first = true;
        for (const lang::Example& e : *examples) {
            const std::optional<DType> from = type_to_replace(e);
            const bool replaced = options_.only && from && is_float(*from);
            variant(e, from.value_or(DType::F32), replaced ? *options_.only : from.value_or(DType::F32), first);
            first = false;
            if (replaced) continue;
            if (!from) continue;
            for (DType to : is_float(*from) ? options_.types : options_.integer_types)
                if (to != *from && fits(e, *from, to)) variant(e, *from, to, false);
        }
        return std::move(report_);
    }

private:
    // The float type that an example holds, or else the type of its first argument; nothing where it has none.
    static std::optional<DType> type_to_replace(const lang::Example& e) {
        std::optional<DType> least, first;
        for (const lang::Argument& a : e.arguments) {
            if (!a.present) continue;
            if (!first) first = a.dtype;
            if (is_float(a.dtype)) least = std::min(least.value_or(a.dtype), a.dtype);
        }
        return least ? least : first;
    }

    // Whether the values that are stated for arguments of the one type exist in the other.
    static bool fits(const lang::Example& e, DType from, DType to) {
        if (is_float(to)) return true;
        for (size_t i = 0; i < std::min(e.arguments.size(), e.values.size()); ++i)
            if (e.arguments[i].present && e.arguments[i].dtype == from && e.values[i] &&
                (e.values[i]->low < static_cast<double>(derive::lowest_int(to)) ||
                 e.values[i]->high - 1 > static_cast<double>(derive::highest_int(to))))
                return false;
        return true;
    }

    void fail(std::string message) {
        CaseReport c;
        c.outcome = Outcome::CompileFailed;
        c.message = std::move(message);
        report_.add(std::move(c));
    }

    // The example with one type in place of another: once as it stands, once with symbols for its extents.
    void variant(const lang::Example& example, DType from, DType to, bool full) {
        const bool as_stated = from == to;
        const Compile target = target_(example);
        std::vector<lang::Argument> fixed = example.arguments;
        std::vector<std::optional<Range>> ranges;
        for (size_t i = 0; i < fixed.size(); ++i) {
            if (fixed[i].dtype == from) fixed[i].dtype = to;
            if (!fixed[i].present) continue;
            const auto v = i < example.values.size() ? example.values[i] : std::nullopt;
            ranges.push_back(v ? std::optional<Range>(Range{v->low, v->high}) : std::nullopt);
        }
        const auto p = library_.elaborate(op_, fixed, example.attributes);
        if (!p.ok()) {
            if (as_stated)
                fail(one_line(p.error()));
            else
                ++report_.rejected;
            return;
        }
        CheckOptions o = options_.check;
        if (!full) {
            o.sizes.count = std::max<size_t>(o.sizes.count / 3, 3);
            thin(o.patterns);
        }
        o.sizes.seed = o.seed + static_cast<uint64_t>(to);
        take(check_program(*p, target, o, {}, ranges), example, fixed, to);

        SymValues base;
        std::vector<lang::Argument> open = fixed;
        for (lang::Argument& a : open)
            for (Sym& s : a.shape)
                if (const auto c = s.constant(); c && *c != 1) {
                    const std::string n = fmt::format("n{}", *c);
                    s = Sym::symbol(n);
                    base[n] = *c;
                }
        if (base.empty()) return;
        const auto q = library_.elaborate(op_, open, example.attributes);
        if (q.ok()) return take(check_program(*q, target, o, base, ranges), example, open, to);
        // The declaration needs numbers here: a Program for each size.
        Program names;
        for (auto& [n, v] : base) names.add_var(n, Sym::symbol(n));
        const auto sizes = edge_sizes(
            names, base, {.tiles = o.sizes.tiles, .max_work = o.sizes.max_work, .count = 12, .seed = o.sizes.seed});
        for (const SymValues& s : sizes) {
            std::vector<lang::Argument> at = open;
            for (lang::Argument& a : at)
                for (Sym& d : a.shape) d = Sym(evaluate(d, s).value_or(1));
            const auto program = library_.elaborate(op_, at, example.attributes);
            if (!program.ok()) {
                ++report_.rejected;
                continue;
            }
            CheckOptions one = o;
            thin(one.patterns);
            take(check_program(*program, target, one, {}, ranges), example, at, to);
        }
    }

    void thin(std::vector<Pattern>& patterns) {
        std::vector<Pattern> kept{Pattern::Random};
        for (size_t i = 0; i < patterns.size(); ++i)
            if (patterns[i] != Pattern::Random && (i + turn_) % 3 == 0) kept.push_back(patterns[i]);
        ++turn_;
        patterns = std::move(kept);
    }

    static void come_from(Report& r, Origin o) {
        if (!r.failure) return;
        Failure f = *r.failure;
        f.origin = std::move(o);
        f.report.arguments = r.smallest_failure->arguments;
        r.failure = std::make_shared<const Failure>(std::move(f));
    }

    void take(Report r, const lang::Example& e, const std::vector<lang::Argument>& arguments, DType t) {
        const std::string settings = e.attributes.empty() ? "" : "; " + attributes_text(e.attributes);
        if (r.smallest_failure) r.smallest_failure->arguments += settings;
        for (CaseReport& c : r.failures) c.arguments += settings;
        come_from(r, {op_, arguments, e.attributes, false});
        if (r.cases) r.types.emplace_back(opwright::name(t));
        report_.add(r);
    }

    const lang::Library& library_;
    const std::string& op_;
    const CompileFor& target_;
    const OperatorOptions& options_;
    Report report_;
    size_t turn_ = 0;
};
}  // namespace

Report check_operator(const lang::Library& library, const std::string& op, const Compile& target,
                      const OperatorOptions& o) {
    return check_operator(library, op, CompileFor([&](const lang::Example&) { return target; }), o);
}
Report check_operator(const lang::Library& library, const std::string& op, const CompileFor& target,
                      const OperatorOptions& o) {
    return OperatorCheck(library, op, target, o).run();
}

}  // namespace opwright::verify
