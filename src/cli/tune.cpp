// opwright tune: finds faster schedules by measuring, and keeps what was measured.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/subject.h"
#include "tune/database.h"
#include "tune/report.h"

namespace opwright::cli {
namespace {
using tune::Database;

struct Flags {
    std::string target, op;
    double budget = 30;
    int candidates = 8;
    TargetFlags on;
    DataFlags data;
    ExecutionFlags execution;
    bool all = false, json = false;
    std::string file;      // of export and import
    tune::Filter filter;   // of list, show and forget
    bool everything = false;
};

// One line on a terminal, rewritten as the work goes on; nothing elsewhere.
class Bar {
public:
    Bar() : terminal_(isatty(STDERR_FILENO)) {}
    ~Bar() { clear(); }
    void clear() {
        if (drawn_) std::fprintf(stderr, "\r\x1b[K");
        drawn_ = false;
    }
    void draw(const tune::Progress& p) {
        if (!terminal_) return;
        constexpr int kCells = 20;
        const double share = p.budget > 0 ? std::min(1.0, p.elapsed / p.budget) : 0;
        const int full = static_cast<int>(share * kCells);
        std::string line = fmt::format("[{}{}] {:3.0f} of {:.0f} s", std::string(static_cast<size_t>(full), '#'),
                                       std::string(static_cast<size_t>(kCells - full), '.'), p.elapsed, p.budget);
        if (p.kernels) line += fmt::format("  kernel {} of {}: {}, {}", p.kernel, p.kernels, p.name, p.what);
        else line += "  " + p.what;
        winsize size{};
        const size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
        std::fprintf(stderr, "\r\x1b[K%s", cut(line, width).c_str());
        std::fflush(stderr);
        drawn_ = true;
    }

private:
    bool terminal_, drawn_ = false;
};

struct Prepared {
    std::shared_ptr<const Compiled> compiled;
    std::vector<Tensor> arguments;
    std::shared_ptr<void> keep;
};
Result<Prepared> prepare(const Flags& f, const target::Target* target, const std::shared_ptr<runtime::ThreadPool>& pool,
                         std::vector<std::string>& notes) {
    CompileOptions options = f.execution.options();
    options.tuned = false;
    // What runs on a device is fused for it, and tuned as it will run there.
    if (target && target->device().ok() && *target->device()) options.execution.target = target;
    Prepared r;
    if (is_model(f.target)) {
        OPW_TRY(auto model, Model::load(f.target, options, pool));
        OPW_TRY(const NamedInputs inputs, model_inputs(*model, f.data, notes));
        for (std::string& n : notes) n = "input " + n;
        OPW_TRY(r.compiled, model->version(inputs));
        OPW_TRY(r.arguments, model->arguments(*r.compiled, inputs));
        r.keep = model;
        return r;
    }
    OPW_TRY(const auto op, load_operator(f.target, f.op));
    OPW_TRY(const Call call, operator_call(op.first, op.second, f.data, options, pool));
    OPW_TRY(const auto version, call.op->version(call.inputs));
    r.compiled = version.compiled;
    r.arguments = version.arguments;
    r.keep = std::make_shared<std::pair<std::shared_ptr<const lang::Library>, std::shared_ptr<Operator>>>(op.first, call.op);
    return r;
}

void run(const Flags& f, Context& c) {
    if (f.target.empty())
        return fail(c, Diagnostic("Nothing is given to tune.", {}, "Name a model, a file of declarations or an operator; `opwright tune --help` shows more."), f.json, kUsage);
    if (f.execution.engine == "reference")
        return fail(c, Diagnostic("The reference engine interprets; it has no schedules.", {}, "Tune without --engine reference."), f.json, kUsage);
    CompileOptions on;
    if (const Status s = f.on.apply(on); !s.ok()) return fail(c, s.error(), f.json);
    // A place to keep what is measured; without one, it is shown all the same.
    std::unique_ptr<Database> db;
    std::string not_kept;
    if (const auto path = tune::default_path(); !path) {
        not_kept = "There is no folder for a tuning database: OPWRIGHT_CACHE=0, or HOME is not set. Set OPWRIGHT_TUNING_DB to a file.";
    } else if (auto opened = Database::open(*path, Database::Mode::Write); opened.ok()) {
        db = std::move(*opened);
    } else if (opened.error().message.find("cannot be written") != std::string::npos) {
        not_kept = opened.error().message + " " + opened.error().next;
    } else {
        return fail(c, opened.error(), f.json);
    }
    auto pool = f.execution.pool();
    std::vector<std::string> notes;
    const auto ready = prepare(f, on.execution.target, pool, notes);
    if (!ready.ok()) return fail(c, ready.error(), f.json);
    const auto machine = explain::measure_machine(*pool);
    if (!machine.ok()) return fail(c, machine.error(), f.json);

    Bar bar;
    tune::SessionOptions o;
    o.budget = f.budget;
    o.kernel.cpu = f.execution.options().execution.cpu;
    o.kernel.target = on.execution.target;
    o.kernel.candidates = f.candidates;
    o.progress = [&](const tune::Progress& p) { bar.draw(p); };
    if (db)
        o.keep = [&](const tune::Record& r) -> Status {
            OPW_CHECK(db->store(r));
            return ok_status();
        };
    auto session = tune::tune(*ready->compiled, ready->arguments, o, *machine, *pool);
    bar.clear();
    if (!session.ok()) return fail(c, session.error(), f.json);
    if (!db) c.exit = kFinding;
    if (f.json) {
        nlohmann::json j = tune::to_json(*session);
        j["target"] = f.target;
        j["notes"] = notes;
        j["database"] = db ? nlohmann::json(db->path()) : nlohmann::json(nullptr);
        if (!db) j["not_kept"] = not_kept;
        return print_json(j);
    }
    for (const std::string& n : notes) print(wrapped(n));
    print(tune::to_text(*session, f.all || session->tuned.size() <= 2));
    print("\n" + wrapped(db ? fmt::format("kept in {}; `opwright tune show NAME` shows it again", db->path()) : "not kept: " + not_kept));
}

// ---- what is there

std::string need_path(Context& c, bool json) {
    if (const auto path = tune::default_path()) return *path;
    fail(c, Diagnostic("There is no tuning database: OPWRIGHT_CACHE=0, or HOME is not set.", {}, "Set OPWRIGHT_TUNING_DB to a file."), json);
    return "";
}

void list(const Flags& f, Context& c, bool show) {
    const std::string path = need_path(c, f.json);
    if (path.empty()) return;
    auto db = Database::open(path, Database::Mode::Read);
    if (!db.ok()) return fail(c, db.error(), f.json);
    const auto records = (*db)->records(f.filter);
    if (!records.ok()) return fail(c, records.error(), f.json);
    if (show && records->empty())
        return fail(c, Diagnostic(fmt::format("Nothing is tuned whose name holds '{}'.", f.filter.name), {}, "`opwright tune list` shows what is."), f.json);
    if (f.json) {
        nlohmann::json all = nlohmann::json::array();
        for (const tune::Record& r : *records) all.push_back(tune::report_json(r));
        return print_json({{"database", path}, {"kernels", std::move(all)}});
    }
    std::string text = wrapped(fmt::format("{} kernel{} tuned, in {}", records->size(), records->size() == 1 ? "" : "s", path));
    // One table for each machine and version.
    std::vector<std::pair<std::string, std::vector<tune::Record>>> groups;
    for (const tune::Record& r : *records) {
        std::string key = fmt::format("{} on {}, version {}", r.key.target, r.key.machine, r.key.emitter);
        if (groups.empty() || groups.back().first != key) groups.push_back({std::move(key), {}});
        groups.back().second.push_back(r);
    }
    for (const auto& [key, group] : groups) {
        text += "\n" + wrapped(key);
        if (!show) text += tune::table(group);
        for (const tune::Record& r : group)
            if (show) text += "\n" + tune::candidates(r);
    }
    print(text);
}

void forget(const Flags& f, Context& c) {
    if (f.filter.name.empty() && !f.everything)
        return fail(c, Diagnostic("Nothing is named to forget.", {}, "Name an operator, or say --all for everything."), f.json, kUsage);
    const std::string path = need_path(c, f.json);
    if (path.empty()) return;
    auto db = Database::open(path, Database::Mode::Write);
    if (!db.ok()) return fail(c, db.error(), f.json);
    const auto n = (*db)->forget(f.filter);
    if (!n.ok()) return fail(c, n.error(), f.json);
    if (f.json) print_json({{"database", path}, {"forgotten", *n}});
    else print(wrapped(fmt::format("{} kernel{} forgotten, in {}", *n, *n == 1 ? "" : "s", path)));
}

void exchange(const Flags& f, Context& c, bool out) {
    const std::string path = need_path(c, f.json);
    if (path.empty()) return;
    auto db = Database::open(path, out ? Database::Mode::Read : Database::Mode::Write);
    if (!db.ok()) return fail(c, db.error(), f.json);
    const auto n = out ? tune::export_records(**db, f.file) : tune::import_records(**db, f.file);
    if (!n.ok()) return fail(c, n.error(), f.json);
    if (f.json) print_json({{"database", path}, {"file", f.file}, {"kernels", *n}});
    else print(wrapped(fmt::format("{} kernel{} {} {}", *n, *n == 1 ? "" : "s", out ? "written to" : "taken from", f.file)));
}
}  // namespace

void add_tune(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("tune", "Find faster schedules by measuring, and keep them for every later run");
    a->add_option("TARGET", f->target, "a model (.onnx), a file of declarations (.op), or an operator of the library");
    a->add_option("--op", f->op, "which operator of the file");
    a->add_option("--budget", f->budget, "seconds that it may take")->check(CLI::Range(0.1, 1e6))->capture_default_str();
    a->add_option("--candidates", f->candidates, "schedules of a kernel that are measured")->check(CLI::Range(2, 64))->capture_default_str();
    a->add_flag("--all-candidates", f->all, "show every candidate of every kernel");
    f->data.add(*a);
    f->execution.add(*a);
    f->on.add(*a);
    a->add_flag("--json", f->json, "print JSON: every candidate with its predicted and measured times");
    a->footer("Examples:\n  opwright tune model.onnx --budget 60 --size n=1\n"
              "  opwright tune examples/matmul_prelu.op --size m=512,n=512,k=512 --budget 10\n"
              "  opwright tune list\n  opwright tune export tuning.jsonl");
    a->require_subcommand(0, 1);

    const auto filtered = [f](CLI::App* s) {
        s->add_option("--target", f->filter.target, "of this target alone");
        s->add_option("--machine", f->filter.machine, "of this machine alone, as `list` names it");
        s->add_flag("--json", f->json, "print JSON");
    };
    CLI::App* s = a->add_subcommand("list", "What is tuned, how much faster it is, and by what");
    s->add_option("NAME", f->filter.name, "of operators whose name holds this");
    filtered(s);
    s->callback([f, &c] { list(*f, c, false); });
    s = a->add_subcommand("show", "All candidates of a kernel, predicted and measured");
    s->add_option("NAME", f->filter.name, "of operators whose name holds this")->required();
    filtered(s);
    s->callback([f, &c] { list(*f, c, true); });
    s = a->add_subcommand("forget", "Remove what was measured");
    s->add_option("NAME", f->filter.name, "of operators whose name holds this");
    s->add_flag("--all", f->everything, "everything that the other options let through");
    filtered(s);
    s->callback([f, &c] { forget(*f, c); });
    s = a->add_subcommand("export", "Write all of it to a file, for other machines of this kind and for keeping");
    s->add_option("FILE", f->file, "one record a line, as JSON")->required();
    s->add_flag("--json", f->json, "print JSON");
    s->callback([f, &c] { exchange(*f, c, true); });
    s = a->add_subcommand("import", "Take records from a file that export wrote, or from another database");
    s->add_option("FILE", f->file, "the file")->required();
    s->add_flag("--json", f->json, "print JSON");
    s->callback([f, &c] { exchange(*f, c, false); });
    a->callback([f, a, &c] {
        if (a->get_subcommands().empty()) run(*f, c);
    });
}

}  // namespace opwright::cli
