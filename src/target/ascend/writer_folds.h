// Reductions and scans of a kernel.
#pragma once
#include "target/ascend/writer_best.h"

namespace opwright::target::ascend {

class WriterFolds : public WriterBest {
protected:
    using WriterBest::WriterBest;

    // ---- reductions and scans
    static bool vector_type(DType t) { return t == DType::F32 || t == DType::I32; }
    Acc::Kind acc_kind(const tile::Buffer& b, ReduceOp op, DType t, bool conditional, bool folded) const {
        if (b.box.empty()) return Acc::OneScalar;
        const bool vector = instruction(op) && !conditional && (folded ? t == DType::F32 : vector_type(t));
        return vector ? Acc::Vectorised : folded ? Acc::OneScalar : Acc::Array;
    }
    // What the accumulator of a reduction, or the carry of a scan, is.
    Acc describe(const Stmt& s) const {
        const tile::Buffer& b = p_.buffers[s.dst];
        Acc a;
        a.op = s.op;
        a.type = compute_type(b.dtype);
        bool conditional = false, folded = false;
        if (b.value != kNone) {
            const Expr& x = m_.expr(b.value);
            if (x.kind == ExprKind::Reduce) {
                conditional = a.conditional = x.args.size() > 1;
                folded = has(x.vars, block_);
                a.op = x.reduce;
                if (is_arg(x.reduce)) a.best_type = compute_type(m_.expr(x.args[0]).dtype);
            }
        }
        a.kind = acc_kind(b, a.op, a.type, conditional, folded);
        return a;
    }
    std::string start_of(const Acc& a) {
        if (!is_arg(a.op)) return scalar_.identity(a.op, a.type);
        return "-1";
    }
    std::string best_start(const Acc& a) {
        const bool most = a.op == ReduceOp::ArgMax || a.op == ReduceOp::ArgMaxLast;
        return scalar_.identity(most ? ReduceOp::Max : ReduceOp::Min, a.best_type);
    }

    void fill(const Stmt& s) {
        Acc a = describe(s);
        check_type(a.type);
        const std::string name = lower_camel(p_.buffers[s.dst].name);
        if (a.kind == Acc::OneScalar) {
            a.text = member(name, scalar_type(a.type));
            compute_.push_back(fmt::format("{} = {};", a.text, start_of(a)));
            if (is_arg(a.op)) {
                a.best = member(name + "Value", scalar_type(a.best_type));
                compute_.push_back(fmt::format("{} = {};", a.best, best_start(a)));
            }
        } else {
            a.text = kept(s.dst, a.type);
            const std::string local = own_.unique(name + "Local");
            locals_[s.dst] = {local, segment_};
            compute_.push_back(
                fmt::format("LocalTensor<{0}> {1} = {2}.Get<{0}>();", memory_type(a.type), local, a.text));
            if (is_arg(a.op)) {
                a.full = true;
                compute_.push_back(fmt::format("{}  // -1: none yet", all_of(local, "-1")));
                a.best = own_.unique(name + "ValueBuf");
                buffers_.push_back(
                    {a.best, memory_type(a.best_type), Queue::In, static_cast<int64_t>(size_of(a.best_type))});
                const std::string best = own_.unique(name + "ValueLocal");
                best_locals_[s.dst] = {best, segment_};
                compute_.push_back(
                    fmt::format("LocalTensor<{0}> {1} = {2}.Get<{0}>();", memory_type(a.best_type), best, a.best));
                start(best, a.best_type, best_start(a));
            } else {
                a.full = start(local, a.type, start_of(a));
            }
        }
        accs_[s.dst] = a;
    }
    // Gives every element of a buffer one value; where no instruction does, the tile's elements only.
    bool start(const std::string& local, DType t, const std::string& value) {
        if (vector_type(t)) {
            compute_.push_back(fmt::format("Duplicate({}, {}, tiling.tileLength);", local, value));
            return true;
        }
        lane_loop(local, t, "", [&](Lines&) { return value; });
        return false;
    }
    // The same for places, 64 bits of which are all equal.
    static std::string all_of(const std::string& local, const std::string& bits) {
        return fmt::format("Duplicate({}.ReinterpretCast<int32_t>(), {}, 2 * tiling.tileLength);", local, bits);
    }
    std::string acc_local(BufferId b) {
        auto& [name, where] = locals_.at(b);
        if (where != segment_) {
            const Acc& a = accs_.at(b);
            compute_.push_back(
                fmt::format("LocalTensor<{0}> {1} = {2}.Get<{0}>();", memory_type(a.type), name, a.text));
            where = segment_;
        }
        return name;
    }
    std::string best_local(BufferId b) {
        auto& [name, where] = best_locals_.at(b);
        if (where != segment_) {
            const Acc& a = accs_.at(b);
            compute_.push_back(
                fmt::format("LocalTensor<{0}> {1} = {2}.Get<{0}>();", memory_type(a.best_type), name, a.best));
            where = segment_;
        }
        return name;
    }

    // One step of an accumulation at the present point, on the scalar unit.
    void step(Lines& l, const Acc& a, const Stmt& s, const Expr& x, const std::string& acc, const std::string& best,
              const std::function<std::string(const std::string&)>& assign,
              const std::function<std::string(const std::string&)>& assign_best) {
        const ExprId term = p_.buffers[s.a].value;
        Lines inner;
        std::string v = term_text(s.a, inner);
        if (is_arg(a.op)) {
            inner.push_back(fmt::format("const {} value = {};", scalar_type(a.best_type), v));
            better(inner, a, x, "value", best, acc, [&](Lines& r, const std::string& place) {
                r.push_back(assign_best("value"));
                r.push_back(assign(place));
            });
        } else {
            const bool simple = v.find_first_of(" ?") == std::string::npos;
            if (!simple) {
                inner.push_back(fmt::format("const {} value = {};", scalar_type(compute_type(m_.expr(term).dtype)), v));
                v = "value";
            }
            inner.push_back(assign(scalar_.combine(a.op, a.type, acc, v)));
        }
        if (s.b == kNoBuffer) {
            l.insert(l.end(), inner.begin(), inner.end());
            return;
        }
        Lines test;
        const std::string c = term_text(s.b, test);
        l.insert(l.end(), test.begin(), test.end());
        l.push_back(fmt::format("if ({}) {{", c));
        for (const std::string& i : inner) l.push_back("    " + i);
        l.push_back("}");
    }
    std::string term_text(BufferId b, Lines& l) {
        auto it = places_.find(b);
        if (it != places_.end() && it->second.scalar) return it->second.text;
        if (it != places_.end() && !it->second.global && it->second.kind == Value::Tensor && !in_lane_loop_.empty())
            return scalar_.from_memory(fmt::format("{}.GetValue({})", local(it->second), in_lane_loop_),
                                       it->second.dtype);
        return scalar_.value(p_.buffers[b].value, l);
    }
    // A loop over the lanes on the scalar unit around `make`.
    template <typename F>
    void scalar_loop(const std::string& why, const std::string& head, F make) {
        helpers_.use("Await");
        Lines inner;
        at_lane([&] {
            make(inner);
            return 0;
        });
        compute_.push_back("Await<HardEvent::V_S>();");
        compute_.push_back(head + (why.empty() ? "" : "  // " + why));
        for (const std::string& i : inner) compute_.push_back("    " + i);
        compute_.push_back("}");
    }
    static constexpr const char* kForLanes = "for (uint32_t lane = 0; lane < count; ++lane) {";
    std::string fold_reason(const Acc& a) const {
        if (!instruction(a.op)) return fmt::format("{} has no instruction", math::name(a.op));
        if (!vector_type(a.type)) return fmt::format("the vector unit does not fold {}", opwright::name(a.type));
        return "terms that count are picked one by one";
    }

    void accumulate(const Stmt& s) {
        const Acc a = accs_.at(s.dst);
        const Expr& x = m_.expr(p_.buffers[s.dst].value);
        const bool lanes = on_block(s.a) || (s.b != kNoBuffer && on_block(s.b));
        if (a.kind == Acc::OneScalar) {
            const auto assign = [&](const std::string& v) { return fmt::format("{} = {};", a.text, v); };
            const auto assign_best = [&](const std::string& v) { return fmt::format("{} = {};", a.best, v); };
            if (const auto found = best_of_tile(s, a))
                at_found(*found, [&] {
                    better(compute_, a, x, *found + ".value", a.best, a.text, [&](Lines& r, const std::string& place) {
                        r.push_back(assign_best(*found + ".value"));
                        r.push_back(assign(place));
                    });
                });
            else if (lanes)
                scalar_loop(fold_reason(a), kForLanes,
                            [&](Lines& l) { step(l, a, s, x, a.text, a.best, assign, assign_best); });
            else {
                compute_.push_back("{");
                Lines l;
                step(l, a, s, x, a.text, a.best, assign, assign_best);
                for (const std::string& i : l) compute_.push_back("    " + i);
                compute_.push_back("}");
            }
            return;
        }
        const std::string acc = acc_local(s.dst);
        if (a.kind == Acc::Vectorised) {
            if (auto v = term_value(s.a); v && v->kind == Value::Tensor) {
                compute_.push_back(fmt::format("{0}({1}, {1}, {2}, count);", instruction(a.op), acc, v->text));
            } else {
                Lines l;
                const std::string t = term_text(s.a, l);
                compute_.insert(compute_.end(), l.begin(), l.end());
                compute_.push_back(fmt::format("{0}s({1}, {1}, {2}, count);", instruction(a.op), acc, t));
            }
            return;
        }
        const std::string best = is_arg(a.op) ? best_local(s.dst) : "";
        scalar_loop(fold_reason(a), kForLanes, [&](Lines& l) {
            const std::string old = scalar_.from_memory(acc + ".GetValue(lane)", a.type);
            step(
                l, a, s, x, old, best.empty() ? "" : best + ".GetValue(lane)",
                [&](const std::string& v) {
                    return fmt::format("{}.SetValue(lane, {});", acc, scalar_.to_memory(v, a.type));
                },
                [&](const std::string& v) { return fmt::format("{}.SetValue(lane, {});", best, v); });
        });
        compute_.push_back("Await<HardEvent::S_V>();");
    }

    void deliver(BufferId b, const std::string& text, DType t) {
        if (outlives(b) || made_[b] != segment_) {
            const std::string n = member(p_.buffers[b].name, scalar_type(t));
            compute_.push_back(fmt::format("{} = {};", n, text));
            places_[b] = {.scalar = true, .text = n, .dtype = t};
        } else {
            const std::string n = scalar_name(lower_camel(p_.buffers[b].name));
            compute_.push_back(fmt::format("const {} {} = {};", scalar_type(t), n, text));
            places_[b] = {.scalar = true, .text = n, .dtype = t};
        }
    }
    // Folds `lanes` lanes of a tensor of floats to one scalar.
    void fold_lanes(BufferId to, ReduceOp op, const std::string& from, const std::string& lanes) {
        helpers_.use("Await");
        if (op == ReduceOp::Prod) {
            const std::string n = own_.unique("product");
            compute_.push_back(fmt::format("float {} = 1.0f;", n));
            compute_.push_back("Await<HardEvent::V_S>();");
            compute_.push_back(fmt::format(
                "for (uint32_t lane = 0; lane < {}; ++lane) {{  // prod has no instruction that folds", lanes));
            compute_.push_back(fmt::format("    {} = {} * {}.GetValue(lane);", n, n, from));
            compute_.push_back("}");
            deliver(to, n, DType::F32);
            return;
        }
        work_ = std::max(work_, op == ReduceOp::Sum ? Work::Sums : Work::Extremes);
        const char* f = op == ReduceOp::Sum ? "ReduceSum" : op == ReduceOp::Max ? "ReduceMax" : "ReduceMin";
        const std::string result = folded();
        compute_.push_back(fmt::format("{}({}, {}, workBuf.Get<float>(), {});", f, result, from, lanes));
        compute_.push_back("Await<HardEvent::V_S>();");
        deliver(to, result + ".GetValue(0)", DType::F32);
    }

    // The place of the best of no terms is 0.
    void none_is_zero(const Acc& a, const Expr& x, const std::string& acc) {
        if (a.conditional)
            return lane_loop(acc, a.type, "where no term counted: 0", [&](Lines&) {
                helpers_.use("Higher");
                return fmt::format("Higher<int64_t>({}.GetValue(lane), 0)", acc);
            });
        Sym terms = 1;
        for (VarId v : x.vars) terms = terms * m_.vars[v].extent;
        if (terms.lower() > 0) return;
        compute_.push_back(fmt::format("if ({} == 0) {{  // of nothing: 0", scalar_.sym(terms)));
        compute_.push_back("    " + all_of(acc, "0"));
        compute_.push_back("}");
    }

    void reduce(const Stmt& s) {
        const Expr& x = m_.expr(p_.buffers[s.dst].value);
        const BufferId from = s.a == kNoBuffer ? s.dst : s.a;
        if (auto it = accs_.find(from); it != accs_.end()) {  // partial results
            const Acc& a = it->second;
            if (a.kind == Acc::OneScalar) {
                std::string text = a.text;
                if (is_arg(a.op)) {
                    helpers_.use("Higher");
                    text = fmt::format("Higher<int64_t>({}, 0)", a.text);  // of nothing: 0
                }
                places_[s.dst] = {.scalar = true, .text = text, .dtype = a.type};
            } else if (a.kind == Acc::Vectorised && s.a != kNoBuffer && has(x.vars, block_)) {
                const std::string acc = acc_local(from);
                fold_lanes(s.dst, a.op, acc, "tiling.tileLength");
            } else {
                const std::string acc = acc_local(from);
                if (is_arg(a.op)) none_is_zero(a, x, acc);
                places_[s.dst] = {.text = acc, .dtype = a.type, .segment = segment_, .buffer = a.text, .full = a.full};
            }
            return;
        }
        Acc a;
        a.op = x.reduce;
        a.type = compute_type(p_.buffers[s.dst].dtype);
        if (is_arg(a.op)) a.best_type = compute_type(m_.expr(x.args[0]).dtype);
        const bool vector = instruction(a.op) && s.b == kNoBuffer && a.type == DType::F32;
        if (vector) {
            if (auto v = term_value(s.a); v && v->kind == Value::Tensor)
                return fold_lanes(s.dst, a.op, v->text, "count");
        }
        if (const auto found = best_of_tile(s, a))
            return at_found(*found, [&] { deliver(s.dst, place_of(x), a.type); });
        const std::string name = lower_camel(p_.buffers[s.dst].name);
        const std::string acc = member(name, scalar_type(a.type));
        compute_.push_back(fmt::format("{} = {};", acc, start_of(a)));
        std::string best;
        if (is_arg(a.op)) {
            best = member(name + "Value", scalar_type(a.best_type));
            compute_.push_back(fmt::format("{} = {};", best, best_start(a)));
        }
        scalar_loop(fold_reason(a), kForLanes, [&](Lines& l) {
            step(
                l, a, s, x, acc, best, [&](const std::string& v) { return fmt::format("{} = {};", acc, v); },
                [&](const std::string& v) { return fmt::format("{} = {};", best, v); });
        });
        places_[s.dst] = {.scalar = true, .text = acc, .dtype = a.type};
    }

    void scan_stmt(const Stmt& s) {
        const Expr& x = m_.expr(m_.equations[s.equation].rhs);
        const DType t = compute_type(x.dtype);
        check_type(t);
        const Stmt* next = store_of(s.dst);
        if (s.var != block_) {  // a point of the scan at a time, for all lanes
            const Acc a = accs_.at(s.b);
            const auto result = [&](const std::string& text, const std::string& buffer) {
                places_[s.dst] = {.text = text, .dtype = a.type, .segment = segment_, .buffer = buffer, .full = a.full};
            };
            if (a.kind == Acc::OneScalar) {
                Lines l;
                const std::string v = term_text(s.a, l);
                compute_.insert(compute_.end(), l.begin(), l.end());
                const std::string n = own_.unique(lower_camel(p_.buffers[s.dst].name));
                const std::string sum = scalar_.combine(a.op, a.type, a.text, "(" + v + ")");
                if (x.exclusive) compute_.push_back(fmt::format("const {} {} = {};", scalar_type(t), n, a.text));
                compute_.push_back(fmt::format("{} = {};", a.text, sum));
                if (!x.exclusive) compute_.push_back(fmt::format("const {} {} = {};", scalar_type(t), n, a.text));
                places_[s.dst] = {.scalar = true, .text = n, .dtype = t};
                return;
            }
            const std::string acc = acc_local(s.b);
            Stmt add = s;
            add.dst = s.b;
            add.b = kNoBuffer;
            const auto accumulate_now = [&] {
                if (a.kind == Acc::Vectorised) {
                    auto v = term_value(s.a);
                    Lines l;
                    if (v && v->kind == Value::Tensor)
                        compute_.push_back(fmt::format("{0}({1}, {1}, {2}, count);", instruction(a.op), acc, v->text));
                    else
                        compute_.push_back(
                            fmt::format("{0}s({1}, {1}, {2}, count);", instruction(a.op), acc, term_text(s.a, l)));
                } else {
                    scalar_loop(fold_reason(a), kForLanes, [&](Lines& l) {
                        const std::string old = scalar_.from_memory(acc + ".GetValue(lane)", a.type);
                        step(
                            l, a, add, x, old, "",
                            [&](const std::string& v) {
                                return fmt::format("{}.SetValue(lane, {});", acc, scalar_.to_memory(v, a.type));
                            },
                            [](const std::string&) { return std::string(); });
                    });
                    compute_.push_back("Await<HardEvent::S_V>();");
                }
            };
            if (!x.exclusive) {
                accumulate_now();
                return result(acc, a.text);
            }
            const std::string buf = kept(s.dst, a.type),
                              local = own_.unique(lower_camel(p_.buffers[s.dst].name) + "Local");
            compute_.push_back(fmt::format("LocalTensor<{0}> {1} = {2}.Get<{0}>();", memory_type(a.type), local, buf));
            if (a.kind == Acc::Vectorised)
                compute_.push_back(
                    fmt::format("Muls({}, {}, {}, count);", local, acc, a.type == DType::F32 ? "1.0f" : "1"));
            else
                lane_loop(local, a.type, "",
                          [&](Lines&) { return scalar_.from_memory(acc + ".GetValue(lane)", a.type); });
            accumulate_now();
            places_[s.dst] = {.text = local, .dtype = a.type, .segment = segment_, .buffer = buf};
            return;
        }
        // Along the lanes.
        std::string carry;
        if (s.b != kNoBuffer) {
            carry = accs_.at(s.b).text;
        } else {
            carry = own_.unique("carry");
            compute_.push_back(fmt::format("{} {} = {};", scalar_type(t), carry, scalar_.identity(x.reduce, t)));
        }
        std::string to;
        DType memory = t;
        if (next && !outlives(s.dst)) {
            const Out o = out_tensor(m_.equations[next->equation].lhs);
            outs_[s.dst] = o;
            to = o.local;
            memory = stored_type(m_.equations[next->equation].lhs);
            places_[s.dst] = {.text = to, .dtype = memory, .segment = segment_};
        } else {
            const std::string buf = kept(s.dst, t);
            to = own_.unique(lower_camel(p_.buffers[s.dst].name) + "Local");
            compute_.push_back(fmt::format("LocalTensor<{0}> {1} = {2}.Get<{0}>();", memory_type(t), to, buf));
            places_[s.dst] = {.text = to, .dtype = t, .segment = segment_, .buffer = buf};
        }
        scalar_loop("each element needs the one before",
                    x.backward ? "for (uint32_t lane = count; lane-- > 0;) {" : kForLanes, [&](Lines& l) {
                        const std::string set =
                            fmt::format("{}.SetValue(lane, {});", to, scalar_.to_memory(carry, memory));
                        Lines inner;
                        const std::string v = term_text(s.a, inner);
                        l.insert(l.end(), inner.begin(), inner.end());
                        if (x.exclusive) l.push_back(set);
                        l.push_back(fmt::format("{} = {};", carry, scalar_.combine(x.reduce, t, carry, "(" + v + ")")));
                        if (!x.exclusive) l.push_back(set);
                    });
        if (padded_ && vector_type(memory)) {
            compute_.push_back("for (uint32_t lane = count; lane < lanes; ++lane) {");
            compute_.push_back(fmt::format("    {}.SetValue(lane, {});", to, zero(memory)));
            compute_.push_back("}");
        }
        compute_.push_back("Await<HardEvent::S_V>();");
    }
};

}  // namespace opwright::target::ascend
