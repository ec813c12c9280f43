// Versions, dtypes, errors, options, tensors.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "api/handles.h"
#include "base/version.h"
#include "explain/doctor.h"
#include "runtime/thread_pool.h"

namespace opwright::api {

void report(opw_error** error, opw_status status, const Diagnostic& d) noexcept {
    if (!error) return;
    try {
        *error = new opw_error{status, d.message, render(d)};
    } catch (...) {
        *error = nullptr;  // no memory even for the message: the status alone tells
    }
}

void refuse(opw_status status, Diagnostic d) { throw Refusal{status, std::move(d)}; }

void require(bool condition, const char* message) {
    if (!condition) refuse(OPW_INVALID_ARGUMENT, Diagnostic(message));
}

CompileOptions compile_options(const opw_options* o) {
    CompileOptions c;
    if (!o) return c;
    c.execution.cpu.level = o->vector;
    c.execution.cpu.cache = o->cache;
    c.fuse = o->fuse;
    c.winograd.use = o->winograd;
    return c;
}
std::shared_ptr<runtime::ThreadPool> make_pool(const opw_options* o) { return std::make_shared<runtime::ThreadPool>(o ? o->threads : 0); }

char* copied(const std::string& text) {
    auto* r = static_cast<char*>(std::malloc(text.size() + 1));
    if (!r) throw std::bad_alloc();
    std::memcpy(r, text.c_str(), text.size() + 1);
    return r;
}

Tensor borrowed(const opw_tensor& t, const std::string& what) {
    const auto invalid = [&](std::string why) { refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("Tensor {} {}.", what, why))); };
    if (t.dtype < OPW_BOOL || t.dtype > OPW_F64) invalid(fmt::format("has dtype {}, which is none", static_cast<int>(t.dtype)));
    if (t.rank < 0 || t.rank > 64) invalid(fmt::format("has rank {}; 0 to 64 are possible", t.rank));
    if (t.rank > 0 && !t.shape) invalid("has no shape");
    const Shape shape(t.shape, t.shape + (t.rank > 0 ? t.rank : 0));
    for (int64_t e : shape)
        if (e < 0) invalid(fmt::format("has shape {}; extents cannot be negative", to_string(shape)));
    const auto type = static_cast<DType>(t.dtype);
    const int64_t n = element_count(shape);
    if (n < 0 || n > INT64_MAX / 16) invalid(fmt::format("has shape {}, which is more than any memory holds", to_string(shape)));
    if (n > 0 && !t.data) invalid("has elements but no data");
    if (n > 0 && reinterpret_cast<uintptr_t>(t.data) % size_of(type) != 0) invalid("has data that are not aligned to the element's size");
    if (type == DType::Bool)
        for (int64_t i = 0; i < n; ++i)
            if (const uint8_t b = static_cast<const uint8_t*>(t.data)[i]; b > 1) invalid(fmt::format("is bool and holds a byte {}; 0 and 1 are possible", b));
    static char nothing[16];
    return Tensor::wrap(type, shape, n > 0 ? const_cast<void*>(t.data) : nothing);
}

namespace {
// A number as an option's text.
int number(const char* name, const char* value, int low, int high) {
    char* end = nullptr;
    const long v = std::strtol(value, &end, 10);
    if (end == value || *end || v < low || v > high)
        refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("Option '{}' takes a number from {} to {}, and got '{}'.", name, low, high, value)));
    return static_cast<int>(v);
}
}  // namespace
}  // namespace opwright::api

using namespace opwright;
using namespace opwright::api;

extern "C" {

int opw_abi_version(void) { return OPW_ABI_VERSION; }
const char* opw_version(void) { return kVersion; }

size_t opw_dtype_size(opw_dtype t) { return t >= OPW_BOOL && t <= OPW_F64 ? size_of(static_cast<DType>(t)) : 0; }
const char* opw_dtype_name(opw_dtype t) { return t >= OPW_BOOL && t <= OPW_F64 ? name(static_cast<DType>(t)).data() : nullptr; }

opw_status opw_error_status(const opw_error* e) { return e ? e->status : OPW_OK; }
const char* opw_error_message(const opw_error* e) { return e ? e->message.c_str() : ""; }
const char* opw_error_text(const opw_error* e) { return e ? e->text.c_str() : ""; }
void opw_error_free(opw_error* e) { delete e; }
void opw_string_free(char* text) { std::free(text); }

opw_options* opw_options_new(void) {
    try {
        return new opw_options;
    } catch (...) {
        return nullptr;
    }
}
void opw_options_free(opw_options* o) { delete o; }

opw_status opw_options_set(opw_options* o, const char* option, const char* value, opw_error** error) {
    return guarded(error, [&] {
        require(o && option && value, "The options, the option's name and its value must not be NULL.");
        const std::string n = option, v = value;
        if (n == "threads") {
            o->threads = number(option, value, 0, 1024);
        } else if (n == "cache") {
            o->cache = number(option, value, 0, 1) == 1;
        } else if (n == "fuse") {
            o->fuse = number(option, value, 0, 1) == 1;
        } else if (n == "winograd") {
            o->winograd = number(option, value, 0, 1) == 1;
        } else if (n == "vector") {
            if (v != "auto" && v != "avx512" && v != "avx2" && v != "baseline")
                refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("Option 'vector' takes auto, avx512, avx2 or baseline, and got '{}'.", v)));
            o->vector = v == "auto" ? "" : v;
        } else if (n == "warmup") {
            o->warmup = number(option, value, 0, 1000000);
        } else if (n == "repeats") {
            o->repeats = number(option, value, 1, 1000000);
        } else {
            refuse(OPW_INVALID_ARGUMENT,
                   Diagnostic(fmt::format("There is no option named '{}'.", n)).with_next("The options are: threads, cache, fuse, winograd, vector, warmup, repeats."));
        }
    });
}

size_t opw_tensors_count(const opw_tensors* t) { return t ? t->tensors.size() : 0; }
opw_status opw_tensors_get(const opw_tensors* t, size_t i, opw_tensor* out, opw_error** error) {
    return guarded(error, [&] {
        require(t && out, "The tensors and the place for the result must not be NULL.");
        if (i >= t->tensors.size())
            refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("There is no tensor {}: there are {}.", i, t->tensors.size())));
        const Tensor& x = t->tensors[i];
        *out = {t->names[i].c_str(), static_cast<opw_dtype>(x.dtype()), static_cast<int32_t>(x.rank()), x.shape().data(), x.data()};
    });
}
void opw_tensors_free(opw_tensors* t) { delete t; }

opw_status opw_doctor_json(char** json, opw_error** error) {
    return guarded(error, [&] {
        require(json, "The place for the text must not be NULL.");
        *json = copied(explain::to_json(explain::examine(true)).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    });
}

}  // extern "C"
