#include "explain/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "base/version.h"
#include "io/file.h"

namespace opwright::explain {
using nlohmann::json;

namespace {

json value_json(const graph::Value& v, const math::SymValues& symbols) {
    json shape = json::array();
    double elements = 1;
    for (const math::Sym& d : v.shape) {
        const int64_t n = math::evaluate(d, symbols).value_or(-1);
        shape.push_back(n);
        elements *= static_cast<double>(n);
    }
    return {{"name", v.name}, {"dtype", std::string(name(v.dtype))}, {"shape", shape},
            {"bytes", elements * static_cast<double>(size_of(v.dtype))}, {"constant", v.constant.has_value()}};
}

// Kernels, the views between them and what comes in and goes out. Nodes that ran before the first run are constants here.
json graph_json(const Profile& p, const graph::Graph& g) {
    std::map<graph::NodeId, size_t> row_of;
    for (size_t i = 0; i < p.rows.size(); ++i) row_of[p.rows[i].node] = i;
    std::vector<bool> known(g.values.size());
    for (graph::ValueId v = 0; v < g.values.size(); ++v) known[v] = g.values[v].constant.has_value();
    json nodes = json::array(), values = json::array();
    std::set<graph::ValueId> used(g.inputs.begin(), g.inputs.end());
    used.insert(g.outputs.begin(), g.outputs.end());
    for (graph::NodeId n = 0; n < g.nodes.size(); ++n) {
        const graph::Node& x = g.nodes[n];
        const auto row = row_of.find(n);
        const bool view = x.kind == graph::NodeKind::View;
        if (view ? known[x.inputs[0]] : row == row_of.end()) {
            for (graph::ValueId v : x.outputs) known[v] = true;
            continue;
        }
        json node{{"inputs", x.inputs}, {"outputs", x.outputs}};
        if (view) {  // one that belongs to a kernel's operator (the shape that it works in) has no name of its own
            const auto own = [&](const Row& r) {
                return std::any_of(r.sources.begin(), r.sources.end(), [&](const graph::SourceOp& s) { return s.name == x.sources.back().name; });
            };
            const bool nameless = x.sources.empty() || std::any_of(p.rows.begin(), p.rows.end(), own);
            node["view"] = nameless ? "other shape" : x.sources.back().type;
        }
        else node["row"] = row->second;
        used.insert(x.inputs.begin(), x.inputs.end());
        used.insert(x.outputs.begin(), x.outputs.end());
        nodes.push_back(std::move(node));
    }
    for (graph::ValueId v : used) {
        json value = value_json(g.values[v], p.symbols);
        value["id"] = v;
        if (known[v]) value["constant"] = true;
        values.push_back(std::move(value));
    }
    return {{"nodes", std::move(nodes)}, {"values", std::move(values)}, {"inputs", g.inputs}, {"outputs", g.outputs}};
}

// Texts, each once, and no more of them than a page bears.
class Texts {
public:
    explicit Texts(const ReportOptions& o) : o_(o) {}
    // Its number; -1 where there is no room left.
    int add(std::string text) {
        if (text.size() > o_.text_bytes) {
            const size_t end = std::max<size_t>(1, text.rfind('\n', o_.text_bytes) + 1);
            const auto lines = std::count(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), '\n');
            text = text.substr(0, end) + fmt::format("... {} more lines\n", lines);
        }
        if (const auto it = known_.find(text); it != known_.end()) return it->second;
        if (bytes_ + text.size() > o_.texts_bytes) return -1;
        bytes_ += text.size();
        list_.push_back(text);
        return known_[std::move(text)] = static_cast<int>(list_.size()) - 1;
    }
    json take() { return std::move(list_); }

private:
    const ReportOptions& o_;
    size_t bytes_ = 0;
    json list_ = json::array();
    std::map<std::string, int> known_;
};

// A fused program's name lists the declarations that it was made from.
json declarations(const std::string& program, const lang::Library& library, Texts& texts) {
    json r = json::array();
    std::set<std::string> seen;
    for (size_t i = 0; i <= program.size();) {
        const size_t end = std::min(program.find('+', i), program.size());
        const std::string op = program.substr(i, end - i);
        i = end + 1;
        const lang::OpDecl* d = library.find(op);
        if (!d || !seen.insert(op).second) continue;
        if (const int text = texts.add(library.source_text(*d)); text >= 0) r.push_back({{"name", op}, {"text", text}});
    }
    return r;
}

json kernel_json(const Row& row, const Compiled& c, const lang::Library& library, const ReportOptions& o, Texts& texts) {
    const graph::Node& n = c.executable->graph().nodes[row.node];
    json r{{"program", n.program.name}, {"declarations", declarations(n.program.name, library, texts)}};
    if (!n.program.doc.empty()) r["doc"] = n.program.doc;
    if (const int text = texts.add(n.program.print()); text >= 0) r["equations"] = text;
    json code = json::array();
    if (const auto* k = c.executable->kernel(row.node))
        for (const std::string& level : o.levels)
            if (std::string s = k->text(level); !s.empty())
                code.push_back({{"level", level}, {"text", texts.add(std::move(s))}});
    r["code"] = std::move(code);
    return r;
}

std::string file(std::string_view name) { return std::string(report_file(name)); }

// As the content of a script element: `<` stands only inside strings, where its escape means the same.
std::string inside_script(const json& data) {
    const std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace);
    std::string r;
    r.reserve(text.size() + text.size() / 50);
    for (char c : text) {
        if (c == '<') r += "\\u003c";
        else r += c;
    }
    return r;
}

void replace(std::string& page, std::string_view mark, const std::string& by) {
    for (size_t at = page.find(mark); at != std::string::npos; at = page.find(mark, at + by.size())) page.replace(at, mark.size(), by);
}
}  // namespace

json report_data(const Profile& p, const json& profile, const Compiled& c, const lang::Library& library, const ReportOptions& o) {
    std::vector<size_t> order(p.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p.rows[a].min_seconds > p.rows[b].min_seconds; });
    Texts texts(o);
    std::vector<json> kernels(p.rows.size());
    for (size_t i : order) kernels[i] = kernel_json(p.rows[i], c, library, o, texts);
    return {{"version", kVersion}, {"profile", profile}, {"graph", graph_json(p, c.executable->graph())},
            {"kernels", kernels}, {"texts", texts.take()}};
}

Result<json> read_baseline(const std::string& path) {
    OPW_TRY(const std::string text, io::read_file(path, uint64_t{1} << 30));
    json j = json::parse(text, nullptr, false);
    const auto number = [](const json& x, const char* key) { return x.contains(key) && x[key].is_number(); };
    bool good = j.is_object() && number(j, "total_ms") && number(j, "min_ms") && j.contains("operators") && j["operators"].is_array();
    for (const json& x : good ? j["operators"] : json::array())
        good = good && x.is_object() && x.contains("name") && x["name"].is_string() && number(x, "min_ms");
    if (!good)
        return Diagnostic(fmt::format("'{}' is no saved profile.", path))
            .with_next("Save one with `opwright profile MODEL.onnx --json > before.json`.");
    return j;
}

std::string report_page(const json& data) {
    // A script or style that does not carry this number, as one smuggled in would not, is not obeyed by the browser.
    std::random_device random;
    const std::string nonce = fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
    std::string scripts, layout = file("dagre.js");
    for (const char* name : {"prism-core.min.js", "prism-clike.min.js", "prism-c.min.js", "prism-cpp.min.js", "prism-python.min.js",
                             "prism-llvm.min.js", "d3.min.js"})
        scripts += fmt::format("<script nonce=\"{{{{NONCE}}}}\"{}>\n{}\n</script>\n", std::string_view(name) == "prism-core.min.js" ? " data-manual" : "", file(name));
    for (const char* name : {"data.js", "format.js", "highlight.js", "roofline.js", "graph.js", "layout.js", "panel.js", "tables.js",
                             "compare.js", "search.js", "main.js"})
        scripts += fmt::format("<script nonce=\"{{{{NONCE}}}}\">\n{}\n</script>\n", file(name));
    std::string page = file("page.html");
    replace(page, "/*STYLE*/", file("style.css"));
    replace(page, "{{LICENCES}}", file("licences.txt"));
    replace(page, "<!--SCRIPTS-->", scripts);
    replace(page, "/*LAYOUT*/", layout);
    replace(page, "{{NONCE}}", nonce);
    // Last, so that nothing in it is taken for a mark.
    const size_t at = page.find("/*DATA*/");
    if (at != std::string::npos) page.replace(at, 8, inside_script(data));
    return page;
}

}  // namespace opwright::explain
