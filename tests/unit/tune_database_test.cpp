// The tuning database: what is stored comes back, whatever other processes do or how they end; files that are damaged,
// strange or newer are refused in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io_test_util.h"
#include "tune/database.h"

namespace opwright::tune {
namespace {

Record record(const std::string& name, int64_t size, const std::string& when = "2026-01-31 12:00:00") {
    Record r;
    r.key = {std::string(32, 'a'), "f32 -> f32", "dense", bucket_of({size}), "cpu", "a processor, 2 threads", "0.1.0 (5)"};
    r.name = name;
    r.sizes = {size};
    r.measured_at = when;
    r.candidates = {{"", "untuned", 2e-3, Outcome::Measured, {3e-3, 2.5e-3}},
                    {R"({"nests":[]})", "unrolled 8 times", 1e-3, Outcome::Measured, {2e-3, 2.1e-3}},
                    {R"({"nests":[1]})", "half the lanes", 4e-3, Outcome::Cut, {9e-3}}};
    r.winner = 1;
    return r;
}

class TuneDatabase : public testing::Test {
protected:
    io::ScratchFolder folder_;
    std::string path_ = folder_ / "deep/tuning.sqlite";

    std::unique_ptr<Database> open(Database::Mode mode = Database::Mode::Write) {
        auto db = Database::open(path_, mode);
        EXPECT_TRUE(db.ok()) << (db.ok() ? "" : render(db.error()));
        return db.ok() ? std::move(*db) : nullptr;
    }
    void sql(const std::string& text) {
        sqlite3* db = nullptr;
        ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
        EXPECT_EQ(sqlite3_exec(db, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
        sqlite3_close(db);
    }
};

TEST_F(TuneDatabase, KeepsEveryTiming) {
    {
        const auto db = open();
        ASSERT_TRUE(db);
        ASSERT_TRUE(db->store(record("matmul", 512)).ok());
    }
    const auto db = open(Database::Mode::Read);
    ASSERT_TRUE(db);
    const auto all = db->records({});
    ASSERT_TRUE(all.ok());
    ASSERT_EQ(all->size(), 1u);
    EXPECT_EQ(to_json((*all)[0]), to_json(record("matmul", 512)));
    EXPECT_NEAR((*all)[0].gain(), 1.25, 1e-12);
}

TEST_F(TuneDatabase, ASecondTuningAddsItsTimingsAndDecides) {
    const auto db = open();
    ASSERT_TRUE(db->store(record("matmul", 512)).ok());
    Record again = record("matmul", 600, "2026-02-01 12:00:00");  // of the same bucket
    again.candidates = {{"", "untuned", 2e-3, Outcome::Measured, {1e-3}}};
    again.winner = 0;
    ASSERT_TRUE(db->store(again).ok());
    const auto latest = db->records({}), all = db->records({}, true);
    ASSERT_TRUE(latest.ok() && all.ok());
    ASSERT_EQ(latest->size(), 1u);
    EXPECT_EQ((*latest)[0].candidates.size(), 1u);
    EXPECT_EQ((*latest)[0].winner, 0u);
    EXPECT_EQ((*all)[0].candidates.size(), 3u);
    EXPECT_EQ((*all)[0].candidates[0].seconds, (std::vector<double>{3e-3, 2.5e-3, 1e-3}));
}

TEST_F(TuneDatabase, WinnersAreFoundForThatMachineAndVersionAlone) {
    const auto db = open();
    ASSERT_TRUE(db->store(record("matmul", 512)).ok());
    ASSERT_TRUE(db->store(record("matmul", 64)).ok());
    const Key k = record("matmul", 512).key;
    const auto found = db->winners(k.content, k.target, k.machine, k.emitter);
    ASSERT_TRUE(found.ok());
    ASSERT_EQ(found->size(), 2u);
    EXPECT_EQ((*found)[0].schedule, R"({"nests":[]})");
    EXPECT_NEAR((*found)[0].gain, 1.25, 1e-12);
    EXPECT_TRUE(db->winners(k.content, k.target, "another", k.emitter)->empty());
    EXPECT_TRUE(db->winners(k.content, k.target, k.machine, "0.1.0 (6)")->empty());
    EXPECT_TRUE(db->winners(k.content, "cuda", k.machine, k.emitter)->empty());
    EXPECT_TRUE(db->winners(std::string(32, 'b'), k.target, k.machine, k.emitter)->empty());
}

TEST_F(TuneDatabase, ForgetsWhatIsNamed) {
    const auto db = open();
    ASSERT_TRUE(db->store(record("matmul", 512)).ok());
    ASSERT_TRUE(db->store(record("softmax", 64)).ok());
    EXPECT_EQ(*db->forget({.name = "soft"}), 1);
    ASSERT_EQ(db->records({})->size(), 1u);
    EXPECT_EQ((*db->records({}))[0].name, "matmul");
    EXPECT_EQ(*db->forget({}), 1);
    sql("SELECT 1 / (CASE WHEN (SELECT count(*) FROM timing) = 0 THEN 1 ELSE 0 END)");
}

TEST_F(TuneDatabase, TravelsAsLinesOfJsonAndAsADatabase) {
    const std::string lines = folder_ / "t.jsonl";
    {
        const auto db = open();
        ASSERT_TRUE(db->store(record("matmul", 512)).ok());
        ASSERT_TRUE(db->store(record("softmax", 64)).ok());
        EXPECT_EQ(*export_records(*db, lines), 2);
    }
    const std::string first = path_;
    for (const std::string& from : {lines, first}) {
        path_ = folder_ / (from == lines ? "a.sqlite" : "b.sqlite");
        const auto db = open();
        EXPECT_EQ(*import_records(*db, from), 2);
        EXPECT_EQ(*import_records(*db, from), 0);  // nothing new
        ASSERT_EQ(db->records({})->size(), 2u);
        EXPECT_EQ(to_json((*db->records({}))[0]), to_json(record("matmul", 512)));
    }
}

TEST_F(TuneDatabase, AnImportIsAllOrNothing) {
    const auto db = open();
    const std::string good = to_json(record("matmul", 512)).dump();
    const auto fails = [&](const std::string& bad, const std::string& why) {
        const std::string file = folder_ / "bad.jsonl";
        std::ofstream(file) << good << "\n" << bad << "\n";
        const auto r = import_records(*db, file);
        ASSERT_FALSE(r.ok());
        EXPECT_EQ(r.error().message, "'" + file + "' cannot be imported: line 2: " + why);
        EXPECT_EQ(r.error().next, "Nothing was taken from it; export the file anew with `opwright tune export FILE`.");
        EXPECT_TRUE(db->records({})->empty());
    };
    const auto changed = [&](const char* field, const nlohmann::json& value) {
        nlohmann::json j = to_json(record("matmul", 512));
        j[field] = value;
        return j.dump();
    };
    fails("{", "this is not JSON.");
    fails("[]", "A record of tuning is malformed: it is no object of the fields that belong to it.");
    fails(changed("more", 1), "A record of tuning is malformed: it is no object of the fields that belong to it.");
    fails(changed("content", "../x"), "A record of tuning is malformed: its content is no hash of 32 hexadecimal digits.");
    fails(changed("winner", 3), "A record of tuning is malformed: its winner is none of its candidates.");
    fails(changed("winner", -1), "A record of tuning is malformed: its winner is no number.");
    fails(changed("winner", 2), "A record of tuning is malformed: its winner was not measured to the end.");
    fails(changed("sizes", {1.5}), "A record of tuning is malformed: a size is no whole number.");
    fails(changed("sizes", {7}), "A record of tuning is malformed: its bucket is not that of its sizes.");
    fails(changed("name", 7), "A record of tuning is malformed: a field is missing or of another kind.");
    fails(changed("name", "a\x1b[2J"), "A record of tuning is malformed: a text is too long or holds control characters.");
    fails(changed("candidates", nlohmann::json::array()), "A record of tuning is malformed: it has no candidates, or too many.");
    nlohmann::json j = to_json(record("matmul", 512));
    j["candidates"][0]["seconds"] = {-1.0};
    fails(j.dump(), "A record of tuning is malformed: a time is out of range.");
    j["candidates"][0]["seconds"] = {1e-3};
    j["candidates"][0]["outcome"] = "good";
    fails(j.dump(), "A record of tuning is malformed: an outcome is unknown.");
}

TEST_F(TuneDatabase, RefusesADamagedFile) {
    std::filesystem::create_directories(folder_ / "deep");
    std::ofstream(path_) << std::string(5000, 'x');
    for (auto mode : {Database::Mode::Read, Database::Mode::Write}) {
        const auto db = Database::open(path_, mode);
        ASSERT_FALSE(db.ok());
        EXPECT_EQ(db.error().message, "The tuning database '" + path_ + "' is damaged: file is not a database.");
        EXPECT_EQ(db.error().next, "Delete it or move it away; `opwright tune import FILE` brings an exported copy back.");
    }
}

TEST_F(TuneDatabase, RefusesAFileWithADamagedPage) {
    {
        const auto db = open();
        for (int i = 1; i < 200; ++i) ASSERT_TRUE(db->store(record("matmul" + std::to_string(i), int64_t{1} << (i % 40))).ok());
    }
    std::string bytes = *io::read_file(path_);
    for (size_t page = 4096; page < bytes.size(); page += 4096) bytes.replace(page, 64, std::string(64, '\xee'));
    ASSERT_TRUE(io::write_file(path_, bytes).ok());
    const auto db = Database::open(path_, Database::Mode::Write);
    ASSERT_FALSE(db.ok());
    EXPECT_THAT(db.error().message, testing::StartsWith("The tuning database '" + path_ + "' is damaged: "));
}

TEST_F(TuneDatabase, RefusesANewerFormAndAnotherProgramsFile) {
    open();
    sql("PRAGMA user_version = 7");
    EXPECT_EQ(Database::open(path_, Database::Mode::Read).error().message,
              "The tuning database '" + path_ + "' was written by a newer Opwright: its form is number 7, and this one knows those up to 1.");
    EXPECT_EQ(Database::open(path_, Database::Mode::Write).error().next,
              "Use that Opwright, or set OPWRIGHT_TUNING_DB to another file.");
    path_ = folder_ / "other.sqlite";
    sql("CREATE TABLE songs (name TEXT)");
    EXPECT_EQ(Database::open(path_, Database::Mode::Write).error().message,
              "'" + path_ + "' is a database of another program, and no tuning database.");
}

TEST_F(TuneDatabase, SaysWhatIsMissingAndWhatCannotBeWritten) {
    const auto none = Database::open(path_, Database::Mode::Read);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().message, "There is no tuning database '" + path_ + "'.");
    EXPECT_EQ(none.error().next, "`opwright tune TARGET --budget SECONDS` makes it.");
    const auto forbidden = Database::open("/proc/opwright/tuning.sqlite", Database::Mode::Write);
    ASSERT_FALSE(forbidden.ok());
    EXPECT_EQ(forbidden.error().message,
              "The tuning database '/proc/opwright/tuning.sqlite' cannot be written: unable to open database file.");
    EXPECT_EQ(forbidden.error().next, "Set OPWRIGHT_TUNING_DB to a file in a folder that can be written, or make room there.");
}

// Two processes write as fast as they can, and are killed at any moment.
TEST_F(TuneDatabase, SurvivesTwoWritersThatAreKilled) {
    open();
    const auto writer = [&](int which) {
        const pid_t child = fork();
        if (child != 0) return child;
        for (int i = 0;; ++i) {
            auto db = Database::open(path_, Database::Mode::Write);
            if (!db.ok()) _exit(3);
            for (int k = 0; k < 5; ++k)
                if (!(*db)->store(record("writer" + std::to_string(which), int64_t{1} << ((i + k) % 40))).ok()) _exit(4);
        }
    };
    unsigned random = 12345;
    for (int round = 0; round < 30; ++round) {
        const pid_t children[2] = {writer(0), writer(1)};
        random = random * 1664525u + 1013904223u;
        usleep(3000 + (random >> 8) % 40000);
        for (pid_t c : children) kill(c, SIGKILL);
        for (pid_t c : children) {
            int status = 0;
            ASSERT_EQ(waitpid(c, &status, 0), c);
            ASSERT_TRUE(WIFSIGNALED(status)) << "a writer ended by itself with code " << WEXITSTATUS(status);
        }
        const auto db = open();  // checks the file's structure
        ASSERT_TRUE(db);
        const auto all = db->records({}, true);  // checks each record
        ASSERT_TRUE(all.ok()) << render(all.error());
        for (const Record& r : *all) {
            ASSERT_EQ(r.candidates.size(), 3u);
            const size_t sessions = r.candidates[2].seconds.size();
            ASSERT_EQ(r.candidates[0].seconds.size(), 2 * sessions);  // no session is there in part
            ASSERT_EQ(r.candidates[1].seconds.size(), 2 * sessions);
        }
    }
    EXPECT_FALSE(open()->records({})->empty());
}

TEST(TuneRecord, BucketsArePowersOfTwo) {
    EXPECT_EQ(bucket_of({}), "");
    EXPECT_EQ(bucket_of({300, 511, 16}), "9,9,5");
    EXPECT_EQ(bucket_of({512}), "10");
    EXPECT_EQ(bucket_of({0, 1}), "0,1");
}

}  // namespace
}  // namespace opwright::tune
