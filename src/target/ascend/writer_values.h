// Values of a kernel: maps and stores.
#pragma once
#include "target/ascend/writer_turned.h"

namespace opwright::target::ascend {

class WriterValues : public WriterTurned {
protected:
    using WriterTurned::WriterTurned;

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

    // The tensor that a stored value is computed into.
    Out out_tensor(TensorId t) {
        const DType type = stored_type(t);
        check_type(type);
        parameter(t);
        const std::string q = queue(names_.tensor(t), type, Queue::Out), local = own_.unique(names_.tensor(t) + "Local");
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
    // A tile that goes out as it came in.
    void pass_on(const Equation& q, const Place& pl) {
        parameter(q.lhs);
        Lines lines;
        std::string condition;
        const std::string at = scalar_.offset(q.lhs, q.at.data(), Outside::Error, condition, lines);
        const std::string t = memory_type(pl.dtype);
        helpers_.use("StoreTile");
        copy_out_.push_back(fmt::format("LocalTensor<{}> {} = {}.DeQue<{}>();", t, pl.text, pl.queue, t));
        copy_out_.insert(copy_out_.end(), lines.begin(), lines.end());
        copy_out_.push_back(fmt::format("StoreTile({}Gm[{}], {}, count);", names_.tensor(q.lhs), at, pl.text));
        copy_out_.push_back(fmt::format("{}.FreeTensor({});", pl.queue, pl.text));
    }
    bool varies(const Equation& q) const {
        for (ExprId a : q.at)
            if (has(m_.free_vars(a), block_)) return true;
        return false;
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
                const std::string n = scalar_name(name);
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
    // Whether a fold to the position of an extreme goes along the lanes, over floats all of which count: then an
    // instruction finds the first of equals.
    bool find_by_vector(const Stmt& s) const {
        if (s.b != kNoBuffer || !on_block(s.a)) return false;
        const Expr& x = m_.expr(p_.buffers[s.dst].value);
        return x.kind == ExprKind::Reduce && (x.reduce == ReduceOp::ArgMax || x.reduce == ReduceOp::ArgMin) &&
               x.args.size() == 1 && has(x.vars, block_) && compute_type(m_.expr(x.args[0]).dtype) == DType::F32;
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
        if ((reader->kind == StmtKind::Accumulate || reader->kind == StmtKind::Reduce) && find_by_vector(*reader))
            return false;
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
        if (it != places_.end() && !it->second.queue.empty()) return pass_on(q, it->second);
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
                compute_.push_back("Await<HardEvent::V_S>();  // AllocTensor made only the vector unit wait");
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
        if (pl.kind == Value::Tensor && pl.dtype == memory && (padded_ || pl.full)) {
            if (!padded_) helpers_.use("RoundUp");
            compute_.push_back(fmt::format("DataCopy({}, {}, {});", o.local, from,
                                           padded_ ? "lanes" : fmt::format("RoundUp(count, {})", 32 / size_of(memory))));
        } else if (pl.kind == Value::Tensor && pl.dtype == memory && (memory == DType::F32 || memory == DType::I32)) {
            compute_.push_back(fmt::format("Muls({}, {}, {}, {});", o.local, from, memory == DType::F32 ? "1.0f" : "1",
                                           vector_.count));
        } else if (pl.kind == Value::Tensor && pl.dtype == memory) {  // moved as it is
            lane_loop(o.local, memory, "a copy within the unified buffer",
                      [&](Lines&) { return scalar_.from_memory(from + ".GetValue(lane)", memory); });
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
