// One operator on every target, side by side: what a person needs to choose a route.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compile.h"
#include "explain/machine.h"
#include "lang/library.h"

namespace opwright::explain {

struct Route {
    std::string target, about;
    std::string where;    // "this processor", "the functional simulator"; empty: it can't run here
    std::string refused;  // why there is no source, where there is none
    std::string verdict;  // "93 cases pass", "not run: ..."
    bool wrong = false;
    std::optional<double> seconds;  // of one run at the sizes asked for, the least of several
    std::string untimed;            // why there is none
    double of_floor = 0;            // floor / seconds
    int lines = 0;                  // of source, blank ones and comments aside
    std::vector<std::string> facts;
};

struct Comparison {
    std::string name, sizes;
    double flops = 0, bytes = 0;
    double floor = 0;  // seconds on this processor: the larger of bytes and operations over their ceilings
    Machine machine;
    std::vector<Route> routes;
};

struct CompareOptions {
    int cases = 4;        // sizes of the check against the reference; each with several patterns of values
    double budget = 0.5;  // seconds of timing a target
};

// `inputs` are those that p is timed on, `sizes` its symbols there.
Result<Comparison> compare(const lang::Library& l, const math::Program& p, const math::SymValues& sizes,
                           const std::vector<Tensor>& inputs, const Machine& m, runtime::ThreadPool& pool,
                           const CompareOptions& o = {});

std::string to_text(const Comparison& c);
nlohmann::json to_json(const Comparison& c);

}  // namespace opwright::explain
