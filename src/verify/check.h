// Runs a target against the reference: one Program over sizes, patterns of values and layouts of inputs. Every output
// is poisoned before, and lies between guard bytes; so does every input.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lang/library.h"
#include "verify/case.h"
#include "verify/sizes.h"

namespace opwright::verify {

// Where a Program came from: what it takes to elaborate it again.
struct Origin {
    std::string op;  // of the library that it was looked up in; empty: not a declaration
    std::vector<lang::Argument> arguments;
    lang::Attributes attributes;
    bool symbolic = false;  // by elaborate_symbolic: no arguments
};
std::string attributes_text(const lang::Attributes& a);  // "axis = 1, mode = \"edge\"", as the language reads it

// A failing case with all that is needed to run it again.
struct Failure {
    std::shared_ptr<const math::Program> program;
    Compiled subject;
    Case c;
    CaseReport report;
    std::vector<std::optional<Range>> ranges;  // of the inputs' values
    Origin origin;
};

struct Report {
    std::string name;                 // of the operator
    std::string contract;             // of the first program, in words (contract.h)
    std::map<Verdict, int> verdicts;  // of compared cases
    int cases = 0, failed = 0;
    int refused = 0, not_run = 0;                // programs that the target has no form for, or can't run here
    std::map<std::string, int> reasons;          // why, and how often
    int rejected = 0;                            // combinations of types or sizes that the declaration does not allow
    std::vector<std::string> types;              // element types that were covered
    std::set<Layout> layouts;                    // of inputs, that occurred
    std::set<int64_t> widths;                    // of tiles, vectors and blocks, around which the sizes lie
    std::set<std::string> remarks;               // of the subject
    std::optional<CaseReport> smallest_failure;  // of the fewest elements
    std::shared_ptr<const Failure> failure;      // the same; null where the target refused the Program
    std::vector<CaseReport> failures;            // the first ones
    double max_abs = 0, max_rel = 0, max_share = 0, max_ulp = 0;  // of cases that passed
    std::string where;                                            // of max_ulp: "y[0, 3] of x = f32[2,5]"
    std::string condition;  // of the first ill-conditioned element
    // The errors of a second subject on the same cases, whose faults do not count here.
    struct Beside {
        int cases = 0, failed = 0;
        double max_abs = 0, max_rel = 0, max_share = 0, max_ulp = 0;
        void add(const CaseReport& c);
    } beside;

    bool passed() const { return failed == 0 && cases > 0; }
    void add(CaseReport c);
    void add(const Report& r);
    bool refused_all() const { return cases == 0 && refused > 0; }
    // "matmul: 312 cases passed (201 equal, 111 within tolerance, up to 2.3 ulp)", or the smallest failure.
    std::string str() const;
};

struct CheckOptions {
    SizeOptions sizes;
    std::vector<Pattern> patterns = all_patterns();
    uint64_t seed = 1;
    Compile beside;      // null: none
    double seconds = 0;  // no new case after so long; 0: no limit
};

// One case: inputs of the pattern, misaligned; the reference, the kernel, the comparison.
CaseReport check_case(const math::Program& p, const Compiled& run, const math::SymValues& sizes, Pattern pattern,
                      uint64_t seed, const std::vector<std::optional<Range>>& ranges = {});
// One Program over sizes and patterns, the layouts that the subject takes in turn. `base` as in edge_sizes.
Report check_program(const math::Program& p, const Compile& target, const CheckOptions& o,
                     const math::SymValues& base = {}, const std::vector<std::optional<Range>>& ranges = {});
}  // namespace opwright::verify
