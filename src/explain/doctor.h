// What this machine has and whether it fits together: the back end of `opwright doctor`.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "explain/machine.h"

namespace opwright::explain {

// What was found, without judgement. Empty strings, zeros and empty lists mean "not there" or "not told".
struct MachineFacts {
    // Processor
    std::string processor, architecture;
    int processors = 0;  // of the machine
    int allowed = 0;     // by this process's affinity
    double quota = 0;    // granted by the control group, in processors; 0 = unlimited
    int sockets = 0, numa_nodes = 0;
    std::vector<std::string> vector_units;  // "avx2", "fma", "avx512f", ... as the kernel spells them
    std::string vector_level;               // what generated code will use
    struct Cache {
        int level = 0;
        std::string kind;
        uint64_t bytes = 0;
    };
    std::vector<Cache> caches;  // of processor 0; kind "data", "instruction" or "unified"
    // Memory, bytes
    uint64_t memory = 0, memory_available = 0, memory_limit = 0;  // limit: the control group's; 0 = none
    // Container
    std::string container;  // "docker", "podman", "kubernetes", "lxc", ...; empty = none seen
    // NVIDIA GPU, from the hardware up
    int gpu_pci_devices = 0;             // display controllers on the bus with NVIDIA's vendor number
    std::string kernel_driver;           // version of the kernel module, "580.65.06"
    std::vector<std::string> gpu_nodes;  // /dev/nvidia0, ...
    bool gpu_control_node = false;       // /dev/nvidiactl
    bool driver_library = false;         // libcuda.so.1 can be loaded
    int driver_cuda = 0;                 // newest CUDA version that the driver runs, 13000 = 13.0
    int driver_init = -1;                // result of cuInit; -1 = not called
    struct Gpu {
        std::string name;
        uint64_t bytes = 0;
        int major = 0, minor = 0;
    };
    std::vector<Gpu> gpus;
    std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES, where it is set
    std::string nvcc, nvidia_smi;                // paths
    int nvcc_cuda = 0;                           // 13000 = 13.0
    // Python
    std::string python, python_version;  // the python3 on PATH
    std::string torch_version;           // "2.13.0+cpu"; empty = not installed there
    int torch_cuda = 0;                  // CUDA version that torch was built for; 0 = CPU build
};

struct Problem {
    std::string what, remedy;  // full sentences
};

struct DoctorReport {
    MachineFacts facts;
    std::vector<Problem> problems;
    std::vector<Machine> measured;  // with one thread, and with all where there are more
    std::string not_measured;       // why `measured` is empty
};

// Looks at the machine. `root` stands before every path of the file system and `run_programs` allows asking nvcc,
// python3 and the driver library; tests give a folder made up for them, and false.
MachineFacts find_facts(const std::string& root = "", bool run_programs = true);

// Pure: each fact, or pair of facts, that will bite, with what to do about it. The most fundamental first.
std::vector<Problem> find_problems(const MachineFacts& f);

// find_facts, find_problems and, when asked, measure_machine.
DoctorReport examine(bool measure);

// For people: a table of at most 100 columns, then the problems. Ends in a newline.
std::string to_text(const DoctorReport& r);
// {"facts": {...}, "measured": [...], "problems": [{"what", "remedy"}], "ok": true where there are none}
nlohmann::json to_json(const DoctorReport& r);

}  // namespace opwright::explain
