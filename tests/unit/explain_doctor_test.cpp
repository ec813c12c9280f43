#include "explain/doctor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "explain/machine.h"
#include "runtime/thread_pool.h"

namespace opwright::explain {
namespace {

// A machine on which all is well: eight AVX-512 processors, an H200 with matching driver, nvcc and PyTorch.
MachineFacts good() {
    MachineFacts f;
    f.processor = "Test CPU";
    f.architecture = "x86_64";
    f.processors = f.allowed = 8;
    f.sockets = 1;
    f.vector_units = {"avx2", "fma", "avx512f"};
    f.vector_level = "avx512";
    f.memory = uint64_t{32} << 30;
    f.gpu_pci_devices = 1;
    f.kernel_driver = "580.65.06";
    f.gpu_nodes = {"/dev/nvidia0"};
    f.gpu_control_node = f.driver_library = true;
    f.driver_cuda = f.nvcc_cuda = f.torch_cuda = 13000;
    f.driver_init = 0;
    f.gpus = {{"NVIDIA H200", uint64_t{139} << 30, 9, 0}};
    f.nvcc = "/usr/bin/nvcc";
    f.python = "/usr/bin/python3";
    f.python_version = "3.11.2";
    f.torch_version = "2.13.0+cu130";
    return f;
}

// The one problem that a change of the good machine brings.
std::string problem(void (*change)(MachineFacts&)) {
    MachineFacts f = good();
    change(f);
    const auto problems = find_problems(f);
    if (problems.size() != 1) return std::to_string(problems.size()) + " problems";
    EXPECT_FALSE(problems[0].remedy.empty());
    return problems[0].what;
}

void no_gpu(MachineFacts& f) {
    f.gpus.clear();
    f.gpu_nodes.clear();
    f.driver_library = false;
    f.driver_cuda = 0;
    f.driver_init = -1;
}

TEST(ExplainDoctor, FindsNothingOnAGoodMachine) {
    EXPECT_TRUE(find_problems(good()).empty());
    MachineFacts without = good();
    no_gpu(without);
    without.gpu_pci_devices = 0;
    without.kernel_driver.clear();
    without.torch_cuda = 0;
    EXPECT_TRUE(find_problems(without).empty());
}

TEST(ExplainDoctor, NamesEachProblem) {
    EXPECT_EQ(
        problem([](MachineFacts& f) { f.quota = 1.5; }),
        "The control group grants 1.5 of the 8 processors that this process may use, and more threads than that only "
        "take turns.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.vector_level = "baseline"; }),
              "The processor, as this system shows it, has no AVX2, so kernels run 128 bits wide without fused "
              "multiply-add.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.memory_limit = uint64_t{1} << 30; }),
              "Only 1.0 GiB of memory may be used here, and building Opwright takes about 2 GiB.");
    EXPECT_EQ(problem([](MachineFacts& f) { no_gpu(f), f.kernel_driver.clear(); }),
              "There is an NVIDIA GPU, and no driver for it is loaded.");
    EXPECT_EQ(problem([](MachineFacts& f) { no_gpu(f), f.container = "docker"; }),
              "The host has an NVIDIA GPU (driver 580.65.06), and this container (docker) hides it: there is no "
              "/dev/nvidia0.");
    EXPECT_EQ(problem(no_gpu),
              "NVIDIA's driver 580.65.06 is loaded, and its device files are missing: there is no /dev/nvidia0.");
    EXPECT_EQ(problem([](MachineFacts& f) { no_gpu(f), f.gpu_nodes = {"/dev/nvidia0"}; }),
              "The GPU's device files are there, and the driver's library libcuda.so.1 cannot be loaded.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.gpus.clear(), f.driver_init = 803; }),
              "The driver's library and its kernel module (580.65.06) are of different versions.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.gpus.clear(), f.driver_init = 100, f.visible_devices = ""; }),
              "CUDA_VISIBLE_DEVICES is set to '', which leaves no GPU visible.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.gpus.clear(), f.driver_init = 100; }),
              "The driver answers that it sees no GPU.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.gpus.clear(), f.driver_init = 999; }),
              "The driver cannot be started: cuInit returned 999.");
    EXPECT_EQ(
        problem([](MachineFacts& f) { f.driver_cuda = 12080, f.torch_cuda = 12080, f.nvcc_cuda = 12090; }),
        "nvcc is of CUDA 12.9, a little newer than the driver's 12.8: machine code for this GPU runs, PTX does not.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.torch_cuda = 0, f.torch_version = "2.13.0+cpu"; }),
              "PyTorch 2.13.0+cpu is a CPU build, and there is a GPU.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.torch_cuda = 12080; }),
              "nvcc is of CUDA 13.0 and PyTorch of CUDA 12.8: extensions of PyTorch refuse to build with this nvcc.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.nvcc_cuda = 0, f.driver_cuda = 12080; }),
              "PyTorch 2.13.0+cu130 was built for CUDA 13.0, and the driver runs programs up to CUDA 12.8: it will not "
              "see the GPU.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.torch_version.clear(), f.torch_cuda = 0, f.driver_cuda = 12080; }),
              "nvcc is of CUDA 13.0, and the driver runs programs up to CUDA 12.8: what nvcc builds will not start.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.python.clear(); }),
              "There is no python3 on PATH; the command works without it, the Python examples and tests do not.");
    EXPECT_EQ(problem([](MachineFacts& f) { f.python_version = "3.9.2"; }),
              "python3 is 3.9.2, and the Python examples and tests need 3.11.");
}

class FakeRoot : public testing::Test {
protected:
    void SetUp() override {
        root_ = std::filesystem::temp_directory_path() /
                ("opwright-doctor-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
        std::filesystem::remove_all(root_);
    }
    void TearDown() override { std::filesystem::remove_all(root_); }
    void put(const std::string& path, const std::string& text) {
        std::filesystem::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text;
    }
    MachineFacts find() { return find_facts(root_.string(), false); }
    std::filesystem::path root_;
};

TEST_F(FakeRoot, ReadsProcessorCachesAndLimits) {
    put("proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Big CPU\nphysical id\t: 0\nflags\t\t: fpu sse4_2 avx2 fma amx_tile\n\n"
        "processor\t: 1\nmodel name\t: Big CPU\nphysical id\t: 1\nflags\t\t: fpu sse4_2 avx2 fma amx_tile\n");
    put("proc/meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:   8192 kB\n");
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/a/memory.max", "4194304\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n");
    const MachineFacts f = find();
    EXPECT_EQ(f.processor, "Big CPU");
    EXPECT_EQ(f.processors, 2);
    EXPECT_EQ(f.sockets, 2);
    EXPECT_EQ(f.vector_units, (std::vector<std::string>{"sse4_2", "avx2", "fma", "amx_tile"}));
    EXPECT_EQ(f.memory, 16384u << 10);
    EXPECT_EQ(f.memory_available, 8192u << 10);
    EXPECT_EQ(f.memory_limit, 4194304u);
    EXPECT_DOUBLE_EQ(f.quota, 1.5);
    ASSERT_EQ(f.caches.size(), 1u);
    EXPECT_EQ(f.caches[0].kind, "data");
    EXPECT_EQ(f.caches[0].bytes, 48u << 10);
    EXPECT_TRUE(f.container.empty());
    EXPECT_EQ(f.gpu_pci_devices, 0);
}

TEST_F(FakeRoot, SeesAGpuThatAContainerHides) {
    put(".dockerenv", "");
    put("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    put("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
    put("sys/bus/pci/devices/0000:02:00.0/vendor", "0x8086\n");
    put("sys/bus/pci/devices/0000:02:00.0/class", "0x030000\n");
    put("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC version\n");
    const MachineFacts f = find();
    EXPECT_EQ(f.container, "docker");
    EXPECT_EQ(f.gpu_pci_devices, 1);
    EXPECT_EQ(f.kernel_driver, "580.65.06");
    EXPECT_TRUE(f.gpu_nodes.empty());
    const auto problems = find_problems(f);
    ASSERT_FALSE(problems.empty());
    EXPECT_NE(problems[0].remedy.find("--gpus all"), std::string::npos);
}

TEST(ExplainDoctor, TextFitsTheScreenAndJsonSaysTheSame) {
    DoctorReport r;
    r.facts = good();
    r.facts.vector_units = {"sse4_2",      "avx",         "avx2",     "fma",      "f16c",
                            "avx_vnni",    "avx512f",     "avx512bw", "avx512vl", "avx512_vnni",
                            "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"};
    r.facts.quota = 2;
    r.problems = find_problems(r.facts);
    Machine m;
    m.threads = 8;
    m.level = "avx512";
    m.copies = {{32e3, 200e9}, {512e6, 25e9}};
    m.flops_f32 = 1e11;
    m.dispatch_seconds = 2e-6;
    r.measured = {m};
    const std::string text = to_text(r);
    std::istringstream lines(text);
    for (std::string l; std::getline(lines, l);) EXPECT_LE(l.size(), 100u) << l;
    EXPECT_NE(text.find("25.0 GB/s to memory, 200 at 31 KiB"), std::string::npos);
    EXPECT_NE(text.find("NVIDIA H200, 139.0 GiB, sm_90"), std::string::npos);
    EXPECT_NE(text.find("1 problem\n  1. problem        The control group grants 2.0 of the 8"), std::string::npos)
        << text;
    const auto j = to_json(r);
    EXPECT_EQ(j["ok"], false);
    EXPECT_EQ(j["problems"].size(), 1u);
    EXPECT_EQ(j["measured"][0]["copy_bytes_per_second"], 25e9);
    EXPECT_EQ(j["facts"]["driver_cuda"], "13.0");
    EXPECT_TRUE(j["facts"]["container"].is_null());
}

TEST(ExplainDoctor, LooksAtThisMachine) {
    const MachineFacts f = find_facts();
    EXPECT_GE(f.processors, 1);
    EXPECT_GE(f.allowed, 1);
    EXPECT_GT(f.memory, 0u);
    EXPECT_FALSE(f.vector_level.empty());
}

TEST(ExplainMachine, TakesTheCeilingOfTheSmallestSetThatHoldsTheData) {
    Machine m;
    m.copies = {{1e3, 100}, {1e6, 50}, {1e9, 10}};
    EXPECT_EQ(m.bandwidth(0), 100);
    EXPECT_EQ(m.bandwidth(1e3), 100);
    EXPECT_EQ(m.bandwidth(2e3), 50);
    EXPECT_EQ(m.bandwidth(1e12), 10);
    EXPECT_EQ(m.copy_bandwidth(), 10);
}

// A folder of its own for what is measured.
class MeasuredMachine : public testing::Test {
protected:
    const std::string folder = testing::TempDir() + "opwright-measured";
    std::optional<std::string> saved;
    MeasuredMachine() {
        if (const char* old = std::getenv("OPWRIGHT_CACHE_DIR")) saved = old;
        std::filesystem::remove_all(folder);
        setenv("OPWRIGHT_CACHE_DIR", folder.c_str(), 1);
    }
    ~MeasuredMachine() override {
        saved ? setenv("OPWRIGHT_CACHE_DIR", saved->c_str(), 1) : unsetenv("OPWRIGHT_CACHE_DIR");
        std::filesystem::remove_all(folder);
    }
};

TEST_F(MeasuredMachine, ADoubtfulStartIsLookedAtAgain) {
    runtime::ThreadPool pool(1);
    const auto first = measure_machine(pool);
    ASSERT_TRUE(first.ok());
    std::filesystem::path file;
    for (const auto& e : std::filesystem::directory_iterator(folder))
        if (e.path().filename().string().starts_with("machine-")) file = e.path();
    ASSERT_FALSE(file.empty());
    auto j = nlohmann::json::parse(std::ifstream(file));
    j["dispatch_seconds"] = 45e-6;  // as if other processes had had the processor
    j["flops_f32"] = 12345e6;
    std::ofstream(file) << j;
    const auto again = measure_machine(pool);
    ASSERT_TRUE(again.ok());
    EXPECT_LT(again->dispatch_seconds, 45e-6);
    EXPECT_EQ(again->flops_f32, 12345e6) << "the rest is taken as it is";
    ASSERT_TRUE(recall_machine(1));
    EXPECT_EQ(recall_machine(1)->dispatch_seconds, again->dispatch_seconds);
}

TEST_F(MeasuredMachine, ThreadsBeyondTheProcessorsHaveTheProcessorsCeilings) {
    const int processors = runtime::available_processors();
    runtime::ThreadPool pool(processors + 40);
    const auto m = measure_machine(pool);
    ASSERT_TRUE(m.ok());
    EXPECT_EQ(m->threads, processors);
    const auto known = recall_machine(processors + 40);
    ASSERT_TRUE(known);
    EXPECT_EQ(known->measured_at, m->measured_at);
}

}  // namespace
}  // namespace opwright::explain
