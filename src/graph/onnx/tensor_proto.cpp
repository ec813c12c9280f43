#include "graph/onnx/tensor_proto.h"

#include <bit>
#include <charconv>
#include <cstring>

#include "graph/onnx/decode.h"

namespace opwright::graph::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX stores little-endian data, which is used in place");

struct TypeName {
    const char* name;
    std::optional<DType> dtype;
};
// By ONNX's number.
constexpr TypeName kTypes[] = {{"undefined", {}},
                               {"float32", DType::F32},
                               {"uint8", DType::U8},
                               {"int8", DType::I8},
                               {"uint16", DType::U16},
                               {"int16", DType::I16},
                               {"int32", DType::I32},
                               {"int64", DType::I64},
                               {"string", {}},
                               {"bool", DType::Bool},
                               {"float16", DType::F16},
                               {"float64", DType::F64},
                               {"uint32", DType::U32},
                               {"uint64", DType::U64},
                               {"complex64", {}},
                               {"complex128", {}},
                               {"bfloat16", DType::BF16},
                               {"float8e4m3fn", {}},
                               {"float8e4m3fnuz", {}},
                               {"float8e5m2", {}},
                               {"float8e5m2fnuz", {}},
                               {"uint4", {}},
                               {"int4", {}},
                               {"float4e2m1", {}},
                               {"float8e8m0", {}},
                               {"uint2", {}},
                               {"int2", {}}};

std::string who(const pb::TensorProto& t) { return t.name().empty() ? "a tensor" : "the tensor '" + t.name() + "'"; }

// Copies a typed list, converting each element by `f`.
template <class To, class List, class F>
Result<Tensor> from_list(const pb::TensorProto& t, DType type, const Shape& shape, const List& list, const char* field,
                         F f) {
    const int64_t n = element_count(shape);
    if (list.size() != n)
        return Diagnostic("The file is damaged: " + who(t) + " of shape " + to_string(shape) + " has " +
                          std::to_string(n) + " elements, and its " + field + " holds " + std::to_string(list.size()) +
                          ".");
    Tensor r(type, shape);
    To* to = r.as<To>();
    for (int64_t i = 0; i < n; ++i) to[i] = f(list.Get(static_cast<int>(i)));
    return r;
}

// A tensor over bytes kept alive by `owner`, without a copy where the address is aligned for the element.
Tensor over_bytes(DType type, const Shape& shape, const char* bytes, const std::shared_ptr<const void>& owner) {
    // Kernels read what is small in every run, as scales and biases, and vectors that lie across two lines take longer (a layer norm
    // by half). What is large stays where it is.
    constexpr size_t kLine = 64, kSmall = 1 << 20;
    const size_t n = static_cast<size_t>(element_count(shape)) * size_of(type);
    const bool aligned = reinterpret_cast<uintptr_t>(bytes) % (n <= kSmall ? kLine : size_of(type)) == 0;
    Tensor r;
    if (aligned && owner && n > 0) {
        r = Tensor::wrap(type, shape, const_cast<char*>(bytes), std::const_pointer_cast<void>(owner));
    } else {
        r = Tensor(type, shape);
        if (n) std::memcpy(r.data(), bytes, n);
    }
    if (type != DType::Bool) return r;
    // A bool is 0 or 1 with us; a file may say true with any bit.
    bool clean = true;
    for (size_t i = 0; i < n; ++i) clean = clean && static_cast<unsigned char>(bytes[i]) <= 1;
    if (clean) return r;
    Tensor copy(type, shape);
    for (size_t i = 0; i < n; ++i) copy.as<uint8_t>()[i] = bytes[i] != 0;
    return copy;
}

std::optional<uint64_t> number(const std::string& s) {
    uint64_t v = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
    return v;
}

Result<Tensor> external(const pb::TensorProto& t, DType type, const Shape& shape, ExternalFiles* files) {
    std::string location;
    uint64_t offset = 0;
    std::optional<uint64_t> length;
    for (const auto& e : t.external_data()) {
        if (e.key() == "location") {
            location = e.value();
        } else if (e.key() == "offset" || e.key() == "length") {
            const auto v = number(e.value());
            if (!v)
                return Diagnostic("The file is damaged: the " + e.key() + " of " + who(t) + " is '" + e.value() +
                                  "', no number.");
            if (e.key() == "offset")
                offset = *v;
            else
                length = *v;
        }
    }
    if (!files)
        return Diagnostic("The data of " + who(t) + " are in another file, '" + location +
                          "', which is not read here.");
    auto file = files->open(location);
    if (!file.ok()) return file.error();
    const uint64_t want = static_cast<uint64_t>(element_count(shape)) * size_of(type);
    if (length && *length != want)
        return Diagnostic("The file is damaged: " + who(t) + " of shape " + to_string(shape) + " has " +
                          std::to_string(want) + " bytes, and its external data have " + std::to_string(*length) + ".");
    if (offset > (*file)->size || want > (*file)->size - offset)
        return Diagnostic("The external data '" + location + "' are too short: " + who(t) + " wants bytes " +
                              std::to_string(offset) + " to " + std::to_string(offset + want) + ", and the file has " +
                              std::to_string((*file)->size) + ".",
                          {}, "Copy the file again; it may have been cut off.");
    return over_bytes(type, shape, (*file)->data + offset, *file);
}
}  // namespace

std::optional<DType> dtype_from_onnx(int32_t type) {
    if (type < 0 || type >= static_cast<int32_t>(std::size(kTypes))) return std::nullopt;
    return kTypes[type].dtype;
}
int32_t dtype_to_onnx(DType t) {
    for (size_t i = 0; i < std::size(kTypes); ++i)
        if (kTypes[i].dtype == t) return static_cast<int32_t>(i);
    return 0;
}
std::string onnx_type_name(int32_t type) {
    if (type < 0 || type >= static_cast<int32_t>(std::size(kTypes))) return "number " + std::to_string(type);
    return kTypes[type].name;
}

Result<Tensor> decode_tensor(const pb::TensorProto& t, const std::shared_ptr<const void>& owner, ExternalFiles* files) {
    const auto type = dtype_from_onnx(t.data_type());
    if (!type)
        return Diagnostic("The element type " + onnx_type_name(t.data_type()) + " of " + who(t) + " is not supported.",
                          {}, "Opwright has bool, the integers of 8 to 64 bits, f16, bf16, f32 and f64.");
    if (t.has_segment()) return Diagnostic("Tensors in segments are not supported (" + who(t) + ").");
    const Shape shape(t.dims().begin(), t.dims().end());
    constexpr int64_t kMaxElements = int64_t{1} << 40;
    if (shape.size() > 64 || element_count(shape) < 0 || element_count(shape) > kMaxElements)
        return Diagnostic("The file is damaged: the shape " +
                          (shape.size() > 64 ? "of " + std::to_string(shape.size()) + " dims" : to_string(shape)) +
                          " of " + who(t) + " is none a tensor can have.");
    if (t.data_location() == 1) return external(t, *type, shape, files);
    if (!t.raw_data().empty()) {
        if (t.raw_data().size() != static_cast<uint64_t>(element_count(shape)) * size_of(*type))
            return Diagnostic("The file is damaged: " + who(t) + " of shape " + to_string(shape) + " and type " +
                              std::string(name(*type)) + " has " + std::to_string(t.raw_data().size()) +
                              " bytes of data.");
        return over_bytes(*type, shape, t.raw_data().data(), owner);
    }
    const auto narrow = [&]<class To>(To) {
        return from_list<To>(t, *type, shape, t.int32_data(), "int32_data",
                             [](int32_t v) { return static_cast<To>(v); });
    };
    switch (*type) {
        case DType::F32:
            return from_list<float>(t, *type, shape, t.float_data(), "float_data", [](float v) { return v; });
        case DType::F64:
            return from_list<double>(t, *type, shape, t.double_data(), "double_data", [](double v) { return v; });
        case DType::I64:
            return from_list<int64_t>(t, *type, shape, t.int64_data(), "int64_data", [](int64_t v) { return v; });
        case DType::U64:
            return from_list<uint64_t>(t, *type, shape, t.uint64_data(), "uint64_data", [](uint64_t v) { return v; });
        case DType::U32:
            return from_list<uint32_t>(t, *type, shape, t.uint64_data(), "uint64_data",
                                       [](uint64_t v) { return static_cast<uint32_t>(v); });
        case DType::Bool:
            return from_list<uint8_t>(t, *type, shape, t.int32_data(), "int32_data",
                                      [](int32_t v) { return static_cast<uint8_t>(v != 0); });
        case DType::I8: return narrow(int8_t{});
        case DType::I16: return narrow(int16_t{});
        case DType::I32: return narrow(int32_t{});
        case DType::U8: return narrow(uint8_t{});
        case DType::U16:
        case DType::F16:
        case DType::BF16: return narrow(uint16_t{});
    }
    return Diagnostic("The element type of " + who(t) + " is not supported.");
}

Result<NamedTensorProto> tensor_from_proto(std::string_view bytes) {
    auto t = std::make_shared<pb::TensorProto>();
    if (bytes.size() > INT32_MAX || !t->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return Diagnostic("These bytes are no ONNX tensor.");
    OPW_TRY(Tensor tensor, decode_tensor(*t, t, nullptr));
    return NamedTensorProto{t->name(), std::move(tensor)};
}

std::string tensor_to_proto(const Tensor& t, const std::string& name) {
    pb::TensorProto m;
    m.set_name(name);
    m.set_data_type(dtype_to_onnx(t.dtype()));
    for (int64_t d : t.shape()) m.add_dims(d);
    if (t.bytes()) m.set_raw_data(t.data(), t.bytes());
    return m.SerializeAsString();
}

}  // namespace opwright::graph::onnx
