#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schedule/schedule.h"
#include "schedule/window.h"

namespace opwright::schedule {
using namespace math;
using nlohmann::ordered_json;

namespace {

// Names of index variables that are different for different variables: "i", then "i.2" for a second i.
std::vector<std::string> unique_names(const Program& p) {
    std::vector<std::string> r;
    std::map<std::string, int> count;
    for (const Var& v : p.vars) {
        const int n = ++count[v.name];
        r.push_back(n == 1 ? v.name : fmt::format("{}.{}", v.name, n));
    }
    return r;
}

// Reads fields of a JSON document, keeping where it is for the message.
class Reader {
public:
    explicit Reader(const Kernel& k) : k_(k), names_(unique_names(k.program)) {}

    Result<Schedule> read(const std::string& text) {
        ordered_json j = ordered_json::parse(text, nullptr, false);
        if (j.is_discarded()) return Diagnostic("The schedule is not valid JSON.", {}, kNext);
        // What `explain --json` prints holds the schedule as a field.
        if (j.is_object() && j.contains("schedule") && j.contains("level")) j = ordered_json(j["schedule"]);
        OPW_CHECK(only(j, "the schedule", {"operator", "nests"}));
        Schedule s;
        const auto nests = j.find("nests");
        if (nests == j.end() || !nests->is_array() || nests->size() != k_.nests.size())
            return Diagnostic(
                fmt::format("The schedule's \"nests\" must be a list of {} nests, one for each nest of {}.",
                            k_.nests.size(), k_.program.name),
                {}, kNext);
        for (size_t i = 0; i < nests->size(); ++i) {
            where_ = fmt::format("nest {}", i);
            OPW_TRY(NestPlan plan, nest((*nests)[i], k_.nests[i]));
            s.nests.push_back(std::move(plan));
        }
        s.summary = "schedule from a file";
        return s;
    }

private:
    static constexpr const char* kNext =
        "Start from the schedule that `opwright explain FILE.op --level schedule --json` prints.";

    Diagnostic wrong(const std::string& what) const {
        return Diagnostic(fmt::format("In {} of the schedule: {}.", where_, what), {}, kNext);
    }
    Status only(const ordered_json& j, const std::string& what, std::initializer_list<const char*> fields) {
        if (!j.is_object()) return Diagnostic(fmt::format("In the schedule, {} must be an object.", what), {}, kNext);
        for (const auto& [key, value] : j.items())
            if (std::none_of(fields.begin(), fields.end(), [&, &k = key](const char* f) { return k == f; }))
                return Diagnostic(fmt::format("In the schedule, {} has a field \"{}\", which is unknown.", what, key),
                                  {}, fmt::format("Its fields are {}.", fmt::join(fields, ", ")));
        return ok_status();
    }

    Result<VarId> variable(const ordered_json& j, const char* field) const {
        if (!j.contains(field) || !j[field].is_string()) return wrong(fmt::format("\"{}\" must name an index", field));
        const auto name = j[field].get<std::string>();
        const auto it = std::find(names_.begin(), names_.end(), name);
        if (it == names_.end())
            return wrong(fmt::format("there is no index \"{}\"; the indices are {}", name, fmt::join(names_, ", ")));
        return static_cast<VarId>(it - names_.begin());
    }
    Result<int64_t> number(const ordered_json& j, const char* field, int64_t low, int64_t high,
                           int64_t otherwise) const {
        if (!j.contains(field)) return otherwise;
        const auto& v = j[field];
        if (!v.is_number_integer() || v.get<int64_t>() < low || v.get<int64_t>() > high)
            return wrong(fmt::format("\"{}\" must be a whole number from {} to {}", field, low, high));
        return v.get<int64_t>();
    }
    Result<int64_t> power(const ordered_json& j, const char* field, int64_t high) const {
        OPW_TRY(const int64_t n, number(j, field, 1, high, 1));
        if (n & (n - 1)) return wrong(fmt::format("\"{}\" must be a power of two, and is {}", field, n));
        return n;
    }

    Result<NestPlan> nest(const ordered_json& j, const Nest& n) {
        OPW_CHECK(
            only(j, where_, {"grid", "equations", "contract", "blocks", "elements", "rows_together", "online", "warps", "stages"}));
        NestPlan plan;
        const auto grid = j.find("grid");
        if (grid == j.end() || !grid->is_array() || grid->size() != n.grid.size())
            return wrong(fmt::format("\"grid\" must be a list of {} indices with their tiles", n.grid.size()));
        for (size_t g = 0; g < n.grid.size(); ++g) {
            OPW_CHECK(only((*grid)[g], "an index of the grid", {"index", "tile"}));
            OPW_TRY(const VarId v, variable((*grid)[g], "index"));
            if (v != n.grid[g])
                return wrong(
                    fmt::format("index {} of the grid is \"{}\"; their order cannot be changed", g, names_[n.grid[g]]));
            OPW_TRY(const int64_t tile, number((*grid)[g], "tile", 1, int64_t{1} << 40, 1));
            plan.grid_tile.push_back(tile);
        }
        if (j.contains("equations")) {
            const auto& list = j["equations"];
            if (!list.is_array() || list.size() != n.equations.size())
                return wrong(fmt::format("\"equations\" must be a list of {}", n.equations.size()));
            for (size_t i = 0; i < list.size(); ++i) {
                OPW_TRY(const EquationPlan e, equation(list[i]));
                plan.equations.push_back(e);
            }
        }
        if (j.contains("contract")) {
            const auto& c = j["contract"];
            OPW_CHECK(only(c, "\"contract\"", {"mr", "nv", "lanes", "kc", "mt", "nt", "parts", "tiles", "window"}));
            OPW_TRY(const int64_t mr, number(c, "mr", 0, 64, 0));
            OPW_TRY(const int64_t nv, number(c, "nv", 0, 64, 0));
            OPW_TRY(const int64_t lanes, number(c, "lanes", 0, 64, 0));
            OPW_TRY(plan.contract.kc, number(c, "kc", 1, 1 << 20, -1));
            OPW_TRY(plan.contract.mt, number(c, "mt", 1, 1 << 20, 0));
            OPW_TRY(plan.contract.nt, number(c, "nt", 1, 1 << 20, 0));
            OPW_TRY(const int64_t parts, power(c, "parts", 4));
            plan.contract.parts = static_cast<int>(parts);
            plan.contract.mr = static_cast<int>(mr);
            plan.contract.nv = static_cast<int>(nv);
            plan.contract.lanes = static_cast<int>(lanes);
            if (c.contains("tiles") && !c["tiles"].is_boolean()) return wrong("\"tiles\" must be true or false");
            plan.contract.tiles = c.value("tiles", false);
            if (c.contains("window") && !c["window"].is_boolean()) return wrong("\"window\" must be true or false");
            if (c.value("window", false)) plan.contract.kc = kWindows;
        }
        if (j.contains("blocks")) {
            if (!j["blocks"].is_array()) return wrong("\"blocks\" must be a list");
            for (const auto& b : j["blocks"]) {
                OPW_CHECK(only(b, "an axis of \"blocks\"", {"index", "tile"}));
                BlockAxis axis;
                OPW_TRY(axis.var, variable(b, "index"));
                if (b.contains("tile") && b["tile"] != "whole") { OPW_TRY(axis.tile, power(b, "tile", 1 << 20)); }
                plan.blocks.push_back(axis);
            }
        }
        OPW_TRY(plan.elements, number(j, "elements", 0, 1 << 20, 0));
        OPW_TRY(plan.together, number(j, "rows_together", 0, 1 << 20, 0));
        if (j.contains("online") && !j["online"].is_boolean()) return wrong("\"online\" must be true or false");
        plan.online = j.value("online", false);
        OPW_TRY(const int64_t warps, number(j, "warps", 0, 32, 0));
        OPW_TRY(const int64_t stages, number(j, "stages", 0, 8, 0));
        plan.warps = static_cast<int>(warps);
        plan.stages = static_cast<int>(stages);
        return plan;
    }

    Result<EquationPlan> equation(const ordered_json& j) {
        OPW_CHECK(only(j, "an equation", {"value", "lane", "lanes", "unroll", "folded", "lane_first", "rows"}));
        EquationPlan e;
        if (!j.contains("lane")) return e;
        OPW_TRY(e.lane, variable(j, "lane"));
        OPW_TRY(const int64_t lanes, power(j, "lanes", 64));
        OPW_TRY(const int64_t unroll, power(j, "unroll", 16));
        e.lanes = static_cast<int>(lanes);
        e.unroll = static_cast<int>(unroll);
        if (j.contains("rows")) {
            OPW_TRY(const int64_t rows, power(j, "rows", 16));
            e.rows = static_cast<int>(rows);
        }
        for (const char* flag : {"folded", "lane_first"})
            if (j.contains(flag) && !j[flag].is_boolean())
                return wrong(fmt::format("\"{}\" must be true or false", flag));
        e.lane_reduces = j.value("folded", false);
        e.lane_first = j.value("lane_first", false);
        return e;
    }

    const Kernel& k_;
    std::vector<std::string> names_;
    std::string where_;
};
}  // namespace

std::string to_json(const Schedule& s, const Kernel& k) {
    const std::vector<std::string> names = unique_names(k.program);
    ordered_json nests = ordered_json::array();
    for (size_t i = 0; i < s.nests.size(); ++i) {
        const Nest& nest = k.nests[i];
        const NestPlan& plan = s.nests[i];
        ordered_json j;
        j["grid"] = ordered_json::array();
        for (size_t g = 0; g < nest.grid.size(); ++g)
            j["grid"].push_back({{"index", names[nest.grid[g]]}, {"tile", plan.grid_tile[g]}});
        for (size_t e = 0; e < plan.equations.size(); ++e) {
            const EquationPlan& q = plan.equations[e];
            ordered_json x{{"value", k.program.tensors[k.program.equations[nest.equations[e]].lhs].name}};
            if (q.lane != kNone) {
                x["lane"] = names[q.lane];
                x["lanes"] = q.lanes;
                x["unroll"] = q.unroll;
                if (q.lane_reduces) x["folded"] = true;
                if (q.lane_first) x["lane_first"] = true;
                if (q.rows) x["rows"] = q.rows;
            }
            j["equations"].push_back(std::move(x));
        }
        if (nest.contraction) {
            const ContractPlan& c = plan.contract;
            j["contract"] = {{"mt", c.mt}, {"nt", c.nt}};
            if (!from_windows(c)) j["contract"]["kc"] = c.kc;
            if (c.mr) j["contract"].update({{"mr", c.mr}, {"nv", c.nv}, {"lanes", c.lanes}});
            if (c.parts > 1) j["contract"]["parts"] = c.parts;
            if (c.tiles) j["contract"]["tiles"] = true;
            if (from_windows(c)) j["contract"]["window"] = true;
        }
        for (const BlockAxis& b : plan.blocks) {
            ordered_json x{{"index", names[b.var]}};
            if (b.tile == kWhole)
                x["tile"] = "whole";
            else
                x["tile"] = b.tile;
            j["blocks"].push_back(std::move(x));
        }
        if (plan.elements) j["elements"] = plan.elements;
        if (plan.together) j["rows_together"] = plan.together;
        if (plan.online) j["online"] = true;
        if (plan.warps) j["warps"] = plan.warps;
        if (plan.stages) j["stages"] = plan.stages;
        nests.push_back(std::move(j));
    }
    return ordered_json{{"operator", k.program.name}, {"nests", std::move(nests)}}.dump(2) + "\n";
}

Result<Schedule> from_json(const std::string& text, const Kernel& k) { return Reader(k).read(text); }

}  // namespace opwright::schedule
