// Positions of extremes: argmax and argmin.
#pragma once
#include "target/ascend/writer_values.h"

namespace opwright::target::ascend {

class WriterBest : public WriterValues {
protected:
    using WriterValues::WriterValues;

    // "if (better) { best = v; at = place; }" of an arg reduction: NaN is beyond every number, and of equals the first
    // (or last) wins.
    void better(Lines& l, const Acc& a, const Expr& x, const std::string& v, const std::string& old_best,
                const std::string& old_at, const std::function<void(Lines&, const std::string&)>& set) {
        const bool most = a.op == ReduceOp::ArgMax || a.op == ReduceOp::ArgMaxLast;
        const bool last = a.op == ReduceOp::ArgMaxLast || a.op == ReduceOp::ArgMinLast;
        const std::string op = std::string(most ? ">" : "<") + (last ? "=" : "");
        std::string test = fmt::format("{} < 0 || {} {} {}", old_at, v, op, old_best);
        if (is_float(a.best_type))
            test +=
                last ? fmt::format(" || {0} != {0}", v) : fmt::format(" || ({0} != {0} && {1} == {1})", v, old_best);
        l.push_back(fmt::format("if ({}) {{", test));
        Lines inner;
        set(inner, place_of(x));
        for (const std::string& i : inner) l.push_back("    " + i);
        l.push_back("}");
    }
    // The position of the present point among those that x runs over.
    std::string place_of(const Expr& x) {
        std::string place;
        for (VarId u : x.vars) {
            const std::string& text = scalar_.vars.at(u);
            place = place.empty() ? text : fmt::format("({}) * ({}) + {}", place, scalar_.sym(m_.vars[u].extent), text);
        }
        return place;
    }

    // The best of a tile by vector instructions, where find_by_vector says so and its terms are a tensor: the name of
    // a Best, whose place counts from the tile's beginning.
    std::optional<std::string> best_of_tile(const Stmt& s, const Acc& a) {
        if (!find_by_vector(s)) return std::nullopt;
        const auto terms = term_value(s.a);
        if (!terms || terms->kind != Value::Tensor) return std::nullopt;
        const char* const f = a.op == ReduceOp::ArgMax ? "FindLargest" : "FindSmallest";
        helpers_.use(f);
        helpers_.use("Await");
        const Value scratch = vector_.scratch(), numbers = vector_.scratch_mask();
        const std::string found = own_.unique("found");
        compute_.push_back(fmt::format("const Best {} = {}({}, {}, {}, {}, workBuf.Get<float>(), count, lanes);", found,
                                       f, terms->text, scratch.text, numbers.text, folded()));
        vector_.release(scratch);
        vector_.release(numbers);
        work_ = std::max(work_, Work::Places);
        return found;
    }
    // What `make` returns where the block's variable is the place that was found.
    template <typename F>
    void at_found(const std::string& found, F make) {
        const std::string outer = scalar_.vars.at(block_);
        scalar_.vars[block_] = whole_ ? found + ".place" : fmt::format("{} + {}.place", names_.var(block_), found);
        make();
        scalar_.vars[block_] = outer;
    }
    // The LocalTensor of folded values, in the present method.
    std::string folded() {
        if (folded_.empty()) folded_ = own_.unique("folded");
        if (folded_segment_ != segment_)
            compute_.push_back(fmt::format("LocalTensor<float> {} = foldedBuf.Get<float>();", folded_));
        folded_segment_ = segment_;
        return folded_;
    }

    // The tensor of a term on the block, in compute type.
    std::optional<Value> term_value(BufferId b) {
        auto it = places_.find(b);
        if (it == places_.end() || it->second.scalar) return std::nullopt;
        if (it->second.global) materialise(b);
        Place& pl = places_.at(b);
        if (is_float(pl.dtype) && pl.dtype != DType::F32) widen(b);
        Place& q = places_.at(b);
        return Value{q.kind, local(q), q.dtype, -1};
    }
};

}  // namespace opwright::target::ascend
