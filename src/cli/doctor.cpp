// opwright doctor: this machine.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "explain/doctor.h"

namespace opwright::cli {

void add_doctor(CLI::App& app, Context& c) {
    struct Flags {
        bool json = false, quick = false;
    };
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("doctor", "Tell what this machine has, whether it fits together, and what to do where it does not");
    a->add_flag("--quick", f->quick, "do not measure bandwidth and peak");
    a->add_flag("--json", f->json, "print JSON");
    a->footer("Examples:\n  opwright doctor\n  opwright doctor --json --quick");
    a->callback([f, &c] {
        const explain::DoctorReport r = explain::examine(!f->quick);
        if (f->json) print_json(explain::to_json(r));
        else print(explain::to_text(r));
        if (!r.problems.empty()) c.exit = kFinding;
    });
}

}  // namespace opwright::cli
