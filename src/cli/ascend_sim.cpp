// opwright ascend-sim: a person's own Ascend C on the functional simulator.
#include <CLI/CLI.hpp>

#include "cli/common.h"
#include "target/ascend/simulate.h"

namespace opwright::cli {

void add_ascend_sim(CLI::App& app, Context& c) {
    struct Flags {
        std::string source;
        std::vector<std::string> arguments;
    };
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("ascend-sim", "Compile and run your own Ascend C on the functional simulator");
    a->add_option("SOURCE", f->source, "C++ with the kernel and a main() that launches it")->required();
    a->add_option("ARGUMENTS", f->arguments, "what main() is given");
    a->footer("The source includes \"kernel_operator.h\", and launches with ascend_sim::Device in place of <<<>>>:\n"
              "    ascend_sim::Device device;\n"
              "    device.add(\"x\", x, bytes, /*writable=*/false);\n"
              "    for (auto& finding : device.launch(8, [&] { kernel((GM_ADDR)x, tiling); }))\n"
              "        puts(finding.text.c_str());\n"
              "Example:\n  opwright ascend-sim add_test.cpp");
    a->callback([f, &c] {
        const auto r = target::ascend::run_source(f->source, f->arguments);
        if (!r.ok()) return fail(c, r.error(), false);
        c.exit = *r;
    });
}

}  // namespace opwright::cli
