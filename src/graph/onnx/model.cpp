#include "graph/onnx/model.h"

#include <algorithm>
#include <filesystem>

#include "graph/onnx/tensor_proto.h"
#include "io/file.h"

namespace opwright::graph::onnx {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string identifier(const std::string& s) {
    std::string r;
    for (char c : s) r += is_letter(c) || is_digit(c) ? c : '_';
    if (r.empty() || is_digit(r[0])) r = "d" + r;
    return r;
}

// Names that exporters give to every extent they do not know: equal names mean nothing.
bool is_nameless(const std::string& s) {
    static const std::set<std::string> kNames = {"", "?", "-1", "None", "none", "unknown", "*"};
    return kNames.count(s) > 0;
}

Result<ModelRef> parse(std::string_view bytes, const std::string& what, std::string folder) {
    if (bytes.size() > INT32_MAX)
        return Diagnostic(what + " is larger than 2 GiB, the most an ONNX file can be.", {},
                          "Save the model with its weights as external data.");
    auto m = std::make_shared<Model>();
    m->folder = std::move(folder);
    if (!m->proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return Diagnostic(what + " is no ONNX model, or is damaged or cut off.", {},
                          "Check that it is the .onnx file itself and was copied whole.");
    if (!m->proto.has_graph())
        return Diagnostic(what + " holds no ONNX graph.", {}, "Check that it is the .onnx file itself.");
    return ModelRef(std::move(m));
}
}  // namespace

Result<ModelRef> parse_file(const std::string& path) {
    OPW_TRY(const std::string bytes, io::read_file(path, uint64_t{INT32_MAX}));
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    return parse(bytes, "The file '" + path + "'", folder.empty() ? "." : folder.string());
}
Result<ModelRef> parse_bytes(std::string_view bytes) { return parse(bytes, "The model", ""); }

SymbolTable::SymbolTable(const pb::GraphProto& g) {
    const auto each = [&](auto&& f) {
        for (const auto* list : {&g.input(), &g.output()})
            for (const pb::ValueInfoProto& v : *list)
                if (const auto* shape = shape_of(v))
                    for (int d = 0; d < std::min(shape->dim_size(), kMaxRank); ++d) f(v, d, shape->dim(d));
    };
    // Names that the model gives come first, so that made-up ones keep clear of them.
    each([&](const pb::ValueInfoProto&, int, const auto& dim) {
        if (dim.has_dim_param() && !is_nameless(dim.dim_param()) && !params_.count(dim.dim_param()))
            params_[dim.dim_param()] = fresh(identifier(dim.dim_param()));
    });
    each([&](const pb::ValueInfoProto& v, int d, const auto& dim) {
        const bool open = dim.has_dim_value() ? dim.dim_value() == -1 : is_nameless(dim.dim_param());
        if (open && !nameless_.count({v.name(), d}))
            nameless_[{v.name(), d}] = fresh(identifier(v.name()) + "_" + std::to_string(d));
    });
}

std::string SymbolTable::fresh(const std::string& wish) {
    std::string name = wish;
    for (int i = 2; !taken_.insert(name).second; ++i) name = wish + "_" + std::to_string(i);
    return name;
}

bool SymbolTable::is_open(const pb::ValueInfoProto& v, int d) const {
    const auto& dim = shape_of(v)->dim(d);
    return !dim.has_dim_value() || dim.dim_value() == -1;
}

math::Sym SymbolTable::dim(const pb::ValueInfoProto& v, int d) const {
    const auto& dim = shape_of(v)->dim(d);
    if (!is_open(v, d)) return dim.dim_value();
    if (auto it = nameless_.find({v.name(), d}); it != nameless_.end()) return math::Sym::symbol(it->second);
    return math::Sym::symbol(params_.at(dim.dim_param()));
}

const pb::TensorShapeProto* shape_of(const pb::ValueInfoProto& v) {
    return v.type().has_tensor_type() && v.type().tensor_type().has_shape() ? &v.type().tensor_type().shape() : nullptr;
}

std::vector<const pb::ValueInfoProto*> open_inputs(const pb::GraphProto& g) {
    std::set<std::string> filled;
    for (const auto& t : g.initializer()) filled.insert(t.name());
    for (const auto& t : g.sparse_initializer()) filled.insert(t.values().name());
    std::vector<const pb::ValueInfoProto*> r;
    for (const auto& v : g.input())
        if (!filled.count(v.name())) r.push_back(&v);
    return r;
}

std::string unsupported_type(const pb::TypeProto& t) {
    switch (t.value_case()) {
        case pb::TypeProto::kTensorType:
            return dtype_from_onnx(t.tensor_type().elem_type()) ? "" : onnx_type_name(t.tensor_type().elem_type());
        case pb::TypeProto::kSequenceType: return "sequence";
        case pb::TypeProto::kMapType: return "map";
        case pb::TypeProto::kSparseTensorType: return "sparse tensor";
        case pb::TypeProto::kOptionalType: return "optional";
        case pb::TypeProto::VALUE_NOT_SET: return kNoType;
    }
    return "value of an unknown type";
}

namespace {
ModelValue describe(const pb::ValueInfoProto& v, const SymbolTable& symbols) {
    ModelValue r{v.name(), DType::F32, false, {}, unsupported_type(v.type())};
    if (!r.unsupported.empty()) return r;
    r.dtype = *dtype_from_onnx(v.type().tensor_type().elem_type());
    if (const auto* shape = shape_of(v); shape && shape->dim_size() <= kMaxRank) {
        r.has_rank = true;
        for (int d = 0; d < shape->dim_size(); ++d) r.shape.push_back(symbols.dim(v, d));
    }
    return r;
}
}  // namespace

std::vector<ModelValue> model_inputs(const Model& m) {
    const SymbolTable symbols(m.proto.graph());
    std::vector<ModelValue> r;
    for (const auto* v : open_inputs(m.proto.graph())) r.push_back(describe(*v, symbols));
    return r;
}
std::vector<ModelValue> model_outputs(const Model& m) {
    const SymbolTable symbols(m.proto.graph());
    std::vector<ModelValue> r;
    for (const auto& v : m.proto.graph().output()) r.push_back(describe(v, symbols));
    return r;
}

std::map<std::string, std::string> model_metadata(const Model& m) {
    std::map<std::string, std::string> r;
    for (const auto& p : m.proto.metadata_props()) r[p.key()] = p.value();
    if (!m.proto.producer_name().empty())
        r.emplace("producer", m.proto.producer_name() + " " + m.proto.producer_version());
    return r;
}

}  // namespace opwright::graph::onnx
