#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>

#include "base/diagnostic.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/common.h"

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

// What is wrong with the command line, and what was probably meant.
opwright::Diagnostic wrong_usage(const CLI::App& app, const CLI::ParseError& e, const std::vector<std::string>& words) {
    using opwright::Diagnostic;
    const auto commands = app.get_subcommands();  // those that were met
    const auto suggested = [](Diagnostic d, const std::string& near, const std::string& otherwise) {
        return d.with_next(near.empty() ? otherwise : "Did you mean '" + near + "'?");
    };
    if (commands.empty()) {
        if (words.empty()) return Diagnostic("A command is missing.").with_next("`opwright --help` lists them.");
        std::vector<std::string> names;
        for (const CLI::App* a : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(a->get_name());
        return suggested(Diagnostic("There is no command '" + words[0] + "'."), opwright::did_you_mean(words[0], names), "`opwright --help` lists the commands.");
    }
    const CLI::App* a = commands.front();
    for (auto inner = a->get_subcommands(); !inner.empty(); inner = a->get_subcommands()) a = inner.front();
    const std::string help = "`opwright " + commands.front()->get_name() + " --help` shows what it takes, with examples.";
    const std::vector<std::string> left = dynamic_cast<const CLI::ExtrasError*>(&e) ? a->remaining(true) : std::vector<std::string>{};
    if (!left.empty()) {
        std::vector<std::string> names;
        for (const CLI::Option* o : a->get_options()) names.push_back(o->get_name());
        const auto option = std::find_if(left.begin(), left.end(), [](const std::string& w) { return w.rfind("-", 0) == 0; });
        const std::string word = option == left.end() ? left[0] : option->substr(0, option->find('='));
        return suggested(Diagnostic("'" + word + "' is not expected here."), opwright::did_you_mean(word, names), help);
    }
    std::string text = e.what();
    if (!text.empty() && text.back() != '.') text += ".";
    return Diagnostic(text).with_next(help);
}
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
        if (e.get_exit_code() == 0) return app.exit(e), kOk;  // --help and --version
        std::fprintf(stderr, "%s\n", opwright::render(wrong_usage(app, e, std::vector<std::string>(argv + 1, argv + argc)), opwright::cli::colour()).c_str());
        return kUsage;
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "error: there is not enough memory for this.\n");
        return kFinding;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "error: a fault in Opwright: %s\n  = next: please report it with the command that shows it.\n", e.what());
        return kInternal;
    }
    return c.exit;
}
