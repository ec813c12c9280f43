// Timings on disk, shared by all processes of the user: an SQLite file. Any number of processes may read and write at
// once; a process that is killed at any moment leaves the file as it was before or after its last record.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tune/record.h"

namespace opwright::tune {

// OPWRIGHT_TUNING_DB, else tuning.sqlite in the folder of the cache of compiled objects; nullopt where that has no place.
// The environment is read at each call.
std::optional<std::string> default_path();

// The schedule that won at some sizes.
struct Winner {
    std::vector<int64_t> sizes;
    std::string schedule;     // portable JSON; empty: the untuned one
    double gain = 1;          // untuned time over its own
    std::string measured_at;  // UTC
};

// Records that match all that is set.
struct Filter {
    std::string name;     // of the operator: a part of it
    std::string target;   // whole
    std::string machine;  // whole
};

class Database {
public:
    enum class Mode : uint8_t { Read, Write };
    // Write makes the file and its folder where they are not there. Errors, each naming the file and the next step: it is
    // not there (Read), it cannot be opened or written, it is damaged or no database, another program's, of a newer
    // version.
    static Result<std::unique_ptr<Database>> open(const std::string& path, Mode mode);
    ~Database();
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    const std::string& path() const { return path_; }

    // Adds the record's timings to those that are there under its key, in one step, and makes its winner the winner.
    // With `newer`, does nothing where what is there was measured at the same time or later. Returns whether it was added.
    Result<bool> store(const Record& r, bool newer = false);
    // For a program on a machine, the latest of each bucket.
    Result<std::vector<Winner>> winners(const std::string& content, const std::string& target, const std::string& machine,
                                        const std::string& emitter) const;
    // With `timings`, of all sessions; otherwise of the latest one of each kernel.
    Result<std::vector<Record>> records(const Filter& f, bool all_timings = false) const;
    // Removes what matches; returns how many kernels that were.
    Result<int64_t> forget(const Filter& f);

private:
    struct Impl;
    Database(std::string path, std::unique_ptr<Impl> impl);
    std::string path_;
    std::unique_ptr<Impl> impl_;
};

// Writes all records as JSON, one a line. Returns how many.
Result<int64_t> export_records(const Database& from, const std::string& path);
// Takes records from such a file, or from another database, that are newer than those that are there. Nothing is taken
// from a file of which one record is malformed. Returns how many.
Result<int64_t> import_records(Database& to, const std::string& path);

}  // namespace opwright::tune
