// A process that answers one line with one line, within a time limit: foreign code runs in it, so that a crash or an
// endless loop is a finding and not the end.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace opwright::verify {

class Child {
public:
    // A program by name or path, with these further variables in its environment. Error: it can't be started.
    static Result<std::unique_ptr<Child>> start(const std::vector<std::string>& command,
                                                const std::vector<std::string>& environment);
    // A fork of this process that answers by `answer` until its input ends. Only the calling thread lives on in it.
    static Result<std::unique_ptr<Child>> fork(std::function<std::string(const std::string&)> answer);
    ~Child();

    // Errors begin with "crashed: ": "ended by signal 11 (Segmentation fault)", "gave no answer within 30 s" (then it
    // was killed). The child has ended after one.
    Result<std::string> ask(const std::string& line, double seconds);
    Result<std::string> hear(double seconds);  // an answer that comes unasked
    // The last lines that it wrote to its standard error, in one.
    std::string last_words() const;

private:
    Child() = default;
    std::string end();  // waits, and says how it ended
    int pid_ = -1, to_ = -1, from_ = -1, words_ = -1;
};

// Memory that processes share through a file without a lasting name, which `path` opens while this lives.
class SharedFile {
public:
    static Result<std::unique_ptr<SharedFile>> make();
    ~SharedFile();
    const std::string& path() const { return path_; }
    // At least so many bytes; null where there is no room for them.
    unsigned char* resize(size_t bytes);

private:
    SharedFile() = default;
    std::string path_;
    int file_ = -1;
    unsigned char* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace opwright::verify
