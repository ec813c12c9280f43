// Checks and measures the CUDA target on a GPU, without the CPU target (and so without LLVM): one small program to
// carry to a machine that has a GPU.
//   opwright_gpu verify OUT.json [--shard I/N] [OPERATOR|FILE.op...]   operators against the fp64 reference
//   opwright_gpu shapes OUT.json [--random] [OPERATOR...]      kernels for sizes beyond those of the library's examples
//   opwright_gpu bench OUT.json [CASE...]                      times of single kernels, cold in the L2 cache
//   opwright_gpu gemm OUT.json [CASE...]                       matrix products with every shape of tiles
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "lang/ast.h"
#include "lang/library.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "target/cuda/cuda.h"
#include "target/cuda/kernel.h"
#include "target/cuda/tiles.h"
#include "verify/operator.h"
#include "verify/source_target.h"

namespace opwright {
namespace {
using namespace target::cuda;
using nlohmann::json;

[[noreturn]] void stop(const Diagnostic& d) {
    std::fprintf(stderr, "%s\n", render(d).c_str());
    std::exit(2);
}
template <class T>
T must(Result<T> r) {
    if (!r.ok()) stop(r.error());
    return std::move(r).value();
}

int verify_library(const std::string& out, int shard, int shards, std::vector<std::string> names) {
    struct Subject {
        const lang::Library& library;
        std::string name;
    };
    std::vector<Subject> subjects;
    std::deque<lang::Library> of_files;
    if (names.empty()) names = lang::Library::standard().names();
    for (const std::string& n : names) {
        if (!n.ends_with(".op")) {
            subjects.push_back({lang::Library::standard(), n});
            continue;
        }
        std::ifstream in(n);
        const std::string text{std::istreambuf_iterator<char>(in), {}};
        lang::Library& l = of_files.emplace_back();
        if (const Status s = l.add(std::make_shared<const Source>(Source{n, text})); !s.ok()) stop(s.error());
        for (const lang::OpDecl* d : l.declarations_of(n)) subjects.push_back({l, d->name});
    }
    if (const std::string why = cuda_target().cannot_run(); !why.empty()) stop(Diagnostic("not run: " + why));
    verify::OperatorOptions o;
    o.check.sizes.count = 8;
    o.check.sizes.max_work = 1 << 15;
    json list = json::array();
    int failed = 0;
    for (size_t i = 0; i < subjects.size(); ++i) {
        if (static_cast<int>(i) % shards != shard) continue;
        const auto& [library, name] = subjects[i];
        const auto start = std::chrono::steady_clock::now();
        const verify::Report r = verify::check_operator(library, name, verify::source_target(cuda_target()), o);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        failed += !r.passed();
        json verdicts = json::object();
        for (const auto& [v, n] : r.verdicts) verdicts[std::string(verify::name(v))] = n;
        json one{{"name", name},             {"passed", r.passed()}, {"cases", r.cases},
                 {"failed", r.failed},       {"types", r.types},     {"verdicts", verdicts},
                 {"max_share", r.max_share}, {"seconds", seconds},   {"text", r.str()}};
        json messages = json::array();
        for (const verify::CaseReport& c : r.failures)
            messages.push_back(fmt::format("{}, {}: {}", c.arguments, verify::name(c.pattern), c.message));
        one["failures"] = std::move(messages);
        if (!r.passed()) fmt::print("{}\n", r.str());
        list.push_back(std::move(one));
    }
    std::ofstream(out) << json{{"device", cuda_target().runs_on()}, {"operators", std::move(list)}}.dump(1) << "\n";
    return failed ? 1 : 0;
}

struct Case {
    std::string name, declaration, op;
    DType type;
    std::vector<std::pair<std::string, int64_t>> sizes;
    double bytes = 0, flops = 0;  // that any kernel must move and do
};

const char* kDeclarations = R"(
op chain(a[i], b[i], c[i]) -> y[i] where T in float:
    y[i] = max(a[i] + b[i], 0) * c[i]
op copied(a[i]) -> y[i] where T in float:
    y[i] = a[i]
op soft(x[m,k]) -> y[m,k] where T in float:
    h[m] = max[k](x[m,k])
    s[m] = sum[k](exp(x[m,k] - h[m]))
    y[m,k] = exp(x[m,k] - h[m]) / s[m]
op layer(x[m,k], g[k], b[k]) -> y[m,k] where T in float:
    u[m] = mean[k](x[m,k])
    v[m] = mean[k]((x[m,k] - u[m]) ** 2)
    y[m,k] = (x[m,k] - u[m]) / sqrt(v[m] + 1e-5) * g[k] + b[k]
op rms(x[m,k], g[k]) -> y[m,k] where T in float:
    v[m] = mean[k](x[m,k] ** 2)
    y[m,k] = x[m,k] / sqrt(v[m] + 1e-5) * g[k]
op prelu_linear(x[m,k], w[n,k], a[n]) -> y[m,n] where T in float:
    z[m,n] = sum[k](x[m,k] * w[n,k])
    y[m,n] = select(z[m,n] >= 0, z[m,n], a[n] * z[m,n])
op transposed(x[m,n]) -> y[n,m] where T in float:
    y[n,m] = x[m,n]
op total(x[i]) -> y[] where T in float:
    y[] = sum[i](x[i])
op columns(x[m,n]) -> y[n] where T in float:
    y[n] = sum[m](x[m,n])
op first_largest(x[i]) -> y: i64[] where T in float:
    y[] = argmax[i](x[i])
op last_smallest(x[m,n]) -> y: i64[n] where T in float:
    y[n] = argmin_last[m](x[m,n])
op channel_mean(x[n,c,h,w]) -> y[c] where T in float:
    y[c] = mean[n,h,w](x[n,c,h,w])
op log_sum_exp(x[m,k]) -> y[m] where T in float:
    h[m] = max[k](x[m,k])
    s[m] = sum[k](exp(x[m,k] - h[m]))
    y[m] = log(s[m]) + h[m]
op whole_softmax(x[k]) -> y[k] where T in float:
    h[] = max[k](x[k])
    s[] = sum[k](exp(x[k] - h[]))
    y[k] = exp(x[k] - h[]) / s[]
op batch_norm(x[n,c,h,w]) -> y[n,c,h,w] where T in float:
    u[c] = mean[n,h,w](x[n,c,h,w])
    v[c] = mean[n,h,w]((x[n,c,h,w] - u[c]) ** 2)
    y[n,c,h,w] = (x[n,c,h,w] - u[c]) / sqrt(v[c] + 1e-5)
op moved(x[a,b,c,d]) -> y[d,b,a,c] where T in float:
    y[d,b,a,c] = x[a,b,c,d]
op channels_last(x[n,c,h,w], s[c]) -> y[n,h,w,c] where T in float:
    y[n,h,w,c] = max(x[n,c,h,w] * s[c], 0)
op symmetric(x[m,n], z[m,n], r[n,m], b[n]) -> y[n,m] where T in float:
    y[n,m] = x[m,n] + z[m,n] * 2 + r[n,m] * b[n]
)";

std::vector<Case> cases() {
    std::vector<Case> r;
    for (DType t : {DType::F32, DType::BF16}) {
        const auto e = static_cast<double>(size_of(t));
        const std::string type(name(t));
        for (int64_t n : {int64_t{1} << 22, int64_t{1} << 24, int64_t{1} << 26, int64_t{1} << 28}) {
            r.push_back(
                {fmt::format("copy {} {}", type, n), "", "copied", t, {{"i", n}}, 2 * e * static_cast<double>(n)});
            r.push_back(
                {fmt::format("chain {} {}", type, n), "", "chain", t, {{"i", n}}, 4 * e * static_cast<double>(n)});
        }
        for (int64_t k : {256, 1024, 4096, 16384, 32768, 65536}) {
            const int64_t m = (int64_t{1} << 27) / k;
            const double bytes = 2 * e * static_cast<double>(m * k);
            for (const char* op : {"soft", "layer", "rms"})
                r.push_back({fmt::format("{} {} {}x{}", op, type, m, k), "", op, t, {{"m", m}, {"k", k}}, bytes});
        }
        r.push_back(
            {"transpose " + type + " 8192x8192", "", "transposed", t, {{"m", 8192}, {"n", 8192}}, 2 * e * 8192 * 8192});
        r.push_back({"sum " + type + " 2^28", "", "total", t, {{"i", int64_t{1} << 28}}, e * (1 << 28)});
        for (int64_t n : {64, 1024, 16384}) {
            const int64_t m = (int64_t{1} << 26) / n;
            r.push_back({fmt::format("column sums {} {}x{}", type, m, n),
                         "",
                         "columns",
                         t,
                         {{"m", m}, {"n", n}},
                         e * static_cast<double>(m * n)});
        }
        r.push_back({"argmax " + type + " 2^28", "", "first_largest", t, {{"i", int64_t{1} << 28}}, e * (1 << 28)});
        r.push_back({"transpose to channels last " + type,
                     "",
                     "channels_last",
                     t,
                     {{"n", 32}, {"c", 256}, {"h", 96}, {"w", 96}},
                     2 * e * 32 * 256 * 96 * 96});
        r.push_back({"transpose odd " + type + " 8191x8193",
                     "",
                     "transposed",
                     t,
                     {{"m", 8191}, {"n", 8193}},
                     2 * e * 8191 * 8193});
        r.push_back({"batch norm " + type + " 64x64x112x112",
                     "",
                     "batch_norm",
                     t,
                     {{"n", 64}, {"c", 64}, {"h", 112}, {"w", 112}},
                     2 * e * 64 * 64 * 112 * 112});
        for (int64_t n : {1024, 4096, 8192}) {
            if (t == DType::F32 && n > 4096) continue;
            const auto d = static_cast<double>(n);
            r.push_back({fmt::format("matmul+prelu {} {}^3", type, n),
                         "",
                         "prelu_linear",
                         t,
                         {{"m", n}, {"k", n}, {"n", n}},
                         3 * e * d * d,
                         2 * d * d * d});
        }
        if (t == DType::F32) continue;
        for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 4096}, {16, 4096}, {64, 4096}, {4096, 4090}}) {
            const auto dm = static_cast<double>(m), dn = static_cast<double>(n);
            r.push_back({fmt::format("matmul+prelu {} {}x4096x{}", type, m, n),
                         "",
                         "prelu_linear",
                         t,
                         {{"m", m}, {"k", 4096}, {"n", n}},
                         e * (dm * 4096 + dn * 4096 + dm * dn),
                         2 * dm * dn * 4096});
        }
    }
    return r;
}

// Elements of a normal distribution, never zeros: zeros draw less power and flatter the clock.
std::vector<unsigned char> random_bytes(DType t, int64_t count) {
    constexpr int64_t kPeriod = 1 << 20;
    Tensor part(t, {std::min(count, kPeriod)});
    std::mt19937_64 g(7);
    std::normal_distribution<double> d;
    for (int64_t i = 0; i < part.size(); ++i) part.set(i, d(g));
    std::vector<unsigned char> r(static_cast<size_t>(count) * size_of(t));
    for (size_t at = 0; at < r.size(); at += part.bytes())
        std::memcpy(r.data() + at, part.data(), std::min(part.bytes(), r.size() - at));
    return r;
}

math::Program declared(const std::string& op, DType type) {
    lang::Library library;
    if (const Status s = library.add(std::make_shared<const Source>(Source{"bench", kDeclarations})); !s.ok())
        stop(s.error());
    // Shapes by the names of the declaration.
    const math::Program symbolic = must(library.elaborate_symbolic(op));
    std::vector<lang::Argument> arguments;
    for (math::TensorId t : symbolic.inputs) arguments.push_back({type, symbolic.tensors[t].shape});
    return must(library.elaborate(op, arguments, {}));
}

// `tiles`: of contractions on tensor cores; null: the compiler's choice. `result`, where not null, gets the bytes of
// the first output.
json measure(const Case& c, Device& device, const Stream& stream, const TileShape* tiles = nullptr,
             std::vector<unsigned char>* result = nullptr) {
    math::SymValues sizes(c.sizes.begin(), c.sizes.end());
    const math::Program p = declared(c.op, c.type);
    const math::Program simple = math::inline_temporaries(math::drop_unit_variables(p)).program;
    auto program = std::make_shared<CudaProgram>(must(lower(simple, {.tiles = tiles})));
    DeviceKernel kernel(device, program, {});

    const auto elements = [&](math::TensorId t) {
        int64_t n = 1;
        for (const math::Sym& s : p.tensors[t].shape) n *= evaluate(s, sizes).value();
        return n;
    };
    // Sets of buffers that together are several times the L2 cache, used in turn.
    std::vector<math::TensorId> tensors = p.inputs;
    tensors.insert(tensors.end(), p.outputs.begin(), p.outputs.end());
    double set_bytes = 0;
    for (math::TensorId t : tensors)
        set_bytes += static_cast<double>(elements(t)) * static_cast<double>(size_of(p.tensors[t].dtype));
    const int sets =
        static_cast<int>(std::clamp(4.0 * static_cast<double>(device.info().l2_bytes) / set_bytes + 1, 1.0, 64.0));
    std::vector<Memory> memory;
    std::vector<std::unique_ptr<Prepared>> prepared;
    for (int s = 0; s < sets; ++s) {
        std::vector<DevicePointer> addresses;
        for (size_t i = 0; i < tensors.size(); ++i) {
            const auto data = random_bytes(p.tensors[tensors[i]].dtype, elements(tensors[i]));
            memory.push_back(must(device.allocate(data.size(), c.name)));
            addresses.push_back(memory.back().address());
            if (i < p.inputs.size()) must(device.upload(addresses.back(), data.data(), data.size(), stream, c.name));
            must(stream.wait(c.name));
        }
        prepared.push_back(must(kernel.prepare(sizes, addresses, stream)));
    }
    auto start = must(device.event()), end = must(device.event());
    const auto timed = [&](int launches) {
        must(start->record(stream));
        for (int i = 0; i < launches; ++i) must(prepared[static_cast<size_t>(i % sets)]->launch(device, stream));
        must(end->record(stream));
        return must(end->since(*start)) / launches;
    };
    timed(3);
    const int launches = static_cast<int>(std::clamp(20.0 / std::max(timed(3), 1e-3), 5.0, 400.0));
    std::vector<double> ms;
    for (int i = 0; i < 9; ++i) ms.push_back(timed(launches));
    std::sort(ms.begin(), ms.end());
    const double median = ms[ms.size() / 2];
    json r{{"case", c.name}, {"ms", median}, {"min_ms", ms.front()}, {"max_ms", ms.back()}, {"sets", sets}};
    if (c.bytes > 0) r["tb_per_s"] = c.bytes / median / 1e9;
    if (c.flops > 0) r["tflops"] = c.flops / median / 1e9;
    r["kernels"] = prepared[0]->describe();
    if (result) {
        const size_t output = p.inputs.size();
        result->resize(static_cast<size_t>(elements(tensors[output])) * size_of(p.tensors[tensors[output]].dtype));
        must(device.download(result->data(), memory[output].address(), result->size(), stream, c.name));
        must(stream.wait(c.name));
    }
    std::string line = fmt::format("{:<34} {:9.4f} ms", c.name, median);
    if (c.flops > 0)
        line += fmt::format("  {:7.1f} TFLOP/s", c.flops / median / 1e9);
    else
        line += fmt::format("  {:7.3f} TB/s", c.bytes / median / 1e9);
    fmt::print("{}  {}\n", line, prepared[0]->describe());
    std::fflush(stdout);
    return r;
}

std::vector<Case> chosen(const std::vector<std::string>& wanted) {
    std::vector<Case> r;
    for (Case& c : cases())
        if (wanted.empty() || std::any_of(wanted.begin(), wanted.end(),
                                          [&](const std::string& w) { return c.name.find(w) != std::string::npos; }))
            r.push_back(std::move(c));
    return r;
}
void write(const std::string& out, const Device& device, json list) {
    std::ofstream(out)
        << json{{"device", device.info().name}, {"compiler", compiler_name()}, {"cases", std::move(list)}}.dump(1)
        << "\n";
}

int bench(const std::string& out, const std::vector<std::string>& wanted) {
    Device& device = *must(Device::get());
    auto stream = must(device.stream());
    json list = json::array();
    for (const Case& c : chosen(wanted)) list.push_back(measure(c, device, *stream));
    write(out, device, std::move(list));
    return 0;
}

// A program's kernels between tensors of the host, lowered as `options` say.
verify::Compiled on_device(const math::Program& p, const LowerOptions& options, Device& device, const Stream& stream) {
    const math::Program simple = math::inline_temporaries(math::drop_unit_variables(p)).program;
    auto program = std::make_shared<CudaProgram>(must(lower(simple, options)));
    auto kernel = std::make_shared<DeviceKernel>(device, program, CompileOptions{});
    return [&device, &stream, kernel, name = p.name](const math::SymValues& sizes, const std::vector<Tensor>& in,
                                                     std::vector<Tensor>& out) -> Status {
        std::vector<Memory> memory;
        std::vector<DevicePointer> addresses;
        for (const std::vector<Tensor>* list : {&in, const_cast<const std::vector<Tensor>*>(&out)})
            for (const Tensor& t : *list) {
                OPW_TRY(Memory m, device.allocate(t.bytes(), name));
                addresses.push_back(m.address());
                OPW_CHECK(device.upload(m.address(), t.data(), t.bytes(), stream, name));
                memory.push_back(std::move(m));
            }
        OPW_TRY(auto prepared, kernel->prepare(sizes, addresses, stream));
        OPW_CHECK(prepared->launch(device, stream));
        for (size_t i = 0; i < out.size(); ++i)
            OPW_CHECK(device.download(out[i].data(), addresses[in.size() + i], out[i].bytes(), stream, name));
        OPW_CHECK(stream.wait(name));
        return prepared->fault(device, stream);
    };
}

// Kernels that the library's examples, which are small, do not reach: reductions in slices (from 256 terms on), tiles
// that transpose, long rows.
int shapes(const std::string& out, std::vector<std::string> wanted) {
    const bool random = std::erase(wanted, "--random") > 0;
    const std::vector<std::pair<const char*, std::vector<math::SymValues>>> all{
        {"total", {{{"i", 4096}}, {{"i", 100003}}, {{"i", 777}}}},
        {"columns", {{{"m", 300}, {"n", 16}}, {{"m", 1029}, {"n", 200}}, {{"m", 640}, {"n", 7}}}},
        {"first_largest", {{{"i", 50000}}, {{"i", 777}}}},
        {"last_smallest", {{{"m", 3000}, {"n", 12}}, {{"m", 900}, {"n", 133}}}},
        {"channel_mean", {{{"n", 3}, {"c", 4}, {"h", 19}, {"w", 16}}, {{"n", 2}, {"c", 3}, {"h", 33}, {"w", 11}}}},
        {"log_sum_exp", {{{"m", 2}, {"k", 20480}}, {{"m", 3}, {"k", 5127}}}},
        {"whole_softmax", {{{"k", 15360}}, {{"k", 2049}}}},
        {"batch_norm", {{{"n", 4}, {"c", 3}, {"h", 20}, {"w", 16}}, {{"n", 3}, {"c", 2}, {"h", 19}, {"w", 23}}}},
        {"transposed", {{{"m", 160}, {"n", 320}}, {{"m", 133}, {"n", 70}}, {{"m", 16}, {"n", 272}}}},
        {"moved", {{{"a", 3}, {"b", 2}, {"c", 32}, {"d", 48}}, {{"a", 2}, {"b", 3}, {"c", 19}, {"d", 37}}}},
        {"channels_last", {{{"n", 2}, {"c", 16}, {"h", 6}, {"w", 8}}, {{"n", 2}, {"c", 21}, {"h", 5}, {"w", 7}}}},
        {"symmetric", {{{"m", 64}, {"n", 80}}, {{"m", 51}, {"n", 18}}}},
        {"soft", {{{"m", 3}, {"k", 65536}}, {{"m", 2}, {"k", 40001}}, {{"m", 2}, {"k", 98304}}}},
        {"layer", {{{"m", 3}, {"k", 65536}}, {{"m", 2}, {"k", 40001}}, {{"m", 2}, {"k", 49152}}}},
        {"rms", {{{"m", 3}, {"k", 65536}}, {{"m", 2}, {"k", 40001}}, {{"m", 2}, {"k", 131072}}}},
    };
    Device& device = *must(Device::get());
    const auto stream = must(device.stream());
    json list = json::array();
    int cases = 0, failed = 0;
    for (const auto& [op, sizes] : all) {
        if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), op) == wanted.end()) continue;
        const bool rows =
            std::string_view(op) == "soft" || std::string_view(op) == "layer" || std::string_view(op) == "rms";
        for (DType t : {DType::F32, DType::BF16, DType::F64, DType::F16}) {
            if (t == DType::F16 && !rows) continue;
            const math::Program p = declared(op, t);
            const verify::Compiled run = on_device(p, {.split_from = rows ? int64_t{1} << 20 : 256}, device, *stream);
            for (const math::SymValues& s : sizes)
                for (verify::Pattern pattern : verify::all_patterns()) {
                    if (random && pattern != verify::Pattern::Random) continue;
                    const verify::CaseReport r = verify::check_case(p, run, s, pattern, 1);
                    ++cases;
                    if (r.passed()) continue;
                    ++failed;
                    const std::string message =
                        fmt::format("{} {}, {}: {}", op, name(t), verify::name(pattern), r.message);
                    fmt::print("{}\n", message);
                    list.push_back(message);
                }
        }
    }
    fmt::print("{} cases of kernels for large sizes, {} failed\n", cases, failed);
    std::ofstream(out) << json{{"device", device.info().name}, {"cases", cases}, {"failures", std::move(list)}}.dump(1)
                       << "\n";
    return failed ? 1 : 0;
}

// All shapes add up in one order, so their results must agree to the bit.
int gemm(const std::string& out, const std::vector<std::string>& wanted) {
    Device& device = *must(Device::get());
    auto stream = must(device.stream());
    json list = json::array();
    int wrong = 0;
    for (const Case& c : chosen(wanted)) {
        if (c.flops == 0 || c.type == DType::F32) continue;
        std::vector<unsigned char> first;
        for (const TileShape& t : tile_shapes()) {
            std::vector<unsigned char> result;
            json r = measure(c, device, *stream, &t, &result);
            if (first.empty()) first = result;
            r["equal"] = result == first;
            if (result != first) fmt::print("  its result differs from that of the first shape\n"), ++wrong;
            list.push_back(std::move(r));
        }
    }
    write(out, device, std::move(list));
    return wrong ? 1 : 0;
}
}  // namespace
}  // namespace opwright

int main(int argc, char** argv) {
    std::vector<std::string> a(argv + 1, argv + argc);
    if (a.size() < 2) {
        std::fprintf(stderr, "usage: opwright_gpu verify|shapes|bench|gemm OUT.json [--shard I/N] [NAME...]\n");
        return 2;
    }
    const std::string what = a[0], out = a[1];
    a.erase(a.begin(), a.begin() + 2);
    int shard = 0, shards = 1;
    if (a.size() >= 2 && a[0] == "--shard") {
        std::sscanf(a[1].c_str(), "%d/%d", &shard, &shards);
        a.erase(a.begin(), a.begin() + 2);
    }
    if (what == "gemm") return opwright::gemm(out, a);
    if (what == "shapes") return opwright::shapes(out, a);
    return what == "bench" ? opwright::bench(out, a) : opwright::verify_library(out, shard, shards, a);
}
