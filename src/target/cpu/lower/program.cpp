#include <algorithm>

#include "schedule/together.h"
#include "target/cpu/lower/context.h"
#include "target/cpu/lower/lower.h"
#include "target/cpu/work.h"

namespace opwright::target::cpu {
using namespace math;

std::vector<Sym> dense_strides(const std::vector<Sym>& shape) {
    std::vector<Sym> s(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;) s[d - 1] = s[d] * shape[d];
    return s;
}

Lowered lower(const tile::Program& p, const Machine& machine) {
    Lowered out;
    loop::Builder b(out.program);
    Context c{p, p.kernel.program, machine, b, {}, {}, out, {}};
    c.storage.resize(c.math.tensors.size());
    for (TensorId t = 0; t < c.math.tensors.size(); ++t) {
        const TensorInfo& info = c.math.tensors[t];
        const bool workspace =
            std::find(p.kernel.workspace.begin(), p.kernel.workspace.end(), t) != p.kernel.workspace.end();
        if (info.role == Role::Temp && !workspace) continue;
        Storage s{.dtype = workspace ? compute_type(info.dtype) : info.dtype, .strides = dense_strides(info.shape)};
        const auto access =
            info.role == Role::Input || info.role == Role::Constant ? loop::Access::Read : loop::Access::ReadWrite;
        s.buffer = b.param(info.name, s.dtype, static_cast<uint32_t>(out.arguments.size()), access);
        out.arguments.push_back({.tensor = t});
        c.storage[t] = std::move(s);
    }
    c.together.assign(p.nests.size(), 0);
    size_t begin = 0, last = 0;  // of nests that run together: their first stage, and the last of them
    for (size_t i = 0; i < p.nests.size(); ++i) {
        if (const int64_t rows = p.schedule.nests[i].together) {
            const schedule::Together t = schedule::match_together(p.kernel, i).value();
            std::fill_n(c.together.begin() + static_cast<long>(i), t.last - i + 1, rows);
            out.together.push_back({0, 0, t.batches, t.rows, rows, t.held});
            begin = out.stages.size(), last = t.last;
        }
        Stage stage{"nest" + std::to_string(i), task_count(p.nests[i], c.math),
                    work_of(c.math, p.kernel.nests[i], p.schedule.nests[i])};
        if (p.nests[i].contract)
            lower_contraction(c, i, std::move(stage));
        else
            lower_nest(c, i, std::move(stage));
        if (c.together[i] && i == last) {  // what packs reads nothing that they write
            const auto from = out.stages.begin() + static_cast<long>(begin);
            const auto own = std::stable_partition(from, out.stages.end(), [](const Stage& s) { return s.packs; });
            out.together.back().first = static_cast<size_t>(own - out.stages.begin());
            out.together.back().count = static_cast<size_t>(out.stages.end() - own);
        }
    }
    // Factors along one index of depth that are no windows: their panels and register tiles walk straight on.
    out.program.plain_addresses = std::all_of(p.kernel.nests.begin(), p.kernel.nests.end(), [](const schedule::Nest& n) {
        return n.contraction && n.contraction->k.size() == 1;
    });
    out.program.plain_indices = plain_indices(p.kernel);
    out.faults = std::move(c.faults.messages);
    return out;
}

}  // namespace opwright::target::cpu
