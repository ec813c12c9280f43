#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "schedule/candidates.h"

namespace opwright::schedule {
using nlohmann::ordered_json;

namespace {
class Generator {
public:
    explicit Generator(ordered_json base) : base_(std::move(base)) { seen_.insert(base_.dump()); }

    std::vector<TextCandidate> run() {
        if (!base_.is_object() || !base_.contains("nests") || !base_["nests"].is_array()) return {};
        const size_t nests = base_["nests"].size();
        for (size_t i = 0; i < nests; ++i) {
            const std::string where = nests > 1 ? fmt::format(" in nest {}", i) : "";
            const ordered_json& nest = base_["nests"][i];
            if (nest.contains("contract")) contraction(i, nest["contract"], where);
            else blocks(i, nest, where);
            if (nest.contains("blocks") || nest.contains("contract")) pipeline(i, nest, where);
        }
        return std::move(found_);
    }

private:
    template <class Change>
    void vary(size_t nest, const std::string& words, Change&& change) {
        ordered_json j = base_;
        change(j["nests"][nest]);
        if (std::string text = j.dump(); seen_.insert(text).second) found_.push_back({std::move(text), words});
    }
    static int64_t number(const ordered_json& j, const char* field) {
        return j.contains(field) && j[field].is_number_integer() ? j[field].get<int64_t>() : 0;
    }

    void contraction(size_t i, const ordered_json& c, const std::string& where) {
        for (const auto& [mt, nt, kc] : {std::tuple{64, 64, 32}, {128, 64, 32}, {64, 128, 32}, {128, 128, 32}, {128, 128, 64},
                                         {128, 256, 64}, {32, 64, 64}, {16, 64, 64}})
            if (number(c, "mt") != mt || number(c, "nt") != nt || number(c, "kc") != kc)
                vary(i, fmt::format("block {}x{}x{}{}", mt, nt, kc, where), [&, m = mt, n = nt, k = kc](ordered_json& j) {
                    j["contract"]["mt"] = m;
                    j["contract"]["nt"] = n;
                    j["contract"]["kc"] = k;
                });
        // As much more or less each way: where a thread's sums, not a block's shape, are what is chosen.
        for (const auto& [over, under] : {std::pair{2, 1}, {1, 2}})
            if (const int64_t m = number(c, "mt") * over / under, n = number(c, "nt") * over / under; m > 0 && n > 0)
                vary(i, fmt::format("block {}x{}{}", m, n, where), [&](ordered_json& j) {
                    j["contract"]["mt"] = m;
                    j["contract"]["nt"] = n;
                });
    }
    // The innermost axis that is no whole row, and the bound on what one block holds.
    void blocks(size_t i, const ordered_json& nest, const std::string& where) {
        if (const int64_t elements = number(nest, "elements"); elements > 0)
            for (int64_t n : {elements / 4, elements / 2, elements * 2, elements * 4})
                if (n >= 32 && n <= 1 << 16)
                    vary(i, fmt::format("{} elements a block{}", n, where), [&](ordered_json& j) { j["elements"] = n; });
        if (!nest.contains("blocks")) return;
        for (size_t b = 0; b < nest["blocks"].size(); ++b) {
            const ordered_json& axis = nest["blocks"][b];
            const int64_t tile = number(axis, "tile");
            if (tile == 0) continue;
            for (int64_t n : {tile / 4, tile / 2, tile * 2, tile * 4})
                if (n >= 1 && n <= 1 << 14)
                    vary(i, fmt::format("blocks of {} along {}{}", n, axis.value("index", ""), where),
                         [&](ordered_json& j) { j["blocks"][b]["tile"] = n; });
        }
    }
    void pipeline(size_t i, const ordered_json& nest, const std::string& where) {
        for (int64_t w : {2, 4, 8, 16})
            if (number(nest, "warps") != w)
                vary(i, fmt::format("{} warps{}", w, where), [&](ordered_json& j) { j["warps"] = w; });
        if (!nest.contains("contract")) return;
        for (int64_t s : {2, 3, 4})
            if (number(nest, "stages") != s)
                vary(i, fmt::format("{} stages{}", s, where), [&](ordered_json& j) { j["stages"] = s; });
    }

    ordered_json base_;
    std::set<std::string> seen_;
    std::vector<TextCandidate> found_;
};
}  // namespace

std::vector<TextCandidate> block_candidates(const std::string& base) {
    ordered_json j = ordered_json::parse(base, nullptr, false);
    if (j.is_discarded()) return {};
    return Generator(std::move(j)).run();
}

}  // namespace opwright::schedule
