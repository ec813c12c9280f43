#include "math/merge.h"

#include <algorithm>
#include <cassert>
#include <unordered_set>

namespace opwright::math {
namespace {

class Merger {
public:
    Merger(const std::string& name, std::span<const uint32_t> outputs) : outputs_(outputs.begin(), outputs.end()) {
        q_.name = name;
    }

    Program run(std::span<const Part> parts, std::span<const uint32_t> inputs) {
        for (uint32_t v : inputs) {
            const TensorInfo* like = reader_of(parts, v);
            assert(like);
            place(v, *like, Role::Input);
        }
        for (const Part& part : parts) add(part);
        for (uint32_t v : outputs_) {
            assert(value_.count(v));
            q_.outputs.push_back(value_.at(v));
        }
        return std::move(q_);
    }

private:
    static const TensorInfo* reader_of(std::span<const Part> parts, uint32_t v) {
        for (const Part& p : parts)
            for (size_t i = 0; i < p.inputs.size(); ++i)
                if (p.inputs[i] == v) return &p.program->tensors[p.program->inputs[i]];
        return nullptr;
    }

    std::string unused(const std::string& wanted) {
        std::string n = wanted;
        for (int i = 2; !names_.insert(n).second; ++i) n = wanted + std::to_string(i);
        return n;
    }

    TensorId place(uint32_t v, const TensorInfo& like, Role role) {
        // Outputs are listed at the end, in the order asked for, so they are not added as such here.
        const TensorId id = q_.add_tensor(unused(like.name), like.dtype, like.shape,
                                          role == Role::Output ? Role::Temp : role);
        q_.tensors[id].role = role;
        value_[v] = id;
        return id;
    }

    void add(const Part& part) {
        const Program& p = *part.program;
        assert(part.inputs.size() == p.inputs.size() && part.outputs.size() == p.outputs.size());
        Rewriter rw{.from = p, .into = q_};
        for (size_t i = 0; i < p.inputs.size(); ++i)
            if (auto v = value_.find(part.inputs[i]); v != value_.end()) rw.tensors[p.inputs[i]] = v->second;
        for (size_t i = 0; i < p.outputs.size(); ++i) {
            const bool leaves = std::find(outputs_.begin(), outputs_.end(), part.outputs[i]) != outputs_.end();
            rw.tensors[p.outputs[i]] = place(part.outputs[i], p.tensors[p.outputs[i]], leaves ? Role::Output : Role::Temp);
        }
        for (TensorId t = 0; t < p.tensors.size(); ++t) {
            const TensorInfo& info = p.tensors[t];
            if (info.role == Role::Temp) rw.tensors[t] = q_.add_tensor(unused(info.name), info.dtype, info.shape, Role::Temp);
            if (info.role == Role::Constant) rw.tensors[t] = q_.add_constant(unused(info.name), info.data);
        }
        for (VarId v = 0; v < p.vars.size(); ++v) {
            const VarId n = q_.add_var(p.vars[v].name, p.vars[v].extent);
            rw.vars[v] = q_.index(n);
            rw.bound[v] = n;
        }
        for (const Equation& e : p.equations) {
            Equation n = e;
            n.lhs = rw.tensors.at(e.lhs);
            for (ExprId& a : n.at) a = rw(a);
            n.rhs = rw(e.rhs);
            for (VarId& v : n.vars) v = rw.bound.at(v);
            q_.equations.push_back(std::move(n));
        }
        for (const Requirement& r : p.requirements) {
            const auto same = [&](const Requirement& o) { return o.value == r.value && o.message == r.message; };
            if (std::none_of(q_.requirements.begin(), q_.requirements.end(), same)) q_.requirements.push_back(r);
        }
    }

    Program q_;
    std::vector<uint32_t> outputs_;
    std::unordered_map<uint32_t, TensorId> value_;
    std::unordered_set<std::string> names_;
};
}  // namespace

Program merge(const std::string& name, std::span<const Part> parts, std::span<const uint32_t> inputs,
              std::span<const uint32_t> outputs) {
    return Merger(name, outputs).run(parts, inputs);
}

}  // namespace opwright::math
