// Tensors whose rows lie across the tiles: blocks of them are read along the rows and turned in the unified buffer.
#pragma once
#include "target/ascend/writer_loads.h"

namespace opwright::target::ascend {

class WriterTurned : public WriterLoads {
protected:
    using WriterLoads::WriterLoads;

    static constexpr int64_t kTurnedBytes = 128;  // of a row that are read at once

    // Looks for loads that step from row to row with the lanes, and from element to element with an axis of the grid:
    // turned_ becomes that axis, of which a task then takes a group.
    void find_turned() {
        turned_ = kNone;
        turned_loads_.clear();
        if (block_ == kNone || !in_grid_ || whole_ || product_) return;
        find_turned(nest_.body);
    }
    bool turns() const { return turned_ != kNone; }
    std::string turned_extent() { return scalar_.sym(m_.vars[turned_].extent); }
    // Of an axis of n elements.
    std::string groups(const std::string& n) const { return fmt::format("(({} + {}) / {})", n, group_ - 1, group_); }

    // Fetches and turns what the task needs of every such tensor.
    void turn_rows() {
        width_ = own_.unique("width");
        for (const auto& [b, dtype] : turned_loads_) {
            const Expr x = m_.expr(p_.buffers[b].value);
            const std::string name = upper_camel(p_.buffers[b].name), type = memory_type(dtype);
            const std::string rows = queue(p_.buffers[b].name + "Rows", dtype, Queue::In, group_);
            const std::string turned = own_.unique("turned" + name + "Buf"), local = own_.unique("rowsOf" + name);
            buffers_.push_back({turned, type, Queue::In, static_cast<int64_t>(size_of(dtype)), group_});
            std::string condition;
            Lines lines;
            const std::string at = scalar_.offset(x.ref, x.args.data(), Outside::Error, condition, lines);
            helpers_.use("LoadRows");
            helpers_.use("TurnRows");
            copy_in(rows, local, type, lines,
                    fmt::format("LoadRows({}, {}Gm[{}], count, {}, {});", "{}", parameter(x.ref), at, width_,
                                scalar_.sym(stride(x))));
            compute_.push_back(fmt::format("LocalTensor<{0}> {1} = {2}.DeQue<{0}>();", type, local, rows));
            compute_.push_back(fmt::format("TurnRows({}.Get<{}>(), {}, count, {}, {}, tiling.tileLength);", turned,
                                           type, local, padded_ ? "lanes" : "RoundUp(count, 16)", width_));
            compute_.push_back(fmt::format("{}.FreeTensor({});", rows, local));
            places_[b] = {.text = own_.unique(lower_camel(p_.buffers[b].name) + "Local"),
                          .dtype = dtype,
                          .buffer = turned,
                          .offset = fmt::format("[{} % {} * tiling.tileLength]", names_.var(turned_), group_),
                          .full = true};
        }
        rows_in_.swap(copy_in_);
        rows_turned_.swap(compute_);
        copy_in_.clear();
        compute_.clear();
    }

private:
    void find_turned(const std::vector<Stmt>& body) {
        for (const Stmt& s : body) {
            find_turned(s.body);
            if (s.kind != StmtKind::Load || !on_block(s.dst)) continue;
            const Expr& x = m_.expr(p_.buffers[s.dst].value);
            const VarId v = turned_along(x);
            if (v == kNone || (turned_ != kNone && v != turned_)) continue;
            const DType t = stored_type(x.ref);
            turned_ = v;
            group_ = std::max(group_, kTurnedBytes / static_cast<int64_t>(size_of(t)));
            turned_loads_.emplace(s.dst, t);
        }
    }
    // The axis of the grid along which an access reads the elements of a row while the lanes go from row to row.
    VarId turned_along(const Expr& x) const {
        const TensorInfo& t = m_.tensors[x.ref];
        const DType stored = stored_type(x.ref);
        if (t.shape.size() < 2 || (size_of(stored) != 2 && size_of(stored) != 4)) return kNone;
        if (contiguous(x) || window(x) != 0) return kNone;
        const auto in_grid = [&](VarId v) {
            return std::any_of(nest_.grid.begin(), nest_.grid.end(), [&](const auto& g) { return g.var == v; });
        };
        for (size_t d = 0; d < t.shape.size(); ++d) {
            const auto f = affine(m_, x.args[d]);
            if (!f || !m_.reads(x.args[d]).empty()) return kNone;
            if (x.outside != Outside::Error && !scalar_.inside(x.args[d], t.shape[d])) return kNone;
            for (VarId v : m_.free_vars(x.args[d]))
                if (!in_grid(v)) return kNone;
            if (has(m_.free_vars(x.args[d]), block_) && f->coefficient(block_).lower() < 1) return kNone;
        }
        const size_t last = t.shape.size() - 1;
        const auto along = m_.free_vars(x.args[last]);
        if (along.size() != 1 || along[0] == block_) return kNone;
        if (!affine(m_, x.args[last])->coefficient(along[0]).is(1)) return kNone;
        for (size_t d = 0; d < last; ++d)
            if (has(m_.free_vars(x.args[d]), along[0])) return kNone;
        return along[0];
    }
    // Elements from lane to lane.
    Sym stride(const Expr& x) const {
        const auto& shape = m_.tensors[x.ref].shape;
        Sym r = 0, step = 1;
        for (size_t d = shape.size(); d-- > 0;) {
            r = r + affine(m_, x.args[d])->coefficient(block_) * step;
            step = step * shape[d];
        }
        return r;
    }

protected:
    VarId turned_ = kNone;  // the axis of the grid that tasks take groups of
    int64_t group_ = 0;     // elements of it in a full group
    std::string width_;     // and in the present one
    Lines rows_in_, rows_turned_;
};

}  // namespace opwright::target::ascend
