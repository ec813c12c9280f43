// The log of compilation stages, on standard error when the environment variable OPWRIGHT_LOG is 1.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

namespace opwright {

bool log_enabled();

// Times a stage from construction to destruction; writes "[opwright] NAME  12.34 ms  DETAIL".
class Stage {
public:
    explicit Stage(std::string_view name);
    ~Stage();
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;
    void detail(std::string text) { detail_ = std::move(text); }
    double milliseconds() const;

private:
    std::string name_, detail_;
    std::chrono::steady_clock::time_point start_;
};

}  // namespace opwright
