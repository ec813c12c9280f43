// The schedules worth a measurement: the untuned one with a few of its fields varied, along what decides the speed of
// each kind of nest.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace opwright::schedule {

struct Candidate {
    Schedule schedule;
    std::string words;  // what it changes, for people: "register tile 9x48"; empty: nothing
};

// `base` first, then variations of it, one nest and one idea at a time; each once. tile::apply says which are legal. `sizes`
// are values of the program's symbols, at which they are to be measured.
std::vector<Candidate> cpu_candidates(const Kernel& k, const target::Machine& m, const Schedule& base,
                                      const math::SymValues& sizes);
// Both changes at once, where they concern different nests of the schedule that both vary.
std::optional<Candidate> combine(const Schedule& base, const Candidate& a, const Candidate& b);

// The same for block targets (Triton, Ascend C, CUDA), on a schedule as JSON, which targets print and take: blocks,
// elements, warps, stages. The base is not among them. Some may be refused by their target.
struct TextCandidate {
    std::string schedule, words;
};
std::vector<TextCandidate> block_candidates(const std::string& base);

// One line on what a schedule does, as default_cpu_schedule() has it.
std::string summary(const Schedule& s, const Kernel& k);

}  // namespace opwright::schedule
