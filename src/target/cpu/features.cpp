#include "target/cpu/features.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace opwright::target::cpu {
namespace {

bool has(const llvm::StringMap<bool>& features, std::initializer_list<const char*> names) {
    for (const char* n : names)
        if (!features.lookup(n)) return false;
    return true;
}

const llvm::StringMap<bool>& detected() {
    static const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    return features;
}

// What the system says of a cache; some virtual machines say nothing.
int64_t cache_bytes(int which, int64_t otherwise) {
    const long n = sysconf(which);
    return n > 0 ? n : otherwise;
}

// Of the cache that cores share: the system's list, where the C library multiplies by what some virtual machines say of
// threads (320 MB for 32); 0 where there is no list.
int64_t third_level_bytes() {
    std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index3/size");
    int64_t kilobytes = 0;
    return in >> kilobytes ? kilobytes << 10 : 0;
}

// Linux lets a process use tiles only when it has asked to, as they make what the system saves of a thread 8 KB larger.
bool tiles_permitted() {
#if defined(__linux__) && defined(__x86_64__)
    constexpr int kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA of asm/prctl.h
    static const bool permitted = syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
    return permitted;
#else
    return false;
#endif
}

Features detect() {
    for (Level l : {Level::Avx512, Level::Avx2}) {
        auto f = features_at(l);
        if (!f) continue;
        const char* cap = std::getenv("OPWRIGHT_CPU");
        if (cap && level_from_name(cap) && *level_from_name(cap) < l) continue;
        return *f;
    }
    return *features_at(Level::Baseline);
}

}  // namespace

std::string_view name(Level l) {
    switch (l) {
        case Level::Baseline: return "baseline";
        case Level::Avx2: return "avx2";
        case Level::Avx512: return "avx512";
    }
    return {};
}

std::optional<Level> level_from_name(std::string_view s) {
    for (Level l : kLevels)
        if (name(l) == s) return l;
    return std::nullopt;
}

std::optional<Features> features_at(Level l) {
    Features f;
    f.level = l;
    f.tune = llvm::sys::getHostCPUName().str();
    f.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, f.l1_bytes);
    f.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, f.l2_bytes);
    // AMD's third-level caches serve a few cores that lie around them: measured on a Zen 4 of 32 MB, sums of up to 12 MB took
    // a tenth less where nothing was asked for ahead, of 16 MB and more up to a quarter longer. Intel's are about as far as memory.
    f.near_bytes = f.tune.find("znver") == std::string::npos ? f.l2_bytes
                                                             : std::max(f.l2_bytes, third_level_bytes() / 4);
    // Sums of 16 M floats: a Zen 5 takes 1.26 to 1.37 ms with every line asked for two pages ahead, 1.41 to 1.53 with every second one
    // at eight. A Zen 4 reads 21 GB/s the one way and 33 the other.
    f.every_line = f.tune == "znver5";
#if defined(__x86_64__)
    switch (l) {
        case Level::Baseline: f.cpu = "x86-64"; break;
        case Level::Avx2:
            if (!has(detected(), {"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt"})) return std::nullopt;
            f.cpu = "x86-64-v3";
            f.vector_bytes = 32;
            f.fma = true;
            f.vnni = has(detected(), {"avxvnni"});
            if (f.vnni) f.attributes = "+avxvnni";
            break;
        case Level::Avx512:
            if (!features_at(Level::Avx2) || !has(detected(), {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}))
                return std::nullopt;
            f.cpu = "x86-64-v4";
            // LLVM 19's scheduling model of these lets a register tile of 9 rows by 3 vectors spill; that of their successor
            // does not. (Virtual machines report the one for the other as well.)
            for (const char* older : {"skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "icelake-client",
                                      "icelake-server", "tigerlake", "rocketlake"})
                if (f.tune == older) f.tune = "sapphirerapids";
            f.vector_bytes = 64;
            f.registers = 32;
            f.fma = f.masked = true;
            f.vnni = has(detected(), {"avx512vnni"});
            // Intel's processors from Sapphire Rapids on take two bf16 at half the rate of one f32 (77 against 150 GFLOP/s
            // measured): their units for bf16 are the tiles.
            f.rounds_bf16 = has(detected(), {"avx512bf16"});
            f.bf16 = f.rounds_bf16 && f.tune.find("rapids") == std::string::npos;
            // Intel's take 16 cycles for 16 floats, AMD's 10 at most, with half as many multiply-adds a cycle.
            f.slow_divide = f.tune.find("znver") == std::string::npos;
            f.amx = has(detected(), {"amx-tile", "amx-bf16", "amx-int8"}) && tiles_permitted();
            for (const auto& [on, names] : {std::pair{f.vnni, "+avx512vnni"}, {f.rounds_bf16, "+avx512bf16"},
                                            {f.amx, "+amx-tile,+amx-bf16,+amx-int8"}})
                if (on) f.attributes += (f.attributes.empty() ? "" : ",") + std::string(names);
            break;
    }
#else
    if (l != Level::Baseline) return std::nullopt;
    f.cpu = f.tune;
    f.fma = true;
#  if defined(__aarch64__)
    f.registers = 32;
#  endif
#endif
    return f;
}

const Features& host_features() {
    static const Features features = detect();
    return features;
}

}  // namespace opwright::target::cpu
