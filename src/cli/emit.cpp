// opwright emit: a kernel's source for a target, to read and to take away.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/schedule_file.h"
#include "cli/subject.h"
#include "io/file.h"
#include "target/target.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::string target, op, to = "c", folder, schedule, arch;
    DataFlags data;
    bool json = false;
};

Status emit(const Flags& f) {
    OPW_TRY(const target::Target* to, target::find_target(f.to));
    OPW_TRY(const auto op, load_operator(f.target, f.op));
    OPW_TRY(const math::Program p, operator_program(op.first, op.second, f.data));
    target::EmitOptions o;
    o.arch = f.arch;
    OPW_TRY(o.sizes, parse_sizes(f.data.size));
    if (!f.schedule.empty()) { OPW_TRY(o.schedule, read_schedule(f.schedule, f.target)); }
    OPW_TRY(const target::Emission e, to->emit(p, o));
    if (f.json) {
        nlohmann::json files = nlohmann::json::array();
        for (const target::SourceFile& s : e.files) files.push_back({{"path", s.path}, {"text", s.text}});
        print_json({{"target", f.to}, {"operator", p.name}, {"files", std::move(files)}, {"facts", e.facts}});
    } else if (f.folder.empty()) {
        print(e.files.front().text);
        return ok_status();
    }
    if (f.folder.empty()) return ok_status();
    for (const target::SourceFile& s : e.files) {
        const auto path = std::filesystem::path(f.folder) / s.path;
        std::error_code failed;
        std::filesystem::create_directories(path.parent_path(), failed);
        if (failed)
            return Diagnostic(
                fmt::format("The folder {} can't be made: {}.", path.parent_path().string(), failed.message()));
        OPW_CHECK(io::write_file(path.string(), s.text));
        if (!f.json) print(fmt::format("{}\n", path.string()));
    }
    if (!f.json)
        for (const std::string& fact : e.facts) print(fmt::format("    {}\n", fact));
    return ok_status();
}
}  // namespace

void add_emit(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("emit", "Write an operator's kernel as source text for a target");
    a->add_option("OPERATOR", f->target, "a file of declarations (.op), or an operator of the library")->required();
    a->add_option("--op", f->op, "which operator of the file");
    std::vector<std::string> names;
    for (const target::Target* t : target::targets()) names.emplace_back(t->name());
    a->add_option("--target", f->to, "whose language: " + fmt::format("{}", fmt::join(names, ", ")))
        ->check(CLI::IsMember(names))
        ->capture_default_str();
    a->add_option("-o,--output", f->folder, "write the kernel and what goes with it into this folder");
    a->add_option("--schedule", f->schedule, "a schedule as JSON, as `explain --level schedule --json` prints it");
    a->add_option("--arch", f->arch, "processor of the target, such as sm_90a");
    f->data.add(*a);
    a->add_flag("--json", f->json, "print JSON");
    a->footer(
        "Without -o the kernel's source goes to standard output.\n"
        "Examples:\n  opwright emit softmax --target c\n  opwright emit examples/matmul_prelu.op --target triton -o "
        "out");
    a->callback([f, &c] {
        if (const Status s = emit(*f); !s.ok()) fail(c, s.error(), f->json);
    });
}

}  // namespace opwright::cli
