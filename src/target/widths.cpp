#include "target/widths.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "schedule/widths.h"
#include "target/cpu/features.h"
#include "target/cuda/lower.h"

namespace opwright::target {
namespace {

// Every number of points in a schedule as targets print it.
void collect(const nlohmann::json& j, std::vector<int64_t>& r) {
    constexpr std::string_view kFields[] = {"tile", "lanes", "mt", "nt", "kc", "mr", "elements"};
    if (j.is_object())
        for (const auto& [key, value] : j.items())
            if (value.is_number_integer() && std::find(std::begin(kFields), std::end(kFields), key) != std::end(kFields))
                r.push_back(value.get<int64_t>());
    if (j.is_structured())
        for (const auto& value : j) collect(value, r);
}

std::vector<int64_t> cuda_widths(const math::Program& p) {
    std::vector<int64_t> r;
    const auto program = cuda::lower(p);
    if (!program.ok()) return r;
    for (const cuda::Stage& s : program->stages)
        for (const cuda::Variant& v : s.variants) {
            int64_t covered = v.threads;
            r.push_back(covered);
            for (const auto& [macro, value] : v.macros) {
                r.push_back(value);
                if (macro == "VECTOR" || macro == "ITEMS") r.push_back(covered *= value);
            }
        }
    return r;
}
}  // namespace

std::vector<int64_t> cpu_widths(const math::Program& p, const cpu::Options& o) {
    cpu::Features f = cpu::host_features();
    if (const auto level = cpu::level_from_name(o.level))
        if (const auto lower = cpu::features_at(*level)) f = *lower;
    const schedule::Kernel k = schedule::form_kernel(p);
    if (o.schedule.empty())
        return schedule::widths(schedule::default_cpu_schedule(
            k, {.vector_bytes = f.vector_bytes, .vector_registers = f.registers}));
    const auto own = schedule::from_json(o.schedule, k);
    return own.ok() ? schedule::widths(*own) : std::vector<int64_t>();
}

std::vector<int64_t> widths(const Target& t, const math::Program& p, const EmitOptions& o) {
    if (t.name() == "cuda") return cuda_widths(p);
    std::vector<int64_t> r;
    if (const auto text = t.level(p, "schedule-json", o); text.ok()) {
        const auto j = nlohmann::json::parse(*text, nullptr, false);
        if (!j.is_discarded()) collect(j, r);
    }
    return r;
}

}  // namespace opwright::target
