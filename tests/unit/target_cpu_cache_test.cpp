#include "base/object_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "loop/content.h"
#include "target_cpu_test_util.h"

namespace opwright::target::cpu {
namespace {
namespace fs = std::filesystem;

// A folder of its own and an environment that is put back.
struct TargetCpuCache : testing::Test {
    fs::path folder = fs::temp_directory_path() / ("opwright-cache-test-" + std::to_string(getpid()));
    std::vector<std::pair<std::string, std::optional<std::string>>> saved;
    void set(const char* name, const char* value) {
        const char* old = std::getenv(name);
        saved.emplace_back(name, old ? std::optional<std::string>(old) : std::nullopt);
        if (value) setenv(name, value, 1);
        else unsetenv(name);
    }
    TargetCpuCache() {
        fs::remove_all(folder);
        set("OPWRIGHT_CACHE", nullptr);
        set("OPWRIGHT_CACHE_DIR", folder.c_str());
    }
    ~TargetCpuCache() override {
        for (auto it = saved.rbegin(); it != saved.rend(); ++it) {
            if (it->second) setenv(it->first.c_str(), it->second->c_str(), 1);
            else unsetenv(it->first.c_str());
        }
        fs::remove_all(folder);
    }
    size_t files() const {
        size_t n = 0;
        if (fs::exists(folder))
            for (const auto& e : fs::directory_iterator(folder)) n += e.is_regular_file();
        return n;
    }
};

loop::Program add_constant(double c) {
    loop::Program p;
    loop::Builder b(p);
    auto x = b.param("x", DType::F32, 0);
    b.function("f", [&] { b.store(x, b.i64(0), b.load(x, b.i64(0)) + b.f32(c)); });
    return p;
}

TEST_F(TargetCpuCache, StoresAndFinds) {
    ObjectCache cache(folder, 1 << 20);
    const std::string key = cache_key("content");
    EXPECT_EQ(key.size(), 32u);
    EXPECT_NE(key, cache_key("content2"));
    EXPECT_EQ(cache.find(key), std::nullopt);
    const std::string object("object \0 with bytes \xff", 21);
    cache.store(key, object);
    EXPECT_EQ(cache.find(key), object);
    cache.store(key, "another");
    EXPECT_EQ(cache.find(key), "another");
    EXPECT_EQ(files(), 1u);  // no temporary file stays
}

TEST_F(TargetCpuCache, DamagedFilesAreMissesAndRewritten) {
    ObjectCache cache(folder, 1 << 20);
    const std::string key = cache_key("k"), object(1000, 'x');
    const fs::path file = folder / (key + ".o");
    for (int kind = 0; kind < 5; ++kind) {
        cache.store(key, object);
        ASSERT_EQ(cache.find(key), object);
        if (kind == 0) fs::resize_file(file, 500);
        if (kind == 1) fs::resize_file(file, 3);
        if (kind == 2) std::ofstream(file, std::ios::app) << "more";
        if (kind == 3) std::fstream(file, std::ios::in | std::ios::out).seekp(700) << 'y';
        if (kind == 4) std::fstream(file, std::ios::in | std::ios::out).seekp(8) << "\xff\xff\xff\xff\xff\xff\xff\x7f";
        EXPECT_EQ(cache.find(key), std::nullopt) << kind;
    }
}

TEST_F(TargetCpuCache, BoundedSize) {
    ObjectCache cache(folder, 20000);
    for (int i = 0; i < 100; ++i) cache.store(cache_key(std::to_string(i)), std::string(1000, 'a'));
    uint64_t total = 0;
    for (const auto& e : fs::directory_iterator(folder)) total += e.file_size();
    EXPECT_LE(total, 20000u + 33 * 1100u);  // looked at once in 32 stores
    EXPECT_EQ(cache.find(cache_key("99")), std::string(1000, 'a'));
}

TEST_F(TargetCpuCache, UnwritablePlacesAreNoFaults) {
    std::ofstream(folder) << "a file where the folder should be";
    ObjectCache cache(folder, 1 << 20);
    cache.store(cache_key("k"), "object");
    EXPECT_EQ(cache.find(cache_key("k")), std::nullopt);
    bool from_cache = true;
    auto module = compile(add_constant(1), host_features(), &from_cache);
    ASSERT_TRUE(module.ok());
    EXPECT_FALSE(from_cache);
}

TEST_F(TargetCpuCache, CompileUsesIt) {
    auto value_of = [](const ModuleRef& m) {
        float x = 0;
        run(m, "f", {{&x}, {}});
        return x;
    };
    bool from_cache = true;
    auto first = compile(add_constant(3), host_features(), &from_cache);
    ASSERT_TRUE(first.ok());
    EXPECT_FALSE(from_cache);
    EXPECT_EQ(value_of(*first), 3);
    auto second = compile(add_constant(3), host_features(), &from_cache);
    EXPECT_TRUE(from_cache);
    EXPECT_EQ(value_of(*second), 3);
    auto other = compile(add_constant(4), host_features(), &from_cache);
    EXPECT_FALSE(from_cache);
    EXPECT_EQ(value_of(*other), 4);
    auto lower = compile(add_constant(3), *features_at(Level::Baseline), &from_cache);
    EXPECT_EQ(from_cache, host_features().level == Level::Baseline);
    EXPECT_EQ(value_of(*lower), 3);
    // An object that is whole but no object: compiled again and replaced.
    for (const auto& e : fs::directory_iterator(folder)) ObjectCache(folder, 1 << 20).store(e.path().stem(), "no object at all");
    auto again = compile(add_constant(3), host_features(), &from_cache);
    EXPECT_FALSE(from_cache);
    EXPECT_EQ(value_of(*again), 3);
    auto repaired = compile(add_constant(3), host_features(), &from_cache);
    EXPECT_TRUE(from_cache);

    set("OPWRIGHT_CACHE", "0");
    EXPECT_FALSE(default_cache());
    auto off = compile(add_constant(3), host_features(), &from_cache);
    EXPECT_FALSE(from_cache);
}

TEST_F(TargetCpuCache, FoldersByEnvironment) {
    EXPECT_EQ(default_cache()->folder(), folder);
    set("OPWRIGHT_CACHE_DIR", nullptr);
    set("XDG_CACHE_HOME", "/somewhere");
    EXPECT_EQ(default_cache()->folder(), "/somewhere/opwright");
    set("XDG_CACHE_HOME", nullptr);
    set("HOME", "/home/anyone");
    EXPECT_EQ(default_cache()->folder(), "/home/anyone/.cache/opwright");
    set("HOME", nullptr);
    EXPECT_FALSE(default_cache());
}

TEST_F(TargetCpuCache, ThreadsCompileAndLoadAtOnce) {
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 5; ++i) {
                auto module = compile(add_constant(t % 2 * 100 + i));
                float x = 0;
                if (!module.ok()) continue;
                const Entry k = (*module)->entry("f");
                void* buffers[] = {&x};
                int64_t status = 0;
                k.run(buffers, nullptr, 0, 1, nullptr, &status);
                right += x == static_cast<float>(t % 2 * 100 + i);
            }
        });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(right.load(), 20);
}

TEST(LoopContent, EqualProgramsOnly) {
    EXPECT_EQ(loop::content(add_constant(1)), loop::content(add_constant(1)));
    EXPECT_NE(loop::content(add_constant(1)), loop::content(add_constant(2)));
    loop::Program p = add_constant(1);
    p.buffers[0].no_alias = false;
    EXPECT_NE(loop::content(add_constant(1)), loop::content(p));
}

TEST(TargetCpuFeatures, LevelsAndNames) {
    for (Level l : kLevels) EXPECT_EQ(level_from_name(name(l)), l);
    EXPECT_EQ(level_from_name("sse9"), std::nullopt);
    const auto base = features_at(Level::Baseline);
    ASSERT_TRUE(base);
    EXPECT_EQ(base->lanes(DType::F32), 4);
    EXPECT_EQ(base->lanes(DType::U8), 16);
    for (const Features& f : machine_levels()) {
        EXPECT_LE(f.level, Level::Avx512);
        EXPECT_EQ(f.lanes(DType::F64) * 8, f.vector_bytes);
    }
}

}  // namespace
}  // namespace opwright::target::cpu
