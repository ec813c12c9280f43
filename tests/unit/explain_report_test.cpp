// The page and the trace of a profile, as data: what a browser makes of the page is tested in tests/browser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "explain/report.h"
#include "explain/timeline.h"
#include "operator.h"
#include "runtime/thread_pool.h"

namespace opwright::explain {
namespace {
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Made {
    std::shared_ptr<runtime::ThreadPool> pool;
    Operator::Version version;
    Profile profile;
};
const lang::Library& library() {
    static const lang::Library made = [] {
        lang::Library l;
        EXPECT_TRUE(l.add(std::make_shared<Source>(Source{"test", "op rows(x[n,m]) -> y[n]:\n    y[n] = sum[m](exp(x[n,m]))\n"})).ok());
        return l;
    }();
    return made;
}
Made made(int threads = 1) {
    Made m{std::make_shared<runtime::ThreadPool>(threads), {}, {}};
    CompileOptions o;
    o.execution.keep_text = true;
    o.execution.cpu.cache = false;
    const auto op = Operator::make(library(), "rows", {}, o, m.pool);
    EXPECT_TRUE(op.ok());
    Tensor x(DType::F32, {300, 200});
    for (int64_t i = 0; i < x.size(); ++i) x.as<float>()[i] = static_cast<float>(i % 17) / 17;
    const auto v = (*op)->version({x});
    EXPECT_TRUE(v.ok()) << (v.ok() ? "" : v.error().message);
    m.version = *v;
    Machine machine;
    machine.processor = "a processor";
    machine.threads = threads;
    machine.flops_f32 = 50e9;
    machine.copies = {{1e5, 50e9}, {1e9, 10e9}};
    machine.dispatch_seconds = 1e-6;
    auto p = explain::profile(*v->compiled, v->arguments, machine, *m.pool, {.warmup = 1, .repeats = 2});
    EXPECT_TRUE(p.ok());
    m.profile = *std::move(p);
    return m;
}

TEST(Report, HoldsTheGraphAndEveryKernelsTexts) {
    const Made m = made();
    const json data = report_data(m.profile, to_json(m.profile), *m.version.compiled, library());
    ASSERT_EQ(data["kernels"].size(), m.profile.rows.size());
    const json& kernel = data["kernels"][0];
    const auto text = [&](const json& number) { return data["texts"].at(number.get<size_t>()).get<std::string>(); };
    EXPECT_THAT(text(kernel["declarations"][0]["text"]), HasSubstr("op rows("));
    EXPECT_THAT(text(kernel["equations"]), HasSubstr("sum["));
    std::vector<std::string> levels;
    for (const json& c : kernel["code"]) {
        levels.push_back(c["level"]);
        EXPECT_FALSE(text(c["text"]).empty());
    }
    EXPECT_THAT(levels, testing::ElementsAre("schedule", "loop", "llvm"));
    // One kernel from the only input to the only output, with the sizes of the run.
    ASSERT_EQ(data["graph"]["nodes"].size(), 1u);
    EXPECT_EQ(data["graph"]["nodes"][0]["inputs"], data["graph"]["inputs"]);
    EXPECT_EQ(data["graph"]["nodes"][0]["outputs"], data["graph"]["outputs"]);
    EXPECT_EQ(data["graph"]["values"][0]["shape"], json::array({300, 200}));
    EXPECT_EQ(data["graph"]["values"][0]["bytes"], 4 * 300 * 200);
}

TEST(Report, TextsAreCutAndEqualOnesShared) {
    const Made m = made();
    ReportOptions o;
    o.text_bytes = 300;
    json data = report_data(m.profile, {}, *m.version.compiled, library(), o);
    for (const std::string s : data["texts"]) EXPECT_LE(s.size(), 340u);
    EXPECT_THAT(data["texts"].dump(), HasSubstr(" more lines"));
    o.texts_bytes = 400;  // no room for all
    data = report_data(m.profile, {}, *m.version.compiled, library(), o);
    size_t bytes = 0;
    for (const std::string s : data["texts"]) bytes += s.size();
    EXPECT_LE(bytes, 400u);
    EXPECT_EQ(data["kernels"][0]["code"].back()["text"], -1);
}

TEST(Report, NamesNeitherEndTheirScriptNorAreTakenForMarks) {
    const json data{{"name", "</script><img src=x onerror=alert(1)><!--"}, {"other", "{{NONCE}} {{LICENCES}} /*DATA*/ /*STYLE*/ <!--SCRIPTS-->"}};
    const std::string page = report_page(data);
    EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cimg src=x"));
    EXPECT_THAT(page, Not(HasSubstr("<img")));
    EXPECT_THAT(page, HasSubstr("{{NONCE}} {{LICENCES}} /*DATA*/ /*STYLE*/ \\u003c!--SCRIPTS-->"));
    // The data come back as they were.
    const std::string open = "<script type=\"application/json\" id=\"data\">";
    const size_t begin = page.find(open) + open.size();
    EXPECT_EQ(json::parse(page.substr(begin, page.find("</script>", begin) - begin)), data);
}

TEST(Report, AsksNobodyAndCarriesItsLibrariesWithTheirLicences) {
    const std::string page = report_page(json::object());
    EXPECT_THAT(page, HasSubstr("default-src 'none'"));
    for (const char* outside : {"<script src", "<link", "@import", "url(http"}) EXPECT_THAT(page, Not(HasSubstr(outside))) << outside;
    for (const char* licence : {"Mike Bostock", "Chris Pettitt", "Lutz Roeder", "Lea Verou", "BSD 3-Clause", "MIT licence"})
        EXPECT_THAT(page, HasSubstr(licence));
    EXPECT_THAT(page, Not(HasSubstr("{{")));
    EXPECT_NE(report_page({}).substr(0, 2000), page.substr(0, 2000)) << "the number that scripts carry is another each time";
}

TEST(Report, ABaselineIsASavedProfile) {
    const auto path = std::filesystem::temp_directory_path() / "opwright_baseline_test.json";
    const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
    write(to_json(made().profile).dump());
    EXPECT_TRUE(read_baseline(path).ok());
    for (const char* wrong : {"", "{", "[]", "{\"total_ms\": 1}", "{\"total_ms\": 1, \"min_ms\": 1, \"operators\": [{\"name\": 1, \"min_ms\": 1}]}"}) {
        write(wrong);
        const auto r = read_baseline(path);
        ASSERT_FALSE(r.ok()) << wrong;
        EXPECT_THAT(r.error().message, HasSubstr("is no saved profile"));
    }
    std::filesystem::remove(path);
    EXPECT_FALSE(read_baseline(path).ok());
}

TEST(Trace, EveryThreadHasARowAndKernelsLieWithinTheirRuns) {
    const Made m = made(2);
    const auto t = timeline(*m.version.compiled->executable, m.version.arguments, *m.pool, 3);
    ASSERT_TRUE(t.ok());
    ASSERT_EQ(t->runs.size(), 3u);
    EXPECT_EQ(t->kernels.size(), 3 * m.profile.rows.size());
    std::map<int, double> last;  // by thread
    double tasks = 0;
    for (const Span& s : t->work) {
        EXPECT_GE(s.begin, last[s.thread]);
        last[s.thread] = s.end;
        EXPECT_LE(s.begin, s.end);
        EXPECT_LT(s.thread, 2);
        tasks += static_cast<double>(s.tasks);
    }
    EXPECT_GT(tasks, 0);
    for (const Span& k : t->kernels) {
        EXPECT_GE(k.begin, t->runs[static_cast<size_t>(k.run)].begin);
        EXPECT_LE(k.end, t->runs[static_cast<size_t>(k.run)].end);
    }
    const json trace = trace_events(m.profile, &*t);
    std::map<std::string, int> kinds;
    for (const json& e : trace["traceEvents"]) {
        if (e["ph"] == "M") {
            ++kinds[e["name"]];
            continue;
        }
        EXPECT_EQ(e["ph"], "X");
        EXPECT_GE(e["dur"], 0);
        ++kinds[e["cat"]];
        if (e["cat"] == "kernel") EXPECT_EQ(e["args"]["shapes"], m.profile.rows[0].shapes);
    }
    EXPECT_EQ(kinds["thread_name"], 2);
    EXPECT_EQ(kinds["run"], 3);
    EXPECT_EQ(kinds["kernel"], 3);
    EXPECT_GE(kinds["tasks"], 3);
}

TEST(Trace, OnADeviceTheStreamShowsItsGaps) {
    Profile p;
    p.name = "model";
    p.machine.device = true;
    p.machine.processor = "a GPU";
    p.device.emplace();
    for (const char* name : {"a", "b"}) {
        Row r;
        r.name = name;
        r.min_seconds = 10e-6;
        p.rows.push_back(r);
    }
    p.device->runs = {{{10e-6, 35e-6}, {3e-6, 20e-6}}};
    const json events = trace_events(p, nullptr)["traceEvents"];
    std::vector<std::string> stream;
    for (const json& e : events)
        if (e["ph"] == "X" && e["tid"] == 0) stream.push_back(e["name"].get<std::string>() + " " + std::to_string(std::lround(e["dur"].get<double>())));
    EXPECT_THAT(stream, testing::ElementsAre("a 10", "gap 15", "b 10"));
}

}  // namespace
}  // namespace opwright::explain
