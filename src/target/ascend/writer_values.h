// Values of a kernel: loads, maps, stores.
#pragma once
#include "target/ascend/writer_state.h"

namespace opwright::target::ascend {

class WriterValues : public WriterState {
protected:
    using WriterState::WriterState;

    std::optional<Value> vector_held(ExprId e) {
        const BufferId b = held_.find(p_, e);
        if (b == kNoBuffer) return std::nullopt;
        auto it = places_.find(b);
        if (it == places_.end() || it->second.scalar) return std::nullopt;
        Place& pl = it->second;
        if (pl.global) {  // not yet in the unified buffer: made when it is asked for
            if (probing_) return Value{Value::Tensor, "", m_.expr(e).dtype, -1};
            materialise(b);
        }
        if (pl.kind == Value::Tensor && is_float(pl.dtype) && pl.dtype != DType::F32 && !probing_) widen(b);
        return Value{pl.kind, probing_ ? pl.text : local(pl), pl.dtype, -1};
    }
    bool vectorises(ExprId e) {
        probing_ = true;
        const bool r = block_ != kNone && vector_.can(e);
        probing_ = false;
        return r;
    }

    // Element stride of a load along the block axis, if it is a plain copy there.
    bool contiguous(const Expr& x) const {
        const auto& shape = m_.tensors[x.ref].shape;
        Sym stride = 0, step = 1;
        for (size_t d = shape.size(); d-- > 0;) {
            const auto free = m_.free_vars(x.args[d]);
            const bool lane_here = has(free, block_);
            if (lane_here) {
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

    void load(const Stmt& s) {
        const tile::Buffer& b = p_.buffers[s.dst];
        const Expr& x = m_.expr(b.value);
        const DType t = stored_type(x.ref);
        check_type(t);
        if (!on_block(s.dst)) return;  // a scalar: read where it is used
        if (!contiguous(x)) {
            places_[s.dst] = {.dtype = t, .global = true};
            return;
        }
        std::string condition;
        Lines lines;
        const std::string at = scalar_.offset(x.ref, x.args.data(), x.outside, condition, lines);
        const std::string type = memory_type(t), gm = parameter(x.ref) + "Gm";
        const std::string copy = padded_ ? "LoadPaddedTile" : "LoadTile";
        helpers_.use(copy);
        const std::string copy_line = fmt::format("{}({}, {}[{}], count);", copy, "{}", gm, at);
        // A queue would have to be emptied before the loop that reads it; and no more than eight may hold a tensor.
        const auto held = std::count_if(copy_in_.begin(), copy_in_.end(), [](const std::string& l) {
            return l.find(".AllocTensor<") != std::string::npos;
        });
        if (outlives(s.dst) || held >= kAlive) {
            const std::string buf = kept(s.dst, t), local = own_.unique(lower_camel(b.name) + "Local");
            helpers_.use("Await");
            compute_.push_back(fmt::format("LocalTensor<{}> {} = {}.Get<{}>();", type, local, buf, type));
            compute_.push_back("Await<HardEvent::V_MTE2>();");
            compute_.insert(compute_.end(), lines.begin(), lines.end());
            compute_.push_back(fmt::format(fmt::runtime(copy_line), local));
            compute_.push_back("Await<HardEvent::MTE2_V>();");
            tail(local, t);
            places_[s.dst] = {.text = local, .dtype = t, .segment = segment_, .buffer = buf};
            return;
        }
        const std::string q = in_queue(x.ref, b.name, t), local = own_.unique(lower_camel(b.name) + "Local");
        copy_in_.push_back(fmt::format("LocalTensor<{}> {} = {}.AllocTensor<{}>();", type, local, q, type));
        copy_in_.insert(copy_in_.end(), lines.begin(), lines.end());
        copy_in_.push_back(fmt::format(fmt::runtime(copy_line), local));
        copy_in_.push_back(fmt::format("{}.EnQue({});", q, local));
        compute_.push_back(fmt::format("LocalTensor<{}> {} = {}.DeQue<{}>();", type, local, q, type));
        tail(local, t);
        free_.push_back(fmt::format("{}.FreeTensor({});", q, local));
        places_[s.dst] = {.text = local, .dtype = t, .segment = segment_};
    }
    static std::string zero(DType t) {
        return t == DType::F16 || t == DType::BF16 ? memory_type(t) + "()" : t == DType::F32 ? "0.0f" : "0";
    }
    void tail(const std::string& local, DType) {
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
        const std::string outer_var = block_ == kNone ? "" : scalar_.vars.at(block_);
        if (block_ != kNone)
            scalar_.vars[block_] = whole_ ? "static_cast<int64_t>(lane)" : fmt::format("{} + lane", names_.var(block_));
        in_lane_loop_ = "lane";
        const std::string v = make(inner);
        in_lane_loop_.clear();
        if (block_ != kNone) scalar_.vars[block_] = outer_var;
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

    // The tensor that a stored value is computed into.
    Out out_tensor(TensorId t) {
        const DType type = stored_type(t);
        check_type(type);
        parameter(t);
        const std::string q = queue(names_.tensor(t), type, false), local = own_.unique(names_.tensor(t) + "Local");
        compute_.push_back(
            fmt::format("LocalTensor<{}> {} = {}.AllocTensor<{}>();", memory_type(type), local, q, memory_type(type)));
        return {q, local};
    }
    void finish_out(const Equation& q, const Out& o) {
        const DType type = stored_type(q.lhs);
        free_.push_back(fmt::format("{}.EnQue({});", o.queue, o.local));
        Lines lines;
        std::string condition;
        const std::string at = scalar_.offset(q.lhs, q.at.data(), Outside::Error, condition, lines);
        const std::string t = memory_type(type), n = block_ != kNone && varies(q) ? "count" : "1";
        helpers_.use("StoreTile");
        if (n == "1") scalar_queues_.insert(o.queue);
        copy_out_.push_back(fmt::format("LocalTensor<{}> {} = {}.DeQue<{}>();", t, o.local, o.queue, t));
        copy_out_.insert(copy_out_.end(), lines.begin(), lines.end());
        copy_out_.push_back(fmt::format("StoreTile({}Gm[{}], {}, {});", names_.tensor(q.lhs), at, o.local, n));
        copy_out_.push_back(fmt::format("{}.FreeTensor({});", o.queue, o.local));
    }
    bool varies(const Equation& q) const {
        for (ExprId a : q.at)
            if (has(m_.free_vars(a), block_)) return true;
        return false;
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

    void map(const Stmt& s) {
        const tile::Buffer& b = p_.buffers[s.dst];
        const DType t = compute_type(b.dtype);
        check_type(t);
        const std::string name = lower_camel(b.name);
        if (!on_block(s.dst)) {
            Lines l;
            const std::string v = scalar_.value(b.value, l);
            compute_.insert(compute_.end(), l.begin(), l.end());
            if (outlives(s.dst)) {
                const std::string n = member(name, scalar_type(t));
                compute_.push_back(fmt::format("{} = {};", n, v));
                places_[s.dst] = {.scalar = true, .text = n, .dtype = t};
            } else {
                const std::string n = own_.unique(name);
                compute_.push_back(fmt::format("const {} {} = {};", scalar_type(t), n, v));
                places_[s.dst] = {.scalar = true, .text = n, .dtype = t};
            }
            return;
        }
        if (lazy(s.dst)) {  // computed where it is folded
            places_[s.dst] = {.dtype = t, .global = true};
            return;
        }
        // Straight into the tensor that goes out, where the store follows and the types agree.
        const Stmt* next = store_of(s.dst);
        if (vectorises(b.value)) {
            const bool direct = next && !outlives(s.dst) && stored_type(m_.equations[next->equation].lhs) == t &&
                                (t == DType::F32 || t == DType::I32);
            if (direct) {
                const Out o = out_tensor(m_.equations[next->equation].lhs);
                outs_[s.dst] = o;
                vector_.eval(b.value, o.local);
                places_[s.dst] = {.text = o.local, .dtype = t, .segment = segment_};
                return;
            }
            const bool narrow = t != DType::F32 && t != DType::I32;  // masks, and integers that only a store makes
            if (narrow && !(next && only_stored(s.dst))) {
                lane_map(s, t);
                return;
            }
            if (outlives(s.dst)) {
                const std::string buf = kept(s.dst, t), local = own_.unique(name + "Local");
                compute_.push_back(
                    fmt::format("LocalTensor<{}> {} = {}.Get<{}>();", memory_type(t), local, buf, memory_type(t)));
                vector_.eval(b.value, local);
                places_[s.dst] = {.text = local, .dtype = t, .segment = segment_, .buffer = buf};
                return;
            }
            const Value v = vector_.eval(b.value, "");
            if (v.kind == Value::Uniform) {
                places_[s.dst] = {.scalar = true, .text = v.text, .dtype = t};
                return;
            }
            hold_.push_back(v);
            places_[s.dst] = {.text = v.text,
                              .dtype = narrow && v.kind == Value::Tensor ? DType::F32 : v.dtype,
                              .kind = v.kind,
                              .segment = segment_};
            return;
        }
        lane_map(s, t);
    }
    // Whether one fold on the scalar unit is all that reads a value: then it needs no tensor.
    bool lazy(BufferId b) {
        if (outlives(b) || store_of(b)) return false;
        int n = 0;
        const Stmt* reader = nullptr;
        readers(nest_.body, b, n, reader);
        if (n != 1 || reader->kind == StmtKind::Map) return false;
        if (!vectorises(p_.buffers[b].value)) return true;
        if (reader->b == b) return true;
        if (reader->kind == StmtKind::Accumulate) return accs_.at(reader->dst).kind != Acc::Vectorised;
        if (reader->kind == StmtKind::Scan) return reader->var == block_ || accs_.at(reader->b).kind != Acc::Vectorised;
        const Expr& x = m_.expr(p_.buffers[reader->dst].value);
        return !(instruction(x.reduce) && reader->b == kNoBuffer && compute_type(x.dtype) == DType::F32);
    }
    void readers(const std::vector<Stmt>& body, BufferId b, int& n, const Stmt*& reader) const {
        for (const Stmt& s : body) {
            if ((s.a == b || s.b == b) && s.kind != StmtKind::Store) ++n, reader = &s;
            if (s.kind == StmtKind::Map && s.dst != b && refers(p_.buffers[s.dst].value, b)) ++n, reader = &s;
            readers(s.body, b, n, reader);
        }
    }
    // A map on the scalar unit, element by element.
    void lane_map(const Stmt& s, DType t) {
        const tile::Buffer& b = p_.buffers[s.dst];
        const Stmt* next = store_of(s.dst);
        if (next && !outlives(s.dst) && contiguous_store(m_.equations[next->equation]) && only_stored(s.dst)) {
            const Out o = out_tensor(m_.equations[next->equation].lhs);
            outs_[s.dst] = o;
            const DType memory = stored_type(m_.equations[next->equation].lhs);
            lane_loop(o.local, memory, reason(b.value), [&](Lines& l) { return scalar_.value(b.value, l); });
            places_[s.dst] = {.text = o.local, .dtype = memory, .segment = segment_};
            return;
        }
        const std::string buf = kept(s.dst, t), local = own_.unique(lower_camel(b.name) + "Local");
        compute_.push_back(
            fmt::format("LocalTensor<{}> {} = {}.Get<{}>();", memory_type(t), local, buf, memory_type(t)));
        lane_loop(local, t, reason(b.value), [&](Lines& l) { return scalar_.value(b.value, l); });
        places_[s.dst] = {.text = local, .dtype = t, .segment = segment_, .buffer = buf};
    }
    // Why an expression runs on the scalar unit.
    std::string reason(ExprId e) const {
        const Expr& x = m_.expr(e);
        if (x.kind == ExprKind::Load) return "its elements lie apart in memory";
        if (is_int(x.dtype) || x.dtype == DType::Bool)
            return fmt::format("the vector unit does not compute this in {}", opwright::name(x.dtype));
        return "on the scalar unit";
    }
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

    void store(const Stmt& s) {
        const Equation& q = m_.equations[s.equation];
        if (has(local_, q.lhs)) return;  // a buffer of this nest
        const DType memory = stored_type(q.lhs);
        check_type(memory);
        if (auto it = outs_.find(s.a); it != outs_.end() && m_.equations[store_of(s.a)->equation].lhs == q.lhs) {
            finish_out(q, it->second);
            return;
        }
        auto it = places_.find(s.a);
        const bool lanes = block_ != kNone && varies(q);
        if (it == places_.end() || it->second.scalar || it->second.global ||
            !lanes) {  // a scalar, or one lane after the other
            const ExprId e = p_.buffers[s.a].value;
            if (lanes && !contiguous_store(q))
                throw Unsupported{"A result would be written with gaps between its elements."};
            const Out o = out_tensor(q.lhs);
            if (lanes && it != places_.end() && it->second.scalar) {
                const std::string text = it->second.text;
                lane_loop(o.local, memory, "", [&](Lines&) { return text; });
            } else if (lanes) {
                lane_loop(o.local, memory, reason(e), [&](Lines& l) { return scalar_.value(e, l); });
            } else {
                Lines l;
                const std::string v = it != places_.end() && it->second.scalar ? it->second.text : scalar_.value(e, l);
                helpers_.use("Await");
                compute_.insert(compute_.end(), l.begin(), l.end());
                compute_.push_back("Await<HardEvent::V_S>();");
                compute_.push_back(fmt::format("{}.SetValue(0, {});", o.local, scalar_.to_memory(v, memory)));
                compute_.push_back("Await<HardEvent::S_V>();");
            }
            finish_out(q, o);
            return;
        }
        if (!contiguous_store(q)) throw Unsupported{"A result would be written with gaps between its elements."};
        Place& pl = it->second;
        const std::string from = local(pl);
        const Out o = out_tensor(q.lhs);
        const Value v{pl.kind, from, pl.dtype, -1};
        if (pl.kind == Value::Tensor && pl.dtype == memory && (memory == DType::F32 || memory == DType::I32)) {
            compute_.push_back(fmt::format("Muls({}, {}, {}, {});", o.local, from, memory == DType::F32 ? "1.0f" : "1",
                                           vector_.count));
        } else if (pl.kind == Value::Tensor && pl.dtype == memory) {  // moved as it is
            helpers_.use("RoundUp");
            const std::string n = fmt::format("RoundUp(count, {})", 32 / size_of(memory));
            if (padded_) {
                compute_.push_back(fmt::format("DataCopy({}, {}, lanes);", o.local, from));
            } else {
                lane_loop(o.local, memory, "a copy within the unified buffer",
                          [&](Lines&) { return scalar_.from_memory(from + ".GetValue(lane)", memory); });
            }
        } else if (pl.kind == Value::Tensor && !is_float(pl.dtype) && pl.dtype != memory) {
            lane_loop(o.local, memory, "",
                      [&](Lines&) { return scalar_.from_memory(from + ".GetValue(lane)", pl.dtype); });
        } else {
            vector_.store(v, memory, o.local);
        }
        finish_out(q, o);
    }

    void scatter(const Stmt& s) {
        const Equation& q = m_.equations[s.equation];
        const DType memory = stored_type(q.lhs);
        check_type(memory);
        one_core_ = true;
        const std::string gm = parameter(q.lhs) + "Gm";
        scattered_.insert(q.lhs);
        Lines l;
        std::string condition;
        bool data = false;
        for (ExprId a : q.at) data |= !m_.reads(a).empty();
        const bool drop = q.outside == Outside::Value, check = data || drop;
        const std::string at =
            scalar_.offset(q.lhs, q.at.data(), check ? Outside::Value : Outside::Error, condition, l);
        auto it = places_.find(s.a);
        const std::string v =
            it != places_.end() && it->second.scalar ? it->second.text : scalar_.value(p_.buffers[s.a].value, l);
        compute_.insert(compute_.end(), l.begin(), l.end());
        const std::string pad = condition.empty() ? "" : "    ";
        if (!condition.empty()) compute_.push_back(fmt::format("if ({}) {{", condition));
        compute_.push_back(fmt::format("{}const int64_t place = {};", pad, at));
        std::string r = v;
        const auto old = scalar_.from_memory(gm + ".GetValue(place)", memory);
        switch (q.update) {
            case Update::Add: r = scalar_.combine(ReduceOp::Sum, compute_type(memory), old, "(" + v + ")"); break;
            case Update::Mul: r = scalar_.combine(ReduceOp::Prod, compute_type(memory), old, "(" + v + ")"); break;
            case Update::Max: r = scalar_.combine(ReduceOp::Max, compute_type(memory), old, v); break;
            case Update::Min: r = scalar_.combine(ReduceOp::Min, compute_type(memory), old, v); break;
            case Update::Set:
            case Update::Overwrite: break;
        }
        compute_.push_back(fmt::format("{}{}.SetValue(place, {});", pad, gm, scalar_.to_memory(r, memory)));
        if (!condition.empty() && !drop) {
            compute_.push_back("} else {");
            compute_.push_back("    fault = 1;");
            faults_ = true;
        }
        if (!condition.empty()) compute_.push_back("}");
    }
};

}  // namespace opwright::target::ascend
