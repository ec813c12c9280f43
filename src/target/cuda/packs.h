// Loads and stores of VECTOR neighbouring elements along one variable: which accesses allow it, when, and their text.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "target/cuda/point.h"
#include "target/cuda/program.h"

namespace opwright::target::cuda {

class Packs {
public:
    Packs(const math::Program& p, const std::vector<DType>& stored, int64_t most = 16)
        : p_(p), stored_(stored), most_(most) {}

    // Notes the accesses of e that can be packs along `lane`.
    void add(math::ExprId e, math::VarId lane, bool into_reduces);
    void leave_out(math::TensorId t) { out_.push_back(t); }  // written in the same place: not loaded
    void add_store(math::TensorId t) { note(t); }
    bool can(math::ExprId load, math::VarId lane) const;
    // Elements of 16 bytes of the widest type, `most` at most; 1 where no access can be a pack.
    int64_t width() const;
    bool any() const { return !tensors_.empty(); }
    // What must hold for packs of width() along `lane`.
    std::vector<Condition> conditions(math::VarId lane) const;

    // Emits the loads of e that do not depend on `lane`, at the present place.
    void uniform_loads(Point& at, math::ExprId e, math::VarId lane) const;
    // Emits the pack loads of e at the present place (the lane variable bound to the first element); adds to `loaded`
    // the load and the name of its pack.
    void load(Point& at, math::ExprId e, std::vector<std::pair<math::ExprId, std::string>>& loaded) const;
    // Element `v` of each pack becomes the value of its load.
    void take(Point& at, const std::vector<std::pair<math::ExprId, std::string>>& loaded, const std::string& v) const;
    std::string declare(Point& at, math::TensorId t) const;
    // `once`: what is stored need not stay in the caches.
    void store(Point& at, const math::Equation& q, const std::string& pack, bool once = false) const;

private:
    void note(math::TensorId t);
    const math::Program& p_;
    const std::vector<DType>& stored_;
    int64_t most_;
    std::vector<std::pair<math::ExprId, math::VarId>> loads_;
    std::vector<math::TensorId> tensors_, out_;
};

}  // namespace opwright::target::cuda
