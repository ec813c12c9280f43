// What the bindings share: a table entry, and the small steps from ONNX's conventions to the library's.
#pragma once
#include <span>
#include <string_view>

#include "graph/onnx/binding.h"

namespace opwright::graph::onnx::bindings {

using math::Sym;
using Values = std::vector<ValueId>;
using Dims = std::vector<Sym>;
using Ints = std::vector<int64_t>;
using lang::Attributes;

struct Entry {
    std::string_view type;  // of the ONNX operator
    Binding bind = nullptr;
    std::string_view domain = "";  // "" is ai.onnx
};

// One table a family.
std::span<const Entry> elementwise();
std::span<const Entry> reductions();
std::span<const Entry> normalisations();
std::span<const Entry> losses();
std::span<const Entry> contractions();
std::span<const Entry> convolutions();
std::span<const Entry> pools();
std::span<const Entry> resamplers();
std::span<const Entry> indexers();
std::span<const Entry> layouts();
std::span<const Entry> quantisers();
std::span<const Entry> attentions();
std::span<const Entry> spectra();
std::span<const Entry> recurrences();
std::span<const Entry> optimisers();
std::span<const Entry> classical();  // ai.onnx.ml
std::span<const Entry> refusals();   // operators named only to say why they are not supported

inline Dims shape_of(const NodeContext& c, ValueId v) { return c.value(v).shape; }
inline int rank_of(const NodeContext& c, ValueId v) { return static_cast<int>(c.value(v).shape.size()); }
inline DType type_of(const NodeContext& c, ValueId v) { return c.value(v).dtype; }
inline ValueId input_or_none(const NodeContext& c, size_t i) { return i < c.input_count() ? c.input(i) : kNone; }

// The first output of an operator.
Result<ValueId> emit1(NodeContext& c, const std::string& op, const Values& inputs, const Attributes& a = {});
// An axis counted from the end made plain; an error where it leaves 0..rank-1 (0..rank where `end` is allowed).
Result<int> plain_axis(const NodeContext& c, int64_t axis, int rank, bool end = false);
// The same for a list: ascending; an error for a repeated axis.
Result<Ints> plain_axes(const NodeContext& c, const Ints& axes, int rank);
// Axes from the attribute `axes` or from input i; `otherwise` where both are absent.
Result<Ints> axes_of(NodeContext& c, size_t input, const Ints& otherwise);
Ints count_up(int n);  // 0 .. n-1
Dims to_dims(const Ints& v);
Dims slice_of(const Dims& d, size_t begin, size_t end);
Dims joined(std::initializer_list<Dims> parts);
// Views: without dims (of extent 1) or with more of them.
ValueId without_axes(NodeContext& c, ValueId v, const Ints& axes);
ValueId with_axes(NodeContext& c, ValueId v, const Ints& axes);
ValueId as_scalar(NodeContext& c, ValueId v);            // of one element, as rank 0
ValueId with_rank(NodeContext& c, ValueId v, int rank);  // dims of 1 put before the first
Result<ValueId> converted(NodeContext& c, ValueId v, DType t);
// A scalar (rank 0) constant.
ValueId scalar(NodeContext& c, double x, DType t);
// The dtype of an ONNX element type number (TensorProto.DataType); an error for those that the library lacks.
Result<DType> element_type(const NodeContext& c, int64_t number);
// The value of a constant of one element.
Result<double> constant_number(NodeContext& c, size_t i);
// A computed number of elements, rounded down. Errors: `what` is no number, or more than any tensor has.
Result<int64_t> count_of(const NodeContext& c, double v, const std::string& what);
// x with dims repeated to a larger shape, by ONNX's broadcasting.
Result<ValueId> broadcast_to(NodeContext& c, ValueId v, const Dims& target);
Result<ValueId> transposed(NodeContext& c, ValueId v, const Ints& perm);
// Elements begin, begin + step, ... (count of them) along one axis.
Result<ValueId> part(NodeContext& c, ValueId v, int axis, Sym begin, Sym count, int64_t step = 1);

// a / b, an error where b is known not to divide a; `what` names the parts ("groups").
Result<Sym> divided(const NodeContext& c, const Sym& a, const Sym& b, const std::string& what);

// Geometry of windows over spatial dims, shared by convolutions and pools.
struct Windows {
    Dims kernel, stride, dilation, begin, end;
    bool ceil = false;
};
// `spatial` are the extents of the input's spatial dims; reads strides, dilations, pads, auto_pad and ceil_mode.
Result<Windows> windows_of(const NodeContext& c, const Dims& spatial, const Dims& kernel);

}  // namespace opwright::graph::onnx::bindings
