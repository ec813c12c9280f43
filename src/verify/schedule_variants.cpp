#include <nlohmann/json.hpp>
#include <set>

#include "verify/cross.h"

namespace opwright::verify {
using nlohmann::ordered_json;

namespace {
// Values that a field may take instead, the usual edges of each.
std::vector<int64_t> alternatives(const std::string& field, int64_t now) {
    if (field == "unroll") return {1, 2, 4, 8};
    if (field == "lanes") return {1, 2, 4, 8, 16, now * 2};
    if (field == "tile") return {1, 8, 64, 1024, now + 1, now * 2};
    if (field == "mr") return {1, 2, 3, 4};
    if (field == "nv") return {1, 2, 3};
    if (field == "kc") return {1, 7, 64, now + 1};
    if (field == "mt" || field == "nt") return {now / 2, now * 2, now - 1, 64, 48};
    return {};
}

void indices_of(const ordered_json& j, std::set<std::string>& names) {
    if (j.is_object())
        for (const auto& [key, value] : j.items())
            if ((key == "index" || key == "lane") && value.is_string()) names.insert(value.get<std::string>());
    if (j.is_structured())
        for (const auto& value : j) indices_of(value, names);
}

class Variants {
public:
    Variants(ordered_json j, size_t most) : root_(std::move(j)), most_(most) {
        indices_of(root_, names_);
        seen_.insert(root_.dump());
    }
    std::vector<std::string> run() {
        walk(root_);
        return std::move(found_);
    }

private:
    void keep() {
        std::string text = root_.dump();
        if (found_.size() < most_ && seen_.insert(text).second) found_.push_back(std::move(text));
    }
    void walk(ordered_json& j) {
        if (j.is_array())
            for (auto& value : j) walk(value);
        if (!j.is_object()) return;
        std::vector<std::string> keys;
        for (const auto& [key, value] : j.items()) keys.push_back(key);
        for (const std::string& key : keys) {
            if (j[key].is_structured()) {
                walk(j[key]);
                continue;
            }
            const ordered_json before = j[key];
            if (before.is_number_integer())
                for (int64_t v : alternatives(key, before.get<int64_t>())) {
                    j[key] = v;
                    keep();
                }
            if (key == "lane") {
                for (const std::string& n : names_) {
                    j[key] = n;
                    keep();
                }
                const ordered_json whole = j;
                j = ordered_json{{"value", whole["value"]}};  // scalar code
                keep();
                j = whole;
            }
            j[key] = before;
        }
    }

    ordered_json root_;
    size_t most_;
    std::set<std::string> names_, seen_;
    std::vector<std::string> found_;
};
}  // namespace

std::vector<std::string> schedule_variants(const std::string& text, size_t most) {
    ordered_json j = ordered_json::parse(text, nullptr, false);
    if (j.is_discarded()) return {};
    return Variants(std::move(j), most).run();
}

}  // namespace opwright::verify
