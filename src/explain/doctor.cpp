#include "explain/doctor.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/thread_pool.h"

namespace opwright::explain {
namespace {

std::string cuda_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string size_text(uint64_t bytes) {
    const auto b = static_cast<double>(bytes);
    if (b >= 1024.0 * 1024 * 1024) return fmt::format("{:.1f} GiB", b / (1024.0 * 1024 * 1024));
    if (b >= 1024.0 * 1024) return fmt::format("{:.0f} MiB", b / (1024.0 * 1024));
    return fmt::format("{:.0f} KiB", b / 1024.0);
}

void processor_problems(const MachineFacts& f, std::vector<Problem>& out) {
    if (f.quota > 0 && f.quota < f.allowed - 0.01)
        out.push_back(
            {fmt::format(
                 "The control group grants {:.1f} of the {} processors that this process may use, and more threads "
                 "than that only take turns.",
                 f.quota, f.allowed),
             "Raise the limit (docker run --cpus=N), or pass --threads with a number that fits."});
    if (f.architecture == "x86_64" && f.vector_level == "baseline")
        out.push_back(
            {"The processor, as this system shows it, has no AVX2, so kernels run 128 bits wide without fused "
             "multiply-add.",
             "In a virtual machine choose the processor model 'host'; check that OPWRIGHT_CPU is not set."});
    const uint64_t room = f.memory_limit > 0 ? std::min(f.memory_limit, f.memory) : f.memory;
    if (room > 0 && room < (uint64_t{2} << 30))
        out.push_back({fmt::format("Only {} of memory may be used here, and building Opwright takes about 2 GiB.",
                                   size_text(room)),
                       "Raise the limit (docker run --memory=4g), or build on another machine."});
}

// From the hardware up: the first missing layer explains all that lie above it.
void gpu_problems(const MachineFacts& f, std::vector<Problem>& out) {
    const bool hardware = f.gpu_pci_devices > 0 || !f.kernel_driver.empty() || !f.gpu_nodes.empty();
    if (!hardware) return;
    if (f.kernel_driver.empty() && f.gpu_nodes.empty()) {
        out.push_back({"There is an NVIDIA GPU, and no driver for it is loaded.",
                       f.container.empty()
                           ? "Install NVIDIA's driver for this distribution and reboot."
                           : "Install NVIDIA's driver on the host of this container and reboot the host."});
        return;
    }
    if (f.gpu_nodes.empty()) {
        if (!f.container.empty())
            out.push_back({fmt::format("The host has an NVIDIA GPU (driver {}), and this container ({}) hides it: "
                                       "there is no /dev/nvidia0.",
                                       f.kernel_driver, f.container),
                           "Install nvidia-container-toolkit on the host and start the container with --gpus all "
                           "(Kubernetes: ask for "
                           "the resource nvidia.com/gpu)."});
        else
            out.push_back(
                {fmt::format(
                     "NVIDIA's driver {} is loaded, and its device files are missing: there is no /dev/nvidia0.",
                     f.kernel_driver),
                 "Run 'nvidia-modprobe -u -c=0' or nvidia-smi once as root."});
        return;
    }
    if (!f.driver_library) {
        out.push_back({"The GPU's device files are there, and the driver's library libcuda.so.1 cannot be loaded.",
                       f.container.empty()
                           ? "Install the user-space part of NVIDIA's driver (Debian: libcuda1)."
                           : "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility and --gpus all."});
        return;
    }
    if (f.driver_init == 803)
        out.push_back(
            {fmt::format("The driver's library and its kernel module ({}) are of different versions.", f.kernel_driver),
             "Reboot (after an update of the driver), or install both parts in one version."});
    else if (f.driver_init == 100 && f.visible_devices && f.gpus.empty())
        out.push_back(
            {fmt::format("CUDA_VISIBLE_DEVICES is set to '{}', which leaves no GPU visible.", *f.visible_devices),
             "Unset it: unset CUDA_VISIBLE_DEVICES."});
    else if (f.driver_init == 100)
        out.push_back(
            {"The driver answers that it sees no GPU.", "Run nvidia-smi, and look for 'NVRM' in the output of dmesg."});
    else if (f.driver_init != 0)
        out.push_back({fmt::format("The driver cannot be started: cuInit returned {}.", f.driver_init),
                       "Run nvidia-smi and look for 'NVRM' in the output of dmesg; a reload of the module nvidia_uvm, "
                       "or a reboot, often helps."});
    else if (f.visible_devices && f.gpus.size() < f.gpu_nodes.size())
        out.push_back({fmt::format("CUDA_VISIBLE_DEVICES='{}' leaves {} of {} GPUs visible.", *f.visible_devices,
                                   f.gpus.size(), f.gpu_nodes.size()),
                       "Unset it to use all of them: unset CUDA_VISIBLE_DEVICES."});
}

void version_problems(const MachineFacts& f, std::vector<Problem>& out) {
    const bool gpu = !f.gpus.empty();
    if (f.driver_cuda > 0 && f.nvcc_cuda > 0 && f.nvcc_cuda / 1000 > f.driver_cuda / 1000)
        out.push_back(
            {fmt::format(
                 "nvcc is of CUDA {}, and the driver runs programs up to CUDA {}: what nvcc builds will not start.",
                 cuda_text(f.nvcc_cuda), cuda_text(f.driver_cuda)),
             fmt::format("Update the driver, or install the CUDA toolkit {}.", cuda_text(f.driver_cuda))});
    else if (f.driver_cuda > 0 && f.nvcc_cuda > f.driver_cuda)
        out.push_back({fmt::format("nvcc is of CUDA {}, a little newer than the driver's {}: machine code for this GPU "
                                   "runs, PTX does not.",
                                   cuda_text(f.nvcc_cuda), cuda_text(f.driver_cuda)),
                       "Build for this GPU's own architecture (nvcc -arch=native), or update the driver."});
    if (f.driver_cuda > 0 && f.torch_cuda / 1000 > f.driver_cuda / 1000)
        out.push_back({fmt::format("PyTorch {} was built for CUDA {}, and the driver runs programs up to CUDA {}: it "
                                   "will not see the GPU.",
                                   f.torch_version, cuda_text(f.torch_cuda), cuda_text(f.driver_cuda)),
                       fmt::format("Update the driver, or install a PyTorch built for CUDA {} or older.",
                                   cuda_text(f.driver_cuda))});
    if (gpu && !f.torch_version.empty() && f.torch_cuda == 0)
        out.push_back({fmt::format("PyTorch {} is a CPU build, and there is a GPU.", f.torch_version),
                       fmt::format("Install a PyTorch built for CUDA {} or older.", cuda_text(f.driver_cuda))});
    if (f.nvcc_cuda > 0 && f.torch_cuda > 0 && f.nvcc_cuda / 1000 != f.torch_cuda / 1000)
        out.push_back(
            {fmt::format(
                 "nvcc is of CUDA {} and PyTorch of CUDA {}: extensions of PyTorch refuse to build with this nvcc.",
                 cuda_text(f.nvcc_cuda), cuda_text(f.torch_cuda)),
             fmt::format("Put an nvcc of CUDA {} first on PATH (or CUDA_HOME), or change PyTorch's build.",
                         f.torch_cuda / 1000)});
}

void python_problems(const MachineFacts& f, std::vector<Problem>& out) {
    int major = 0, minor = 0;
    if (f.python.empty())
        out.push_back(
            {"There is no python3 on PATH; the command works without it, the Python examples and tests do not.",
             "Debian and Ubuntu: apt-get install python3-venv."});
    else if (std::sscanf(f.python_version.c_str(), "%d.%d", &major, &minor) == 2 &&
             (major < 3 || (major == 3 && minor < 11)))
        out.push_back({fmt::format("python3 is {}, and the Python examples and tests need 3.11.", f.python_version),
                       "Install a newer one and put it first on PATH, or name it in OPWRIGHT_PYTHON."});
}

// ---- text
// ---------------------------------------------------------------------------------------------------------------

constexpr size_t kColumns = 100, kNames = 20;

// "  NAME  value", the value wrapped at kColumns and indented below itself.
void line(std::string& out, std::string_view name, std::string_view value) {
    std::string at = fmt::format("  {:<{}}", name, kNames - 2);
    std::string indent(kNames, ' ');
    size_t column = kNames, begin = 0;
    out += at;
    while (begin < value.size()) {
        size_t end = std::min(value.find(' ', begin), value.size());
        if (column > kNames && column + (end - begin) > kColumns) {
            while (!out.empty() && out.back() == ' ') out.pop_back();
            out += "\n" + indent;
            column = kNames;
        }
        out += value.substr(begin, end - begin);
        column += end - begin;
        begin = end;
        if (begin < value.size()) {
            out += ' ';
            ++column, ++begin;
        }
    }
    out += '\n';
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::string bandwidth_text(const Machine& m) {
    std::string text = fmt::format("{:.1f} GB/s to memory", m.copy_bandwidth() / 1e9);
    for (const auto& c : m.copies)
        if (&c != &m.copies.back())
            text += fmt::format(", {:.0f} at {}", c.bandwidth / 1e9, size_text(static_cast<uint64_t>(c.working_set)));
    return text;
}

}  // namespace

std::vector<Problem> find_problems(const MachineFacts& f) {
    std::vector<Problem> out;
    processor_problems(f, out);
    gpu_problems(f, out);
    version_problems(f, out);
    python_problems(f, out);
    return out;
}

DoctorReport examine(bool measure) {
    DoctorReport r;
    r.facts = find_facts();
    r.problems = find_problems(r.facts);
    if (!measure) {
        r.not_measured = "not asked for";
        return r;
    }
    const int all = runtime::available_processors();
    for (int threads : all > 1 ? std::vector<int>{1, all} : std::vector<int>{1}) {
        runtime::ThreadPool pool(threads);
        auto m = measure_machine(pool, true);
        if (!m.ok()) {
            r.not_measured = m.error().message;
            r.measured.clear();
            return r;
        }
        r.measured.push_back(*std::move(m));
    }
    return r;
}

std::string to_text(const DoctorReport& r) {
    const MachineFacts& f = r.facts;
    std::string out = "Processor\n";
    line(out, "model", fmt::format("{} ({})", f.processor, f.architecture));
    std::string cores = fmt::format("{} in {} socket{}", f.processors, f.sockets, f.sockets == 1 ? "" : "s");
    if (f.numa_nodes > 1) cores += fmt::format(", {} memory nodes", f.numa_nodes);
    if (f.allowed != f.processors) cores += fmt::format("; this process may use {}", f.allowed);
    if (f.quota > 0) cores += fmt::format("; the control group grants {:.1f}", f.quota);
    line(out, "processors", cores);
    line(out, "vector units", f.vector_units.empty() ? "none that kernels use" : joined(f.vector_units));
    line(out, "kernels use", f.vector_level);
    std::string caches;
    for (const auto& c : f.caches)
        if (c.kind != "instruction")
            caches += fmt::format("{}L{} {}", caches.empty() ? "" : ", ", c.level, size_text(c.bytes));
    line(out, "caches", caches.empty() ? "not told by the system" : caches);
    std::string memory = fmt::format("{}, {} free", size_text(f.memory), size_text(f.memory_available));
    if (f.memory_limit > 0 && f.memory_limit < f.memory) memory += fmt::format("; the control group's limit is {}", size_text(f.memory_limit));
    line(out, "memory", memory);
    line(out, "container", f.container.empty() ? "none seen" : f.container);

    out += "\nMeasured just now\n";
    if (r.measured.empty()) line(out, "nothing", r.not_measured);
    for (const Machine& m : r.measured) {
        out += fmt::format("  {} thread{}\n", m.threads, m.threads == 1 ? "" : "s");
        line(out, "  copy", bandwidth_text(m));
        line(out, "  f32 arithmetic", fmt::format("{:.0f} GFLOP/s of multiply-add ({})", m.flops_f32 / 1e9, m.level));
        line(out, "  starting a job", fmt::format("{:.2f} us", m.dispatch_seconds * 1e6));
    }

    out += "\nGPU (this version computes on the CPU)\n";
    if (f.gpus.empty())
        line(out, "NVIDIA", f.gpu_pci_devices || !f.kernel_driver.empty() ? "not usable, see below" : "none");
    for (const auto& g : f.gpus)
        line(out, "NVIDIA", fmt::format("{}, {}, sm_{}{}", g.name, size_text(g.bytes), g.major, g.minor));
    line(out, "driver",
         f.kernel_driver.empty()
             ? "none"
             : f.kernel_driver + (f.driver_cuda ? ", runs CUDA up to " + cuda_text(f.driver_cuda) : ""));
    line(out, "nvcc",
         f.nvcc.empty() ? "none on PATH"
                        : fmt::format("CUDA {} ({})", f.nvcc_cuda ? cuda_text(f.nvcc_cuda) : "?", f.nvcc));

    out += "\nPython\n";
    line(out, "python3", f.python.empty() ? "none on PATH" : fmt::format("{} ({})", f.python_version, f.python));
    line(out, "PyTorch",
         f.torch_version.empty()
             ? "not installed there"
             : fmt::format("{}, {}", f.torch_version,
                           f.torch_cuda ? "built for CUDA " + cuda_text(f.torch_cuda) : "CPU build"));

    out += r.problems.empty() ? "\nNo problem found.\n"
                              : fmt::format("\n{} problem{}\n", r.problems.size(), r.problems.size() == 1 ? "" : "s");
    for (size_t i = 0; i < r.problems.size(); ++i) {
        line(out, fmt::format("{}. problem", i + 1), r.problems[i].what);
        line(out, "   remedy", r.problems[i].remedy);
    }
    return out;
}

nlohmann::json to_json(const DoctorReport& r) {
    using nlohmann::json;
    const MachineFacts& f = r.facts;
    const auto version = [](int v) { return v > 0 ? json(cuda_text(v)) : json(); };
    const auto text = [](const std::string& s) { return s.empty() ? json() : json(s); };
    json caches = json::array(), gpus = json::array(), measured = json::array(), problems = json::array();
    for (const auto& c : f.caches) caches.push_back({{"level", c.level}, {"kind", c.kind}, {"bytes", c.bytes}});
    for (const auto& g : f.gpus)
        gpus.push_back(
            {{"name", g.name}, {"bytes", g.bytes}, {"compute_capability", fmt::format("{}.{}", g.major, g.minor)}});
    for (const Machine& m : r.measured) {
        json copies = json::array();
        for (const auto& c : m.copies)
            copies.push_back({{"working_set", c.working_set}, {"bytes_per_second", c.bandwidth}});
        measured.push_back({{"threads", m.threads},
                            {"level", m.level},
                            {"copy_bytes_per_second", m.copy_bandwidth()},
                            {"copies", copies},
                            {"flops_f32", m.flops_f32},
                            {"dispatch_seconds", m.dispatch_seconds},
                            {"measured_at", m.measured_at}});
    }
    for (const Problem& p : r.problems) problems.push_back({{"what", p.what}, {"remedy", p.remedy}});
    json facts = {{"processor", f.processor},
                  {"architecture", f.architecture},
                  {"processors", f.processors},
                  {"allowed", f.allowed},
                  {"quota", f.quota > 0 ? json(f.quota) : json()},
                  {"sockets", f.sockets},
                  {"numa_nodes", f.numa_nodes},
                  {"vector_units", f.vector_units},
                  {"vector_level", f.vector_level},
                  {"caches", caches},
                  {"memory", f.memory},
                  {"memory_available", f.memory_available},
                  {"memory_limit", f.memory_limit > 0 ? json(f.memory_limit) : json()},
                  {"container", text(f.container)},
                  {"gpu_pci_devices", f.gpu_pci_devices},
                  {"gpus", gpus},
                  {"kernel_driver", text(f.kernel_driver)},
                  {"driver_library", f.driver_library},
                  {"driver_cuda", version(f.driver_cuda)},
                  {"driver_init", f.driver_init >= 0 ? json(f.driver_init) : json()},
                  {"gpu_nodes", f.gpu_nodes},
                  {"visible_devices", f.visible_devices ? json(*f.visible_devices) : json()},
                  {"nvidia_smi", text(f.nvidia_smi)},
                  {"nvcc", text(f.nvcc)},
                  {"nvcc_cuda", version(f.nvcc_cuda)},
                  {"python", text(f.python)},
                  {"python_version", text(f.python_version)},
                  {"torch_version", text(f.torch_version)},
                  {"torch_cuda", version(f.torch_cuda)}};
    return {{"facts", facts}, {"measured", measured}, {"problems", problems}, {"ok", r.problems.empty()}};
}

}  // namespace opwright::explain
