// Tensors on their way into the unified buffer.
#pragma once
#include "target/ascend/writer_state.h"

namespace opwright::target::ascend {

class WriterLoads : public WriterState {
protected:
    using WriterState::WriterState;

    // What `make` returns where the block's variable is that of one lane.
    template <typename F>
    auto at_lane(F make) {
        const std::string outer = block_ == kNone ? "" : scalar_.vars.at(block_);
        if (block_ != kNone)
            scalar_.vars[block_] = whole_ ? "static_cast<int64_t>(lane)" : fmt::format("{} + lane", names_.var(block_));
        in_lane_loop_ = "lane";
        auto r = make();
        in_lane_loop_.clear();
        if (block_ != kNone) scalar_.vars[block_] = outer;
        return r;
    }

    // ---- who reads what
    const Stmt* store_of(BufferId b) const { return find_store(nest_.body, b); }
    const Stmt* find_store(const std::vector<Stmt>& body, BufferId b) const {
        for (const Stmt& s : body) {
            if (s.kind == StmtKind::Store && s.a == b && !has(local_, m_.equations[s.equation].lhs)) return &s;
            if (const Stmt* r = find_store(s.body, b)) return r;
        }
        return nullptr;
    }
    bool only_stored(BufferId b) const { return count_reads(nest_.body, b) == 0; }
    // Statements other than stores that name b, or hold it by value.
    int count_reads(const std::vector<Stmt>& body, BufferId b) const {
        int n = 0;
        for (const Stmt& s : body) {
            if (s.kind != StmtKind::Store && (s.a == b || s.b == b)) ++n;
            if (s.kind == StmtKind::Map && s.dst != b && refers(p_.buffers[s.dst].value, b)) ++n;
            n += count_reads(s.body, b);
        }
        return n;
    }
    // Whether e reads the tensor that b was stored to, or holds b's value.
    bool refers(ExprId e, BufferId b) const {
        if (e == p_.buffers[b].value) return true;
        const Expr& x = m_.expr(e);
        if (x.kind == ExprKind::Load)
            for (const Stmt* s : stores_of(b))
                if (m_.equations[s->equation].lhs == x.ref) return true;
        for (ExprId a : x.args)
            if (refers(a, b)) return true;
        return false;
    }
    std::vector<const Stmt*> stores_of(BufferId b) const {
        std::vector<const Stmt*> r;
        collect_stores(nest_.body, b, r);
        return r;
    }
    void collect_stores(const std::vector<Stmt>& body, BufferId b, std::vector<const Stmt*>& r) const {
        for (const Stmt& s : body) {
            if (s.kind == StmtKind::Store && s.a == b) r.push_back(&s);
            collect_stores(s.body, b, r);
        }
    }
    bool contiguous_store(const Equation& q) const {
        const auto& shape = m_.tensors[q.lhs].shape;
        Sym stride = 0, step = 1;
        for (size_t d = shape.size(); d-- > 0;) {
            if (const auto f = affine(m_, q.at[d])) stride = stride + f->coefficient(block_) * step;
            step = step * shape[d];
        }
        return stride.is(1);
    }

    // ---- how a tile lies in memory
    // Whether its lanes lie side by side, all of them inside the tensor.
    bool contiguous(const Expr& x) const {
        const auto& shape = m_.tensors[x.ref].shape;
        Sym stride = 0, step = 1;
        for (size_t d = shape.size(); d-- > 0;) {
            if (has(m_.free_vars(x.args[d]), block_)) {
                const auto f = affine(m_, x.args[d]);
                if (!f) return false;
                if (x.outside != Outside::Error && !scalar_.inside(x.args[d], shape[d])) return false;
                stride = stride + f->coefficient(block_) * step;
            } else if (x.outside == Outside::Value && !scalar_.inside(x.args[d], shape[d])) {
                return false;  // whether there is a row at all is a question for every element
            }
            step = step * shape[d];
        }
        return stride.is(1);
    }
    static bool fills(DType t) { return size_of(t) == 2 || t == DType::F32 || t == DType::I32 || t == DType::U32; }
    // Elements from lane to lane of a part of a row, some of whose lanes may lie beyond it; 0: it is none.
    static constexpr int64_t kMaxStride = 4;  // what lies between is fetched too
    int64_t window(const Expr& x) const {
        const auto& shape = m_.tensors[x.ref].shape;
        if (shape.empty() || !fills(stored_type(x.ref))) return 0;
        for (size_t d = 0; d + 1 < shape.size(); ++d)
            if (has(m_.free_vars(x.args[d]), block_)) return 0;
        if (x.outside == Outside::Value && has(m_.free_vars(x.args[shape.size()]), block_)) return 0;
        if (!m_.reads(x.args[shape.size() - 1]).empty()) return 0;
        const auto f = affine(m_, x.args[shape.size() - 1]);
        const auto c = f ? f->coefficient(block_).constant() : std::nullopt;
        const bool edges = x.outside != Outside::Value && x.outside != Outside::Error;
        return c && *c >= 1 && *c <= (edges || size_of(stored_type(x.ref)) != 4 ? 1 : kMaxStride) ? *c : 0;
    }

    void load(const Stmt& s) {
        const tile::Buffer& b = p_.buffers[s.dst];
        const Expr& x = m_.expr(b.value);
        const DType t = stored_type(x.ref);
        check_type(t);
        if (!on_block(s.dst)) return;  // a scalar: read where it is used
        if (turned_loads_.count(s.dst)) return;
        const bool plain = contiguous(x);
        const int64_t stride = plain ? 1 : window(x);
        if (stride == 0) {
            places_[s.dst] = {.dtype = t, .global = true};
            return;
        }
        const std::string type = memory_type(t), gm = parameter(x.ref) + "Gm";
        Lines lines;
        std::string copy;  // with a place for the tensor
        Place edges;
        if (plain) {
            std::string condition;
            const std::string at = scalar_.offset(x.ref, x.args.data(), x.outside, condition, lines);
            const std::string f = padded_ ? "LoadPaddedTile" : "LoadTile";
            helpers_.use(f);
            copy = fmt::format("{}({}, {}[{}], count);", f, "{}", gm, at);
            if (whole_ && everywhere(x)) {
                places_[s.dst] = fetched_once(b, t, copy);
                return;
            }
            if (passes(s.dst, t)) {
                const std::string q = queue(b.name, t, Queue::Copy), local = own_.unique(lower_camel(b.name) + "Local");
                copy = fmt::format("LoadTile({}, {}[{}], count);", "{}", gm, at);
                helpers_.use("LoadTile");
                copy_in(q, local, type, lines, copy);
                places_[s.dst] = {.text = local, .dtype = t, .segment = segment_, .queue = q};
                return;
            }
        } else {
            const size_t last = m_.tensors[x.ref].shape.size() - 1;
            const Scalar::Window w = scalar_.window(x.ref, x.args.data(), x.outside, lines);
            const std::string size = scalar_.sym(m_.tensors[x.ref].shape[last]);
            std::string width = size, row = w.row;
            if (!w.condition.empty()) {  // a row that is none has no elements
                const std::string n = scalar_.fresh_name("exists");
                lines.push_back(fmt::format("const bool {} = {};", n, w.condition));
                width = fmt::format("{} ? {} : 0", n, size);
                row = w.row == "0" ? "0" : fmt::format("{} ? {} : 0", n, w.row);
            }
            std::string fill = t == DType::F32 ? "0.0f" : memory_type(t) + "()";
            if (x.outside == Outside::Value)
                fill = scalar_.to_memory(scalar_.value(x.args[last + 1], lines), t);
            if (t != DType::F32 && t != DType::I32 && fill.find(type) == std::string::npos)
                fill = fmt::format("static_cast<{}>({})", type, fill);
            helpers_.use("LoadWindow");
            copy = fmt::format("LoadWindow({}, {}[{}], {}, {}, {}, {});", "{}", gm, row, w.start, width,
                               stride == 1 ? "count" : fmt::format("{} * (count - 1) + 1", stride), fill);
        }
        // A queue would have to be emptied before the loop that reads it; and no more than eight may hold a tensor.
        const auto held = std::count_if(copy_in_.begin(), copy_in_.end(), [](const std::string& l) {
            return l.find(".AllocTensor<") != std::string::npos;
        });
        std::string local = own_.unique(lower_camel(b.name) + (stride == 1 ? "Local" : "Row"));
        const bool keep = outlives(s.dst) || held >= kAlive;
        std::string buf;
        if (keep) {
            buf = kept(s.dst, t, stride);
            helpers_.use("Await");
            compute_.push_back(fmt::format("LocalTensor<{}> {} = {}.Get<{}>();", type, local, buf, type));
            compute_.push_back(std::string("Await<HardEvent::V_MTE2>();  // ") +
                               (outlives(s.dst) ? "kept for loops that follow: no queue orders it"
                                                : "eight tensors of the queues' position are held already"));
            compute_.insert(compute_.end(), lines.begin(), lines.end());
            compute_.push_back(fmt::format(fmt::runtime(copy), local));
            compute_.push_back("Await<HardEvent::MTE2_V>();");
        } else {
            const std::string q = in_queue(x.ref, b.name, t, stride);
            copy_in(q, local, type, lines, copy);
            compute_.push_back(fmt::format("LocalTensor<{}> {} = {}.DeQue<{}>();", type, local, q, type));
            free_.push_back(fmt::format("{}.FreeTensor({});", q, local));
        }
        if (stride > 1) {
            const std::string row = local, out = own_.unique("strided" + upper_camel(b.name) + "Buf");
            buffers_.push_back({out, type, Queue::In, static_cast<int64_t>(size_of(t))});
            local = own_.unique(lower_camel(b.name) + "Local");
            buf = out;
            compute_.push_back(fmt::format("LocalTensor<{0}> {1} = {2}.Get<{0}>();", type, local, out));
            if (padded_) compute_.push_back(fmt::format("Duplicate({}, {}, lanes);", local, zero(t)));
            compute_.push_back(fmt::format("Gather({}, {}, {}.Get<uint32_t>(), 0, count);", local, row,
                                           offsets(stride * static_cast<int64_t>(size_of(t)))));
            places_[s.dst] = {.text = local, .dtype = t, .segment = segment_, .buffer = keep ? buf : ""};
            return;
        }
        tail(local);
        if (!plain && x.outside != Outside::Value && x.outside != Outside::Error) mend_edges(x, local);
        places_[s.dst] = {.text = local, .dtype = t, .segment = segment_, .buffer = keep ? buf : ""};
    }
    void copy_in(const std::string& q, const std::string& local, const std::string& type, const Lines& lines,
                 const std::string& copy) {
        copy_in_.push_back(fmt::format("LocalTensor<{}> {} = {}.AllocTensor<{}>();", type, local, q, type));
        copy_in_.insert(copy_in_.end(), lines.begin(), lines.end());
        copy_in_.push_back(fmt::format(fmt::runtime(copy), local));
        copy_in_.push_back(fmt::format("{}.EnQue({});", q, local));
    }
    // Whether a tile goes out as it came in, and nobody else reads it.
    bool passes(BufferId b, DType t) const {
        const Stmt* s = store_of(b);
        return s && !outlives(b) && only_stored(b) && stores_of(b).size() == 1 &&
               stored_type(m_.equations[s->equation].lhs) == t && contiguous_store(m_.equations[s->equation]);
    }
    // Whether every task reads the same elements.
    bool everywhere(const Expr& x) const {
        for (ExprId a : x.args) {
            if (!m_.reads(a).empty()) return false;
            for (VarId v : m_.free_vars(a))
                if (v != block_) return false;
        }
        return true;
    }
    Place fetched_once(const tile::Buffer& b, DType t, const std::string& copy) {
        auto [it, added] = once_buffers_.try_emplace(b.value);
        if (added) {
            it->second = own_.unique(lower_camel(b.name) + "Buf");
            buffers_.push_back({it->second, memory_type(t), Queue::In, static_cast<int64_t>(size_of(t))});
            const std::string tensor = fmt::format("{}.Get<{}>()", it->second, memory_type(t));
            once_.push_back(fmt::format(fmt::runtime(copy), tensor));
            if (padded_) {
                helpers_.use("FillTail");
                once_tails_.push_back(fmt::format("FillTail({}, count, lanes);", tensor));
            }
        }
        return {.text = own_.unique(lower_camel(b.name) + "Local"), .dtype = t, .buffer = it->second};
    }
    // A buffer of byte offsets 0, step, 2 step, ... for every lane.
    std::string offsets(int64_t step) {
        auto [it, added] = offset_buffers_.try_emplace(step);
        if (added) {
            it->second = own_.unique("offsetBuf");
            buffers_.push_back({it->second, "uint32_t", Queue::In, 4});
        }
        return it->second;
    }
    // The elements beyond the row's ends, which the place folds back to inner ones.
    void mend_edges(const Expr& x, const std::string& local) {
        const size_t last = m_.tensors[x.ref].shape.size() - 1;
        Lines lines;
        const Scalar::Window w = scalar_.window(x.ref, x.args.data(), x.outside, lines);
        const char* const f = x.outside == Outside::Clamp     ? "ClampEdges"
                              : x.outside == Outside::Wrap    ? "WrapEdges"
                              : x.outside == Outside::Reflect ? "ReflectEdges"
                                                              : "MirrorEdges";
        helpers_.use(f);
        helpers_.use("Await");
        edges_.insert(edges_.end(), lines.begin(), lines.end());
        edges_.push_back(fmt::format("{}({}, {}Gm[{}], {}, {}, count);", f, local, names_.tensor(x.ref), w.row, w.start,
                                     scalar_.sym(m_.tensors[x.ref].shape[last])));
    }
    void flush_edges() {
        if (edges_.empty()) return;
        compute_.push_back("Await<HardEvent::V_S>();");
        compute_.insert(compute_.end(), edges_.begin(), edges_.end());
        compute_.push_back("Await<HardEvent::S_V>();");
        edges_.clear();
    }

    static std::string zero(DType t) {
        return t == DType::F16 || t == DType::BF16 ? memory_type(t) + "()" : t == DType::F32 ? "0.0f" : "0";
    }
    void tail(const std::string& local) {
        if (!padded_) return;
        helpers_.use("FillTail");
        compute_.push_back(fmt::format("FillTail({}, count, lanes);", local));
    }

    // Turns a 16-bit float tensor into float, once for all its readers of this segment.
    void widen(BufferId b) {
        Place& pl = places_.at(b);
        const std::string name = local(pl);
        const Value v = vector_.load(name, pl.dtype, "");
        hold_.push_back(v);
        if (!pl.buffer.empty()) narrow_.emplace_back(b, pl);
        pl = {.text = v.text, .dtype = DType::F32, .segment = segment_};
    }
    // Elements that lie apart in memory, or at places that are data: the scalar unit fetches one after the other.
    void materialise(BufferId b) {
        Place& pl = places_.at(b);
        const ExprId e = p_.buffers[b].value;
        const DType t = compute_type(pl.dtype);
        const std::string buf = kept(b, t), local = own_.unique(lower_camel(p_.buffers[b].name) + "Local");
        compute_.push_back(
            fmt::format("LocalTensor<{}> {} = {}.Get<{}>();", memory_type(t), local, buf, memory_type(t)));
        lane_loop(local, t, "its elements lie apart in memory", [&](Lines& l) { return scalar_.value(e, l); });
        pl = {.text = local, .dtype = t, .segment = segment_, .buffer = buf};
    }
    // for every lane: local[lane] = what `make` returns.
    template <typename F>
    void lane_loop(const std::string& local, DType t, const std::string& why, F make) {
        helpers_.use("Await");
        Lines inner;
        const std::string v = at_lane([&] { return make(inner); });
        compute_.push_back("Await<HardEvent::V_S>();");
        compute_.push_back(
            fmt::format("for (uint32_t lane = 0; lane < count; ++lane) {{{}", why.empty() ? "" : "  // " + why));
        for (const std::string& l : inner) compute_.push_back("    " + l);
        compute_.push_back(fmt::format("    {}.SetValue(lane, {});", local, scalar_.to_memory(v, t)));
        compute_.push_back("}");
        if (padded_ && size_of(t) >= 2 && t != DType::I64 && t != DType::U64) {
            compute_.push_back("for (uint32_t lane = count; lane < lanes; ++lane) {");
            compute_.push_back(fmt::format("    {}.SetValue(lane, {});", local, zero(t)));
            compute_.push_back("}");
        }
        compute_.push_back("Await<HardEvent::S_V>();");
    }
};

}  // namespace opwright::target::ascend
