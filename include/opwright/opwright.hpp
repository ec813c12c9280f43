// Opwright's C++ API: declare, inspect, compile, load a model, run, profile. C++17, header only, over the C ABI, so a
// program built against one version runs with a later library.
//
//     opwright::Model model("model.onnx", {{"threads", "2"}});
//     opwright::Tensor x = opwright::Tensor::of<float>({1, 3}, {1, 2, 3});
//     std::vector<opwright::Tensor> y = model.run({{"x", x}});
//
// What the library refuses is thrown as opwright::Error (from this inline code: no exception crosses the library's
// boundary). Threads: as opwright.h says, any object from any thread, calls on one object wait for one another.
#pragma once
#include <cstring>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "opwright/opwright.h"

namespace opwright {

class Error : public std::runtime_error {
public:
    Error(opw_status status, std::string message, const std::string& text)
        : std::runtime_error(text), status_(status), message_(std::move(message)) {}
    opw_status status() const { return status_; }
    const std::string& message() const { return message_; }  // one sentence; what() has the place and the next step too

private:
    opw_status status_;
    std::string message_;
};

namespace detail {

// Calls f(arguments..., &error) and throws what it reports.
template <class F, class... A>
void call(F f, A... arguments) {
    opw_error* error = nullptr;
    const opw_status status = f(arguments..., &error);
    if (status == OPW_OK) return;
    const std::unique_ptr<opw_error, decltype(&opw_error_free)> owned(error, opw_error_free);
    throw Error(status, error ? opw_error_message(error) : "no message", error ? opw_error_text(error) : "no message");
}

template <class T, void (*Free)(T*)>
struct Deleter {
    void operator()(T* p) const { Free(p); }
};
template <class T, void (*Free)(T*)>
using Handle = std::unique_ptr<T, Deleter<T, Free>>;

inline std::string take(char* text) {
    const Handle<char, opw_string_free> owned(text);
    return text ? text : "";
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
    static constexpr opw_dtype value = OPW_BOOL;
};
template <>
struct DTypeOf<int8_t> {
    static constexpr opw_dtype value = OPW_I8;
};
template <>
struct DTypeOf<int16_t> {
    static constexpr opw_dtype value = OPW_I16;
};
template <>
struct DTypeOf<int32_t> {
    static constexpr opw_dtype value = OPW_I32;
};
template <>
struct DTypeOf<int64_t> {
    static constexpr opw_dtype value = OPW_I64;
};
template <>
struct DTypeOf<uint8_t> {
    static constexpr opw_dtype value = OPW_U8;
};
template <>
struct DTypeOf<uint16_t> {
    static constexpr opw_dtype value = OPW_U16;
};
template <>
struct DTypeOf<uint32_t> {
    static constexpr opw_dtype value = OPW_U32;
};
template <>
struct DTypeOf<uint64_t> {
    static constexpr opw_dtype value = OPW_U64;
};
template <>
struct DTypeOf<float> {
    static constexpr opw_dtype value = OPW_F32;
};
template <>
struct DTypeOf<double> {
    static constexpr opw_dtype value = OPW_F64;
};

}  // namespace detail

// A tensor with its own memory: dense, row-major. What a run returns keeps the library's memory, without a copy.
class Tensor {
public:
    Tensor(opw_dtype dtype, std::vector<int64_t> shape)
        : dtype_(dtype), shape_(std::move(shape)), bytes_(byte_count()), data_(bytes_.data()) {}
    Tensor(const Tensor& other)
        : dtype_(other.dtype_), shape_(other.shape_),
          bytes_(other.data_, other.data_ ? other.data_ + other.byte_count() : nullptr), data_(bytes_.data()) {}
    Tensor(Tensor&& other) noexcept
        : dtype_(other.dtype_), shape_(std::move(other.shape_)), bytes_(std::move(other.bytes_)),
          owner_(std::move(other.owner_)), data_(std::exchange(other.data_, nullptr)) {}
    Tensor& operator=(Tensor other) noexcept {
        std::swap(dtype_, other.dtype_);
        shape_.swap(other.shape_);
        bytes_.swap(other.bytes_);
        owner_.swap(other.owner_);
        std::swap(data_, other.data_);
        return *this;
    }

    // T is the C++ type of the elements (bool, an integer, float, double); as many values as the shape holds.
    template <class T>
    static Tensor of(std::vector<int64_t> shape, const std::vector<T>& values) {
        Tensor t(detail::DTypeOf<T>::value, std::move(shape));
        if (static_cast<int64_t>(values.size()) != t.size())
            throw std::invalid_argument("opwright::Tensor::of: " + std::to_string(values.size()) +
                                        " values for a shape of " + std::to_string(t.size()));
        for (size_t i = 0; i < values.size(); ++i) t.data<T>()[i] = values[i];
        return t;
    }

    opw_dtype dtype() const { return dtype_; }
    const std::vector<int64_t>& shape() const { return shape_; }
    int64_t size() const {
        return std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<int64_t>());
    }

    // The elements; T must be the C++ type of the dtype (f16 and bf16: uint16_t, their bits).
    template <class T>
    T* data() {
        return reinterpret_cast<T*>(check<T>().data_);
    }
    template <class T>
    const T* data() const {
        return reinterpret_cast<const T*>(check<T>().data_);
    }

    opw_tensor view(const char* name) const {
        return {name, dtype_, static_cast<int32_t>(shape_.size()), shape_.data(), data_};
    }
    // `owner` keeps the elements alive; nobody else may read or write them.
    static Tensor adopt(const opw_tensor& from, std::shared_ptr<opw_tensors> owner) {
        Tensor t;
        t.dtype_ = from.dtype;
        if (from.rank) t.shape_.assign(from.shape, from.shape + from.rank);
        t.data_ = static_cast<unsigned char*>(const_cast<void*>(from.data));
        t.owner_ = std::move(owner);
        return t;
    }

private:
    Tensor() = default;
    size_t byte_count() const { return static_cast<size_t>(size()) * opw_dtype_size(dtype_); }
    template <class T>
    Tensor& check() {
        return const_cast<Tensor&>(std::as_const(*this).check<T>());
    }
    template <class T>
    const Tensor& check() const {
        const bool bits = detail::DTypeOf<T>::value == OPW_U16 && (dtype_ == OPW_F16 || dtype_ == OPW_BF16);
        if (detail::DTypeOf<T>::value != dtype_ && !bits)
            throw std::invalid_argument(std::string("opwright::Tensor: the elements are ") + opw_dtype_name(dtype_));
        return *this;
    }

    opw_dtype dtype_ = OPW_F32;
    std::vector<int64_t> shape_;
    std::vector<unsigned char> bytes_;    // from operator new: aligned for every element type
    std::shared_ptr<opw_tensors> owner_;  // in place of bytes_
    unsigned char* data_ = nullptr;
};

using Options = std::vector<std::pair<std::string, std::string>>;   // as opw_options_set documents them
using Inputs = std::vector<std::pair<std::string, const Tensor&>>;  // by name; "" = by position

namespace detail {

inline Handle<opw_options, opw_options_free> options(const Options& values) {
    Handle<opw_options, opw_options_free> o(opw_options_new());
    for (const auto& [name, value] : values) call(opw_options_set, o.get(), name.c_str(), value.c_str());
    return o;
}

inline std::vector<opw_tensor> views(const Inputs& inputs) {
    std::vector<opw_tensor> v;
    for (const auto& [name, tensor] : inputs) v.push_back(tensor.view(name.empty() ? nullptr : name.c_str()));
    return v;
}

inline std::vector<Tensor> take(opw_tensors* result) {
    const std::shared_ptr<opw_tensors> owned(result, opw_tensors_free);
    const size_t count = opw_tensors_count(result);
    std::vector<Tensor> tensors;
    tensors.reserve(count);
    std::vector<const void*> seen;
    for (size_t i = 0; i < count; ++i) {
        opw_tensor t{};
        call(opw_tensors_get, static_cast<const opw_tensors*>(result), i, &t);
        Tensor mine = Tensor::adopt(t, owned);
        bool again = false;  // an output that was asked for twice is one tensor of the library, and two here
        for (const void* p : seen) again = again || p == t.data;
        seen.push_back(t.data);
        if (again)
            tensors.push_back(static_cast<const Tensor&>(mine));
        else
            tensors.push_back(std::move(mine));
    }
    return tensors;
}

}  // namespace detail

// An input or output that a model declares; -1 = symbolic, then named in `symbols` where it has a name.
struct Value {
    std::string name;
    opw_dtype dtype;
    bool shape_known = false;
    std::vector<int64_t> shape;
    std::vector<std::string> symbols;
};

class Model {
public:
    explicit Model(const std::string& path, const Options& options = {}) {
        opw_model* m = nullptr;
        detail::call(opw_model_load, path.c_str(), detail::options(options).get(), &m);
        model_.reset(m);
    }
    static Model from_bytes(const void* bytes, size_t size, const Options& options = {}) {
        opw_model* m = nullptr;
        detail::call(opw_model_load_bytes, bytes, size, detail::options(options).get(), &m);
        return Model(m);
    }

    std::vector<Value> inputs() const { return values(opw_model_input_count, opw_model_input); }
    std::vector<Value> outputs() const { return values(opw_model_output_count, opw_model_output); }
    // Text stored in the model under a key; "" when there is none.
    std::string metadata(const std::string& key) const {
        const char* text = opw_model_metadata(model_.get(), key.c_str());
        return text ? text : "";
    }

    // Outputs named in `wanted`, in that order; all of the model's when it is empty.
    std::vector<Tensor> run(const Inputs& inputs, const std::vector<std::string>& wanted = {}) {
        const auto fed = detail::views(inputs);
        std::vector<const char*> names;
        for (const std::string& n : wanted) names.push_back(n.c_str());
        opw_tensors* result = nullptr;
        detail::call(opw_model_run, model_.get(), fed.data(), fed.size(), names.data(), names.size(), &result);
        return detail::take(result);
    }

    // JSON, as `opwright profile MODEL --json` prints it.
    std::string profile(const Inputs& inputs, const Options& options = {}) {
        const auto fed = detail::views(inputs);
        char* json = nullptr;
        detail::call(opw_model_profile_json, model_.get(), fed.data(), fed.size(),
                     static_cast<const opw_options*>(detail::options(options).get()), &json);
        return detail::take(json);
    }

private:
    explicit Model(opw_model* m) : model_(m) {}

    template <class Count, class Get>
    std::vector<Value> values(Count count, Get get) const {
        std::vector<Value> all;
        for (size_t i = 0; i < count(model_.get()); ++i) {
            opw_value raw{};
            detail::call(get, static_cast<const opw_model*>(model_.get()), i, &raw);
            Value v{raw.name, raw.dtype, raw.rank >= 0, {}, {}};
            for (int32_t d = 0; d < raw.rank; ++d) {
                v.shape.push_back(raw.shape[d]);
                v.symbols.emplace_back(raw.symbols[d] ? raw.symbols[d] : "");
            }
            all.push_back(std::move(v));
        }
        return all;
    }

    detail::Handle<opw_model, opw_model_free> model_;
};

// The operators that one text declares.
class Library {
public:
    explicit Library(const std::string& text, const std::string& name = "<text>") {
        opw_library* l = nullptr;
        detail::call(opw_library_parse, text.c_str(), name.c_str(), &l);
        library_.reset(l);
    }
    std::vector<std::string> operators() const {
        std::vector<std::string> names;
        for (size_t i = 0; i < opw_library_count(library_.get()); ++i)
            names.emplace_back(opw_library_operator(library_.get(), i));
        return names;
    }
    // JSON, as `opwright explain FILE --json` prints it: shape rule, cost, reference.
    std::string explain(const std::string& op) const {
        char* json = nullptr;
        detail::call(opw_library_explain_json, static_cast<const opw_library*>(library_.get()), op.c_str(), &json);
        return detail::take(json);
    }
    const opw_library* get() const { return library_.get(); }

private:
    detail::Handle<opw_library, opw_library_free> library_;
};

// A compiled operator; it outlives its Library.
class Operator {
public:
    // `attributes` as the language writes them: "stride = 2, pad = 1".
    Operator(const Library& library, const std::string& name, const std::string& attributes = "",
             const Options& options = {})
        : Operator(library.get(), name, attributes, options) {}
    // Of the built-in library.
    explicit Operator(const std::string& name, const std::string& attributes = "", const Options& options = {})
        : Operator(nullptr, name, attributes, options) {}

    std::vector<Tensor> run(const Inputs& inputs) {
        const auto fed = detail::views(inputs);
        opw_tensors* result = nullptr;
        detail::call(opw_operator_run, operator_.get(), fed.data(), fed.size(), &result);
        return detail::take(result);
    }

private:
    Operator(const opw_library* library, const std::string& name, const std::string& attributes,
             const Options& options) {
        opw_operator* o = nullptr;
        detail::call(opw_operator_compile, library, name.c_str(), attributes.c_str(),
                     static_cast<const opw_options*>(detail::options(options).get()), &o);
        operator_.reset(o);
    }
    detail::Handle<opw_operator, opw_operator_free> operator_;
};

inline std::string version() { return opw_version(); }

// JSON, as `opwright doctor --json` prints it.
inline std::string doctor() {
    char* json = nullptr;
    detail::call(opw_doctor_json, &json);
    return detail::take(json);
}

}  // namespace opwright
