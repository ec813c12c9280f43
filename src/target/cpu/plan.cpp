#include "target/cpu/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/object_cache.h"
#include "math/pieces.h"
#include "schedule/siblings.h"
#include "schedule/block_kernel.h"
#include "schedule/window.h"
#include "tile/apply.h"

namespace opwright::target::cpu {
using namespace math;

std::string content_of(const Request& r) {
    std::string text = r.program->canonical();
    for (bool c : r.constant_inputs) text += c ? '1' : '0';
    return cache_key(text);
}

Result<Features> features_of(const Options& o) {
    if (o.level.empty()) return host_features();
    const auto level = level_from_name(o.level);
    const auto lower = level ? features_at(*level) : std::nullopt;
    if (!lower)
        return Diagnostic(fmt::format("This processor has no vector level \"{}\".", o.level), {},
                          "Choose baseline, avx2 or avx512, as `opwright doctor` lists them.");
    return *lower;
}

Planned plan(const Request& r, const Features& f) {
    Planned p;
    p.machine = {.vector_bytes = f.vector_bytes,
                 .vector_registers = f.registers,
                 .l1_bytes = f.l1_bytes,
                 .l2_bytes = f.l2_bytes,
                 .near_bytes = f.near_bytes,
                 .every_line = f.every_line,
                 .bf16_pairs = f.bf16,
                 .tiles = f.amx,
                 .byte_fours = f.vnni && f.masked};
    const auto written_out = write_out_tables(*r.program);
    p.kernel = schedule::form_kernel_with_rows(written_out ? *written_out : *r.program, r.constant_inputs);
    schedule::join_siblings(p.kernel);
    // Loops of a nest over one row have one variable, so that tile::apply can join them.
    if (std::none_of(p.kernel.nests.begin(), p.kernel.nests.end(), [](const schedule::Nest& n) { return n.contraction.has_value(); }))
        p.kernel = schedule::with_shared_rows(p.kernel);
    p.untuned = schedule::default_cpu_schedule(p.kernel, p.machine);
    p.symbols = r.program->symbols();
    return p;
}

std::vector<StageFacts> stage_facts(const Lowered& l, const SymValues& sizes) {
    const auto value = [&](const Sym& x) { return evaluate(x, sizes).value_or(0); };
    std::vector<StageFacts> r;
    for (const Stage& s : l.stages) {
        StageFacts f{value(s.tasks), {}};
        if (const auto& c = s.contraction; c && f.tasks > 0) {
            RegisterTile t{static_cast<int>(c->rows), static_cast<int>(c->columns), value(c->m), value(c->n), value(c->k),
                           value(c->batch)};
            t.speed = c->speed;
            const int64_t rest = t.m % c->rows;
            const auto smaller = std::find_if(c->smaller.begin(), c->smaller.end(), [&](int64_t n) { return n >= rest; });
            const int64_t rows = t.m - rest + (rest == 0 ? 0 : smaller == c->smaller.end() ? c->rows : *smaller);
            const int64_t rest_columns = t.n % c->columns;
            const int64_t columns = t.n - rest_columns + (rest_columns == 0 ? 0 : rest_columns <= c->narrow ? c->narrow : c->columns);
            t.computed = static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(t.k) *
                         static_cast<double>(t.batch);
            t.packed = static_cast<double>(value(c->packed));
            f.tile = t;
        }
        r.push_back(std::move(f));
    }
    return r;
}

Result<std::vector<StageFacts>> facts(const Planned& p, const schedule::Schedule& s, std::span<const int64_t> symbols) {
    OPW_TRY(const tile::Program tiles, tile::apply(p.kernel, s, p.machine));
    SymValues sizes;
    for (size_t i = 0; i < p.symbols.size(); ++i) sizes[p.symbols[i]] = symbols[i];
    return stage_facts(lower(tiles, p.machine), sizes);
}

}  // namespace opwright::target::cpu
