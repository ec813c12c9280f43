#include "target/cpu/jit.h"

#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/MemoryBuffer.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "base/object_cache.h"
#include "loop/content.h"

namespace opwright::target::cpu {
namespace {

namespace orc = llvm::orc;

std::string text(llvm::Error e) { return llvm::toString(std::move(e)); }

// The one ORC session of the process; it is never torn down, so modules may outlive static objects.
class Session {
public:
    static Session& get() {
        static Session* session = new Session;
        return *session;
    }

    Result<orc::JITDylib*> load(std::string_view code) {
        orc::JITDylib& library = session_.createBareJITDylib("module." + std::to_string(counter_++));
        library.addToLinkOrder(*runtime_);
        auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(code.data(), code.size()));
        llvm::Error error = layer_->add(library, std::move(buffer));
        if (!error) error = lookup(library, {"opwright.object"}).takeError();  // links all of it, so that faults show here
        if (!error) return &library;
        const std::string why = text(std::move(error));
        unload(library);
        return Diagnostic("A compiled kernel cannot be loaded: " + why + ".", {},
                          "Remove the object cache, or set OPWRIGHT_CACHE=0, and run again.");
    }

    void unload(orc::JITDylib& library) { llvm::consumeError(session_.removeJITDylib(library)); }

    // Addresses in the order of the names.
    llvm::Expected<std::vector<orc::ExecutorAddr>> lookup(orc::JITDylib& library, std::initializer_list<std::string> names) {
        orc::SymbolLookupSet set;
        for (const std::string& n : names) set.add(session_.intern(n));
        auto found = session_.lookup({{&library, orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(set));
        if (!found) return found.takeError();
        std::vector<orc::ExecutorAddr> addresses;
        for (const std::string& n : names) addresses.push_back((*found)[session_.intern(n)].getAddress());
        return addresses;
    }

private:
    Session() : session_(llvm::cantFail(orc::SelfExecutorProcessControl::Create())) {
        session_.setErrorReporter([](llvm::Error e) { llvm::consumeError(std::move(e)); });  // errors come back as values
        layer_ = std::make_unique<orc::ObjectLinkingLayer>(session_);
        runtime_ = &session_.createBareJITDylib("runtime");
        orc::SymbolMap symbols;
        auto add = [&](const char* name, auto* function) {
            symbols[session_.intern(name)] = {orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported};
        };
        using F1 = float (*)(float);
        using D1 = double (*)(double);
        using F2 = float (*)(float, float);
        using D2 = double (*)(double, double);
#define OPW_ONE(f) add(#f, static_cast<D1>(std::f)), add(#f "f", static_cast<F1>(std::f))
#define OPW_TWO(f) add(#f, static_cast<D2>(std::f)), add(#f "f", static_cast<F2>(std::f))
        OPW_ONE(exp); OPW_ONE(exp2); OPW_ONE(expm1); OPW_ONE(log); OPW_ONE(log2); OPW_ONE(log1p);
        OPW_ONE(sin); OPW_ONE(cos); OPW_ONE(tan); OPW_ONE(asin); OPW_ONE(acos); OPW_ONE(atan);
        OPW_ONE(sinh); OPW_ONE(cosh); OPW_ONE(tanh); OPW_ONE(asinh); OPW_ONE(acosh); OPW_ONE(atanh);
        OPW_ONE(erf); OPW_ONE(floor); OPW_ONE(ceil); OPW_ONE(trunc); OPW_ONE(rint);
        OPW_TWO(pow); OPW_TWO(atan2); OPW_TWO(fmod);
#undef OPW_ONE
#undef OPW_TWO
        add("fma", static_cast<double (*)(double, double, double)>(std::fma));
        add("fmaf", static_cast<float (*)(float, float, float)>(std::fma));
        add("memcpy", std::memcpy);
        add("memset", std::memset);
        add("memmove", std::memmove);
        llvm::cantFail(runtime_->define(orc::absoluteSymbols(std::move(symbols))));
        // Helpers of the compiler's runtime that other architectures may call.
        if (auto process = orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(0)) runtime_->addGenerator(std::move(*process));
        else llvm::consumeError(process.takeError());
    }

    orc::ExecutionSession session_;
    std::unique_ptr<orc::ObjectLinkingLayer> layer_;
    orc::JITDylib* runtime_ = nullptr;
    std::atomic<uint64_t> counter_{0};
};

class LoadedModule : public Module {
public:
    explicit LoadedModule(orc::JITDylib& library) : library_(library) {}
    ~LoadedModule() override { Session::get().unload(library_); }

    Entry entry(std::string_view name) const override {
        auto found = Session::get().lookup(library_, {std::string(name), std::string(name) + ".scratch"});
        if (!found) {
            llvm::consumeError(found.takeError());
            return {};
        }
        return {(*found)[0].toPtr<RunFn>(), (*found)[1].toPtr<ScratchFn>()};
    }

private:
    orc::JITDylib& library_;
};

}  // namespace

Result<ModuleRef> load_object(std::string_view code) {
    OPW_TRY(orc::JITDylib* library, Session::get().load(code));
    return ModuleRef(std::make_shared<LoadedModule>(*library));
}

Result<ModuleRef> compile(const loop::Program& program, const Features& features, bool* from_cache) {
    const auto cache = default_cache();
    const std::string key = cache_key(loop::content(program) + '\0' + features.key() + '\0' + llvm_version() + '\0' +
                                      std::to_string(kEmitterVersion));
    if (from_cache) *from_cache = false;
    if (cache) {
        if (const auto object = cache->find(key)) {
            if (auto module = load_object(*object); module.ok()) {
                if (from_cache) *from_cache = true;
                return module;
            }
        }
    }
    OPW_TRY(Object object, compile_object(program, features));
    if (cache) cache->store(key, object.code);
    return load_object(object.code);
}

}  // namespace opwright::target::cpu
