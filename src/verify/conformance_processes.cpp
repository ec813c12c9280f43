// Cases in child processes: a worker takes a list of cases and reports each; where it dies or hangs, its case has a
// verdict and another worker takes what is left.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>

#include "runtime/thread_pool.h"
#include "verify/conformance.h"

namespace opwright::verify {
namespace {
using Clock = std::chrono::steady_clock;

// One line a result: index, verdict, seconds, reason. "index" alone announces a case that begins.
void write_line(int fd, const std::string& line) {
    const std::string s = line + "\n";
    size_t sent = 0;
    while (sent < s.size()) {
        const ssize_t n = write(fd, s.data() + sent, s.size() - sent);
        if (n <= 0) _exit(1);
        sent += static_cast<size_t>(n);
    }
}

[[noreturn]] void work(int fd, const std::vector<std::string>& cases, const std::deque<size_t>& mine, const CaseOptions& o) {
    for (size_t i : mine) {
        write_line(fd, fmt::format("{}", i));
        CaseResult r;
        try {
            r = run_case(cases[i], o);
        } catch (const std::exception& e) {
            r.verdict = CaseVerdict::Crash;
            r.reason = fmt::format("exception: {}", e.what());
        }
        for (char& c : r.reason)
            if (c == '\n' || c == '\t') c = ' ';
        write_line(fd, fmt::format("{}\t{}\t{}\t{}", i, static_cast<int>(r.verdict), r.seconds, r.reason));
    }
    _exit(0);
}

struct Worker {
    pid_t pid = -1;
    int fd = -1;
    std::deque<size_t> left;          // cases that have no verdict, in order
    bool running = false;             // the first of them has begun
    Clock::time_point since;
    std::string buffer;
};

class Runner {
public:
    Runner(const std::vector<std::string>& cases, const CaseOptions& o, const std::function<void(const CaseResult&)>& done)
        : cases_(cases), o_(o), done_(done), results_(cases.size()) {}

    std::vector<CaseResult> run() {
        const size_t jobs = std::max<size_t>(1, static_cast<size_t>(o_.jobs > 0 ? o_.jobs : runtime::available_processors()));
        std::vector<Worker> workers(std::min(jobs, std::max<size_t>(1, cases_.size())));
        for (size_t i = 0; i < cases_.size(); ++i) workers[i % workers.size()].left.push_back(i);
        for (Worker& w : workers) start(w);
        for (;;) {
            std::vector<pollfd> fds;
            std::vector<Worker*> owners;
            for (Worker& w : workers)
                if (w.fd >= 0) fds.push_back({w.fd, POLLIN, 0}), owners.push_back(&w);
            if (fds.empty()) break;
            poll(fds.data(), fds.size(), 200);
            for (size_t k = 0; k < fds.size(); ++k) {
                if (fds[k].revents) receive(*owners[k]);
                Worker& w = *owners[k];
                if (w.fd >= 0 && w.running && std::chrono::duration<double>(Clock::now() - w.since).count() > o_.timeout) {
                    kill(w.pid, SIGKILL);
                    stop(w, CaseVerdict::Timeout, fmt::format("took more than {:g} s", o_.timeout));
                }
            }
        }
        return std::move(results_);
    }

private:
    void start(Worker& w) {
        if (w.left.empty()) return;
        int ends[2];
        if (pipe(ends) != 0) throw std::runtime_error(fmt::format("no pipe: {}", std::strerror(errno)));
        std::fflush(nullptr);
        w.pid = fork();
        if (w.pid < 0) throw std::runtime_error(fmt::format("no process: {}", std::strerror(errno)));
        if (w.pid == 0) {
            close(ends[0]);
            work(ends[1], cases_, w.left, o_);
        }
        close(ends[1]);
        w.fd = ends[0];
        w.running = false;
        w.buffer.clear();
    }

    void receive(Worker& w) {
        char block[4096];
        const ssize_t n = read(w.fd, block, sizeof block);
        if (n > 0) {
            w.buffer.append(block, static_cast<size_t>(n));
            for (size_t end; (end = w.buffer.find('\n')) != std::string::npos; w.buffer.erase(0, end + 1)) line(w, w.buffer.substr(0, end));
            return;
        }
        int status = 0;
        waitpid(w.pid, &status, 0);
        w.pid = -1;
        if (w.left.empty()) {
            close(w.fd);
            w.fd = -1;
            return;
        }
        const std::string how = WIFSIGNALED(status) ? fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                                                    : fmt::format("ended with code {}", WEXITSTATUS(status));
        stop(w, CaseVerdict::Crash, how);
    }

    void line(Worker& w, const std::string& s) {
        if (s.find('\t') == std::string::npos) {
            w.running = true;
            w.since = Clock::now();
            return;
        }
        const size_t a = s.find('\t'), b = s.find('\t', a + 1), c = s.find('\t', b + 1);
        settle(w, static_cast<CaseVerdict>(std::stoi(s.substr(a + 1))), std::stod(s.substr(b + 1)), s.substr(c + 1));
    }

    void settle(Worker& w, CaseVerdict v, double seconds, std::string reason) {
        const size_t i = w.left.front();
        w.left.pop_front();
        w.running = false;
        results_[i] = {std::filesystem::path(cases_[i]).filename().string(), v, std::move(reason), seconds};
        if (done_) done_(results_[i]);
    }

    // The worker is gone before its case had a verdict.
    void stop(Worker& w, CaseVerdict v, std::string reason) {
        if (w.pid > 0) waitpid(w.pid, nullptr, 0);
        close(w.fd);
        w.fd = -1;
        settle(w, v, std::chrono::duration<double>(Clock::now() - w.since).count(), std::move(reason));
        start(w);
    }

    const std::vector<std::string>& cases_;
    const CaseOptions& o_;
    const std::function<void(const CaseResult&)>& done_;
    std::vector<CaseResult> results_;
};
}  // namespace

std::vector<CaseResult> run_cases(const std::vector<std::string>& cases, const CaseOptions& o, const std::function<void(const CaseResult&)>& done) {
    return Runner(cases, o, done).run();
}

}  // namespace opwright::verify
