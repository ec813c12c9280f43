#include "target/cuda/compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

#include "base/object_cache.h"

namespace opwright::target::cuda {
namespace {
namespace fs = std::filesystem;

struct NvrtcProgram;
struct Nvrtc {
    std::string path;
    int major = 0, minor = 0;
    int (*Version)(int*, int*);
    const char* (*GetErrorString)(int);
    int (*CreateProgram)(NvrtcProgram**, const char*, const char*, int, const char* const*, const char* const*);
    int (*CompileProgram)(NvrtcProgram*, int, const char* const*);
    int (*DestroyProgram)(NvrtcProgram**);
    int (*GetCUBINSize)(NvrtcProgram*, size_t*);
    int (*GetCUBIN)(NvrtcProgram*, char*);
    int (*GetProgramLogSize)(NvrtcProgram*, size_t*);
    int (*GetProgramLog)(NvrtcProgram*, char*);
};

std::string environment(const char* name) {
    const char* v = std::getenv(name);
    return v ? v : "";
}

// Folders that may hold libnvrtc, likeliest first.
std::vector<fs::path> nvrtc_folders() {
    std::vector<fs::path> r;
    std::error_code error;
    for (const char* v : {"CUDA_PATH", "CUDA_HOME"})
        if (const std::string path = environment(v); !path.empty()) r.emplace_back(fs::path(path) / "lib64");
    std::vector<fs::path> toolkits;
    for (const auto& e : fs::directory_iterator("/usr/local", error))
        if (e.path().filename().string().starts_with("cuda")) toolkits.push_back(e.path() / "lib64");
    std::sort(toolkits.rbegin(), toolkits.rend());
    r.insert(r.end(), toolkits.begin(), toolkits.end());
    // Python packages of the active environment, of the user and of the system.
    std::vector<fs::path> roots;
    if (const std::string v = environment("VIRTUAL_ENV"); !v.empty()) roots.emplace_back(fs::path(v) / "lib");
    if (const std::string v = environment("HOME"); !v.empty()) roots.emplace_back(fs::path(v) / ".local/lib");
    for (const char* v : {"/usr/local/lib", "/usr/lib", "/opt/conda/lib"}) roots.emplace_back(v);
    for (const fs::path& root : roots)
        for (const auto& e : fs::directory_iterator(root, error)) {
            if (!e.path().filename().string().starts_with("python3")) continue;
            for (const char* packages : {"site-packages", "dist-packages"})
                for (const char* folder : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "torch/lib"})
                    r.push_back(e.path() / packages / folder);
        }
    return r;
}

bool load_nvrtc(const std::string& path, Nvrtc& n) {
    // NVRTC opens its second library by its bare name when it first compiles; one that is open already is found.
    std::error_code error;
    for (const auto& e : fs::directory_iterator(fs::path(path).parent_path(), error))
        if (e.path().filename().string().starts_with("libnvrtc-builtins.so"))
            ::dlopen(e.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    bool complete = true;
    const auto resolve = [&](auto& to, const char* symbol) {
        to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(::dlsym(library, symbol));
        complete &= to != nullptr;
    };
    resolve(n.Version, "nvrtcVersion");
    resolve(n.GetErrorString, "nvrtcGetErrorString");
    resolve(n.CreateProgram, "nvrtcCreateProgram");
    resolve(n.CompileProgram, "nvrtcCompileProgram");
    resolve(n.DestroyProgram, "nvrtcDestroyProgram");
    resolve(n.GetCUBINSize, "nvrtcGetCUBINSize");
    resolve(n.GetCUBIN, "nvrtcGetCUBIN");
    resolve(n.GetProgramLogSize, "nvrtcGetProgramLogSize");
    resolve(n.GetProgramLog, "nvrtcGetProgramLog");
    if (!complete) return false;  // before CUDA 11.1
    n.path = path;
    return n.Version(&n.major, &n.minor) == 0;
}

std::optional<Nvrtc> find_nvrtc() {
    Nvrtc n{};
    if (const std::string chosen = environment("OPWRIGHT_NVRTC"); !chosen.empty()) {
        if (chosen != "none" && load_nvrtc(chosen, n)) return n;
        return std::nullopt;
    }
    std::error_code error;
    for (const fs::path& folder : nvrtc_folders()) {
        if (!fs::is_directory(folder, error)) continue;
        for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
            if (const fs::path p = folder / name; fs::exists(p, error) && load_nvrtc(p.string(), n)) return n;
    }
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})  // where the loader looks by itself
        if (load_nvrtc(name, n)) return n;
    return std::nullopt;
}

const std::optional<Nvrtc>& nvrtc() {
    static const std::optional<Nvrtc> n = find_nvrtc();
    return n;
}

std::optional<std::string> find_nvcc() {
    std::vector<std::string> folders;
    for (const char* v : {"CUDA_PATH", "CUDA_HOME"})
        if (const std::string path = environment(v); !path.empty()) folders.push_back(path + "/bin");
    std::stringstream path(environment("PATH"));
    for (std::string f; std::getline(path, f, ':');) folders.push_back(f);
    folders.emplace_back("/usr/local/cuda/bin");
    for (const std::string& f : folders)
        if (const std::string p = f + "/nvcc"; ::access(p.c_str(), X_OK) == 0) return p;
    return std::nullopt;
}

Result<Cubin> by_nvrtc(const Nvrtc& n, const std::string& source, const std::vector<std::string>& options) {
    NvrtcProgram* program = nullptr;
    if (const int code = n.CreateProgram(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr))
        return Diagnostic(fmt::format("NVRTC does not take the source: {}.", n.GetErrorString(code)));
    std::vector<const char*> arguments;
    for (const std::string& o : options) arguments.push_back(o.c_str());
    const int code = n.CompileProgram(program, static_cast<int>(arguments.size()), arguments.data());
    Cubin r;
    size_t bytes = 0;
    if (n.GetProgramLogSize(program, &bytes) == 0 && bytes > 1) {
        r.log.resize(bytes);
        n.GetProgramLog(program, r.log.data());
        r.log.resize(bytes - 1);
    }
    if (code == 0 && n.GetCUBINSize(program, &bytes) == 0) {
        r.code.resize(bytes);
        n.GetCUBIN(program, r.code.data());
    }
    n.DestroyProgram(&program);
    if (code != 0 || r.code.empty())
        return Diagnostic("The generated CUDA source does not compile.", {},
                          "This is a fault in Opwright: please report the declaration.")
            .with_note(r.log.empty() ? n.GetErrorString(code) : r.log);
    return r;
}

std::string read_file(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
std::string quoted(const std::string& s) {
    std::string r = "'";
    for (char c : s) r += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return r + "'";
}

Result<Cubin> by_nvcc(const std::string& nvcc, const std::string& source, const std::vector<std::string>& options) {
    std::string pattern = (fs::temp_directory_path() / "opwright-cuda-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
        return Diagnostic(fmt::format("No temporary folder can be made in {}.", fs::temp_directory_path().string()));
    const fs::path folder = pattern;
    std::ofstream(folder / "kernel.cu") << source;
    std::string command = quoted(nvcc) + " -cubin -o " + quoted((folder / "kernel.cubin").string());
    for (const std::string& o : options) command += " " + quoted(o);
    command += " " + quoted((folder / "kernel.cu").string()) + " >" + quoted((folder / "log").string()) + " 2>&1";
    const int status = std::system(command.c_str());
    Cubin r{read_file(folder / "kernel.cubin"), read_file(folder / "log")};
    std::error_code error;
    fs::remove_all(folder, error);
    if (status != 0 || r.code.empty())
        return Diagnostic("The generated CUDA source does not compile.", {},
                          "This is a fault in Opwright: please report the declaration.")
            .with_note(r.log);
    return r;
}
}  // namespace

std::string compiler_name() {
    if (const auto& n = nvrtc()) return fmt::format("NVRTC {}.{} ({})", n->major, n->minor, n->path);
    if (const auto n = find_nvcc()) return fmt::format("nvcc ({})", *n);
    return {};
}

Result<Cubin> compile(const std::string& source, const CompileOptions& o) {
    // Contraction is the documented policy (docs/numerics.md); nothing else of fast math.
    std::vector<std::string> options{"-std=c++17", "-lineinfo"};
    for (const std::string& d : o.defines) options.push_back("-D" + d);
    const auto& library = nvrtc();
    const auto nvcc = library ? std::nullopt : find_nvcc();
    if (!library && !nvcc)
        return Diagnostic("There is no CUDA compiler here: neither NVRTC (libnvrtc) nor nvcc was found.", {},
                          "Install one, as by `pip install nvidia-cuda-nvrtc`, or name the library in OPWRIGHT_NVRTC.");
    options.push_back((library ? "--gpu-architecture=" : "-arch=") + o.arch);
    options.emplace_back("-Xptxas=-v");

    const auto cache = o.cache ? default_cache() : std::nullopt;
    std::string content = "cuda\n" + compiler_name() + '\n';
    for (const std::string& x : options) content += x + '\n';
    const std::string key = cache_key(content + source);
    if (cache)
        if (auto hit = cache->find(key)) return Cubin{std::move(*hit), ""};
    OPW_TRY(Cubin r, library ? by_nvrtc(*library, source, options) : by_nvcc(*nvcc, source, options));
    if (cache) cache->store(key, r.code);
    return r;
}

}  // namespace opwright::target::cuda
