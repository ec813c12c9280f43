// Finding the facts: files of /proc, /sys and /dev, the driver's library, and two programs asked with a time limit.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "explain/doctor.h"
#include "target/cpu/features.h"

extern char** environ;

namespace opwright::explain {
namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

std::string whole(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

bool exists(const std::string& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

std::vector<std::string> entries(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        names.push_back(it->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

// "48K", "2048K", "300M" as the kernel writes sizes of caches.
uint64_t parse_size(const std::string& text) {
    char* end = nullptr;
    const auto n = static_cast<uint64_t>(std::strtoull(text.c_str(), &end, 10));
    switch (*end) {
        case 'K': return n << 10;
        case 'M': return n << 20;
        case 'G': return n << 30;
        default: return n;
    }
}

// "13.0" -> 13000, "12.4.1" -> 12040; 0 where it is no version.
int cuda_number(const std::string& text) {
    int major = 0, minor = 0;
    return std::sscanf(text.c_str(), "%d.%d", &major, &minor) == 2 ? major * 1000 + minor * 10 : 0;
}

std::string find_program(const std::string& name) {
    const char* path = std::getenv("PATH");
    std::istringstream in(path ? path : "");
    for (std::string folder; std::getline(in, folder, ':');)
        if (const std::string full = folder + "/" + name; ::access(full.c_str(), X_OK) == 0) return full;
    return "";
}

// What a program prints, stopped after the time limit; empty when it cannot run or fails.
std::string output_of(std::vector<std::string> command, std::chrono::milliseconds limit) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return "";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;  // a process group of its own, so that what it starts ends with it
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::vector<char*> arguments;
    for (std::string& a : command) arguments.push_back(a.data());
    arguments.push_back(nullptr);
    pid_t pid = -1;
    const bool started = ::posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    ::close(fds[1]);
    std::string out;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    bool ended = false;
    while (started && !ended) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) break;
        pollfd p{fds[0], POLLIN, 0};
        if (::poll(&p, 1, static_cast<int>(left.count())) <= 0) continue;
        char buffer[4096];
        const ssize_t n = ::read(fds[0], buffer, sizeof buffer);
        if (n <= 0 || out.size() > 100000)
            ended = true;
        else
            out.append(buffer, static_cast<size_t>(n));
    }
    ::close(fds[0]);
    if (!started) return "";
    if (!ended) ::kill(-pid, SIGKILL);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? out : "";
}

// ---- the parts
// ----------------------------------------------------------------------------------------------------------

// Of the kernel's flags, those that decide how generated code can be.
constexpr const char* kUnits[] = {"sse4_2",      "avx",         "avx2",     "fma",      "f16c",
                                  "avx_vnni",    "avx512f",     "avx512bw", "avx512vl", "avx512_vnni",
                                  "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",
                                  "asimd",       "sve",         "sve2",     "bf16",     "i8mm"};

void find_processor(MachineFacts& f, const std::string& root) {
    std::istringstream in(whole(root + "/proc/cpuinfo"));
    std::set<std::string> sockets, flags;
    for (std::string line; std::getline(in, line);) {
        const size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
        const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
        if (key == "processor")
            ++f.processors;
        else if (key == "model name" && f.processor.empty())
            f.processor = value;
        else if (key == "physical id")
            sockets.insert(value);
        else if ((key == "flags" || key == "Features") && flags.empty()) {
            std::istringstream words(value);
            for (std::string w; words >> w;) flags.insert(w);
        }
    }
    f.sockets = std::max<int>(1, static_cast<int>(sockets.size()));
    for (const char* unit : kUnits)
        if (flags.count(unit)) f.vector_units.push_back(unit);
    for (const std::string& node : entries(root + "/sys/devices/system/node"))
        f.numa_nodes +=
            node.compare(0, 4, "node") == 0 && node.size() > 4 && std::isdigit(static_cast<unsigned char>(node[4]));
    const std::string caches = root + "/sys/devices/system/cpu/cpu0/cache/";
    for (const std::string& index : entries(caches)) {
        if (index.compare(0, 5, "index") != 0) continue;
        std::string kind = first_line(caches + index + "/type");
        std::transform(kind.begin(), kind.end(), kind.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        f.caches.push_back({std::atoi(first_line(caches + index + "/level").c_str()), kind,
                            parse_size(first_line(caches + index + "/size"))});
    }
}

// The control group of this process, both versions: the least of its own and its ancestors' limits.
void find_limits(MachineFacts& f, const std::string& root) {
    const auto take = [&](const std::string& folder) {
        double quota = 0, period = 0;
        const std::string v2 = first_line(folder + "/cpu.max");
        double granted = 0;
        if (std::sscanf(v2.c_str(), "%lf %lf", &quota, &period) == 2 && period > 0) granted = quota / period;
        quota = std::atof(first_line(folder + "/cpu.cfs_quota_us").c_str());
        period = std::atof(first_line(folder + "/cpu.cfs_period_us").c_str());
        if (quota > 0 && period > 0) granted = quota / period;
        if (granted > 0 && (f.quota == 0 || granted < f.quota)) f.quota = granted;
        for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
            const auto limit = std::strtoull(first_line(folder + name).c_str(), nullptr, 10);
            if (limit > 0 && limit < (1ull << 60) && (f.memory_limit == 0 || limit < f.memory_limit))
                f.memory_limit = limit;
        }
    };
    const std::string base = root + "/sys/fs/cgroup";
    take(base), take(base + "/cpu"), take(base + "/memory");
    std::istringstream in(whole(root + "/proc/self/cgroup"));
    for (std::string line; std::getline(in, line);) {
        const size_t a = line.find(':'), b = line.find(':', a + 1);
        if (a == std::string::npos || b == std::string::npos) continue;
        const std::string controllers = line.substr(a + 1, b - a - 1);
        std::string folder = base;
        if (controllers.find("cpu") == 0)
            folder += "/cpu";
        else if (!controllers.empty())
            folder += "/" + controllers;
        for (std::string path = line.substr(b + 1); path.size() > 1; path.resize(path.rfind('/'))) take(folder + path);
    }
}

void find_memory(MachineFacts& f, const std::string& root) {
    std::istringstream in(whole(root + "/proc/meminfo"));
    std::string key, unit;
    for (uint64_t kib = 0; in >> key >> kib; std::getline(in, unit)) {
        if (key == "MemTotal:") f.memory = kib << 10;
        if (key == "MemAvailable:") f.memory_available = kib << 10;
    }
}

void find_container(MachineFacts& f, const std::string& root) {
    const std::string groups = whole(root + "/proc/1/cgroup");
    const auto in_group = [&](const char* word) { return groups.find(word) != std::string::npos; };
    if (exists(root + "/run/.containerenv"))
        f.container = "podman";
    else if (exists(root + "/var/run/secrets/kubernetes.io") || in_group("kubepods"))
        f.container = "kubernetes";
    else if (exists(root + "/.dockerenv") || in_group("docker"))
        f.container = "docker";
    else if (in_group("lxc"))
        f.container = "lxc";
}

void find_gpu_files(MachineFacts& f, const std::string& root) {
    const std::string bus = root + "/sys/bus/pci/devices/";
    for (const std::string& device : entries(bus))
        f.gpu_pci_devices += first_line(bus + device + "/vendor") == "0x10de" &&
                             first_line(bus + device + "/class").compare(0, 4, "0x03") == 0;
    // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build ..."
    std::istringstream words(first_line(root + "/proc/driver/nvidia/version"));
    for (std::string w; words >> w;)
        if (f.kernel_driver.empty() && std::isdigit(static_cast<unsigned char>(w[0])) &&
            w.find('.') != std::string::npos)
            f.kernel_driver = w;
    if (f.kernel_driver.empty() && exists(root + "/proc/driver/nvidia"))
        f.kernel_driver = first_line(root + "/sys/module/nvidia/version");
    for (const std::string& node : entries(root + "/dev"))
        if (node.size() > 6 && node.compare(0, 6, "nvidia") == 0 && std::isdigit(static_cast<unsigned char>(node[6])))
            f.gpu_nodes.push_back("/dev/" + node);
    f.gpu_control_node = exists(root + "/dev/nvidiactl");
}

// The driver's library answers without a kernel of ours: only its documented C functions are called.
void ask_driver(MachineFacts& f) {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    f.driver_library = true;
    const auto find = [&]<class F>(const char* name, F*& function) {
        function = reinterpret_cast<F*>(::dlsym(library, name));
        return function != nullptr;
    };
    int (*init)(unsigned), (*version)(int*), (*count)(int*), (*device)(int*, int), (*name)(char*, int, int);
    int (*memory)(size_t*, int), (*attribute)(int*, int, int);
    if (find("cuDriverGetVersion", version)) version(&f.driver_cuda);
    if (!find("cuInit", init)) return;
    f.driver_init = init(0);
    int devices = 0;
    if (f.driver_init != 0 || !find("cuDeviceGetCount", count) || count(&devices) != 0 ||
        !find("cuDeviceGet", device) || !find("cuDeviceGetName", name) || !find("cuDeviceTotalMem_v2", memory) ||
        !find("cuDeviceGetAttribute", attribute))
        return;
    for (int i = 0; i < devices; ++i) {
        int handle = 0;
        char text[256] = "";
        MachineFacts::Gpu gpu;
        size_t bytes = 0;
        if (device(&handle, i) != 0) continue;
        if (name(text, sizeof text - 1, handle) == 0) gpu.name = text;
        if (memory(&bytes, handle) == 0) gpu.bytes = bytes;
        attribute(&gpu.major, 75, handle);  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        attribute(&gpu.minor, 76, handle);
        f.gpus.push_back(gpu);
    }
}

void ask_programs(MachineFacts& f) {
    f.nvidia_smi = find_program("nvidia-smi");
    f.nvcc = find_program("nvcc");
    if (f.nvcc.empty() && ::access("/usr/local/cuda/bin/nvcc", X_OK) == 0) f.nvcc = "/usr/local/cuda/bin/nvcc";
    if (!f.nvcc.empty()) {
        const std::string text = output_of({f.nvcc, "--version"}, std::chrono::seconds(5));
        if (const size_t at = text.find("release "); at != std::string::npos)
            f.nvcc_cuda = cuda_number(text.substr(at + 8));
    }
    f.python = find_program("python3");
    if (f.python.empty()) return;
    // Reads torch's version file instead of importing torch, which takes seconds.
    const std::string text = output_of({f.python, "-c",
                                        "import importlib.util as u, pathlib, platform, runpy\n"
                                        "print(platform.python_version())\n"
                                        "s = u.find_spec('torch')\n"
                                        "if s and s.origin:\n"
                                        "    v = runpy.run_path(str(pathlib.Path(s.origin).parent / 'version.py'))\n"
                                        "    print(v.get('__version__', '?'))\n"
                                        "    print(v.get('cuda') or '')\n"},
                                       std::chrono::seconds(10));
    std::istringstream in(text);
    std::string cuda;
    std::getline(in, f.python_version), std::getline(in, f.torch_version), std::getline(in, cuda);
    f.torch_cuda = cuda_number(cuda);
}

}  // namespace

MachineFacts find_facts(const std::string& root, bool run_programs) {
    MachineFacts f;
    utsname system{};
    if (::uname(&system) == 0) f.architecture = system.machine;
    find_processor(f, root);
    find_limits(f, root);
    find_memory(f, root);
    find_container(f, root);
    find_gpu_files(f, root);
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) f.visible_devices = visible;
    cpu_set_t set;
    f.allowed = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : f.processors;
    f.vector_level = target::cpu::name(target::cpu::host_features().level);
    if (f.processor.empty()) f.processor = processor_name();
    if (run_programs) {
        ask_driver(f);
        ask_programs(f);
    }
    return f;
}

}  // namespace opwright::explain
