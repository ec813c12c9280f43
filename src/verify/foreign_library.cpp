// Functions of shared libraries, called in a fork.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "derive/shape.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "verify/foreign_subject.h"

namespace opwright::verify {
using namespace math;
using nlohmann::json;

namespace {
constexpr size_t kMostArguments = 32;

template <size_t... I>
int call_with(void* f, const std::array<uintptr_t, kMostArguments>& a, std::index_sequence<I...>) {
    return reinterpret_cast<int (*)(decltype(static_cast<uintptr_t>(I))...)>(f)(a[I]...);
}
// Sizes and pointers travel alike on every machine we know: as whole words.
int call(void* f, const std::array<uintptr_t, kMostArguments>& a, size_t n) {
    using Call = int (*)(void*, const std::array<uintptr_t, kMostArguments>&);
    static const auto table = []<size_t... N>(std::index_sequence<N...>) {
        return std::array<Call, kMostArguments + 1>{[](void* g, const std::array<uintptr_t, kMostArguments>& x) {
            return call_with(g, x, std::make_index_sequence<N>());
        }...};
    }(std::make_index_sequence<kMostArguments + 1>());
    return table[n](f, a);
}

// In the fork: {"path", "bytes", "sizes", "offsets"} -> {"result"} or {"error"}.
std::string answer(const std::string& library, const std::string& symbol, const std::string& line) {
    static void* f = nullptr;
    const auto error = [](const std::string& text) { return json{{"error", text}}.dump(); };
    if (!f) {
        void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!handle) return error(fmt::format("'{}' can't be loaded: {}", library, dlerror()));
        f = dlsym(handle, symbol.c_str());
        if (!f) return error(fmt::format("'{}' has no symbol '{}'", library, symbol));
    }
    const json j = json::parse(line);
    if (!j.contains("path")) return json{{"result", 0}}.dump();
    const int file = open(j["path"].get<std::string>().c_str(), O_RDWR | O_CLOEXEC);
    const size_t bytes = j["bytes"];
    void* memory = file < 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (memory == MAP_FAILED) return error("its tensors can't be mapped");
    std::array<uintptr_t, kMostArguments> arguments{};
    size_t n = 0;
    for (const json& v : j["sizes"]) arguments[n++] = static_cast<uintptr_t>(v.get<int64_t>());
    for (const json& v : j["offsets"]) arguments[n++] = reinterpret_cast<uintptr_t>(memory) + v.get<size_t>();
    const int result = call(f, arguments, n);
    munmap(memory, bytes);
    return json{{"result", result}}.dump();
}

class LibraryProcess {
public:
    LibraryProcess(Against a, double seconds) : against_(std::move(a)), seconds_(seconds) {}
    Result<json> ask(const json& request) {
        if (!child_) {
            const auto to = [file = std::filesystem::absolute(against_.file).string(),
                             symbol = against_.symbol](const std::string& line) { return answer(file, symbol, line); };
            OPW_TRY(child_, Child::fork(to));
        }
        const auto r = child_->ask(request.dump(), seconds_);
        if (!r.ok()) {
            child_.reset();  // the next case gets a fresh one
            return r.error();
        }
        json j = json::parse(*r, nullptr, false);
        if (j.is_discarded()) return Diagnostic("crashed: it wrote over the answers of its process");
        if (j.contains("error")) return Diagnostic(j["error"].get<std::string>() + ".");
        return j;
    }
    const Against& against() const { return against_; }

private:
    Against against_;
    double seconds_;
    std::unique_ptr<Child> child_;
};

class LibrarySubject final : public Subject {
public:
    LibrarySubject(std::shared_ptr<LibraryProcess> process, std::shared_ptr<ForeignMemory> memory, Program signature)
        : process_(std::move(process)), memory_(std::move(memory)), signature_(std::move(signature)) {}

    Status run(const SymValues& given, std::span<const View> inputs, std::span<const View> outputs) override {
        std::vector<View> views(inputs.begin(), inputs.end());
        views.insert(views.end(), outputs.begin(), outputs.end());
        std::vector<Shape> shapes;
        for (const View& v : inputs) shapes.push_back(v.shape);
        OPW_TRY(const SymValues values, derive::bind_symbols(signature_, shapes, given));
        json sizes = json::array(), offsets = json::array();
        for (const std::string& s : signature_.symbols()) {
            const auto it = values.find(s);
            if (it == values.end()) return Diagnostic(fmt::format("the size {} is not known", s));
            sizes.push_back(it->second);
        }
        OPW_TRY(const auto places, memory_->put(views));
        for (const ForeignMemory::Place& x : places) offsets.push_back(x.offset);
        const size_t bytes = places.empty() ? 1 : places.back().end;
        OPW_TRY(const json reply,
                process_->ask({{"path", memory_->path()}, {"bytes", bytes}, {"sizes", sizes}, {"offsets", offsets}}));
        memory_->take(views);
        const int result = reply["result"];
        if (result != 0)
            return Diagnostic(fmt::format("{} returned {}, and not 0 for success", process_->against().symbol, result));
        return ok_status();
    }

private:
    std::shared_ptr<LibraryProcess> process_;
    std::shared_ptr<ForeignMemory> memory_;
    Program signature_;
};

Result<Program> signature_program(const lang::Library& library, const std::string& op) {
    OPW_TRY(const Program p, library.elaborate_symbolic(op));
    return inline_temporaries(drop_unit_variables(p)).program;
}
const char* c_type(DType t) {
    constexpr const char* names[] = {"bool",     "int8_t",   "int16_t",  "int32_t",  "int64_t", "uint8_t", "uint16_t",
                                     "uint32_t", "uint64_t", "uint16_t", "uint16_t", "float",   "double"};
    return names[static_cast<int>(t)];
}
}  // namespace

Result<std::string> c_signature(const lang::Library& library, const std::string& op, const std::string& symbol) {
    OPW_TRY(const Program p, signature_program(library, op));
    std::string r;
    const auto add = [&](const std::string& s) { r += (r.empty() ? "" : ", ") + s; };
    for (const std::string& s : p.symbols()) add("int64_t " + s);
    for (TensorId t : p.inputs) add(fmt::format("const {}* {}", c_type(p.tensors[t].dtype), p.tensors[t].name));
    for (TensorId t : p.outputs) add(fmt::format("{}* {}", c_type(p.tensors[t].dtype), p.tensors[t].name));
    return fmt::format("int {}({})", symbol, r);
}

Result<CompileFor> c_function(const Against& a, const lang::Library& library, const std::string& op,
                              const ForeignOptions& o) {
    OPW_TRY(const Program signature, signature_program(library, op));
    if (signature.symbols().size() + signature.inputs.size() + signature.outputs.size() > kMostArguments)
        return Diagnostic(
            fmt::format("'{}' takes more than {} sizes and tensors, which no call is made with.", op, kMostArguments));
    auto process = std::make_shared<LibraryProcess>(a, o.seconds);
    OPW_TRY(auto memory, ForeignMemory::make());
    // Loading it runs its constructors, which may crash too.
    if (const auto r = process->ask(json::object()); !r.ok()) {
        Diagnostic d = r.error();
        OPW_TRY(const std::string wanted, c_signature(library, op, a.symbol));
        return d.with_next(fmt::format("The function is called as {}.", wanted));
    }
    return CompileFor([=](const lang::Example&) -> Compile {
        return [=](const Program& p) -> Result<Compiled> {
            for (const auto [mine, its] : {std::pair(&p.inputs, &signature.inputs), {&p.outputs, &signature.outputs}})
                for (size_t i = 0; i < mine->size(); ++i)
                    if (i >= its->size() || p.tensors[(*mine)[i]].dtype != signature.tensors[(*its)[i]].dtype ||
                        p.tensors[(*mine)[i]].shape.size() != signature.tensors[(*its)[i]].shape.size())
                        return Diagnostic(
                            "refused: the function's signature is that of the first example's types, ranks "
                            "and tensors.");
            return Compiled(std::make_shared<LibrarySubject>(process, memory, signature));
        };
    });
}

}  // namespace opwright::verify
