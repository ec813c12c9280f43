#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>

#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"

namespace {
// Help within opwright::text_columns(): CLI11 indents the lines of a description but does not make them.
class Help : public CLI::Formatter {
    std::string lines(const std::string& description) const {
        std::string r = opwright::wrapped(description, 0, 0, opwright::text_columns() - get_column_width());
        if (!r.empty()) r.pop_back();
        return r;
    }
    std::string make_option_desc(const CLI::Option* o) const override { return lines(CLI::Formatter::make_option_desc(o)); }
    std::string make_subcommand(const CLI::App* a) const override {
        std::ostringstream out;
        CLI::detail::format_help(out, a->get_display_name(true), lines(a->get_description()), get_column_width());
        return out.str();
    }
    std::string make_footer(const CLI::App* a) const override {
        const std::string text = a->get_footer();
        return text.empty() ? "" : "\n" + opwright::wrapped(text, 0, 0);
    }
};
}  // namespace

int main(int argc, char** argv) {
    using namespace opwright::cli;
    CLI::App app("State an operator's mathematics once; derive, compile, verify, run and explain it.\n"
                 "Each command has its own help with examples: opwright COMMAND --help");
    app.formatter(std::make_shared<Help>());  // of the commands too: they inherit it
    app.set_version_flag("--version", std::string("opwright ") + opwright::kVersion);
    app.require_subcommand(1);
    app.footer("Exit codes: 0 all is well; 1 what was examined is wrong, unsupported or unreadable; 2 wrong usage;\n"
               "3 a fault in Opwright. The environment variable OPWRIGHT_LOG=1 shows every stage with its time.");
    Context c;
    add_check(app, c);
    add_explain(app, c);
    add_emit(app, c);
    add_grad(app, c);
    add_jvp(app, c);
    add_ascend_sim(app, c);
    add_compare(app, c);
    add_run(app, c);
    add_verify(app, c);
    add_profile(app, c);
    add_tune(app, c);
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
