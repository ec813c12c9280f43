#include "target/host_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

extern char** environ;

namespace opwright::target {
namespace fs = std::filesystem;

namespace {

class Folder {
public:
    static Result<std::shared_ptr<Folder>> make() {
        std::error_code e;
        std::string name = (fs::temp_directory_path(e) / "opwright-XXXXXX").string();
        if (e || !mkdtemp(name.data()))
            return Diagnostic("No folder for temporary files could be made.", {},
                              "Set TMPDIR to a folder that can be written.");
        return std::make_shared<Folder>(name);
    }
    explicit Folder(fs::path p) : path(std::move(p)) {}
    ~Folder() {
        std::error_code e;
        fs::remove_all(path, e);
    }
    fs::path path;
};

class Library : public SharedLibrary {
public:
    Library(void* handle, std::shared_ptr<Folder> folder) : handle_(handle), folder_(std::move(folder)) {}
    ~Library() override { dlclose(handle_); }
    void* symbol(const std::string& name) const override { return dlsym(handle_, name.c_str()); }

private:
    void* handle_;
    std::shared_ptr<Folder> folder_;
};

// Runs a program found on PATH, its messages into a file; its exit status.
int run(const std::vector<std::string>& command, const fs::path& messages) {
    std::vector<char*> arguments;
    for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 2, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 2, 1);
    pid_t child = 0;
    const int failed = posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    int status = 0;
    if (failed || waitpid(child, &status, 0) < 0) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

bool on_path(const std::string& program) {
    std::stringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
    for (std::string folder; std::getline(path, folder, ':');)
        if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
    return false;
}
}  // namespace

std::string host_compiler(bool cplusplus) {
    if (const char* own = std::getenv(cplusplus ? "CXX" : "CC"); own && *own && on_path(own)) return own;
    const std::vector<std::string> names =
        cplusplus ? std::vector<std::string>{"c++", "g++", "clang++"} : std::vector<std::string>{"cc", "gcc", "clang"};
    for (const std::string& name : names)
        if (on_path(name)) return name;
    return "";
}

Result<std::shared_ptr<SharedLibrary>> build_shared_library(const std::vector<SourceFile>& files,
                                                            const std::string& main,
                                                            const std::vector<std::string>& flags) {
    const bool cplusplus = fs::path(main).extension() != ".c";
    const std::string compiler = host_compiler(cplusplus);
    if (compiler.empty())
        return Diagnostic(fmt::format("There is no {} compiler on this machine.", cplusplus ? "C++" : "C"), {},
                          fmt::format("Install one ({}).", cplusplus ? "g++" : "gcc"));
    OPW_TRY(const auto folder, Folder::make());
    for (const SourceFile& f : files) {
        fs::create_directories((folder->path / f.path).parent_path());
        std::ofstream out(folder->path / f.path);
        out << f.text;
        if (!out.flush())
            return Diagnostic(fmt::format("{} could not be written to {}.", f.path, folder->path.string()));
    }
    const fs::path library = folder->path / "kernel.so", messages = folder->path / "messages.txt";
    std::vector<std::string> command{compiler,
                                     "-shared",
                                     "-fPIC",
                                     "-o",
                                     library.string(),
                                     (folder->path / main).string(),
                                     "-I" + folder->path.string()};
    command.insert(command.end(), flags.begin(), flags.end());
    command.push_back("-lm");
    if (run(command, messages) != 0) {
        std::ifstream in(messages);
        std::string first;
        for (std::string line; first.size() < 1500 && std::getline(in, line);) first += line + "\n";
        return Diagnostic(fmt::format("{} does not compile {}:\n{}", compiler, main, first));
    }
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return Diagnostic(fmt::format("The compiled kernel can't be loaded: {}", dlerror()));
    return std::shared_ptr<SharedLibrary>(std::make_shared<Library>(handle, folder));
}

}  // namespace opwright::target
