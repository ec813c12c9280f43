// Operators against the ceilings of this machine and, for matrix products, OpenBLAS: everything measured interleaved in
// one run, minima of many repeats, on random data.
//   kernels [--json] [--threads N] [--processor-time] [--schedule FILE] [calls|elementwise|rows|gemm|MxNxK]...
// MxNxK is a matrix product of that size; gemm is the usual ones.
// --processor-time takes the calling thread's time in place of the clock's, for one thread on a busy machine; --schedule
// a schedule for the matrix products (JSON, as `opwright explain --level schedule --json` prints it).
// OPWRIGHT_OPENBLAS names another OpenBLAS than the system's, such as the one that NumPy's wheel brings.
#include <dlfcn.h>
#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "explain/machine.h"
#include "lang/library.h"
#include "math/localise.h"
#include "operator.h"
#include "runtime/thread_pool.h"
#include "target/cpu/cpu.h"
#include "target/cpu/features.h"

namespace {
using namespace opwright;
using Clock = std::chrono::steady_clock;

std::string schedule;  // of matrix products; empty: the default one
bool processor_time = false;
double now() {
    if (!processor_time) return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds(const std::function<void()>& f) {
    const double t = now();
    f();
    return now() - t;
}
// Minima over interleaved rounds: each round times every candidate once.
std::vector<double> minima(const std::vector<std::function<void()>>& candidates, double budget) {
    std::vector<double> best(candidates.size(), 1e30);
    const auto end = Clock::now() + std::chrono::duration<double>(budget);
    for (int round = 0; round < 5 || Clock::now() < end; ++round)
        for (size_t i = 0; i < candidates.size(); ++i) best[i] = std::min(best[i], seconds(candidates[i]));
    return best;
}

Tensor random_tensor(Shape s, uint64_t seed) {
    Tensor t(DType::F32, std::move(s));
    std::mt19937_64 rng(seed);
    std::uniform_real_distribution<float> d(-1, 1);
    for (int64_t i = 0; i < t.size(); ++i) t.as<float>()[i] = d(rng);
    return t;
}

[[noreturn]] void fail(const Diagnostic& d) {
    fmt::print(stderr, "{}\n", render(d));
    std::exit(1);
}

// One operator compiled for open extents and bound to tensors.
class Operator {
public:
    Operator(const std::string& source, const std::string& name, std::vector<Tensor> inputs, Shape output,
             std::string own = {})
        : inputs_(std::move(inputs)) {
        lang::Library library;
        auto text = std::make_shared<Source>(Source{"bench", source});
        if (auto s = library.add(text); !s.ok()) fail(s.error());
        std::vector<lang::Argument> arguments;
        std::vector<int64_t> values;
        math::SymValues named;
        for (const Tensor& t : inputs_) {
            lang::Argument a{t.dtype(), {}, true};
            for (int64_t d : t.shape()) {  // equal extents are one symbol: the kernel serves every size
                const std::string symbol = "e" + std::to_string(d);
                a.shape.push_back(math::Sym::symbol(symbol));
                named[symbol] = d;
            }
            arguments.push_back(std::move(a));
        }
        auto program = library.elaborate(name, arguments, {});
        if (!program.ok()) fail(program.error());
        math::Localised l = math::localise(*program);
        program_ = std::move(l.program);
        for (const math::Sym& v : l.values) symbols_.push_back(*math::evaluate(v, named));
        const target::cpu::Request request{.program = &program_, .constant_inputs = std::vector<bool>(inputs_.size())};
        auto k = target::cpu::compile(std::span(&request, 1), {.schedule = std::move(own)});
        if (!k[0].ok()) fail(k[0].error());
        kernel_ = *k[0];
        output_ = Tensor(DType::F32, std::move(output));
        std::memset(output_.data(), 1, output_.bytes());
        workspace_ = Tensor(DType::U8, {kernel_->workspace_bytes(symbols_)});
    }
    void run(runtime::ThreadPool& pool) {
        std::vector<const void*> in;
        for (const Tensor& t : inputs_) in.push_back(t.data());
        void* out[] = {output_.data()};
        if (auto s = kernel_->run({in, out, symbols_, workspace_.data()}, pool); !s.ok()) fail(s.error());
    }
    double bytes() const {
        double b = static_cast<double>(output_.bytes());
        for (const Tensor& t : inputs_) b += static_cast<double>(t.bytes());
        return b;
    }
    std::string summary() const { return kernel_->schedule_summary(); }
    const Tensor& input(size_t i) const { return inputs_[i]; }
    Tensor& output() { return output_; }

private:
    std::vector<Tensor> inputs_;
    math::Program program_;
    std::vector<int64_t> symbols_;
    target::cpu::KernelRef kernel_;
    Tensor output_, workspace_;
};

struct Report {
    bool json;
    nlohmann::json rows = nlohmann::json::array();
    void row(const std::string& group, const std::string& name, nlohmann::json figures, const std::string& text) {
        if (!json) fmt::print("  {:<34} {}\n", name, text);
        figures["group"] = group;
        figures["name"] = name;
        rows.push_back(std::move(figures));
    }
    void title(const std::string& s) {
        if (!json) fmt::print("{}\n", s);
    }
};

// Copies in pieces on all threads, as the operators work.
void copy(runtime::ThreadPool& pool, const Tensor& from, Tensor& to) {
    constexpr int64_t kPiece = 256 << 10;
    const auto bytes = static_cast<int64_t>(std::min(from.bytes(), to.bytes()));
    pool.parallel_for((bytes + kPiece - 1) / kPiece, 4, [&](int64_t b, int64_t e, int) {
        const int64_t first = b * kPiece, last = std::min(bytes, e * kPiece);
        std::memcpy(static_cast<char*>(to.data()) + first, static_cast<const char*>(from.data()) + first,
                    static_cast<size_t>(last - first));
    });
}

void bandwidth_cases(Report& r, runtime::ThreadPool& pool, const std::string& group) {
    struct Case {
        const char *name, *source;
        int64_t rows, columns;
        std::vector<bool> wide;  // per input: [rows, columns] or [columns]
    };
    const std::vector<Case> elementwise = {
        {"relu(x)", "op f(x[m,n]) -> y[m,n]:\n    y[m,n] = max(x[m,n], 0)\n", 4096, 8192, {true}},
        {"relu(a*b + c)",
         "op f(a[m,n], b[m,n], c[m,n]) -> y[m,n]:\n    y[m,n] = max(a[m,n] * b[m,n] + c[m,n], 0)\n",
         4096,
         4096,
         {true, true, true}},
        {"x * sigmoid(x) + bias",
         "op f(x[m,n], b[n]) -> y[m,n]:\n    y[m,n] = x[m,n] / (1 + exp(-x[m,n])) + b[n]\n",
         4096,
         8192,
         {true, false}},
        {"gelu(x + bias)",
         "op f(x[m,n], b[n]) -> y[m,n]:\n    t[m,n] = x[m,n] + b[n]\n    y[m,n] = 0.5 * t[m,n] * (1 + erf(t[m,n] * "
         "0.70710678))\n",
         4096,
         8192,
         {true, false}},
    };
    const std::vector<Case> rows = {
        {"softmax, rows of 1000",
         "op f(x[m,n]) -> y[m,n]:\n    c[m] = max[n](x[m,n])\n    e[m,n] = exp(x[m,n] - c[m])\n    s[m] = "
         "sum[n](e[m,n])\n    y[m,n] = e[m,n] / s[m]\n",
         16384,
         1000,
         {true}},
        {"layer norm, rows of 768",
         "op f(x[m,n], g[n], b[n]) -> y[m,n]:\n    u[m] = mean[n](x[m,n])\n    v[m] = mean[n]((x[m,n] - u[m]) * "
         "(x[m,n] - u[m]))\n    y[m,n] = (x[m,n] - u[m]) * rsqrt(v[m] + 1e-5) * g[n] + b[n]\n",
         16384,
         768,
         {true, false, false}},
        {"row sum", "op f(x[m,n]) -> y[m]:\n    y[m] = sum[n](x[m,n])\n", 8192, 4096, {true}},
        {"column sum", "op f(x[m,n]) -> y[n]:\n    y[n] = sum[m](x[m,n])\n", 8192, 4096, {true}},
        {"transpose", "op f(x[m,n]) -> y[n,m]:\n    y[n,m] = x[m,n]\n", 4096, 4097, {true}},
    };
    r.title(group == "elementwise" ? "Element-wise, fused: share of this run's copy bandwidth"
                                   : "Rows and layouts: share of this run's copy bandwidth");
    for (const Case& c : group == "elementwise" ? elementwise : rows) {
        std::vector<Tensor> in;
        for (size_t i = 0; i < c.wide.size(); ++i)
            in.push_back(random_tensor(c.wide[i] ? Shape{c.rows, c.columns} : Shape{c.columns}, i));
        const std::string name = c.name;
        const Shape out = name == "row sum"      ? Shape{c.rows}
                          : name == "column sum" ? Shape{c.columns}
                          : name == "transpose"  ? Shape{c.columns, c.rows}
                                                 : Shape{c.rows, c.columns};
        Operator op(c.source, "f", std::move(in), out);
        Tensor to(DType::F32, op.input(0).shape());
        std::memset(to.data(), 1, to.bytes());
        const auto t = minima({[&] { op.run(pool); }, [&] { copy(pool, op.input(0), to); }}, 1.0);
        const double rate = op.bytes() / t[0], ceiling = 2.0 * static_cast<double>(to.bytes()) / t[1];
        r.row(group, name,
              {{"gb_per_s", rate * 1e-9},
               {"copy_gb_per_s", ceiling * 1e-9},
               {"ratio", rate / ceiling},
               {"schedule", op.summary()}},
              fmt::format("{:6.2f} GB/s of {:6.2f}   {:5.1f} %", rate * 1e-9, ceiling * 1e-9, 100 * rate / ceiling));
    }
}

// What a warm call costs above its work; bench_call measures the C++ API.
void call_cases(Report& r, int threads) {
    constexpr int64_t kElements = 1024;
    constexpr int kCalls = 200;
    const std::string source = "op f(x[n]) -> y[n]:\n    y[n] = max(x[n], 0)\n";
    runtime::ThreadPool pool(threads);
    Operator kernel(source, "f", {random_tensor({kElements}, 1)}, {kElements});
    lang::Library library;
    if (auto s = library.add(std::make_shared<Source>(Source{"bench", source})); !s.ok()) fail(s.error());
    auto made = opwright::Operator::make(library, "f", {}, {}, std::make_shared<runtime::ThreadPool>(threads));
    if (!made.ok()) fail(made.error());
    opwright::Operator& op = **made;
    const std::vector<opwright::Tensor> inputs{kernel.input(0)};
    const auto version = op.version(inputs);
    if (!version.ok()) fail(version.error());
    const auto many = [](const std::function<void()>& f) {
        return [f] {
            for (int i = 0; i < kCalls; ++i) f();
        };
    };
    const auto t = minima({many([&] { kernel.run(pool); }), many([&] { (void)version->compiled->executable->run(inputs, op.pool()); }),
                           many([&] { (void)op.run(inputs); })},
                          1.0);
    r.title("A warm call for 1,024 elements: nanoseconds, and those above the kernel's own call");
    const char* names[] = {"kernel", "Executable::run", "Operator::run"};
    for (size_t i = 0; i < 3; ++i) {
        const double ns = t[i] / kCalls * 1e9, above = (t[i] - t[0]) / kCalls * 1e9;
        r.row("calls", names[i], {{"ns", ns}, {"above_ns", above}}, fmt::format("{:8.0f} {:8.0f}", ns, above));
    }
}

// C[m, n] = A[m, k] * B[k, n], all of them row-major and dense.
using Gemm = std::function<void(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c)>;

// The functions of a library whose integers are Int and whose names end as given; empty where it has none.
template <class Int>
Gemm cblas(void* library, const char* gemm, const char* threads_name, int threads) {
    using Call = void (*)(int, int, int, Int, Int, Int, float, const float*, Int, const float*, Int, float, float*, Int);
    const auto call = reinterpret_cast<Call>(dlsym(library, gemm));
    const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, threads_name));
    if (!call || !set_threads) return {};
    set_threads(threads);
    return [call](int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) {
        const auto i = [](int64_t x) { return static_cast<Int>(x); };
        call(101, 111, 111, i(m), i(n), i(k), 1, a, i(k), b, i(n), 0, c, i(n));
    };
}

struct Size {
    int64_t m, n, k;
};
std::vector<Size> usual_sizes() {
    std::vector<Size> sizes;
    for (const int64_t n : {64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048}) sizes.push_back({n, n, n});
    for (const auto& s : {Size{4, 1024, 1024}, {16, 1024, 1024}, {48, 2048, 512}, {1024, 16, 1024}, {1024, 64, 512},
                          {1024, 1024, 16}, {512, 512, 64}, {64, 64, 4096}, {197, 768, 768}})
        sizes.push_back(s);
    return sizes;
}

void gemm_cases(Report& r, runtime::ThreadPool& pool, const std::vector<Size>& sizes) {
    // Debian's OpenBLAS does not know newer processors and falls back to a 20-year-old kernel: the right one is named
    // here.
    setenv("OPENBLAS_CORETYPE",
           target::cpu::host_features().level == target::cpu::Level::Avx512 ? "SkylakeX" : "Haswell", 1);
    const char* named = std::getenv("OPWRIGHT_OPENBLAS");
    void* blas = dlopen(named ? named : "libopenblas.so.0", RTLD_NOW);
    Gemm sgemm;
    std::string core = "not installed";
    if (blas) {
        sgemm = cblas<int>(blas, "cblas_sgemm", "openblas_set_num_threads", pool.size());
        if (!sgemm)
            sgemm = cblas<int64_t>(blas, "scipy_cblas_sgemm64_", "scipy_openblas_set_num_threads64_", pool.size());
        for (const char* name : {"openblas_get_corename", "scipy_openblas_get_corename64_"})
            if (const auto f = reinterpret_cast<const char* (*)()>(dlsym(blas, name))) core = f();
    }
    auto machine = explain::measure_machine(pool, true);
    if (!machine.ok()) fail(machine.error());
    const double peak = machine->flops_f32;
    r.title(fmt::format("Matrix product f32, {} thread(s); FMA peak of this run {:.1f} GFLOP/s; OpenBLAS kernel: {}",
                        pool.size(), peak * 1e-9, core));
    double log_ratios = 0, least = 1e30;
    for (const auto& [m, n, k] : sizes) {
        Operator op("op f(x[m,k], w[k,n]) -> y[m,n]:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n", "f",
                    {random_tensor({m, k}, 1), random_tensor({k, n}, 2)}, {m, n}, schedule);
        Tensor other(DType::F32, {m, n});
        std::vector<std::function<void()>> candidates{[&] { op.run(pool); }};
        if (sgemm)
            candidates.push_back([&, m = m, n = n, k = k] {
                sgemm(m, n, k, op.input(0).as<float>(), op.input(1).as<float>(), other.as<float>());
            });
        const auto t = minima(candidates, 0.8);
        const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
        nlohmann::json f{
            {"m", m}, {"n", n}, {"k", k}, {"gflops", flops / t[0] * 1e-9}, {"peak_gflops", peak * 1e-9}, {"of_peak", flops / t[0] / peak}};
        std::string text =
            fmt::format("{:6.1f} GFLOP/s  {:5.1f} % of peak", flops / t[0] * 1e-9, 100 * flops / t[0] / peak);
        if (sgemm) {
            f["openblas_gflops"] = flops / t[1] * 1e-9;
            f["of_openblas"] = t[1] / t[0];
            text += fmt::format("   OpenBLAS {:6.1f}, ratio {:.2f}", flops / t[1] * 1e-9, t[1] / t[0]);
            log_ratios += std::log(t[1] / t[0]);
            least = std::min(least, t[1] / t[0]);
        }
        r.row("gemm", fmt::format("{} x {} x {}", m, n, k), std::move(f), text);
    }
    if (sgemm)
        r.title(fmt::format("  of OpenBLAS: geometric mean {:.2f}, least {:.2f}",
                            std::exp(log_ratios / static_cast<double>(sizes.size())), least));
}
}  // namespace

int main(int argc, char** argv) {
    Report report{.json = false};
    int threads = 1;
    std::vector<std::string> groups;
    std::vector<Size> sizes;
    for (int i = 1; i < argc; ++i) {
        const std::string a = argv[i];
        if (a == "--json")
            report.json = true;
        else if (a == "--threads" && i + 1 < argc)
            threads = std::max(1, std::atoi(argv[++i]));
        else if (a == "--processor-time")
            processor_time = true;
        else if (a == "--schedule" && i + 1 < argc) {
            std::ifstream in(argv[++i]);
            schedule.assign(std::istreambuf_iterator<char>(in), {});
        } else if (a == "calls" || a == "elementwise" || a == "rows" || a == "gemm")
            groups.push_back(a);
        else if (Size z{}; std::sscanf(argv[i], "%ldx%ldx%ld", &z.m, &z.n, &z.k) == 3)
            sizes.push_back(z);
        else {
            fmt::print(stderr, "usage: kernels [--json] [--threads N] [--processor-time] [--schedule FILE] [calls|elementwise|rows|gemm|MxNxK]...\n");
            return 2;
        }
    }
    if (groups.empty() && !sizes.empty()) groups = {"gemm"};
    if (groups.empty()) groups = {"calls", "elementwise", "rows", "gemm"};
    runtime::ThreadPool pool(threads);
    for (const std::string& g : groups) {
        if (g == "calls")
            call_cases(report, threads);
        else if (g == "gemm")
            gemm_cases(report, pool, sizes.empty() ? usual_sizes() : sizes);
        else
            bandwidth_cases(report, pool, g);
    }
    if (report.json)
        fmt::print(
            "{}\n",
            nlohmann::json{{"threads", threads}, {"processor", explain::processor_name()}, {"rows", report.rows}}.dump(
                1));
}
