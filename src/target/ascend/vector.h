// L1 expressions over one block as count-form vector instructions.
#pragma once
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "target/ascend/scalar.h"

namespace opwright::target::ascend {

// A value over the block: the same everywhere, a LocalTensor, or a mask of bits.
struct Value {
    enum Kind : uint8_t { Uniform, Tensor, Mask } kind = Uniform;
    std::string text;  // of the scalar, or the LocalTensor's name
    DType dtype = DType::F32;
    int slot = -1;  // of a temporary
};

// Work buffers of the kernel class: tmpBuf0, tmpBuf1, ... of 4 bytes a lane, maskBuf0, ... of a bit a lane.
struct Slots {
    std::vector<bool> busy;
    int take() {
        for (size_t i = 0; i < busy.size(); ++i)
            if (!busy[i]) {
                busy[i] = true;
                return static_cast<int>(i);
            }
        busy.push_back(true);
        return static_cast<int>(busy.size()) - 1;
    }
    void give(int i) { busy[static_cast<size_t>(i)] = false; }
};

class Vector {
public:
    Vector(const math::Program& p, Scalar& scalar) : p_(p), scalar_(scalar) {}

    // ---- the present place
    math::VarId lane = math::kNone;                        // the variable along the block
    std::function<std::optional<Value>(math::ExprId)> at;  // the value that a buffer holds, if one does
    std::string count = "count";                           // elements an instruction works on
    std::vector<std::string>* out = nullptr;               // where instructions go
    Slots tensors, masks;

    // Whether e can be computed by vector instructions (with the scalar unit for functions that have none).
    bool can(math::ExprId e);
    bool varies(math::ExprId e) const;
    // Computes e into the tensor `into` (of compute type), or a temporary if empty. The caller gives temporaries back.
    Value eval(math::ExprId e, const std::string& into);
    // Converts a tensor of compute type to the memory type, into `into`.
    void store(const Value& v, DType memory, const std::string& into);
    // Converts a tensor as it lies in memory to compute type; itself where that is the same.
    Value load(const std::string& name, DType memory, const std::string& into);
    // Temporaries for helper functions, which the caller gives back.
    Value scratch() { return fresh("", DType::F32); }
    Value scratch_mask() { return fresh_mask(); }
    void release(const Value& v);
    bool compares() const { return compares_; }  // whether masks are used: then lanes come in whole 256 bytes
    // Starts a method: names of temporaries are declared anew.
    void begin_method() { declared_.clear(); }
    std::string tensor(int slot, const std::string& type);

private:
    Value node(math::ExprId e, const std::string& into);
    Value call(math::ExprId e, const std::string& into);
    Value cast(math::ExprId e, const std::string& into);
    Value select(math::ExprId e, const std::string& into);
    Value compare(const math::Expr& x);
    Value lanewise(const std::string& f, const std::vector<Value>& a, const std::string& into,
                   std::vector<Value>& spare);
    Value uniform(math::ExprId e);
    Value fresh(const std::string& into, DType t);
    Value fresh_mask();
    void line(std::string s) { out->push_back(std::move(s)); }
    void ready(const math::Expr& x);
    Value take(math::ExprId e, std::vector<Value>& spare);
    Value pick(const std::string& into, DType t, std::vector<Value>& spare);
    void give_back(std::vector<Value>& spare);
    math::ExprId strip(math::ExprId e) const;
    void count_uses(math::ExprId e);
    bool can_node(math::ExprId e);

    const math::Program& p_;
    Scalar& scalar_;
    std::unordered_map<math::ExprId, int> uses_;
    std::unordered_map<math::ExprId, Value> done_;
    std::set<std::string> declared_;
    bool compares_ = false;
};

}  // namespace opwright::target::ascend
