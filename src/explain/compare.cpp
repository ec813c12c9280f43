#include "explain/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "derive/cost.h"
#include "derive/shape.h"
#include "explain/units.h"
#include "target/target.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"
#include "verify/source_target.h"

namespace opwright::explain {

namespace {

// Lines that say something: neither blank nor comment alone.
int lines_of(const std::string& text) {
    int n = 0;
    bool comment = false;
    for (size_t i = 0; i < text.size();) {
        const size_t end = std::min(text.find('\n', i), text.size());
        std::string line = text.substr(i, end - i);
        line.erase(0, line.find_first_not_of(" \t"));
        if (line.rfind("/*", 0) == 0) comment = true;
        if (!line.empty() && !comment && line.rfind("//", 0) != 0 && line.rfind("#", 0) != 0) ++n;
        if (line.find("*/") != std::string::npos) comment = false;
        i = end + 1;
    }
    return n;
}

class Comparer {
public:
    Comparer(const lang::Library& l, const math::Program& p, const math::SymValues& sizes,
             const std::vector<Tensor>& inputs, runtime::ThreadPool& pool, const CompareOptions& o)
        : l_(l), p_(p), sizes_(sizes), inputs_(inputs), pool_(pool), o_(o) {}

    Result<Comparison> run(const Machine& m) {
        c_.name = p_.name;
        c_.machine = m;
        for (const auto& [n, v] : sizes_) c_.sizes += fmt::format("{}{}={}", c_.sizes.empty() ? "" : ",", n, v);
        const derive::Cost cost = derive::cost(p_);
        c_.flops = static_cast<double>(evaluate(cost.flops(), sizes_).value_or(0));
        c_.bytes = static_cast<double>(evaluate(cost.bytes(), sizes_).value_or(0));
        c_.floor = floor(m.bandwidth(c_.bytes), m.flops_f32);
        for (math::TensorId t : p_.outputs) {
            OPW_TRY(Shape s, derive::concrete_shape(p_, t, sizes_));
            outputs_.emplace_back(p_.tensors[t].dtype, std::move(s));
        }
        OPW_CHECK(cpu());
        for (const target::Target* t : target::targets()) emitted(*t);
        return std::move(c_);
    }

private:
    double floor(double bandwidth, double flops) const {
        return std::max(bandwidth > 0 ? c_.bytes / bandwidth : 0, flops > 0 ? c_.flops / flops : 0);
    }

    void check(Route& r, const verify::Compile& target) {
        verify::OperatorOptions options;
        options.check.sizes.count = static_cast<size_t>(o_.cases);
        options.check.sizes.max_work = 1 << 14;
        options.types = {DType::F32, DType::F16};
        const verify::Report report = verify::check_operator(l_, p_.name, target, options);
        r.wrong = !report.passed();
        r.verdict = report.passed() ? fmt::format("{} cases pass", report.cases)
                                    : fmt::format("{} of {} cases fail", report.failed, report.cases);
    }
    void timed(Route& r, const Result<double>& seconds, double floor) {
        if (!seconds.ok()) {
            r.untimed = seconds.error().message;
            return;
        }
        r.seconds = *seconds;
        r.of_floor = *seconds > 0 ? floor / *seconds : 0;
    }

    Status cpu() {
        Route r;
        r.target = "cpu";
        r.about = "machine code by LLVM, vectorised, on all threads";
        r.where = "this processor";
        const verify::Compile target = verify::cpu_target({}, pool_);
        check(r, target);
        OPW_TRY(const verify::Compiled kernel, target(p_));
        using Clock = std::chrono::steady_clock;
        const auto begin = Clock::now();
        double least = 1e300;
        do {
            const auto t = Clock::now();
            OPW_CHECK(kernel(sizes_, inputs_, outputs_));
            least = std::min(least, std::chrono::duration<double>(Clock::now() - t).count());
        } while (std::chrono::duration<double>(Clock::now() - begin).count() < o_.budget);
        timed(r, least, c_.floor);
        c_.routes.push_back(std::move(r));
        return ok_status();
    }

    void emitted(const target::Target& t) {
        Route r;
        r.target = t.name();
        r.about = t.about();
        const auto e = t.emit(p_, {});
        if (!e.ok()) {
            r.refused = e.error().message;
        } else {
            r.lines = lines_of(e->files.front().text);
            r.facts = e->facts;
            if (const std::string why = t.cannot_run(); !why.empty())
                r.verdict = "not run: " + why;
            else
                ran(r, t);
        }
        c_.routes.push_back(std::move(r));
    }
    void ran(Route& r, const target::Target& t) {
        r.where = t.runs_on();
        check(r, verify::source_target(t));
        const auto kernel = t.build(p_, {});
        if (!kernel.ok()) {
            r.untimed = kernel.error().message;
            return;
        }
        const auto ceilings = t.ceilings();
        timed(r, (*kernel)->seconds(sizes_, inputs_, outputs_),
              ceilings.bandwidth > 0 ? floor(ceilings.bandwidth, ceilings.flops) : c_.floor);
    }

    const lang::Library& l_;
    const math::Program& p_;
    const math::SymValues& sizes_;
    const std::vector<Tensor>& inputs_;
    runtime::ThreadPool& pool_;
    CompareOptions o_;
    std::vector<Tensor> outputs_;
    Comparison c_;
};
}  // namespace

Result<Comparison> compare(const lang::Library& l, const math::Program& p, const math::SymValues& sizes,
                           const std::vector<Tensor>& inputs, const Machine& m, runtime::ThreadPool& pool,
                           const CompareOptions& o) {
    return Comparer(l, p, sizes, inputs, pool, o).run(m);
}

std::string to_text(const Comparison& c) {
    std::string r = wrapped(fmt::format(
        "{}{}: {} operations, {} compulsory bytes; on this processor that takes {} at least, copying {} a second and "
        "computing {} operations a second.",
        c.name, c.sizes.empty() ? "" : " at " + c.sizes, count_text(c.flops), bytes_text(c.bytes), time_text(c.floor),
        bytes_text(c.machine.bandwidth(c.bytes)), count_text(c.machine.flops_f32)));
    r += fmt::format("\n{:<8}{:<22}{:>11}{:>10}{:>8}  {}\n", "target", "correct", "time", "of floor", "lines",
                     "runs on");
    for (const Route& x : c.routes) {
        const std::string verdict = !x.refused.empty() ? "refused" : x.where.empty() ? "not run" : x.verdict;
        r += fmt::format("{:<8}{:<22}{:>11}{:>10}{:>8}  {}\n", x.target, cut(verdict, 21),
                         x.seconds ? time_text(*x.seconds) : "-", x.seconds ? percent_text(x.of_floor) : "-",
                         x.lines ? std::to_string(x.lines) : "-", x.where.empty() ? "-" : x.where);
    }
    for (const Route& x : c.routes) {
        r += "\n" + wrapped(x.target + ": " + x.about + (x.about.ends_with('.') ? "" : "."));
        if (!x.refused.empty()) r += wrapped("Refused: " + x.refused, 4, 8);
        if (x.refused.empty() && x.where.empty()) r += wrapped(x.verdict, 4, 8);
        if (!x.untimed.empty()) r += wrapped("Not timed: " + x.untimed, 4, 8);
        for (const std::string& f : x.facts) r += wrapped(f, 4, 8);
    }
    return r;
}

nlohmann::json to_json(const Comparison& c) {
    nlohmann::json routes = nlohmann::json::array();
    for (const Route& x : c.routes) {
        nlohmann::json j{{"target", x.target},   {"about", x.about}, {"runs_on", x.where},
                         {"verdict", x.verdict}, {"wrong", x.wrong}, {"refused", x.refused},
                         {"lines", x.lines},     {"facts", x.facts}, {"untimed", x.untimed}};
        j["ms"] = x.seconds ? nlohmann::json(*x.seconds * 1e3) : nlohmann::json();
        j["of_floor"] = x.seconds ? nlohmann::json(x.of_floor) : nlohmann::json();
        routes.push_back(std::move(j));
    }
    return {{"operator", c.name}, {"sizes", c.sizes},          {"flops", c.flops},
            {"bytes", c.bytes},   {"floor_ms", c.floor * 1e3}, {"targets", std::move(routes)}};
}

}  // namespace opwright::explain
