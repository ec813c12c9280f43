// Builds small ONNX models for tests.
#pragma once
#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "base/tensor.h"
#include "graph/onnx/import.h"
#include "graph/onnx/tensor_proto.h"
#include "onnx_messages.pb.h"

namespace opwright::graph::onnx {

using Dim = std::variant<int64_t, std::string>;

template <class T>
Tensor make_tensor(DType t, Shape s, std::initializer_list<T> v) {
    Tensor r(t, std::move(s));
    int64_t i = 0;
    for (T x : v) is_float(t) ? r.set(i++, static_cast<double>(x)) : r.set_int(i++, static_cast<int64_t>(x));
    return r;
}
inline Tensor ints(std::initializer_list<int64_t> v) {
    return make_tensor(DType::I64, {static_cast<int64_t>(v.size())}, v);
}
inline Tensor scalar(int64_t v) { return make_tensor<int64_t>(DType::I64, {}, {v}); }

struct ModelBuilder {
    ::opwright::onnx::ModelProto model;

    explicit ModelBuilder(int64_t opset = 17) {
        model.set_ir_version(8);
        model.mutable_graph()->set_name("test");
        model.add_opset_import()->set_version(opset);
    }
    ::opwright::onnx::GraphProto& graph() { return *model.mutable_graph(); }

    static void declare(::opwright::onnx::ValueInfoProto& v, const std::string& name, DType t,
                        const std::vector<Dim>& dims) {
        v.set_name(name);
        auto& type = *v.mutable_type()->mutable_tensor_type();
        type.set_elem_type(dtype_to_onnx(t));
        type.mutable_shape();
        for (const Dim& d : dims) {
            auto& dim = *type.mutable_shape()->add_dim();
            if (d.index() == 0)
                dim.set_dim_value(std::get<0>(d));
            else
                dim.set_dim_param(std::get<1>(d));
        }
    }
    ModelBuilder& input(const std::string& name, DType t, const std::vector<Dim>& dims) {
        declare(*graph().add_input(), name, t, dims);
        return *this;
    }
    ModelBuilder& output(const std::string& name) {
        graph().add_output()->set_name(name);
        return *this;
    }
    ModelBuilder& constant(const std::string& name, const Tensor& t) {
        graph().add_initializer()->ParseFromString(tensor_to_proto(t, name));
        return *this;
    }
    ::opwright::onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& in,
                                      const std::vector<std::string>& out) {
        return add_node(*graph().mutable_node(), op, in, out);
    }
    template <class List>
    static ::opwright::onnx::NodeProto& add_node(List& list, const std::string& op, const std::vector<std::string>& in,
                                                 const std::vector<std::string>& out) {
        auto& n = *list.Add();
        n.set_op_type(op);
        for (const auto& s : in) n.add_input(s);
        for (const auto& s : out) n.add_output(s);
        return n;
    }
    std::string bytes() const { return model.SerializeAsString(); }

    std::variant<Graph, ImportFailure> import_with(const ImportOptions& o = {}) const {
        auto m = parse_bytes(bytes());
        if (!m.ok()) {
            ImportFailure f;
            f.diagnostic = m.error();
            f.malformed = true;
            return f;
        }
        return import(**m, o);
    }
};

inline void set_int(::opwright::onnx::NodeProto& n, const std::string& name, int64_t v) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(2);
    a.set_i(v);
}
inline void set_ints(::opwright::onnx::NodeProto& n, const std::string& name, std::initializer_list<int64_t> v) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(7);
    for (int64_t x : v) a.add_ints(x);
}
inline void set_tensor(::opwright::onnx::NodeProto& n, const std::string& name, const Tensor& t) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(4);
    a.mutable_t()->ParseFromString(tensor_to_proto(t, ""));
}

}  // namespace opwright::graph::onnx
