#include "verify/random_model_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <random>

#include "runtime/thread_pool.h"
#include "target/cpu/features.h"
#include "target/target.h"
#include "verify/graph_check.h"
#include "verify/model_against.h"

namespace opwright::verify {
namespace {

// The models of all seeds take turns on these.
runtime::ThreadPool& two_threads() {
    static runtime::ThreadPool pool(2);
    return pool;
}
std::shared_ptr<runtime::ThreadPool> one_thread() {
    static const auto pool = std::make_shared<runtime::ThreadPool>(1);
    return pool;
}

bool same_bits(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() &&
           (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}
std::string sizes_of(const NamedInputs& in) {
    std::string r;
    for (const auto& [n, t] : in) r += fmt::format("{}{} {}", r.empty() ? "" : ", ", n, to_string(t.shape()));
    return r;
}

// A few elements that are no ordinary numbers.
NamedInputs special(const NamedInputs& in) {
    constexpr double values[] = {NAN, INFINITY, -INFINITY, -0.0, 1e-40, 3e38, -65504};
    std::mt19937_64 random(1);
    NamedInputs r;
    for (const auto& [n, t] : in) {
        Tensor x = t.clone();
        for (int k = 0; is_float(x.dtype()) && x.size() > 0 && k < 3; ++k)
            x.set(k == 0 ? x.size() - 1 : static_cast<int64_t>(random() % static_cast<uint64_t>(x.size())),
                  values[random() % std::size(values)]);
        r[n] = std::move(x);
    }
    return r;
}

class Check {
public:
    Check(const RandomModel& m, const CompileOptions& o, uint64_t seed) : m_(m), seed_(seed), options_(o) {}

    ModelVerdict run() {
        CompileOptions fused = options_, plain = options_;
        fused.check = plain.check = true;
        fused.fuse = true;
        plain.fuse = false;
        // Compiling takes most of the time, and the unfused model has most of the kernels.
        interpreted_ = (seed_ / 2) % 3 != 0;
        if (interpreted_) plain.execution = {.engine = runtime::Engine::Reference};
        const auto parsed = [&](const CompileOptions& o) {
            auto r = Model::parse(m_.bytes, o, one_thread());
            if (!r.ok()) r_.refused = r.error().message;
            return r.ok() ? *r : nullptr;
        };
        fused_ = parsed(fused);
        plain_ = parsed(plain);
        if (!fused_ || !plain_) return r_;
        // What rounding may move is found by moving values between kernels, where the host can.
        rounding_ = plain_;
        if (options_.execution.target && !interpreted_) {
            plain.execution = {.engine = runtime::Engine::Reference};
            if (rounding_ = parsed(plain); !rounding_) return r_;
        }
        for (const auto& v : fused_->outputs()) names_.push_back(v.name);
        for (const NamedInputs& in : m_.inputs) {
            auto sets = value_sets(in, "random", seed_);
            one_set(sets[0]);
            if (r_.wrong.empty() && r_.refused.empty()) one_set(sets[1 + seed_ % 3]);
            if (r_.wrong.empty() && r_.refused.empty() && seed_ % 4 == 0) one_set({"special", special(in)});
            if (!r_.wrong.empty()) break;
            if (!r_.refused.empty() && r_.runs > 0) r_.refused.clear();  // of other sizes than it was made at
        }
        return r_;
    }

private:
    void wrong(const ValueSet& set, const std::string& what) {
        if (r_.wrong.empty()) r_.wrong = fmt::format("{} ({} values, {})", what, set.name, sizes_of(set.inputs));
    }
    void one_set(const ValueSet& set) {
        const auto f = fused_->run(set.inputs), p = plain_->run(set.inputs);
        if (!f.ok() && (!p.ok() || options_.execution.target)) {  // a target may lack a form that the reference has
            r_.refused = f.error().message;
            return;
        }
        if (!f.ok() || !p.ok())
            return wrong(set, fmt::format("{} fusion is refused, and the other way runs: {}", f.ok() ? "without" : "with",
                                          (f.ok() ? p : f).error().message));
        ++r_.runs;
        const auto version = *fused_->version(set.inputs), other = *plain_->version(set.inputs);
        const auto arguments = *fused_->arguments(*version, set.inputs);
        threads(set, *version, arguments, *f);
        if (set.name == "special") {  // what becomes of NaN on the way is for the kernels to say
            kernels(set, *version, arguments, "fused");
            return;
        }
        if (set.name == "random") {
            r_.launched += kernels(set, *version, arguments, "fused");
            if (!interpreted_) kernels(set, *other, *plain_->arguments(*other, set.inputs), "unfused");
            const auto& nodes = other->executable->graph().nodes;
            r_.unfused += std::count_if(nodes.begin(), nodes.end(), [](const auto& n) { return n.kind == graph::NodeKind::Compute; });
        }
        if (r_.wrong.empty()) outputs(set, *f, *p);
    }
    void threads(const ValueSet& set, const opwright::Compiled& c, const std::vector<Tensor>& arguments, const std::vector<Tensor>& one) {
        if (options_.execution.target) return;
        const auto two = c.executable->run(arguments, two_threads());
        if (!two.ok()) return wrong(set, "with two threads: " + two.error().message);
        for (size_t i = 0; i < one.size(); ++i)
            if (!same_bits(one[i], (*two)[i])) wrong(set, fmt::format("{}: two threads give other bits than one", names_[i]));
    }
    int64_t kernels(const ValueSet& set, const opwright::Compiled& c, const std::vector<Tensor>& arguments, const char* which) {
        const auto report = check_graph(c, nullptr, arguments, *one_thread());
        if (!report.ok()) {
            wrong(set, fmt::format("{}, kernel by kernel: {}", which, report.error().message));
            return 0;
        }
        for (const KernelCheck& k : report->kernels)
            if (k.verdict == Verdict::Wrong) wrong(set, fmt::format("{} kernel {} ({}): {}", which, k.name, k.type, k.message));
        r_.kernels += static_cast<int64_t>(report->kernels.size());
        return static_cast<int64_t>(report->kernels.size());
    }
    // Whether a kernel may keep more bits between two operators than the model's own values have: CUDA, Triton and Ascend leave the
    // rounding to 16 bits to what is stored (docs/numerics.md).
    bool keeps_more(const graph::Graph& g) const {
        return options_.execution.target && options_.execution.target->name() != "c" &&
               std::any_of(g.values.begin(), g.values.end(), [](const graph::Value& v) { return is_float(v.dtype) && size_of(v.dtype) == 2; });
    }
    void outputs(const ValueSet& set, const std::vector<Tensor>& fused, const std::vector<Tensor>& plain) {
        std::optional<Result<ModelNoise>> noise;
        const auto once = [&](const NamedInputs& in) {
            if (!noise) noise = noise_of(rounding_, seed_)(in);
            return *noise;
        };
        const bool wide = keeps_more((*plain_->version(set.inputs))->executable->graph());
        const auto run = [](const std::vector<Tensor>& r) { return [&r](const NamedInputs&) -> Result<std::vector<Tensor>> { return r; }; };
        const auto compare = [&](const char* what, const std::vector<Tensor>& with) {
            const auto r = compare_runs(names_, {set}, run(fused), run(with), once);
            if (!r.ok()) return wrong(set, fmt::format("{}: {}", what, r.error().message));
            for (size_t i = 0; i < r->outputs.size(); ++i) {
                const OutputComparison& o = r->outputs[i];
                // Without a bound for each element in between, nobody knows what rounding may move.
                const bool bounded = noise->ok() && (*noise)->unbounded == 0 && !wide;
                ++r_.outputs;
                r_.ill += !bounded || o.verdict == "ill-conditioned";
                const bool judged = (bounded && !m_.chosen.count(names_[i])) || fused[i].shape() != with[i].shape() || fused[i].dtype() != with[i].dtype();
                if (!o.passed && judged)
                    wrong(set, fmt::format("{} differs from {} by {:.3g} at {}, where {:.3g} is allowed{}{}", o.name, what, o.difference,
                                           to_string(o.where), o.allowed, o.note.empty() ? "" : "; ", o.note));
            }
        };
        compare("the unfused run", plain);
        if (noise && noise->ok()) compare("the reference", (*noise)->exact);
    }

    const RandomModel& m_;
    uint64_t seed_;
    bool interpreted_ = false;  // the unfused model
    CompileOptions options_;
    std::shared_ptr<Model> fused_, plain_, rounding_;
    std::vector<std::string> names_;
    ModelVerdict r_;
};
}  // namespace

ModelVerdict check_model(const RandomModel& m, const CompileOptions& o, uint64_t seed) {
    try {
        return Check(m, o, seed).run();
    } catch (const std::exception& e) {  // a fault in Opwright, whose model is worth making smaller
        ModelVerdict r;
        r.wrong = std::string("an exception: ") + e.what();
        return r;
    }
}

RandomModelReport check_random_models(const ModelOptionsOf& options, uint64_t first, uint64_t count, size_t most, double shrink_seconds) {
    RandomModelReport r;
    for (uint64_t seed = first; seed < first + count && r.failures.size() < most; ++seed) {
        const RandomModel m = random_model(seed);
        const CompileOptions o = options(seed);
        const ModelVerdict v = check_model(m, o, seed);
        ++r.models;
        r.all.runs += v.runs;
        r.all.kernels += v.kernels;
        r.all.outputs += v.outputs;
        r.all.ill += v.ill;
        r.all.launched += v.launched;
        r.all.unfused += v.unfused;
        if (!v.refused.empty()) {
            ++r.refused;
            ++r.reasons[v.refused];
        }
        if (v.wrong.empty()) continue;
        RandomModelFailure f{seed, v.wrong, m, {}};
        f.smallest = smaller(m, [&](const RandomModel& x) { return !check_model(x, o, seed).wrong.empty(); }, shrink_seconds);
        f.smallest_wrong = check_model(f.smallest, o, seed).wrong;
        r.failures.push_back(std::move(f));
    }
    return r;
}

std::string RandomModelReport::str() const {
    std::string r = fmt::format("random models: {} of {} passed in {} runs; {} kernels compared with the reference; the models have {} fused and {} unfused; "
                                "{} outputs compared ({} ill-conditioned); {} models refused\n",
                                models - failures.size(), models, all.runs, all.kernels, all.launched, all.unfused, all.outputs, all.ill, refused);
    for (const auto& [why, n] : reasons) r += fmt::format("{} times {}\n", n, why);
    return r;
}

// Typical figures, so that what was measured on a machine changes nothing; and others under which the planner takes what it
// would refuse.
fuse::Machine planning_machine_of(uint64_t seed) {
    const auto& host = target::cpu::host_features();
    fuse::Machine m = fuse::typical_cpu(seed % 2 ? 1 : 2, host.vector_bytes, host.registers);
    switch (seed / 3 % 4) {
        case 0: break;
        case 1: m.launch = 1e-3; break;  // fewer kernels, whatever they do
        case 2:  // arithmetic is free
            m.launch = 0;
            for (auto& l : m.levels) l.bandwidth /= 100;
            break;
        default:  // arithmetic is dear, and all the more so where a vector is not full: other layouts
            m.simple /= 50, m.multiply_add /= 50, m.divide /= 50, m.special /= 50;
            m.lanes = 32;
            m.launch = 0;
    }
    return m;
}

ModelOptionsOf model_options(CompileOptions o) {
    std::vector<std::string> levels = {o.execution.cpu.level};
    if (levels[0].empty()) {
        levels.clear();
        for (target::cpu::Level l : target::cpu::kLevels)
            if (target::cpu::features_at(l)) levels.emplace_back(target::cpu::name(l));
    }
    o.tuned = false;
    o.execution.cpu.cache = false;
    return [levels, o](uint64_t seed) {
        CompileOptions r = o;
        if (o.execution.target) return r;
        r.execution.cpu.level = levels[seed % levels.size()];
        r.fusion.machine = planning_machine_of(seed);
        return r;
    };
}

}  // namespace opwright::verify
