// What a warm call through the C++ API costs: nanoseconds, the least of many.
//   call [THREADS]
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "opwright/opwright.hpp"

int main(int argc, char** argv) {
    using Clock = std::chrono::steady_clock;
    const opwright::Library library("op f(x[n]) -> y[n]:\n    y[n] = max(x[n], 0)\n");
    opwright::Operator op(library, "f", "", {{"threads", argc > 1 ? argv[1] : "1"}});
    for (const int64_t elements : {2, 1024}) {
        const opwright::Tensor x(OPW_F32, {elements});
        double best = 1e30;
        for (int round = 0; round < 2000; ++round) {
            const auto start = Clock::now();
            for (int i = 0; i < 100; ++i) (void)op.run({{"", x}});
            best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count() / 100);
        }
        std::printf("relu of %5lld elements: %6.0f ns\n", static_cast<long long>(elements), best);
    }
}
