#include "cli/verify_operator.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/schedule_file.h"
#include "io/file.h"
#include "runtime/thread_pool.h"
#include "target/cpu/features.h"
#include "target/target.h"
#include "verify/cpu_target.h"
#include "verify/cross.h"
#include "verify/foreign.h"
#include "verify/hand_gradient.h"
#include "verify/replay.h"
#include "verify/source_target.h"

namespace opwright::cli {
using nlohmann::json;

namespace {
constexpr const char* kAll = "library";  // in place of an operator: all of them
constexpr int kInvestigated = 4;         // failing operators that are looked at closely

Result<Operators> all_operators() {
    std::shared_ptr<const lang::Library> library(&lang::Library::standard(), [](auto*) {});
    return Operators{library, library->names()};
}

// A name that no file has: NAME.replay.json, NAME.replay-2.json, ...
std::string free_name(const std::string& op) {
    std::error_code e;
    for (int i = 1; i < 1000; ++i) {
        const std::string name = i == 1 ? op + ".replay.json" : fmt::format("{}.replay-{}.json", op, i);
        if (!std::filesystem::exists(name, e)) return name;
    }
    return "";
}

// Writes the case; the line that tells how to run it again, or why there is no file.
std::string save(const verify::Failure& x, const UnderTest& u, const VerifyFlags& f, const std::string& declaration) {
    if (x.origin.op.empty()) return "no file: the kernel's mathematics can't be written as a declaration";
    std::error_code e;
    if (!f.save.empty() && std::filesystem::exists(f.save, e))
        return fmt::format("not written: '{}' exists; give --save another name", f.save);
    const std::string path = f.save.empty() ? free_name(x.origin.op) : f.save;
    verify::Replay r{.declaration = declaration,
                     .origin = x.origin,
                     .attributes = verify::attributes_text(x.origin.attributes),
                     .target = f.on.target,
                     .vector = f.execution.vector,
                     .against = f.against,
                     .c = x.c,
                     .found = x.report.message};
    if (const Status s = io::write_file(path, verify::to_json(r)); !s.ok()) return "not written: " + s.error().message;
    const std::string by = !u.target ? " --against " + f.against : f.schedule.empty() ? "" : " --schedule " + f.schedule;
    return fmt::format("opwright verify --replay {}{}", path, by);
}

json to_json(const verify::Report& r) {
    json verdicts = json::object();
    for (const auto& [v, count] : r.verdicts) verdicts[std::string(verify::name(v))] = count;
    json layouts = json::array();
    for (verify::Layout l : r.layouts) layouts.push_back(std::string(verify::name(l)));
    json one{{"name", r.name},         {"passed", r.passed()},     {"cases", r.cases},         {"failed", r.failed},
             {"rejected", r.rejected}, {"refused", r.refused},     {"not_run", r.not_run},     {"reasons", r.reasons},
             {"types", r.types},       {"verdicts", verdicts},     {"max_share", r.max_share}, {"max_ulp", r.max_ulp},
             {"max_abs", r.max_abs},   {"max_rel", r.max_rel},     {"layouts", layouts},       {"widths", r.widths},
             {"contract", r.contract}, {"condition", r.condition}, {"remarks", r.remarks},     {"text", r.str()}};
    if (r.beside.cases)
        one["beside"] = {{"cases", r.beside.cases},     {"failed", r.beside.failed},
                         {"max_ulp", r.beside.max_ulp}, {"max_abs", r.beside.max_abs},
                         {"max_rel", r.beside.max_rel}, {"max_share", r.beside.max_share}};
    if (r.smallest_failure)
        one["smallest_failure"] = {{"arguments", r.smallest_failure->arguments},
                                   {"message", r.smallest_failure->message}};
    return one;
}

std::string source_of(const lang::Library& l, const std::string& op) {
    const lang::OpDecl* d = l.find(op);
    if (!d || lang::Library::standard().find(op) == d) return "";
    const auto text = io::read_file(l.file(*d), 1 << 24);
    return text.ok() ? *text : "";
}

verify::OperatorOptions options_for(const VerifyFlags& f, const UnderTest& u) {
    verify::OperatorOptions o;
    o.check.beside = u.beside;
    o.only = f.data.floats();
    if (u.target) return o;
    // A kernel that somebody wrote has the types it was written for, and a process between it and us.
    if (f.data.type.empty()) o.types.clear();
    o.check.sizes.max_work = u.slow ? 1 << 12 : 1 << 17;
    o.check.seconds = 60;
    return o;
}
}  // namespace

Result<UnderTest> under_test(const VerifyFlags& f, const lang::Library& library, const std::string& op,
                             std::shared_ptr<runtime::ThreadPool> pool) {
    CompileOptions options = f.execution.options();
    if (!f.schedule.empty()) { OPW_TRY(options.execution.cpu.schedule, read_schedule(f.schedule, op)); }
    const verify::Compile cpu = [pool, inner = verify::cpu_target(options.execution.cpu, *pool)](
                                    const math::Program& p) { return inner(p); };
    const auto level = target::cpu::host_features().level;
    const std::string cpu_name =
        fmt::format("cpu ({})", f.execution.vector == "auto" ? target::cpu::name(level) : f.execution.vector);
    const auto always = [](verify::Compile t) { return [t](const lang::Example&) { return t; }; };
    if (!f.against.empty()) {
        OPW_TRY(const verify::Against a, verify::parse_against(f.against));
        const verify::ForeignOptions o{.seconds = f.time_limit};
        if (!a.python) {
            OPW_TRY(verify::CompileFor subject, verify::c_function(a, library, op, o));
            return UnderTest{a.str(), std::move(subject), nullptr, cpu, cpu_name};
        }
        OPW_TRY(verify::PythonFunction p, verify::python_function(a, o));
        return UnderTest{fmt::format("{} ({})", a.str(), p.about), std::move(p.subject), nullptr, cpu, cpu_name,
                         p.interpreted};
    }
    OPW_CHECK(f.on.apply(options));
    const target::Target* on = options.execution.target;
    if (!on) return UnderTest{cpu_name, always(cpu), cpu, nullptr, ""};
    const verify::Compile t = verify::source_target(*on, {.schedule = options.execution.cpu.schedule});
    return UnderTest{fmt::format("{} ({})", f.on.target, on->runs_on()), always(t), t, nullptr, ""};
}

json report_failure(const verify::Failure& x, const UnderTest& u, const VerifyFlags& f, const std::string& declaration,
                    std::string& text) {
    const verify::Finding finding = verify::investigate(x, u.target);
    const std::string replay = save(finding.failure, u, f, declaration);
    text += verify::text(finding);
    text += fmt::format("  {:<11}{}\n", "replay", replay);
    json stages = json::array();
    for (const verify::StageVerdict& s : finding.stages.alone)
        stages.push_back({{"name", s.name}, {"verdict", s.verdict}, {"wrong", s.wrong}});
    return json{{"arguments", finding.failure.report.arguments},
                {"found_at", finding.before},
                {"outcome", std::string(verify::name(finding.failure.report.outcome))},
                {"message", finding.failure.report.message},
                {"values", verify::values_text(*finding.failure.program, finding.failure.c)},
                {"layouts", verify::layouts_text(*finding.failure.program, finding.failure.c)},
                {"equations", finding.equations},
                {"stages", stages},
                {"stage_summary", finding.stages.summary},
                {"evidence", finding.evidence},
                {"replay", replay},
                {"runs", finding.runs}};
}

Result<json> verify_operators(const std::string& target, const VerifyFlags& f, std::string& text) {
    OPW_TRY(const Operators operators, target == kAll ? all_operators() : load_operators(target, f.op));
    if (!f.against.empty() && operators.names.size() != 1)
        return Diagnostic(fmt::format("'{}' declares several operators, and --against names one kernel.", target), {},
                          "Pick its operator with --op NAME.");
    // What is wrong with a declaration is told with its place, before anything runs.
    for (const std::string& n : operators.names) {
        OPW_TRY(const auto examples, operators.library->examples(*operators.library->find(n)));
        for (const lang::Example& e : examples)
            if (const auto p = operators.library->elaborate(n, e.arguments, e.attributes); !p.ok()) return p.error();
    }
    auto pool = f.execution.pool();
    OPW_TRY(const UnderTest u, under_test(f, *operators.library, operators.names[0], pool));
    json list = json::array();
    bool passed = true;
    int investigated = 0;
    std::string contract;
    const bool brief = operators.names.size() > 3;
    if (brief) text += fmt::format("on {}\n", u.name);
    for (const std::string& n : operators.names) {
        const verify::Report r = verify::check_operator(*operators.library, n, u.subject, options_for(f, u));
        passed = passed && (r.passed() || r.refused_all());
        text += brief ? r.str() + "\n" : verify::text(r, u.name, u.beside_name);
        json one = to_json(r);
        if (r.failure && investigated++ < kInvestigated)
            one["finding"] = report_failure(*r.failure, u, f, source_of(*operators.library, n), text);
        // What could not be compiled has no case to look at.
        if (r.smallest_failure && !brief &&
            (!r.failure || r.smallest_failure->outcome == verify::Outcome::CompileFailed))
            text +=
                fmt::format("  {:<11}{}: {}\n", "failed", r.smallest_failure->arguments, r.smallest_failure->message);
        if (f.against.empty()) {
            OPW_TRY(const auto hand, verify::check_given_gradient(*operators.library, n, f.data.seed));
            if (hand) {
                passed = passed && hand->passed();
                if (brief) text += n + "\n";
                text += fmt::format("  {:<11}{}{}\n", "gradient", hand->passed() ? "" : "WRONG: ", hand->str());
                one["gradient"] = {{"by", hand->by},       {"passed", hand->passed()}, {"cases", hand->cases},
                                   {"kinks", hand->kinks}, {"quotients", hand->quotients}, {"text", hand->str()}};
            }
        }
        if (f.cross) {
            OPW_TRY(const auto lines,
                    verify::cross_check(*operators.library, n, {.cpu = f.execution.options().execution.cpu}));
            if (brief) text += n + "\n";
            for (const verify::CrossLine& l : lines) {
                passed = passed && l.passed;
                text += fmt::format("  {:<11}{}{}\n", l.name, l.passed ? "" : "DIFFER: ", l.text);
                one["cross"].push_back({{"name", l.name}, {"run", l.run}, {"passed", l.passed}, {"text", l.text}});
            }
        }
        list.push_back(std::move(one));
    }
    return json{{"target", target}, {"on", u.name}, {"passed", passed}, {"operators", std::move(list)}};
}

}  // namespace opwright::cli
