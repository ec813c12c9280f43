#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/command.h"

#include "base/version.h"

int main(int argc, char** argv) {
    using namespace opwright::cli;
    CLI::App app("State an operator's mathematics once; derive, compile, verify, run and explain it.\n"
                 "Each command has its own help with examples: opwright COMMAND --help");
    app.set_version_flag("--version", std::string("opwright ") + opwright::kVersion);
    app.require_subcommand(1);
    app.footer("Exit codes: 0 all is well; 1 what was examined is wrong, unsupported or unreadable; 2 wrong usage;\n"
               "3 a fault in Opwright. The environment variable OPWRIGHT_LOG=1 shows every stage with its time.");
    Context c;
    add_check(app, c);
    add_explain(app, c);
    add_run(app, c);
    add_verify(app, c);
    add_profile(app, c);
    add_ops(app, c);
    add_doctor(app, c);
    add_onnx_test(app, c);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? kOk : kUsage;
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "error: there is not enough memory for this.\n");
        return kFinding;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "error: a fault in Opwright: %s\n  = next: please report it with the command that shows it.\n", e.what());
        return kInternal;
    }
    return c.exit;
}
