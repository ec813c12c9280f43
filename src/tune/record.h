// What tuning keeps: every timing of every candidate schedule of a kernel, under a key that says what was timed.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace opwright::tune {

// Timings under equal keys are of the same thing.
struct Key {
    std::string content;  // 32 hexadecimal digits: of the program's canonical text and which of its inputs are constant
    std::string dtypes;   // "f32, f32 -> f32"
    std::string layout;   // of the tensors: "dense"
    std::string bucket;   // of the sizes, see bucket_of()
    std::string target;   // "cpu"
    std::string machine;  // processor, vector features and threads, or the device
    std::string emitter;  // version of what makes code of a schedule
    bool operator==(const Key&) const = default;
};
// Sizes within one power of two share a bucket: "9,9,4" for 300, 511 and 16; "" where a program has no open size.
std::string bucket_of(const std::vector<int64_t>& sizes);
// Sizes further than this from those that were measured run untuned.
inline constexpr double kReach = 2;

enum class Outcome : uint8_t {
    Measured,  // to the end
    Cut,       // dropped early: slower than others by far
    Wrong,     // its result is not within the bound of the reference, or could not be checked
};
std::string_view name(Outcome o);  // "measured", "cut", "wrong"

struct Candidate {
    std::string schedule;         // JSON with indices by position (schedule/portable.h); empty: the untuned schedule
    std::string words;            // what it changes: "register tile 12x32"
    double predicted = 0;         // seconds by the model (tune/predict.h); 0: not predicted
    Outcome outcome = Outcome::Measured;
    std::vector<double> seconds;  // of one run each, in order of measurement; in turns with the other candidates
    double best() const;          // infinite where there is none
};

// One kernel at one size, tuned once.
struct Record {
    Key key;
    std::string name;             // of the operator, for people
    std::vector<int64_t> sizes;   // of the program's symbols, in its order
    std::string measured_at;      // UTC, "2026-01-31 12:00:00"
    std::vector<Candidate> candidates;  // the untuned schedule first
    size_t winner = 0;
    double gain() const;          // untuned time over the winner's
};

// Whether a record that came from outside makes sense: lengths, numbers, dates, a winner that was measured, one default.
Status check(const Record& r);

nlohmann::json to_json(const Record& r);
// Error: the field that is missing, unknown or of another kind; or as check().
Result<Record> record_from_json(const nlohmann::json& j);

}  // namespace opwright::tune
