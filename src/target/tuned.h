// Where a target learns which schedules won when they were tuned.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opwright::target {

struct TunedSchedule {
    std::vector<int64_t> sizes;  // of the program's symbols, in its order, at which it was measured
    std::string schedule;        // portable JSON (schedule/portable.h); empty: the untuned schedule won
    double gain = 1;             // untuned time over its own
    std::string measured_at;     // UTC, "2026-01-31 12:00:00"
};

class TunedSource {
public:
    virtual ~TunedSource() = default;
    // For a program by its content (cpu::content_of) on `unit`, what of the processor its code is made for. May be called
    // by several threads at once. Nothing where nothing is known, or nothing can be read.
    virtual std::vector<TunedSchedule> find(std::string_view target, std::string_view unit, const std::string& content) const = 0;
    // Sizes as far apart as this ratio, or less, are served by what was measured at the nearer ones.
    virtual double reach() const = 0;
};
// The nearest of those within reach of `sizes`, as a position; -1 where there is none.
int nearest(const std::vector<std::vector<int64_t>>& measured, const std::vector<int64_t>& sizes, double reach);

}  // namespace opwright::target
