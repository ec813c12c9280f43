// opwright ops: the operator library.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "graph/onnx/import.h"
#include "lang/library.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::string word, show;
    bool json = false, onnx = false;
};

std::string lower(std::string s) {
    std::transform(s.begin(), s.end(), s.begin(), [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
    return s;
}

void run(const Flags& f, Context& c) {
    if (f.onnx) {
        const std::vector<std::string> names = graph::onnx::supported_operators();
        if (f.json) return print_json(names);
        for (const std::string& name : names) print(name + "\n");
        return;
    }
    const lang::Library& l = lang::Library::standard();
    if (!f.show.empty()) {
        const lang::OpDecl* d = l.find(f.show);
        if (!d) {
            Diagnostic e(fmt::format("There is no operator named '{}'.", f.show));
            const std::string near = did_you_mean(f.show, l.names());
            return fail(c, e.with_next(near.empty() ? fmt::format("`opwright ops {}` searches for a word.", f.show) : fmt::format("Did you mean '{}'?", near)), f.json);
        }
        if (f.json) print_json({{"name", f.show}, {"doc", l.doc(*d)}, {"file", l.file(*d)}, {"source", l.source_text(*d)}, {"attributes", l.attribute_names(*d)}});
        else print(l.source_text(*d) + "\n");
        return;
    }
    std::map<std::string, std::vector<std::string>> by_file;
    size_t n = 0;
    nlohmann::json all = nlohmann::json::array();
    for (const std::string& name : l.names()) {
        const lang::OpDecl& d = *l.find(name);
        if (lower(name + " " + l.doc(d) + " " + l.file(d)).find(lower(f.word)) == std::string::npos) continue;
        ++n;
        by_file[l.file(d)].push_back(name);
        all.push_back({{"name", name}, {"doc", l.doc(d)}, {"file", l.file(d)}});
    }
    if (n == 0) c.exit = kFinding;
    if (f.json) return print_json(all);
    for (const auto& [file, names] : by_file) {
        print(file + "\n");
        for (const std::string& name : names) {
            std::string doc = l.doc(*l.find(name));
            doc = doc.substr(0, doc.find('\n'));
            const size_t room = 96 - std::max<size_t>(24, name.size() + 1);
            if (doc.size() > room) doc = doc.substr(0, room - 3) + "...";
            print(fmt::format("    {:<24}{}\n", name + " ", doc));
        }
    }
    print(n == 0 ? fmt::format("no operator matches '{}'\n", f.word) : fmt::format("{} operators; `opwright ops --show NAME` prints a declaration\n", n));
}
}  // namespace

void add_ops(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("ops", "List, search and show the operators of the library");
    a->add_option("WORD", f->word, "only operators whose name, description or file holds this word");
    a->add_option("--show", f->show, "print the declaration of one operator");
    a->add_flag("--onnx", f->onnx, "list the ONNX operators that models may hold");
    a->add_flag("--json", f->json, "print JSON");
    a->footer("Examples:\n  opwright ops\n  opwright ops norm\n  opwright ops --show softmax\n  opwright ops --onnx");
    a->callback([f, &c] { run(*f, c); });
}

}  // namespace opwright::cli
