#include "target/ascend/helpers.h"

#include <stdexcept>
#include <string_view>

#include "target/ascend/helper_tables.h"

namespace opwright::target::ascend {
namespace {

// All functions in order of need.
const std::vector<Helper>& table() {
    static const std::vector<Helper> all = [] {
        std::vector<Helper> r;
        for (const auto* part :
             {&places_helpers(), &integers_helpers(), &floats_helpers(), &exponentials_helpers(), &circular_helpers(),
              &vectors_helpers()})
            r.insert(r.end(), part->begin(), part->end());
        return r;
    }();
    return all;
}

const Helper& find(std::string_view name) {
    for (const Helper& h : table())
        if (name == h.name) return h;
    throw std::logic_error("no helper function " + std::string(name));
}
void need(std::string_view name, std::set<std::string>& all) {
    if (!all.insert(std::string(name)).second) return;
    for (const char* n : find(name).needs) need(n, all);
}
}  // namespace

std::string helper_text(const std::set<std::string>& names) {
    std::set<std::string> all;
    for (const std::string& n : names) need(n, all);
    std::string r;
    for (const Helper& h : table())
        if (all.count(h.name)) r += h.text;
    return r;
}

}  // namespace opwright::target::ascend
