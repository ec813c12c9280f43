// opwright compare: one operator on every target, side by side.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/subject.h"
#include "derive/shape.h"
#include "explain/compare.h"
#include "runtime/thread_pool.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::string target, op;
    DataFlags data;
    int threads = 0, cases = 4;
    bool json = false;
};

Result<explain::Comparison> compared(const Flags& f) {
    OPW_TRY(const auto op, load_operator(f.target, f.op));
    OPW_TRY(const math::Program p, operator_program(op.first, op.second, f.data));
    auto pool = std::make_shared<runtime::ThreadPool>(f.threads);
    OPW_TRY(const Call call, operator_call(op.first, op.second, f.data, {}, pool));
    std::vector<Tensor> inputs;
    std::vector<Shape> shapes;
    for (const Tensor& t : call.inputs)
        if (t.defined()) {
            inputs.push_back(t);
            shapes.push_back(t.shape());
        }
    OPW_TRY(const math::SymValues sizes, derive::bind_symbols(p, shapes));
    OPW_CHECK(derive::check_requirements(p, sizes));
    OPW_TRY(const explain::Machine machine, explain::measure_machine(*pool));
    return explain::compare(*op.first, p, sizes, inputs, machine, *pool, {.cases = f.cases});
}
}  // namespace

void add_compare(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("compare", "Set the targets side by side for one operator: correctness, time, source");
    a->add_option("OPERATOR", f->target, "a file of declarations (.op), or an operator of the library")->required();
    a->add_option("--op", f->op, "which operator of the file");
    a->add_option("--cases", f->cases, "how many sizes of each example are checked")->check(CLI::Range(1, 40))->capture_default_str();
    a->add_option("--threads", f->threads, "worker threads of target cpu (0: as many as processors)")->capture_default_str();
    f->data.add(*a);
    a->add_flag("--json", f->json, "print JSON");
    a->footer("A target that can't run on this machine is \"not run\"; one that has no form for the operator\n"
              "says why. Times are the least of several runs at the sizes given.\n"
              "Examples:\n  opwright compare examples/matmul_prelu.op --size m=512,n=512,k=512\n  opwright compare softmax");
    a->callback([f, &c] {
        const auto r = compared(*f);
        if (!r.ok()) return fail(c, r.error(), f->json);
        for (const explain::Route& x : r->routes)
            if (x.wrong) c.exit = kFinding;
        if (f->json) print_json(explain::to_json(*r));
        else print(explain::to_text(*r));
    });
}

}  // namespace opwright::cli
