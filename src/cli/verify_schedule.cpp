// opwright verify OPERATOR --schedule FILE: the kernel that a schedule by hand makes.
#include <fmt/format.h>

#include "cli/schedule_file.h"
#include "cli/verify_operator.h"
#include "lang/declaration.h"
#include "runtime/thread_pool.h"

namespace opwright::cli {
using nlohmann::json;

namespace {
// The operator as `explain --level schedule` schedules it: by its first example, extents open.
Result<math::Program> scheduled_program(const std::shared_ptr<const lang::Library>& library, const std::string& name,
                                        const VerifyFlags& f, std::shared_ptr<runtime::ThreadPool> pool) {
    if (f.on.target != "cpu") return operator_program(library, name, f.data);
    OPW_TRY(const Call call, operator_call(library, name, f.data, f.execution.options(), std::move(pool)));
    OPW_TRY(const auto version, call.op->version(call.inputs));
    std::vector<const graph::Node*> kernels;
    for (const graph::Node& n : version.compiled->executable->graph().nodes)
        if (n.kind != graph::NodeKind::View) kernels.push_back(&n);
    if (kernels.size() != 1)
        return Diagnostic(fmt::format("'{}' runs as {} kernels, and a schedule is that of one.", name, kernels.size()));
    return kernels[0]->program;
}
}  // namespace

Result<json> verify_schedule(const std::string& target, const VerifyFlags& f, std::string& text) {
    if (target == kRandom)
        return Diagnostic("Random operators can't be verified with --schedule: a schedule is that of one operator.", {},
                          "Name the operator that it was made for.");
    OPW_CHECK(read_schedule(f.schedule, target));
    OPW_TRY(const auto op, load_operator(target, f.op));
    auto pool = f.execution.pool();
    OPW_TRY(const UnderTest u, under_test(f, *op.first, op.second, pool));
    OPW_TRY(const math::Program p, scheduled_program(op.first, op.second, f, pool));
    OPW_CHECK(u.target(p));  // an illegal schedule is no failing case
    std::vector<std::optional<verify::Range>> ranges;
    OPW_TRY(const auto examples, op.first->examples(*op.first->find(op.second)));
    if (!examples.empty())
        for (size_t i = 0; i < examples[0].arguments.size(); ++i) {
            if (!examples[0].arguments[i].present) continue;
            const auto v = i < examples[0].values.size() ? examples[0].values[i] : std::nullopt;
            ranges.push_back(v ? std::optional<verify::Range>({v->low, v->high}) : std::nullopt);
        }
    verify::Report r = verify::check_program(p, u.target, {}, {}, ranges);
    r.name = op.second;
    for (math::TensorId t : p.inputs) r.types.emplace_back(opwright::name(p.tensors[t].dtype));
    text += verify::text(r, fmt::format("{}, scheduled by {}", u.name, f.schedule));
    json out{{"target", target},       {"schedule", f.schedule}, {"on", u.name},
             {"passed", r.passed()},   {"cases", r.cases},       {"failed", r.failed},
             {"contract", r.contract}, {"text", r.str()}};
    if (!r.failure) return out;
    verify::Failure x = *r.failure;
    std::string declaration;
    if (const auto d = lang::declaration(*x.program); d.ok()) {
        declaration = *d;
        x.origin = {.op = x.program->name, .symbolic = true};
    }
    out["finding"] = report_failure(x, u, f, declaration, text);
    return out;
}

}  // namespace opwright::cli
