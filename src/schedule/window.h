// Windows: a factor of a contraction that reads its tensors at stride * v + dilation * w + rest, where v is an index of
// the output and w a reduced one of few values (a tap). Convolutions of any form, depthwise ones too, are that.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "schedule/schedule.h"

namespace opwright::schedule {

// One index of the output with its taps. Along it a window's elements lie in `planes` (the residues of the stride), in
// which neighbours of the output are neighbours: tap t reads plane(t), shift(t) elements further on.
struct WindowAxis {
    math::VarId out = math::kNone;  // kNone: there is no such axis
    math::VarId tap = math::kNone;  // kNone: one tap
    int64_t stride = 1, dilation = 1, taps = 1;
    int64_t planes() const { return stride == 1 ? 1 : std::min(stride, taps); }
    int64_t reach() const { return stride == 1 ? dilation * (taps - 1) : (taps - 1) / stride; }  // the largest shift
};

struct Window {
    std::vector<math::VarId> batch;     // all other indices that one task has one value of, outermost first
    WindowAxis row, column;             // of the output; `column` runs along the lanes, `row` may be missing
    std::vector<math::VarId> channels;  // reduced indices that are no taps, outermost first
};

// How the columns' factor of a contraction reads windows; nullopt where it does not, or where planes would not do (a
// stride and a dilation on one axis, taps of unknown number).
std::optional<Window> match_window(const math::Program& p, const math::Equation& q, const Contraction& c);
// The same of the rows' factor: then the points of the output are the rows of the register tile, and what runs along the
// lanes (channels, where they come last) owns the other factor. One reduced index at most is no tap.
std::optional<Window> match_points(const math::Program& p, const math::Equation& q, const Contraction& c);
// Whether all that the factor reads has neighbours along v side by side.
bool side_by_side(const math::Program& p, math::ExprId factor, math::VarId v);
// The same where a slab of what the windows read pays: they overlap or their columns lie apart, and what a flat run over
// the slab's rows computes in vain (the reach of the taps, behind each row) is no more than what it keeps.
std::optional<Window> useful_window(const math::Program& p, const math::Equation& q, const Contraction& c);
// match_points where a slab pays: windows overlap, or their points lie apart.
std::optional<Window> useful_points(const math::Program& p, const math::Equation& q, const Contraction& c);

// What a contraction that reads from slabs reads: which factor has windows, the useful ones first.
struct Windows {
    Window window;
    bool points = false;  // of the rows' factor
};
std::optional<Windows> windows_of(const math::Program& p, const math::Equation& q, const Contraction& c);

// A ContractPlan that reads the factor with windows from slabs says so by its depth; its mt and nt are not used.
inline constexpr int64_t kWindows = 0;
inline bool from_windows(const ContractPlan& c) { return c.kc == kWindows; }

// match_contraction, and also depthwise convolutions: what has no rows where the columns read windows of many taps, and
// what is lanewise.
std::optional<Contraction> match_contraction_or_row(const math::Program& p, const math::Equation& q);
// form_kernel for a target that runs those as contractions.
Kernel form_kernel_with_rows(const math::Program& p, const std::vector<bool>& constant_inputs);

}  // namespace opwright::schedule
