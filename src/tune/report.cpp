#include "tune/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text.h"
#include "explain/units.h"

namespace opwright::tune {
using explain::time_text;
using nlohmann::json;

namespace {
// Ranks from 1; equal values share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& v) {
    std::vector<size_t> order(v.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] < v[b]; });
    std::vector<double> r(v.size());
    for (size_t i = 0; i < order.size();) {
        size_t j = i;
        while (j + 1 < order.size() && v[order[j + 1]] == v[order[i]]) ++j;
        for (size_t k = i; k <= j; ++k) r[order[k]] = static_cast<double>(i + j) / 2 + 1;
        i = j + 1;
    }
    return r;
}

size_t samples(const Record& r) {
    size_t n = 0;
    for (const Candidate& c : r.candidates) n += c.seconds.size();
    return n;
}
std::string verdict(const Record& r) {
    return r.winner == 0 ? "untuned is best" : r.candidates[r.winner].words;
}
}  // namespace

std::optional<double> rank_correlation(const Record& r) {
    std::vector<double> predicted, measured;
    for (const Candidate& c : r.candidates)
        if (c.predicted > 0 && !c.seconds.empty()) {
            predicted.push_back(c.predicted);
            measured.push_back(c.best());
        }
    if (predicted.size() < 3) return std::nullopt;
    const auto a = ranks(predicted), b = ranks(measured);
    const double mean = (static_cast<double>(a.size()) + 1) / 2;
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    if (aa == 0 || bb == 0) return std::nullopt;
    return ab / std::sqrt(aa * bb);
}

std::string title(const Record& r) {
    return r.sizes.empty() ? r.name : fmt::format("{} at {}", r.name, fmt::join(r.sizes, ", "));
}

std::string table(const std::vector<Record>& records) {
    std::string t = fmt::format("{:<36} {:>9} {:>9} {:>6}  {:<35}\n", "kernel", "untuned", "best", "gain", "winner");
    for (const Record& r : records) {
        std::string line = fmt::format("{:<36} {:>9} {:>9} {:>5.2f}x  {}", cut(title(r), 36), time_text(r.candidates[0].best()),
                                       time_text(r.candidates[r.winner].best()), r.gain(), cut(verdict(r), 35));
        t += line + "\n";
    }
    return t;
}

std::string candidates(const Record& r) {
    std::string t = wrapped(fmt::format("{}  ({}; {}; {})", title(r), r.key.dtypes, r.key.target, r.measured_at));
    std::vector<const Candidate*> order;
    for (const Candidate& c : r.candidates) order.push_back(&c);
    std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->best() < b->best(); });
    t += fmt::format("    {:>10} {:>10} {:>8} {:>7}  {}\n", "predicted", "measured", "untuned/", "times", "candidate");
    const double untuned = r.candidates[0].best();
    for (const Candidate* c : order) {
        const bool won = c == &r.candidates[r.winner];
        const std::string note = won                             ? "  <- winner"
                                 : c->outcome == Outcome::Cut    ? "  (dropped early)"
                                 : c->outcome == Outcome::Wrong  ? "  (result not confirmed: may not win)"
                                                                 : "";
        const bool timed = !c->seconds.empty();
        t += fmt::format("    {:>10} {:>10} {:>8} {:>7}  {}{}\n", c->predicted > 0 ? time_text(c->predicted) : "-",
                         timed ? time_text(c->best()) : "-", timed ? fmt::format("{:.2f}x", untuned / c->best()) : "-",
                         c->seconds.size(), cut(c->words, 52 - std::min<size_t>(note.size(), 38)), note);
    }
    if (const auto rho = rank_correlation(r))
        t += fmt::format("    rank correlation of predicted and measured times: {:.2f}\n", *rho);
    return t;
}

std::string to_text(const Session& s, bool all_candidates) {
    std::vector<Record> records;
    double gained = 1, shares = 0;
    size_t times = 0;
    for (const Session::Tuned& t : s.tuned) {
        records.push_back(t.record);
        gained -= t.share * (1 - 1 / t.record.gain());
        shares += t.share;
        times += samples(t.record);
    }
    std::string r = wrapped(fmt::format("{} kernel{} tuned in {:.1f} s, {:.0f} % of the time of a run; {} times taken", s.tuned.size(),
                                        s.tuned.size() == 1 ? "" : "s", s.seconds, 100 * shares, times));
    if (!records.empty()) r += "\n" + table(records);
    if (all_candidates)
        for (const Record& x : records) r += "\n" + candidates(x);
    if (!records.empty() && gained < 1)
        r += "\n" + wrapped(fmt::format("With the winners in place of the untuned schedules the kernels take {:.0f} % of their time.", 100 * gained));
    if (!s.left.empty()) {
        r += "\nnot tuned\n";
        size_t shown = 0;
        double rest = 0;
        for (const Session::Left& l : s.left) {
            if (++shown <= 10) r += wrapped(fmt::format("{} ({:.1f} %): {}", l.name, 100 * l.share, l.reason), 4, 8);
            else rest += l.share;
        }
        if (shown > 10) r += fmt::format("    and {} more ({:.1f} %)\n", shown - 10, 100 * rest);
    }
    return r;
}

json report_json(const Record& r) {
    json j = to_json(r);
    j["gain"] = r.gain();
    if (const auto rho = rank_correlation(r)) j["rank_correlation"] = *rho;
    else j["rank_correlation"] = nullptr;
    return j;
}

json to_json(const Session& s) {
    json tuned = json::array(), left = json::array();
    for (const Session::Tuned& t : s.tuned) {
        json j = report_json(t.record);
        j["share"] = t.share;
        j["places"] = t.places;
        tuned.push_back(std::move(j));
    }
    for (const Session::Left& l : s.left) left.push_back({{"name", l.name}, {"share", l.share}, {"reason", l.reason}});
    return {{"seconds", s.seconds}, {"kernels", std::move(tuned)}, {"left", std::move(left)}};
}

}  // namespace opwright::tune
