#include "base/log.h"

#include <cstdio>
#include <cstdlib>

namespace opwright {

bool log_enabled() {
    static const bool on = [] {
        const char* v = std::getenv("OPWRIGHT_LOG");
        return v && *v && std::string_view(v) != "0";
    }();
    return on;
}

Stage::Stage(std::string_view name) : name_(name), start_(std::chrono::steady_clock::now()) {}

double Stage::milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
}

Stage::~Stage() {
    if (log_enabled()) std::fprintf(stderr, "[opwright] %-22s %9.2f ms  %s\n", name_.c_str(), milliseconds(), detail_.c_str());
}

}  // namespace opwright
