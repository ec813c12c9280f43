#include "verify/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

extern char** environ;

namespace opwright::verify {
namespace fs = std::filesystem;
namespace {

struct Pipes {
    int in[2] = {-1, -1}, out[2] = {-1, -1};  // what the child reads; what it writes
    bool open() { return pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0; }
};

// A file that vanishes with its last descriptor.
int nameless_file() {
    std::error_code e;
    std::string name = (fs::temp_directory_path(e) / "opwright-words-XXXXXX").string();
    const int f = e ? -1 : mkostemp(name.data(), O_CLOEXEC);
    if (f >= 0) unlink(name.c_str());
    return f;
}

bool write_all(int to, const std::string& text) {
    for (size_t done = 0; done < text.size();) {
        const ssize_t n = write(to, text.data() + done, text.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += static_cast<size_t>(n);
    }
    return true;
}
Diagnostic no_process() { return Diagnostic("No process could be started for the kernel under test."); }
}  // namespace

Result<std::unique_ptr<Child>> Child::start(const std::vector<std::string>& command,
                                            const std::vector<std::string>& environment) {
    std::signal(SIGPIPE, SIG_IGN);
    std::unique_ptr<Child> c(new Child);
    Pipes p;
    c->words_ = nameless_file();
    if (c->words_ < 0 || !p.open()) return no_process();
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, p.in[0], 0);
    posix_spawn_file_actions_adddup2(&files, p.out[1], 1);
    posix_spawn_file_actions_adddup2(&files, c->words_, 2);
    std::vector<char*> arguments, variables;
    for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
    arguments.push_back(nullptr);
    for (const std::string& v : environment) variables.push_back(const_cast<char*>(v.c_str()));
    for (char** v = environ; *v; ++v) variables.push_back(*v);
    variables.push_back(nullptr);
    const int failed = posix_spawnp(&c->pid_, arguments[0], &files, nullptr, arguments.data(), variables.data());
    posix_spawn_file_actions_destroy(&files);
    close(p.in[0]);
    close(p.out[1]);
    c->to_ = p.in[1];
    c->from_ = p.out[0];
    if (failed) {
        c->pid_ = -1;
        return Diagnostic(fmt::format("'{}' can't be started: {}.", command[0], std::strerror(failed)));
    }
    return c;
}

Result<std::unique_ptr<Child>> Child::fork(std::function<std::string(const std::string&)> answer) {
    std::signal(SIGPIPE, SIG_IGN);
    std::unique_ptr<Child> c(new Child);
    Pipes p;
    c->words_ = nameless_file();
    if (c->words_ < 0 || !p.open()) return no_process();
    c->pid_ = ::fork();
    if (c->pid_ < 0) return no_process();
    if (c->pid_ == 0) {
        dup2(c->words_, 2);
        close(p.in[1]);
        close(p.out[0]);
        for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(s, SIG_DFL);
        FILE* in = fdopen(p.in[0], "r");
        std::string line;
        for (int ch; in && (ch = fgetc(in)) != EOF;) {
            if (ch != '\n') {
                line += static_cast<char>(ch);
                continue;
            }
            if (!write_all(p.out[1], answer(line) + "\n")) break;
            line.clear();
        }
        _exit(0);  // nothing of the parent is torn down here
    }
    close(p.in[0]);
    close(p.out[1]);
    c->to_ = p.in[1];
    c->from_ = p.out[0];
    return c;
}

Child::~Child() {
    if (to_ >= 0) close(to_);
    if (from_ >= 0) close(from_);
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    if (words_ >= 0) close(words_);
}

std::string Child::end() {
    int status = 0;
    if (pid_ > 0) waitpid(pid_, &status, 0);
    pid_ = -1;
    std::string how = "ended";
    if (WIFSIGNALED(status))
        how = fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WIFEXITED(status))
        how = fmt::format("ended its process with exit code {}", WEXITSTATUS(status));
    const std::string words = last_words();
    return words.empty() ? how : how + "; its last words: " + words;
}

Result<std::string> Child::ask(const std::string& line, double seconds) {
    if (pid_ < 0) return Diagnostic("crashed: its process had ended before");
    if (!write_all(to_, line + "\n")) return Diagnostic("crashed: it " + end());
    return hear(seconds);
}

Result<std::string> Child::hear(double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    std::string reply;
    char buffer[4096];
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        pollfd f{from_, POLLIN, 0};
        const int ready = left > 0 ? poll(&f, 1, static_cast<int>(std::min<long long>(left, 1 << 30))) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            kill(pid_, SIGKILL);
            end();
            return Diagnostic(fmt::format("crashed: it gave no answer within {:g} s, and was ended", seconds));
        }
        const ssize_t n = read(from_, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return Diagnostic("crashed: it " + end());
        reply.append(buffer, static_cast<size_t>(n));
        if (reply.back() == '\n') {
            reply.pop_back();
            return reply;
        }
    }
}

std::string Child::last_words() const {
    const off_t size = lseek(words_, 0, SEEK_END);
    if (size <= 0) return "";
    std::string r(static_cast<size_t>(std::min<off_t>(size, 300)), ' ');
    const ssize_t n = pread(words_, r.data(), r.size(), size - static_cast<off_t>(r.size()));
    r.resize(n > 0 ? static_cast<size_t>(n) : 0);
    while (!r.empty() && r.back() == '\n') r.pop_back();
    if (const size_t last = r.rfind('\n'); last != std::string::npos) r = r.substr(last + 1);
    return r;
}

Result<std::unique_ptr<SharedFile>> SharedFile::make() {
    std::unique_ptr<SharedFile> r(new SharedFile);
    for (const fs::path& folder : {fs::path("/dev/shm"), fs::temp_directory_path()}) {
        r->path_ = (folder / "opwright-tensors-XXXXXX").string();
        r->file_ = mkostemp(r->path_.data(), O_CLOEXEC);
        if (r->file_ >= 0) return r;
    }
    return Diagnostic("No file for tensors could be made in the folder for temporary files.");
}
SharedFile::~SharedFile() {
    if (data_) munmap(data_, size_);
    if (file_ >= 0) {
        close(file_);
        unlink(path_.c_str());
    }
}
unsigned char* SharedFile::resize(size_t bytes) {
    if (data_ && bytes <= size_) return data_;
    if (data_) munmap(data_, size_);
    data_ = nullptr;
    size_ = std::max<size_t>(bytes + bytes / 2, 1 << 16);
    if (posix_fallocate(file_, 0, static_cast<off_t>(size_)) != 0) return nullptr;
    void* m = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (m == MAP_FAILED) return nullptr;
    return data_ = static_cast<unsigned char*>(m);
}

}  // namespace opwright::verify
