// The way from a request to loops, without machine code: what tuning asks of many schedules.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/cpu/cpu.h"
#include "target/cpu/features.h"
#include "target/cpu/lower/lower.h"

namespace opwright::target::cpu {

// Names what a request computes, however its tensors, indices and sizes are called: 32 hexadecimal digits.
std::string content_of(const Request& r);

// At the vector level of the options. Error: the processor has no such level.
Result<Features> features_of(const Options& o);

struct Planned {
    schedule::Kernel kernel;
    schedule::Schedule untuned;
    target::Machine machine;
    std::vector<std::string> symbols;  // of the request's program
};
Planned plan(const Request& r, const Features& f);

// Of the stages of a kernel under a schedule. Errors: those of tile::apply.
Result<std::vector<StageFacts>> facts(const Planned& p, const schedule::Schedule& s, std::span<const int64_t> symbols);
// The same of what has been lowered.
std::vector<StageFacts> stage_facts(const Lowered& l, const math::SymValues& sizes);

}  // namespace opwright::target::cpu
