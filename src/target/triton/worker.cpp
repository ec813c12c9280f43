#include "target/triton/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "target/triton/text.h"

extern char** environ;

namespace opwright::target::triton {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// One process for all kernels of this one, since importing torch takes seconds.
class Worker {
public:
    static Worker& instance() {
        static Worker w;
        return w;
    }
    ~Worker() {
        stop();
        std::error_code e;
        if (!folder_.empty()) fs::remove_all(folder_, e);
    }

    const WorkerState& state() const { return state_; }
    fs::path file(const std::string& name) const { return folder_ / name; }
    int64_t next() { return ++count_; }

    json ask(const json& request) {
        const std::lock_guard lock(mutex_);
        const std::string line = request.dump() + "\n";
        ssize_t n = 0;
        for (size_t done = 0; done < line.size() && n >= 0; done += static_cast<size_t>(std::max<ssize_t>(n, 0)))
            n = write(to_, line.data() + done, line.size() - done);
        json r = n < 0 ? json() : answer();
        if (!r.is_object()) {
            // A kernel that reads or writes where nothing is ends the process; the next one gets a new process.
            const int status = stop();
            r = json{{"error", WIFSIGNALED(status)
                                   ? fmt::format("the kernel ended the Python process by signal {} ({}): it reads or "
                                                 "writes outside of its tensors",
                                                 WTERMSIG(status), strsignal(WTERMSIG(status)))
                                   : "the Python process has ended"},
                     {"kind", "failed"}};
            start();
        }
        return r;
    }

private:
    Worker() {
        std::signal(SIGPIPE, SIG_IGN);
        std::error_code e;
        std::string name = (fs::temp_directory_path(e) / "opwright-triton-XXXXXX").string();
        if (e || !mkdtemp(name.data())) {
            state_.problem = "no folder for temporary files could be made";
            return;
        }
        folder_ = name;
        std::ofstream(folder_ / "worker.py") << resource("worker.py");
        start();
    }

    // Ends the process; its status.
    int stop() {
        int status = 0;
        if (to_ >= 0) close(to_);
        if (from_) fclose(from_);
        if (pid_ > 0) waitpid(pid_, &status, 0);
        to_ = -1;
        from_ = nullptr;
        pid_ = -1;
        return status;
    }

    void start() {
        const char* own = std::getenv("OPWRIGHT_PYTHON");
        const std::string python = own && *own ? own : "python3", script = (folder_ / "worker.py").string();
        int in[2], out[2];
        if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) {
            state_.problem = "no pipe to a Python process could be made";
            return;
        }
        posix_spawn_file_actions_t files;
        posix_spawn_file_actions_init(&files);
        posix_spawn_file_actions_adddup2(&files, in[0], 0);
        posix_spawn_file_actions_adddup2(&files, out[1], 1);
        posix_spawn_file_actions_addopen(&files, 2, (folder_ / "messages.txt").c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                         0600);
        std::vector<char*> arguments{const_cast<char*>(python.c_str()), const_cast<char*>(script.c_str()), nullptr};
        const int failed = posix_spawnp(&pid_, python.c_str(), &files, nullptr, arguments.data(), environ);
        posix_spawn_file_actions_destroy(&files);
        close(in[0]);
        close(out[1]);
        to_ = in[1];
        from_ = fdopen(out[0], "r");
        if (failed) {
            pid_ = -1;
            state_.problem = fmt::format("there is no Python '{}'", python);
            return;
        }
        const json first = answer();
        if (!first.is_object() || first.contains("error")) {
            state_.problem = fmt::format("{} lacks what Triton needs ({})", python,
                                         first.is_object() ? first["error"].get<std::string>() : "it gave no answer");
            return;
        }
        state_.device = first["device"];
        state_.about = first["ready"];
    }

    // Null where the process has ended.
    json answer() {
        std::string line;
        for (int c; (c = fgetc(from_)) != EOF && c != '\n';) line += static_cast<char>(c);
        json r = json::parse(line, nullptr, false);
        return r.is_object() ? r : json();
    }

    WorkerState state_;
    fs::path folder_;
    pid_t pid_ = -1;
    int to_ = -1;
    FILE* from_ = nullptr;
    std::mutex mutex_;
    std::atomic<int64_t> count_ = 0;  // kernels are built from several threads
};

class RunningModule : public Runnable {
public:
    RunningModule(const math::Program& p, Module m) : m_(std::move(m)) {
        Worker& w = Worker::instance();
        path_ = w.file(fmt::format("{}_{}.py", m_.function, w.next())).string();
        std::ofstream(path_) << m_.text;
        for (math::TensorId t : p.outputs) names_.push_back(p.tensors[t].name);
    }
    ~RunningModule() override {
        Worker::instance().ask({{"forget", path_}});
        std::error_code e;
        fs::remove(path_, e);
    }

    Status run(const math::SymValues& sizes, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) override {
        const auto r = call(sizes, inputs, outputs, false);
        if (!r.ok()) return r.error();
        return ok_status();
    }
    Result<double> seconds(const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                           std::vector<Tensor>& outputs) override {
        if (worker_state().device != "cuda") return Diagnostic("a time under Triton's interpreter says nothing");
        return call(sizes, inputs, outputs, true);
    }

private:
    // Runs once, or with `timed` often, for the seconds of one run.
    Result<double> call(const math::SymValues& sizes, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
                        bool timed) {
        Worker& w = Worker::instance();
        json in = json::array(), out = json::array(), keywords = json::object();
        for (size_t i = 0; i < inputs.size(); ++i) {
            const std::string file = w.file(fmt::format("in_{}", i)).string();
            std::ofstream(file, std::ios::binary)
                .write(static_cast<const char*>(inputs[i].data()), static_cast<std::streamsize>(inputs[i].bytes()));
            in.push_back({{"file", file}, {"dtype", name(inputs[i].dtype())}, {"shape", inputs[i].shape()}});
        }
        for (size_t i = 0; i < outputs.size(); ++i) out.push_back(w.file(fmt::format("out_{}", i)).string());
        for (const auto& [python, symbol] : m_.keywords) {
            const auto it = sizes.find(symbol);
            if (it == sizes.end()) return Diagnostic(fmt::format("the size {} is not known", symbol));
            keywords[python] = it->second;
        }
        const json reply = w.ask({{"file", path_},
                                  {"function", m_.function},
                                  {"inputs", in},
                                  {"keywords", keywords},
                                  {"outputs", out},
                                  {"timed", timed}});
        if (reply.contains("error")) return Diagnostic(reply["error"].get<std::string>());
        for (size_t i = 0; i < outputs.size(); ++i) {
            const json& got = reply["outputs"][i];
            if (got["shape"].get<Shape>() != outputs[i].shape() || got["dtype"] != name(outputs[i].dtype()))
                return Diagnostic(fmt::format("{} came back as {}{}", names_[i], got["dtype"].get<std::string>(),
                                              to_string(got["shape"].get<Shape>())));
            std::ifstream(out[i].get<std::string>(), std::ios::binary)
                .read(static_cast<char*>(outputs[i].data()), static_cast<std::streamsize>(outputs[i].bytes()));
        }
        return reply.value("seconds", 0.0);
    }

    Module m_;
    std::string path_;
    std::vector<std::string> names_;
};
}  // namespace

const WorkerState& worker_state() { return Worker::instance().state(); }

Result<std::unique_ptr<Runnable>> run_module(const math::Program& p, Module m) {
    if (const std::string& problem = worker_state().problem; !problem.empty())
        return Diagnostic(fmt::format("not run: {}.", problem));
    return std::unique_ptr<Runnable>(std::make_unique<RunningModule>(p, std::move(m)));
}

}  // namespace opwright::target::triton
