// What stands behind the handles of the C ABI, and how its functions report.
#pragma once
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "lang/library.h"
#include "model.h"
#include "operator.h"
#include "opwright/opwright.h"

struct opw_error {
    opw_status status;
    std::string message, text;
};

struct opw_options {
    int threads = 0, warmup = 3, repeats = 10;
    bool cache = true, fuse = true, winograd = false;
    std::string vector;  // "" = auto
};

struct opw_tensors {
    std::vector<std::string> names;
    std::vector<opwright::Tensor> tensors;
};

struct opw_model {
    std::mutex mutex;
    std::shared_ptr<opwright::Model> model;
    std::map<std::string, std::string> metadata;
    // Storage that opw_value points into.
    struct Value {
        opw_value value;
        std::vector<int64_t> shape;
        std::vector<std::string> symbols;
        std::vector<const char*> symbol_pointers;
    };
    std::vector<std::unique_ptr<Value>> inputs, outputs;
};

struct opw_library {
    std::shared_ptr<opwright::lang::Library> library;
    std::vector<std::string> names;  // in the order of the text
};

struct opw_operator {
    std::mutex mutex;
    std::shared_ptr<const opwright::lang::Library> library;
    std::shared_ptr<opwright::Operator> op;
};

namespace opwright::api {

// A refusal on its way out.
struct Refusal {
    opw_status status;
    Diagnostic diagnostic;
};

void report(opw_error** error, opw_status status, const Diagnostic& d) noexcept;

// Runs f, which returns nothing and throws Refusal for what the caller can cause. No exception leaves.
template <class F>
opw_status guarded(opw_error** error, F&& f) noexcept {
    try {
        f();
        return OPW_OK;
    } catch (const Refusal& r) {
        report(error, r.status, r.diagnostic);
        return r.status;
    } catch (const std::bad_alloc&) {
        report(error, OPW_OUT_OF_MEMORY, Diagnostic("There is not enough memory for this."));
        return OPW_OUT_OF_MEMORY;
    } catch (const std::exception& e) {
        report(error, OPW_INTERNAL,
               Diagnostic(std::string("A fault in Opwright: ") + e.what() + ".").with_next("Please report it with the call that shows it."));
        return OPW_INTERNAL;
    }
}

[[noreturn]] void refuse(opw_status status, Diagnostic d);
// The value of a result, or the refusal of its error.
template <class T>
T value_or_refuse(Result<T> r, opw_status status) {
    if (!r.ok()) refuse(status, r.error());
    return std::move(r).value();
}
void require(bool condition, const char* message);  // OPW_INVALID_ARGUMENT

CompileOptions compile_options(const opw_options* o);
std::shared_ptr<runtime::ThreadPool> make_pool(const opw_options* o);

// A caller's tensor, checked and borrowed; `what` names it in messages.
Tensor borrowed(const opw_tensor& t, const std::string& what);
char* copied(const std::string& text);  // for opw_string_free

}  // namespace opwright::api
