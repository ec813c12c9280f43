#include "tune/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace opwright::tune {
using nlohmann::json;

std::string bucket_of(const std::vector<int64_t>& sizes) {
    std::string r;
    for (int64_t s : sizes)
        r += fmt::format("{}{}", r.empty() ? "" : ",", std::bit_width(static_cast<uint64_t>(std::max<int64_t>(s, 0))));
    return r;
}

std::string_view name(Outcome o) {
    switch (o) {
        case Outcome::Measured: return "measured";
        case Outcome::Cut: return "cut";
        case Outcome::Wrong: return "wrong";
    }
    return "";
}

double Candidate::best() const {
    return seconds.empty() ? std::numeric_limits<double>::infinity() : *std::min_element(seconds.begin(), seconds.end());
}

double Record::gain() const {
    const double own = candidates.at(winner).best(), untuned = candidates.at(0).best();
    return own > 0 && std::isfinite(untuned) ? untuned / own : 1;
}

Status check(const Record& r) {
    const auto wrong = [](const std::string& what) { return Diagnostic("A record of tuning is malformed: " + what + "."); };
    const auto text = [](const std::string& s, size_t most) {
        return s.size() <= most && std::all_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) >= 32; });
    };
    if (r.key.content.size() != 32 || r.key.content.find_first_not_of("0123456789abcdef") != std::string::npos)
        return wrong("its content is no hash of 32 hexadecimal digits");
    for (const std::string* s : {&r.key.dtypes, &r.key.layout, &r.key.target, &r.key.machine, &r.key.emitter, &r.name, &r.measured_at})
        if (!text(*s, 4096)) return wrong("a text is too long or holds control characters");
    if (r.key.target.empty() || r.key.machine.empty()) return wrong("it names no target or no machine");
    if (r.sizes.size() > 64 || std::any_of(r.sizes.begin(), r.sizes.end(), [](int64_t s) { return s < 0 || s > int64_t{1} << 48; }))
        return wrong("a size is out of range");
    if (r.key.bucket != bucket_of(r.sizes)) return wrong("its bucket is not that of its sizes");
    if (r.candidates.empty() || r.candidates.size() > 1000) return wrong("it has no candidates, or too many");
    if (r.winner >= r.candidates.size()) return wrong("its winner is none of its candidates");
    for (size_t i = 0; i < r.candidates.size(); ++i) {
        const Candidate& c = r.candidates[i];
        if (c.schedule.size() > 1 << 16 || !text(c.words, 1024)) return wrong("the text of a candidate is too long");
        if (c.schedule.empty() != (i == 0)) return wrong("its first candidate, and no other, is the untuned schedule");
        if (!(c.predicted >= 0 && c.predicted < 1e6)) return wrong("a predicted time is out of range");
        if (c.seconds.size() > 100000) return wrong("a candidate has too many times");
        for (double s : c.seconds)
            if (!(s > 0 && s < 1e6)) return wrong("a time is out of range");
    }
    const Candidate& best = r.candidates[r.winner];
    if (best.seconds.empty() || r.candidates[0].seconds.empty()) return wrong("the untuned schedule or the winner was not timed");
    if (best.outcome != Outcome::Measured) return wrong("its winner was not measured to the end");
    return ok_status();
}

json to_json(const Record& r) {
    json candidates = json::array();
    for (const Candidate& c : r.candidates)
        candidates.push_back({{"schedule", c.schedule}, {"words", c.words}, {"predicted", c.predicted},
                              {"outcome", std::string(name(c.outcome))}, {"seconds", c.seconds}});
    return {{"content", r.key.content}, {"dtypes", r.key.dtypes}, {"layout", r.key.layout}, {"bucket", r.key.bucket},
            {"target", r.key.target}, {"machine", r.key.machine}, {"emitter", r.key.emitter}, {"name", r.name},
            {"sizes", r.sizes}, {"measured_at", r.measured_at}, {"candidates", std::move(candidates)}, {"winner", r.winner}};
}

Result<Record> record_from_json(const json& j) {
    Record r;
    try {
        const auto only = [](const json& o, size_t fields) {
            if (!o.is_object() || o.size() != fields) throw std::invalid_argument("it is no object of the fields that belong to it");
        };
        only(j, 12);
        r.key = {j.at("content").get<std::string>(), j.at("dtypes").get<std::string>(), j.at("layout").get<std::string>(),
                 j.at("bucket").get<std::string>(), j.at("target").get<std::string>(), j.at("machine").get<std::string>(),
                 j.at("emitter").get<std::string>()};
        r.name = j.at("name").get<std::string>();
        r.measured_at = j.at("measured_at").get<std::string>();
        for (const json& s : j.at("sizes")) {
            if (!s.is_number_integer()) throw std::invalid_argument("a size is no whole number");
            r.sizes.push_back(s.get<int64_t>());
        }
        for (const json& x : j.at("candidates")) {
            only(x, 5);
            Candidate c{x.at("schedule").get<std::string>(), x.at("words").get<std::string>(), x.at("predicted").get<double>(), {}, {}};
            const auto outcome = x.at("outcome").get<std::string>();
            bool known = false;
            for (Outcome o : {Outcome::Measured, Outcome::Cut, Outcome::Wrong})
                if (outcome == name(o)) c.outcome = o, known = true;
            if (!known) throw std::invalid_argument("an outcome is unknown");
            for (const json& s : x.at("seconds")) c.seconds.push_back(s.get<double>());
            r.candidates.push_back(std::move(c));
        }
        if (!j.at("winner").is_number_unsigned()) throw std::invalid_argument("its winner is no number");
        r.winner = j.at("winner").get<size_t>();
    } catch (const json::exception&) {
        return Diagnostic("A record of tuning is malformed: a field is missing or of another kind.");
    } catch (const std::invalid_argument& e) {
        return Diagnostic(fmt::format("A record of tuning is malformed: {}.", e.what()));
    }
    OPW_CHECK(check(r));
    return r;
}

}  // namespace opwright::tune
