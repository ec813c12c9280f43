#include "verify/cross.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "derive/shape.h"
#include "math/localise.h"
#include "../operator.h"  // not verify/operator.h
#include "runtime/thread_pool.h"
#include "target/cpu/features.h"
#include "target/target.h"
#include "verify/cpu_target.h"
#include "verify/source_target.h"
#include "verify/stages.h"

namespace opwright::verify {
using namespace math;
namespace {

constexpr Pattern kPatterns[] = {Pattern::Random, Pattern::Ties, Pattern::Nan, Pattern::Zeros, Pattern::Extremes};

// How two ways of running agree over some cases.
struct Agreement {
    int cases = 0, equal = 0;
    std::string wrong;  // the first case where they do not

    CrossLine line(std::string name, const std::string& what) const {
        if (!wrong.empty()) return {std::move(name), true, false, fmt::format("{}: {}", what, wrong)};
        const std::string how = equal == cases ? fmt::format("equal to the bit in {} cases", cases)
                                               : fmt::format(
                                                     "equal to the bit in {} of {} cases, within the bound in the "
                                                     "others",
                                                     equal, cases);
        return {std::move(name), true, true, fmt::format("{}: {}", what, how)};
    }
};

// The stages of a Program one after the other, what passes between them in memory of its declared type.
Result<Compiled> staged(const Program& p, const Compile& target) {
    struct Part {
        Stage stage;
        Compiled kernel;
    };
    auto parts = std::make_shared<std::vector<Part>>();
    auto programs = std::make_shared<std::vector<Stage>>(stages(p));
    for (const Stage& s : *programs) {
        OPW_TRY(Compiled kernel, target(s.program));
        parts->push_back({s, kernel});
    }
    return Compiled([parts, programs, &p](const SymValues& sizes, const std::vector<Tensor>& in,
                                          std::vector<Tensor>& out) -> Status {
        std::map<TensorId, Tensor> values;
        for (size_t i = 0; i < in.size(); ++i) values[p.inputs[i]] = in[i];
        for (size_t o = 0; o < out.size(); ++o) values[p.outputs[o]] = out[o];
        for (const Part& x : *parts) {
            if (!values.count(x.stage.tensor)) {
                OPW_TRY(const Shape s, derive::concrete_shape(p, x.stage.tensor, sizes));
                values[x.stage.tensor] = Tensor(p.tensors[x.stage.tensor].dtype, s);
            }
            std::vector<Tensor> inputs, outputs{values[x.stage.tensor]};
            for (TensorId t : x.stage.reads) inputs.push_back(values[t]);
            OPW_CHECK(x.kernel(sizes, inputs, outputs));
        }
        return ok_status();
    });
}

class Cross {
public:
    Cross(const lang::Library& l, std::string op, const CrossOptions& o) : library_(l), op_(std::move(op)), o_(o) {}

    Result<std::vector<CrossLine>> run() {
        OPW_CHECK(prepare());
        OPW_TRY(const Compiled base, cpu(o_.cpu, many_)(program_));
        OPW_CHECK(make_cases(base));
        threads(base);
        fusion(base);
        vectors(base);
        schedules(base);
        cache();
        for (const std::string& t : o_.targets) other_target(t, base);
        return std::move(lines_);
    }

private:
    // The first example with a symbol for each extent that is not 1, or as it stands where the declaration wants
    // numbers.
    Status prepare() {
        const lang::OpDecl* d = library_.find(op_);
        OPW_TRY(const auto examples, library_.examples(*d));
        if (examples.empty()) {
            OPW_TRY(program_, library_.elaborate_symbolic(op_));
            return ok_status();
        }
        const lang::Example& e = examples[0];
        attributes_ = e.attributes;
        std::vector<lang::Argument> open = e.arguments;
        for (size_t i = 0; i < open.size(); ++i) {
            if (open[i].present) {
                const auto v = i < e.values.size() ? e.values[i] : std::nullopt;
                ranges_.push_back(v ? std::optional<Range>(Range{v->low, v->high}) : std::nullopt);
            }
            present_.push_back(open[i].present);
            for (Sym& s : open[i].shape)
                if (const auto c = s.constant(); c && *c != 1) {
                    const std::string n = fmt::format("n{}", *c);
                    s = Sym::symbol(n);
                    base_[n] = *c;
                }
        }
        auto p = library_.elaborate(op_, open, e.attributes);
        if (!p.ok()) p = library_.elaborate(op_, e.arguments, e.attributes);
        OPW_TRY(program_, std::move(p));
        return ok_status();
    }
    Status make_cases(const Compiled& base) {
        const SizeOptions around{
            .tiles = usable_widths(base->widths()), .max_work = o_.max_work, .count = 3 * o_.sizes};
        std::vector<SymValues> sizes = edge_sizes(program_, base_, around);
        if (sizes.empty()) return Diagnostic(fmt::format("No case of '{}' could be made.", op_));
        // Spread over the list: its end has the random combinations.
        uint64_t seed = 1;
        for (size_t i = 0; i < std::min(o_.sizes, sizes.size()); ++i) {
            const SymValues& s = sizes[i * sizes.size() / std::min(o_.sizes, sizes.size())];
            for (Pattern q : kPatterns) {
                cases_.push_back({s, make_inputs(program_, s, q, seed, ranges_), {}, q, seed});
                ++seed;
            }
        }
        return ok_status();
    }

    static Compile cpu(const target::cpu::Options& o, runtime::ThreadPool& pool) { return cpu_target(o, pool); }

    static std::vector<std::string> bits(const Delivery& d) {
        std::vector<std::string> r;
        for (const Guarded& g : d.outputs)
            r.emplace_back(reinterpret_cast<const char*>(g.view().data),
                           static_cast<size_t>(g.view().size()) * size_of(g.view().dtype));
        return r;
    }
    std::string place(const Case& c) const {
        return fmt::format("{}, {} values, seed {}", arguments_text(program_, c.sizes), name(c.pattern), c.seed);
    }
    // `strict`: the bits must be the same.
    Agreement compare_subjects(const Compiled& a, const Compiled& b, size_t every = 1, bool strict = false) const {
        Agreement r;
        for (size_t i = 0; i < cases_.size(); i += every) {
            const Case& c = cases_[i];
            const auto x = deliver(program_, a, c), y = deliver(program_, b, c);
            ++r.cases;
            if (x.ok() && y.ok() && x->status.ok() == y->status.ok() && (!x->status.ok() || bits(*x) == bits(*y))) {
                ++r.equal;
                continue;
            }
            if (strict) {
                r.wrong = "they differ for " + place(c);
                return r;
            }
            for (const Compiled* s : {&a, &b}) {
                const CaseReport one = run_case(program_, *s, c);
                if (one.passed()) continue;
                r.wrong = fmt::format("the {} fails for {}: {}", s == &a ? "first" : "second", place(c), one.message);
                return r;
            }
        }
        return r;
    }
    void add(CrossLine l) { lines_.push_back(std::move(l)); }
    void skip(std::string name, std::string why) { add({std::move(name), false, true, std::move(why)}); }

    void threads(const Compiled& base) {
        const auto one = cpu(o_.cpu, single_)(program_);
        if (!one.ok()) return;
        add(compare_subjects(*one, base, 1, true).line("threads", "one thread and four"));
        add(compare_subjects(base, base, 1, true).line("repeated", "two runs on four threads"));
    }
    void fusion(const Compiled& base) {
        if (stages(program_).size() < 2) return skip("fusion", "not run: the declaration is one stage");
        const auto apart = staged(program_, cpu(o_.cpu, many_));
        if (!apart.ok()) return skip("fusion", "not run: " + one_line(apart.error()));
        add(compare_subjects(base, *apart).line("fusion", "one kernel, and a kernel for each stage"));
    }
    void vectors(const Compiled& base) {
        for (target::cpu::Level level : target::cpu::kLevels) {
            if (!target::cpu::features_at(level)) continue;
            target::cpu::Options o = o_.cpu;
            o.level = target::cpu::name(level);
            if (o.level == o_.cpu.level || (o_.cpu.level.empty() && level == target::cpu::host_features().level))
                continue;
            const auto other = cpu(o, many_)(program_);
            if (!other.ok()) continue;
            add(compare_subjects(base, *other).line("vectors", fmt::format("this vector unit and {}", o.level)));
        }
    }

    void schedules(const Compiled& base) {
        const auto local = math::localise(program_);
        const target::cpu::Request request{
            .program = &local.program, .constant_inputs = std::vector<bool>(program_.inputs.size()), .keep_text = true};
        const auto kernel = target::cpu::compile(std::span(&request, 1), o_.cpu);
        if (!kernel[0].ok()) return;
        int legal = 0, illegal = 0;
        Agreement sum;
        for (const std::string& s : schedule_variants((*kernel[0])->text("schedule-json"), o_.schedules)) {
            target::cpu::Options o = o_.cpu;
            o.schedule = s;
            o.cache = false;
            const auto other = cpu(o, many_)(program_);
            if (!other.ok()) {
                ++illegal;
                continue;
            }
            ++legal;
            const Agreement a = compare_subjects(base, *other, 3);
            sum.cases += a.cases;
            sum.equal += a.equal;
            if (a.wrong.empty()) continue;
            sum.wrong = fmt::format("{}; the schedule is {}", a.wrong, s);
            break;
        }
        add(sum.line("schedules",
                     fmt::format("the default and {} others ({} more are illegal, and refused)", legal, illegal)));
    }

    // Compiled versions are kept by shapes and on disk: neither may change what comes out.
    void cache() {
        std::vector<const Case*> shapes;
        for (const Case& c : cases_)
            if (c.pattern == Pattern::Random && shapes.size() < 3) shapes.push_back(&c);
        CompileOptions options;
        options.execution.cpu = o_.cpu;
        const auto run = [&](bool disk, bool backwards) -> Result<std::vector<std::vector<std::string>>> {
            options.execution.cpu.cache = disk;
            const auto pool = std::shared_ptr<runtime::ThreadPool>(&many_, [](auto*) {});
            OPW_TRY(const auto op, Operator::make(library_, op_, attributes_, options, pool));
            std::vector<std::vector<std::string>> r(shapes.size());
            for (size_t twice = 0; twice < 2; ++twice)
                for (size_t i = 0; i < shapes.size(); ++i) {
                    const size_t k = backwards ? shapes.size() - 1 - i : i;
                    std::vector<Tensor> in;
                    for (size_t given = 0, next = 0; given < present_.size(); ++given)
                        in.push_back(present_[given] ? shapes[k]->inputs[next++] : Tensor());
                    if (present_.empty()) in = shapes[k]->inputs;
                    auto out = op->run(in);
                    std::vector<std::string> bytes;
                    if (!out.ok()) bytes.push_back("error: " + out.error().message);
                    for (size_t o = 0; out.ok() && o < out->size(); ++o)
                        bytes.emplace_back(static_cast<const char*>((*out)[o].data()), (*out)[o].bytes());
                    if (twice && bytes != r[k])
                        return Diagnostic("a second run with " + place(*shapes[k]) + " differs from the first");
                    r[k] = std::move(bytes);
                }
            return r;
        };
        std::optional<std::vector<std::vector<std::string>>> first;
        for (const auto& [disk, backwards, what] :
             {std::tuple(false, false, "without the disk cache"), std::tuple(true, false, "with the disk cache"),
              std::tuple(true, true, "from the disk cache, shapes in the other order"),
              std::tuple(false, true, "without the disk cache, shapes in the other order")}) {
            const auto r = run(disk, backwards);
            if (!r.ok() && !first) return skip("cache", "not run: " + one_line(r.error()));
            if (!r.ok() || (first && *r != *first))
                return add(
                    {"cache", true, false, fmt::format("{}: {}", what, r.ok() ? "other bits" : r.error().message)});
            first = *r;
        }
        add({"cache", true, true,
             fmt::format("compiled afresh and from the disk, {} shapes in both orders: equal to the bit",
                         shapes.size())});
    }

    void other_target(const std::string& name, const Compiled& base) {
        const auto t = target::find_target(name);
        if (!t.ok()) return;
        const std::string label = "on " + name;
        if (const std::string why = (*t)->cannot_run(); !why.empty()) return skip(label, "not run: " + why);
        const auto other = source_target(**t)(program_);
        if (!other.ok()) {
            const std::string why = one_line(other.error());
            return skip(label, why.rfind("not run", 0) == 0 || why.rfind("refused", 0) == 0 ? why : "not run: " + why);
        }
        add(compare_subjects(base, *other, 2).line(label, "the CPU and " + (*t)->runs_on()));
    }

    const lang::Library& library_;
    std::string op_;
    const CrossOptions& o_;
    Program program_;
    SymValues base_;
    lang::Attributes attributes_;
    std::vector<bool> present_;  // of the parameters
    std::vector<std::optional<Range>> ranges_;
    std::vector<Case> cases_;
    runtime::ThreadPool single_{1}, many_{4};
    std::vector<CrossLine> lines_;
};
}  // namespace

Result<std::vector<CrossLine>> cross_check(const lang::Library& library, const std::string& op, const CrossOptions& o) {
    if (!library.find(op)) return Diagnostic(fmt::format("There is no operator '{}'.", op));
    return Cross(library, op, o).run();
}

}  // namespace opwright::verify
