#include "verify/onnx_test.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lang/library.h"

namespace opwright::verify {
namespace fs = std::filesystem;

namespace {
using Clock = std::chrono::steady_clock;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitMemory = false;  // AddressSanitizer reserves terabytes of address space
#else
constexpr bool kLimitMemory = true;
#endif

struct Case {
    std::string name, path;
};

// A case in its own process. The verdict comes through a pipe: one byte, then the reason.
struct Child {
    pid_t pid = -1;
    int result = -1;  // read end of the pipe
    int errors = -1;  // memory file that holds its stderr
    Clock::time_point start;
    size_t index = 0;
    std::string received;
};

void write_all(int fd, const std::string& s) {
    for (size_t done = 0; done < s.size();) {
        const ssize_t n = write(fd, s.data() + done, s.size() - done);
        if (n <= 0) return;
        done += static_cast<size_t>(n);
    }
}

[[noreturn]] void run_child(const Case& c, int result, int errors, const OnnxTestOptions& o) {
    if (errors >= 0) dup2(errors, STDERR_FILENO);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (kLimitMemory && o.memory_mib > 0) {
        const rlimit memory{static_cast<rlim_t>(o.memory_mib) << 20, static_cast<rlim_t>(o.memory_mib) << 20};
        setrlimit(RLIMIT_AS, &memory);
    }
    const CaseResult r = run_onnx_case(c.path, o);
    write_all(result, static_cast<char>('0' + static_cast<int>(r.verdict)) + r.reason);
    _exit(0);  // no destructors of what the parent owns
}

// The last line that a process that died left on stderr.
std::string last_words(int fd) {
    const off_t size = lseek(fd, 0, SEEK_END);
    const off_t from = std::max<off_t>(0, size - 2000);
    std::string s(static_cast<size_t>(size - from), '\0');
    const ssize_t n = pread(fd, s.data(), s.size(), from);
    s.resize(n > 0 ? static_cast<size_t>(n) : 0);
    while (!s.empty() && s.back() == '\n') s.pop_back();
    s = s.substr(s.rfind('\n') + 1);
    // JSON and terminals want text.
    std::replace_if(s.begin(), s.end(), [](unsigned char ch) { return ch < 32 || ch > 126; }, '?');
    return s;
}

class Runner {
public:
    Runner(std::vector<Case> cases, const OnnxTestOptions& o)
        : cases_(std::move(cases)), options_(o), results_(cases_.size()) {}

    std::vector<CaseResult> run() {
        size_t next = 0;
        while (next < cases_.size() || !children_.empty()) {
            while (next < cases_.size() && static_cast<int>(children_.size()) < std::max(1, options_.processes))
                start(next++);
            wait();
        }
        return std::move(results_);
    }

private:
    void start(size_t index) {
        int ends[2];
        const int errors = memfd_create("stderr", MFD_CLOEXEC);
        if (pipe(ends) != 0)
            return finish({-1, -1, errors, Clock::now(), index, {}}, CaseVerdict::Crash, "No pipe could be made.");
        const pid_t pid = fork();
        if (pid == 0) {
            close(ends[0]);
            run_child(cases_[index], ends[1], errors, options_);
        }
        close(ends[1]);
        Child c{pid, ends[0], errors, Clock::now(), index, {}};
        if (pid < 0) return finish(c, CaseVerdict::Crash, "No process could be started.");
        children_.push_back(c);
    }

    // Waits for one thing to happen: bytes, the end of a child, or the end of its time.
    void wait() {
        std::vector<pollfd> fds;
        double left = 1e9;
        for (const Child& c : children_) {
            fds.push_back({c.result, POLLIN, 0});
            left = std::min(left, options_.timeout_s - seconds(c));
        }
        poll(fds.data(), fds.size(), std::max(0, static_cast<int>(std::ceil(left * 1000))));
        for (size_t i = children_.size(); i-- > 0;) {
            Child& c = children_[i];
            bool ended = false;
            if (fds[i].revents) {
                char buffer[4096];
                const ssize_t n = read(c.result, buffer, sizeof buffer);
                if (n > 0) c.received.append(buffer, static_cast<size_t>(n));
                ended = n == 0;
            }
            if (!ended && seconds(c) < options_.timeout_s) continue;
            if (!ended) kill(c.pid, SIGKILL);
            int status = 0;
            waitpid(c.pid, &status, 0);
            const Child done = c;
            children_.erase(children_.begin() + static_cast<long>(i));
            conclude(done, ended, status);
        }
    }

    void conclude(const Child& c, bool ended, int status) {
        if (!ended) {
            char limit[32];
            std::snprintf(limit, sizeof limit, "%g", options_.timeout_s);
            return finish(c, CaseVerdict::Timeout, std::string("It ran longer than ") + limit + " s.");
        }
        const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !c.received.empty();
        const int v = well ? c.received[0] - '0' : -1;
        if (v >= 0 && v < kVerdictCount) return finish(c, static_cast<CaseVerdict>(v), c.received.substr(1));
        std::string how =
            WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit status " + std::to_string(WEXITSTATUS(status));
        const std::string words = last_words(c.errors);
        finish(c, CaseVerdict::Crash, "The process died (" + how + ")" + (words.empty() ? "." : ": " + words));
    }

    void finish(const Child& c, CaseVerdict v, std::string reason) {
        if (c.result >= 0) close(c.result);
        if (c.errors >= 0) close(c.errors);
        results_[c.index] = {cases_[c.index].name, v, std::move(reason), seconds(c)};
        ++done_;
        if (options_.progress) options_.progress(results_[c.index], done_, cases_.size());
    }

    static double seconds(const Child& c) { return std::chrono::duration<double>(Clock::now() - c.start).count(); }

    const std::vector<Case> cases_;
    const OnnxTestOptions& options_;
    std::vector<CaseResult> results_;
    std::vector<Child> children_;
    size_t done_ = 0;
};

Status find_cases(const std::string& folder, std::vector<Case>& out) {
    std::error_code error;
    if (!fs::is_directory(folder, error))
        return Diagnostic("'" + folder + "' is no folder.", {}, "Name a folder of ONNX test data.");
    const size_t before = out.size();
    fs::path root = fs::path(folder).lexically_normal();
    if (root.filename().empty()) root = root.parent_path();
    if (fs::exists(root / "model.onnx")) out.push_back({root.filename().string(), root.string()});
    auto it = fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied, error);
    for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
        const fs::path& p = it->path();
        const fs::path below = p.lexically_relative(root);
        if (it->is_directory(error) && fs::exists(p / "model.onnx", error)) out.push_back({below.string(), p.string()});
        if (p.extension() == ".onnx" && fs::exists(fs::path(p).replace_extension().string() + "_output_0.pb", error))
            out.push_back({fs::path(below).replace_extension().string(), p.string()});
    }
    if (out.size() == before)
        return Diagnostic("'" + folder + "' holds no ONNX test case.", {},
                          "A case is a folder with a model.onnx and test_data_set_0.");
    return ok_status();
}
}  // namespace

int OnnxTestReport::count(CaseVerdict v) const {
    return static_cast<int>(
        std::count_if(cases.begin(), cases.end(), [v](const CaseResult& c) { return c.verdict == v; }));
}

std::string OnnxTestReport::json() const {
    nlohmann::ordered_json j;
    for (int v = 0; v < kVerdictCount; ++v) j[name(static_cast<CaseVerdict>(v))] = count(static_cast<CaseVerdict>(v));
    j["cases"] = nlohmann::ordered_json::array();
    for (const CaseResult& c : cases)
        j["cases"].push_back({{"name", c.name}, {"verdict", name(c.verdict)}, {"reason", c.reason}});
    return j.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<OnnxTestReport> run_onnx_tests(const std::vector<std::string>& folders, const OnnxTestOptions& o) {
    std::vector<Case> cases;
    for (const std::string& f : folders) OPW_CHECK(find_cases(f, cases));
    std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
    lang::Library::standard();  // parsed once, before the processes part
    OnnxTestReport report;
    report.cases = Runner(std::move(cases), o).run();
    return report;
}

}  // namespace opwright::verify
