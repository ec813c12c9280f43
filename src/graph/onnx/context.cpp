#include <cmath>
#include <set>

#include "graph/onnx/importer.h"

namespace opwright::graph::onnx {
namespace {
// ONNX's numbers of attribute types.
enum AttributeType { kAny = 0, kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kFloats = 6, kInts = 7, kStrings = 8 };

// The oldest files leave the type out; then the field that is set tells.
int type_of(const pb::AttributeProto& a) {
    if (a.type() != 0) return a.type();
    if (a.has_f()) return kFloat;
    if (a.has_i()) return kInt;
    if (a.has_s()) return kString;
    if (a.has_t()) return kTensor;
    if (a.floats_size()) return kFloats;
    if (a.ints_size()) return kInts;
    if (a.strings_size()) return kStrings;
    return kAny;
}
std::string type_name(int type) {
    switch (type) {
        case kFloat: return "a number";
        case kInt: return "an integer";
        case kString: return "a string";
        case kTensor: return "a tensor";
        case kFloats: return "a list of numbers";
        case kInts: return "a list of integers";
        case kStrings: return "a list of strings";
        default: return "of another type";
    }
}
}  // namespace

const std::string& Context::op_type() const { return node_.source.type; }
int Context::opset() const { return static_cast<int>(node_.opset); }
bool Context::has(const std::string& name) const { return node_.attributes.count(name) > 0; }

const pb::AttributeProto* Context::find(const std::string& name, int type) const {
    const auto it = node_.attributes.find(name);
    if (it == node_.attributes.end()) return nullptr;
    const int is = type_of(*it->second);
    const bool list = type == kFloats || type == kInts || type == kStrings;
    if (is == type || (is == kAny && list)) return it->second;  // an empty list without a type
    if (!attribute_error_)
        attribute_error_ = unsupported("its attribute '" + name + "' is " + type_name(is) + " where " +
                                       type_name(type) + " is expected");
    return nullptr;
}

int64_t Context::int_attribute(const std::string& name, int64_t otherwise) const {
    const auto* a = find(name, kInt);
    return a ? a->i() : otherwise;
}
double Context::float_attribute(const std::string& name, double otherwise) const {
    const auto* a = find(name, kFloat);
    return a ? static_cast<double>(a->f()) : otherwise;
}
std::string Context::string_attribute(const std::string& name, const std::string& otherwise) const {
    const auto* a = find(name, kString);
    return a ? a->s() : otherwise;
}
std::optional<std::vector<int64_t>> Context::ints(const std::string& name) const {
    const auto* a = find(name, kInts);
    if (!a) return std::nullopt;
    return std::vector<int64_t>(a->ints().begin(), a->ints().end());
}
std::optional<std::vector<double>> Context::floats(const std::string& name) const {
    const auto* a = find(name, kFloats);
    if (!a) return std::nullopt;
    return std::vector<double>(a->floats().begin(), a->floats().end());
}
std::optional<std::vector<std::string>> Context::strings(const std::string& name) const {
    const auto* a = find(name, kStrings);
    if (!a) return std::nullopt;
    return std::vector<std::string>(a->strings().begin(), a->strings().end());
}
std::optional<Tensor> Context::tensor(const std::string& name) const {
    const auto* a = find(name, kTensor);
    if (!a) return std::nullopt;
    auto t = decode_tensor(a->t(), importer_.owner_, &importer_.files_);
    if (t.ok()) return std::move(*t);
    if (!attribute_error_) attribute_error_ = t.error();
    return std::nullopt;
}

size_t Context::input_count() const { return node_.inputs.size(); }
ValueId Context::input(size_t i) const { return i < node_.inputs.size() ? node_.inputs[i] : kNone; }
size_t Context::output_count() const { return static_cast<size_t>(node_.proto->output_size()); }
bool Context::output_wanted(size_t i) const {
    return i < output_count() && !node_.proto->output(static_cast<int>(i)).empty();
}
const Value& Context::value(ValueId v) const { return importer_.graph_.values.at(v); }

Diagnostic Context::not_known(size_t i) {
    const ValueId v = input(i);
    const std::string what =
        "the value of its input " + std::to_string(i + 1) + (value(v).name.empty() ? "" : " ('" + value(v).name + "')");
    const std::set<std::string> inputs = importer_.deciding_inputs(v);
    if (inputs.empty())
        return unsupported(
            what + " is not known when the model is imported; it would have to be a constant or follow from shapes");
    std::string names;
    for (const std::string& n : inputs) names += (names.empty() ? "'" : ", '") + n + "'";
    needed_.insert(inputs.begin(), inputs.end());
    return unsupported(what + " decides its shape or form, and depends on the model's input " + names);
}

Result<std::vector<math::Sym>> Context::content(size_t i) {
    const ValueId v = input(i);
    if (v == kNone) return unsupported("its input " + std::to_string(i + 1) + " is missing");
    if (!value(v).content && !importer_.fold(v)) return not_known(i);
    if (value(v).content) return *value(v).content;
    // Whole numbers of a float type (a depth, a size) are integers too.
    if (is_float(value(v).dtype) && value(v).constant->size() <= kContentLimit) {
        std::vector<math::Sym> r;
        for (int64_t k = 0; k < value(v).constant->size(); ++k) {
            const double x = value(v).constant->get(k);
            if (x != std::floor(x) || std::abs(x) > 0x1p53)
                return unsupported("its input " + std::to_string(i + 1) + " is " + std::to_string(x) +
                                   ", where a whole number is expected");
            r.emplace_back(static_cast<int64_t>(x));
        }
        return r;
    }
    return unsupported("its input " + std::to_string(i + 1) + " has more than " + std::to_string(kContentLimit) +
                       " elements or is not of an integer type, where few integers are expected");
}

Result<std::vector<int64_t>> Context::constant_ints(size_t i) {
    const ValueId v = input(i);
    if (v != kNone && importer_.fold(v) && !is_float(value(v).dtype)) {
        const Tensor& t = *value(v).constant;
        std::vector<int64_t> r(static_cast<size_t>(t.size()));
        for (size_t k = 0; k < r.size(); ++k) r[k] = t.get_int(static_cast<int64_t>(k));
        return r;
    }
    OPW_TRY(const std::vector<math::Sym> elements, content(i));
    std::vector<int64_t> r;
    for (const math::Sym& e : elements) {
        if (!e.is_const())
            return unsupported("its input " + std::to_string(i + 1) + " depends on an open extent (" + e.str() +
                               "), where numbers are needed; give the input's shape");
        r.push_back(*e.constant());
    }
    return r;
}

Result<Tensor> Context::constant(size_t i) {
    const ValueId v = input(i);
    if (v == kNone) return unsupported("its input " + std::to_string(i + 1) + " is missing");
    if (!importer_.fold(v)) return not_known(i);
    return *value(v).constant;
}

Result<std::vector<ValueId>> Context::emit(const std::string& op, const std::vector<ValueId>& inputs,
                                           const lang::Attributes& attributes) {
    return importer_.emit(op, inputs, attributes, node_.source);
}
ValueId Context::view(ValueId v, std::vector<math::Sym> shape) {
    return importer_.view(v, std::move(shape), node_.source);
}
void Context::require(math::Sym condition, const std::string& what) {
    importer_.require(std::move(condition), node_.source, what);
}
ValueId Context::add_constant(Tensor t) { return importer_.add_constant(std::move(t), ""); }
ValueId Context::add_content(std::vector<math::Sym> elements, std::vector<math::Sym> shape, DType t) {
    Known k{t, {}, std::move(elements)};
    for (const math::Sym& s : shape) k.shape.push_back(s.constant().value());
    return importer_.add_known(k, "");
}
Result<std::string> Context::declare(const std::string& source) { return importer_.declare(source); }

Diagnostic Context::unsupported(std::string reason) const {
    return Diagnostic("The node '" + node_.source.name + "' (" + node_.source.type + ") is not supported: " + reason +
                      ".");
}

}  // namespace opwright::graph::onnx
