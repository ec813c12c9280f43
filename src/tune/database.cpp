#include "tune/database.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/object_cache.h"

namespace opwright::tune {
namespace {
constexpr int kSchema = 1;
constexpr int kApplication = 0x4f705774;  // "OpWt", in the file's header
constexpr int kPatience = 10000;          // milliseconds that a writer waits for another

// One row a kernel (a program on a machine at a bucket of sizes), one a candidate of it, one a timing. `session` counts
// the tunings of a kernel: times of one session were taken in turns and can be compared.
constexpr const char* kTables = R"(
CREATE TABLE kernel (
    id INTEGER PRIMARY KEY,
    content TEXT NOT NULL, dtypes TEXT NOT NULL, layout TEXT NOT NULL, bucket TEXT NOT NULL,
    target TEXT NOT NULL, machine TEXT NOT NULL, emitter TEXT NOT NULL,
    name TEXT NOT NULL, sizes TEXT NOT NULL, measured_at TEXT NOT NULL, session INTEGER NOT NULL,
    winner TEXT NOT NULL, gain REAL NOT NULL,
    UNIQUE (content, target, machine, emitter, bucket, dtypes, layout));
CREATE TABLE candidate (
    id INTEGER PRIMARY KEY,
    kernel INTEGER NOT NULL REFERENCES kernel(id) ON DELETE CASCADE,
    schedule TEXT NOT NULL, words TEXT NOT NULL, predicted REAL NOT NULL, outcome TEXT NOT NULL, session INTEGER NOT NULL,
    UNIQUE (kernel, schedule));
CREATE TABLE timing (
    candidate INTEGER NOT NULL REFERENCES candidate(id) ON DELETE CASCADE,
    session INTEGER NOT NULL, position INTEGER NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (candidate, session, position)) WITHOUT ROWID;
)";

std::string text_of(sqlite3_stmt* s, int column) {
    const auto* t = reinterpret_cast<const char*>(sqlite3_column_text(s, column));
    return t ? std::string(t, static_cast<size_t>(sqlite3_column_bytes(s, column))) : std::string();
}

std::vector<int64_t> sizes_of(const std::string& text) {
    const auto j = nlohmann::json::parse(text, nullptr, false);
    std::vector<int64_t> r;
    if (j.is_array())
        for (const auto& s : j) r.push_back(s.is_number_integer() ? s.get<int64_t>() : -1);
    return r;
}
}  // namespace

std::optional<std::string> default_path() {
    if (const char* own = std::getenv("OPWRIGHT_TUNING_DB"); own && *own) return std::string(own);
    const auto cache = default_cache();
    if (!cache) return std::nullopt;
    return cache->folder() + "/tuning.sqlite";
}

struct Database::Impl {
    sqlite3* db = nullptr;
    std::string path;
    ~Impl() { sqlite3_close_v2(db); }

    Diagnostic failure(int code) const {
        const std::string why = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
        switch (code & 0xff) {
            case SQLITE_NOTADB:
            case SQLITE_CORRUPT:
                return Diagnostic(fmt::format("The tuning database '{}' is damaged: {}.", path, why), {},
                                  "Delete it or move it away; `opwright tune import FILE` brings an exported copy back.");
            case SQLITE_BUSY:
            case SQLITE_LOCKED:
                return Diagnostic(fmt::format("The tuning database '{}' is held by another process for more than {} s.", path,
                                              kPatience / 1000), {}, "Try again when that process has ended.");
            case SQLITE_READONLY:
            case SQLITE_CANTOPEN:
            case SQLITE_PERM:
                return Diagnostic(fmt::format("The tuning database '{}' cannot be written: {}.", path, why), {}, kElsewhere);
            default:
                return Diagnostic(fmt::format("The tuning database '{}' does not work: {}.", path, why), {}, kElsewhere);
        }
    }
    static constexpr const char* kElsewhere =
        "Set OPWRIGHT_TUNING_DB to a file in a folder that can be written, or make room there.";

    Status exec(const char* sql) const {
        const int code = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
        if (code != SQLITE_OK) return failure(code);
        return ok_status();
    }

    // One statement; parameters in order.
    class Query {
    public:
        Query(const Impl& i, const char* sql) : impl_(i) { code_ = sqlite3_prepare_v2(i.db, sql, -1, &s_, nullptr); }
        ~Query() { sqlite3_finalize(s_); }
        Query(const Query&) = delete;
        Query& operator=(const Query&) = delete;
        Query& operator<<(const std::string& v) {
            if (s_) sqlite3_bind_text(s_, ++bound_, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT);
            return *this;
        }
        Query& operator<<(int64_t v) {
            if (s_) sqlite3_bind_int64(s_, ++bound_, v);
            return *this;
        }
        Query& operator<<(double v) {
            if (s_) sqlite3_bind_double(s_, ++bound_, v);
            return *this;
        }
        // Calls row() for each row; false ends it.
        template <class Row>
        Status each(Row&& row) {
            if (code_ != SQLITE_OK) return impl_.failure(code_);
            while ((code_ = sqlite3_step(s_)) == SQLITE_ROW) row(s_);
            if (code_ != SQLITE_DONE) return impl_.failure(code_);
            return ok_status();
        }
        Status run() {
            return each([](sqlite3_stmt*) {});
        }
        Result<int64_t> number(int64_t otherwise) {
            OPW_CHECK(each([&](sqlite3_stmt* s) { otherwise = sqlite3_column_int64(s, 0); }));
            return otherwise;
        }

    private:
        const Impl& impl_;
        sqlite3_stmt* s_ = nullptr;
        int code_ = SQLITE_OK, bound_ = 0;
    };

    // All or nothing: undone unless committed.
    class Transaction {
    public:
        explicit Transaction(const Impl& i) : impl_(i) {}
        ~Transaction() {
            if (open_) sqlite3_exec(impl_.db, "ROLLBACK", nullptr, nullptr, nullptr);
        }
        Status begin() {  // at once for writing, so that two writers wait for each other instead of failing half way
            OPW_CHECK(impl_.exec("BEGIN IMMEDIATE"));
            open_ = true;
            return ok_status();
        }
        Status commit() {
            OPW_CHECK(impl_.exec("COMMIT"));
            open_ = false;
            return ok_status();
        }

    private:
        const Impl& impl_;
        bool open_ = false;
    };

    Result<int64_t> pragma(const char* sql) const { return Query(*this, sql).number(0); }

    Status check_kind(bool may_be_empty) const {
        OPW_TRY(const int64_t version, pragma("PRAGMA user_version"));
        OPW_TRY(const int64_t application, pragma("PRAGMA application_id"));
        OPW_TRY(const int64_t tables, pragma("SELECT count(*) FROM sqlite_master"));
        if (may_be_empty && version == 0 && application == 0 && tables == 0) return ok_status();
        if (application != kApplication)
            return Diagnostic(fmt::format("'{}' is a database of another program, and no tuning database.", path), {},
                              "Set OPWRIGHT_TUNING_DB to another file.");
        if (version > kSchema)
            return Diagnostic(fmt::format("The tuning database '{}' was written by a newer Opwright: its form is number {}, and "
                                          "this one knows those up to {}.", path, version, kSchema), {},
                              "Use that Opwright, or set OPWRIGHT_TUNING_DB to another file.");
        return ok_status();
    }

    Status create() const {
        Transaction t(*this);
        OPW_CHECK(t.begin());
        OPW_CHECK(check_kind(true));  // another process may have been quicker
        OPW_TRY(const int64_t version, pragma("PRAGMA user_version"));
        if (version == 0) {
            OPW_CHECK(exec(kTables));
            OPW_CHECK(exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplication, kSchema).c_str()));
        }
        return t.commit();
    }
};

Database::Database(std::string path, std::unique_ptr<Impl> impl) : path_(std::move(path)), impl_(std::move(impl)) {}
Database::~Database() = default;

Result<std::unique_ptr<Database>> Database::open(const std::string& path, Mode mode) {
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    std::error_code ignored;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (mode == Mode::Write && !folder.empty()) std::filesystem::create_directories(folder, ignored);
    if (mode == Mode::Read && !std::filesystem::exists(path, ignored))
        return Diagnostic(fmt::format("There is no tuning database '{}'.", path), {},
                          "`opwright tune TARGET --budget SECONDS` makes it.");
    const int flags = mode == Mode::Write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    if (const int code = sqlite3_open_v2(path.c_str(), &impl->db, flags | SQLITE_OPEN_NOMUTEX, nullptr); code != SQLITE_OK)
        return impl->failure(code);
    sqlite3_busy_timeout(impl->db, mode == Mode::Write ? kPatience : 1000);
    // What a file from elsewhere may carry along (views, triggers) is not trusted. A rollback journal and not a log of
    // writes: that would take shared memory, which folders on the network and read-only ones do not have.
    OPW_CHECK(impl->exec("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON"));
    OPW_CHECK(impl->check_kind(mode == Mode::Write));
    if (mode == Mode::Write) {
        if (sqlite3_db_readonly(impl->db, "main") == 1) return impl->failure(SQLITE_READONLY);
        OPW_TRY(const int64_t version, impl->pragma("PRAGMA user_version"));
        if (version == 0) OPW_CHECK(impl->create());
        std::string state;
        OPW_CHECK(Impl::Query(*impl, "PRAGMA quick_check(1)").each([&](sqlite3_stmt* s) { state = text_of(s, 0); }));
        if (state != "ok")
            return Diagnostic(fmt::format("The tuning database '{}' is damaged: {}.", path, state), {},
                              "Delete it or move it away; `opwright tune import FILE` brings an exported copy back.");
    }
    return std::unique_ptr<Database>(new Database(path, std::move(impl)));
}

Result<bool> Database::store(const Record& r, bool newer) {
    OPW_CHECK(check(r));
    const Impl& i = *impl_;
    Impl::Transaction t(i);
    OPW_CHECK(t.begin());
    const Key& k = r.key;
    if (newer) {
        OPW_TRY(const int64_t later,
                (Impl::Query(i, "SELECT measured_at >= ? FROM kernel WHERE content = ? AND target = ? AND machine = ? AND emitter = ? "
                                "AND bucket = ? AND dtypes = ? AND layout = ?")
                 << r.measured_at << k.content << k.target << k.machine << k.emitter << k.bucket << k.dtypes << k.layout)
                    .number(0));
        if (later) return false;
    }
    const std::string sizes = nlohmann::json(r.sizes).dump();
    OPW_CHECK((Impl::Query(i, "INSERT INTO kernel (content, dtypes, layout, bucket, target, machine, emitter, name, sizes, measured_at, "
                              "session, winner, gain) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?) "
                              "ON CONFLICT (content, target, machine, emitter, bucket, dtypes, layout) DO UPDATE SET "
                              "name = excluded.name, sizes = excluded.sizes, measured_at = excluded.measured_at, "
                              "session = session + 1, winner = excluded.winner, gain = excluded.gain")
               << k.content << k.dtypes << k.layout << k.bucket << k.target << k.machine << k.emitter << r.name << sizes
               << r.measured_at << r.candidates[r.winner].schedule << r.gain())
                  .run());
    int64_t kernel = 0, session = 0;
    OPW_CHECK((Impl::Query(i, "SELECT id, session FROM kernel WHERE content = ? AND target = ? AND machine = ? AND emitter = ? AND "
                              "bucket = ? AND dtypes = ? AND layout = ?")
               << k.content << k.target << k.machine << k.emitter << k.bucket << k.dtypes << k.layout)
                  .each([&](sqlite3_stmt* s) {
                      kernel = sqlite3_column_int64(s, 0);
                      session = sqlite3_column_int64(s, 1);
                  }));
    for (const Candidate& c : r.candidates) {
        OPW_CHECK((Impl::Query(i, "INSERT INTO candidate (kernel, schedule, words, predicted, outcome, session) VALUES (?, ?, ?, ?, ?, ?) "
                                  "ON CONFLICT (kernel, schedule) DO UPDATE SET words = excluded.words, "
                                  "predicted = excluded.predicted, outcome = excluded.outcome, session = excluded.session")
                   << kernel << c.schedule << c.words << c.predicted << std::string(tune::name(c.outcome)) << session)
                      .run());
        OPW_TRY(const int64_t id, (Impl::Query(i, "SELECT id FROM candidate WHERE kernel = ? AND schedule = ?") << kernel << c.schedule).number(0));
        for (size_t n = 0; n < c.seconds.size(); ++n)
            OPW_CHECK((Impl::Query(i, "INSERT INTO timing (candidate, session, position, seconds) VALUES (?, ?, ?, ?)")
                       << id << session << static_cast<int64_t>(n) << c.seconds[n])
                          .run());
    }
    OPW_CHECK(t.commit());
    return true;
}

Result<std::vector<Winner>> Database::winners(const std::string& content, const std::string& target, const std::string& machine,
                                              const std::string& emitter) const {
    std::vector<Winner> r;
    OPW_CHECK((Impl::Query(*impl_, "SELECT sizes, winner, gain, measured_at FROM kernel WHERE content = ? AND target = ? AND "
                                   "machine = ? AND emitter = ? ORDER BY measured_at DESC")
               << content << target << machine << emitter)
                  .each([&](sqlite3_stmt* s) {
                      r.push_back({sizes_of(text_of(s, 0)), text_of(s, 1), sqlite3_column_double(s, 2), text_of(s, 3)});
                  }));
    return r;
}

Result<std::vector<Record>> Database::records(const Filter& f, bool all_timings) const {
    struct Row {
        int64_t id = 0, session = 0;
        std::string winner;
        Record record;
    };
    std::vector<Row> rows;
    OPW_CHECK((Impl::Query(*impl_, "SELECT id, session, content, dtypes, layout, bucket, target, machine, emitter, name, sizes, "
                                   "measured_at, winner FROM kernel WHERE (?1 = '' OR instr(name, ?1) > 0) AND "
                                   "(?2 = '' OR target = ?2) AND (?3 = '' OR machine = ?3) ORDER BY measured_at, id")
               << f.name << f.target << f.machine)
                  .each([&](sqlite3_stmt* s) {
                      Row x{sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), text_of(s, 12), {}};
                      x.record.key = {text_of(s, 2), text_of(s, 3), text_of(s, 4), text_of(s, 5), text_of(s, 6), text_of(s, 7), text_of(s, 8)};
                      x.record.name = text_of(s, 9);
                      x.record.sizes = sizes_of(text_of(s, 10));
                      x.record.measured_at = text_of(s, 11);
                      rows.push_back(std::move(x));
                  }));
    std::vector<Record> r;
    for (Row& x : rows) {
        std::vector<std::pair<int64_t, Candidate>> found;
        // The untuned schedule has the empty text, so it comes first.
        OPW_CHECK((Impl::Query(*impl_, "SELECT id, schedule, words, predicted, outcome FROM candidate WHERE kernel = ? AND "
                                       "(? OR session = ?) ORDER BY schedule <> '', id")
                   << x.id << static_cast<int64_t>(all_timings) << x.session)
                      .each([&](sqlite3_stmt* s) {
                          Candidate c{text_of(s, 1), text_of(s, 2), sqlite3_column_double(s, 3), Outcome::Measured, {}};
                          for (Outcome o : {Outcome::Cut, Outcome::Wrong})
                              if (text_of(s, 4) == tune::name(o)) c.outcome = o;
                          found.emplace_back(sqlite3_column_int64(s, 0), std::move(c));
                      }));
        for (auto& [id, c] : found) {
            OPW_CHECK((Impl::Query(*impl_, "SELECT seconds FROM timing WHERE candidate = ? AND (? OR session = ?) ORDER BY session, position")
                       << id << static_cast<int64_t>(all_timings) << x.session)
                          .each([&, &t = c.seconds](sqlite3_stmt* s) { t.push_back(sqlite3_column_double(s, 0)); }));
            if (c.schedule == x.winner) x.record.winner = x.record.candidates.size();
            x.record.candidates.push_back(std::move(c));
        }
        if (Status s = check(x.record); !s.ok())
            return Diagnostic(fmt::format("The tuning database '{}' is damaged: {}", path_, s.error().message), {},
                              "Delete it or move it away; `opwright tune import FILE` brings an exported copy back.");
        r.push_back(std::move(x.record));
    }
    return r;
}

Result<int64_t> Database::forget(const Filter& f) {
    Impl::Transaction t(*impl_);
    OPW_CHECK(t.begin());
    OPW_CHECK((Impl::Query(*impl_, "DELETE FROM kernel WHERE (?1 = '' OR instr(name, ?1) > 0) AND (?2 = '' OR target = ?2) AND "
                                   "(?3 = '' OR machine = ?3)")
               << f.name << f.target << f.machine)
                  .run());
    const int64_t n = sqlite3_changes(impl_->db);
    OPW_CHECK(t.commit());
    return n;
}

}  // namespace opwright::tune
