#include "target/ascend/kernel.h"

#include "target/ascend/writer_folds.h"

namespace opwright::target::ascend {
namespace {

class KernelWriter : public WriterFolds {
public:
    using WriterFolds::WriterFolds;

    KernelSource write() {
        find_block();
        if (padded_) helpers_.use("RoundUp");
        for (VarId v = 0; v < m_.vars.size(); ++v) scalar_.vars[v] = whole_ && v == block_ ? "0" : names_.var(v);
        scalar_.global = [this](TensorId t) { return parameter(t) + "Gm"; };
        scalar_.held = [this](ExprId e) { return scalar_held(e); };
        scalar_.taken = [this](const std::string& n) { return own_.taken(n); };
        vector_.at = [this](ExprId e) { return vector_held(e); };
        vector_.lane = block_;
        vector_.count = padded_ ? "lanes" : "count";
        vector_.out = &compute_;
        scan_uses(nest_.body);
        find_turned();
        if (turns()) turn_rows();
        segment_ = 0;
        held_ = tile::Held();
        Lines process;
        block(nest_.body, process, turns() ? 4 : 3);
        return assemble(process);
    }
    bool needs_padding() const { return vector_.compares() && !padded_; }

private:
    // ---- methods
    // The statements of a block, as lines of Process at this depth.
    void block(const std::vector<Stmt>& body, Lines& process, int depth) {
        std::vector<const Stmt*> run;
        const auto flush = [&] {
            if (!run.empty()) segment(run, process, depth);
            run.clear();
        };
        for (const Stmt& s : body) {
            if (s.kind != StmtKind::For) {
                run.push_back(&s);
                continue;
            }
            flush();
            loop(s, process, depth);
        }
        flush();
    }
    void put(Lines& l, int depth, const std::string& s) {
        l.push_back(std::string(static_cast<size_t>(depth) * 4, ' ') + s);
    }

    bool scans_backward(const Stmt& s) const {
        for (const Stmt& b : s.body)
            if (b.kind == StmtKind::Scan) return m_.expr(m_.equations[b.equation].rhs).backward;
        return false;
    }
    void loop(const Stmt& s, Lines& process, int depth) {
        const std::string v = names_.var(s.var), n = scalar_.sym(m_.vars[s.var].extent);
        loop_vars_.insert(s.var);
        const tile::Held before = held_;
        ++segment_;
        loop_done_ = false;
        if (s.var == block_) {
            helpers_.use("Lower");
            if (scans_backward(s)) {
                helpers_.use("FloorDiv");
                put(process, depth,
                    fmt::format("for ({0} = FloorDiv({1} - 1, tiling.tileLength) * tiling.tileLength; {0} >= 0; {0} -= "
                                "tiling.tileLength) {{",
                                v, n));
            } else {
                put(process, depth, fmt::format("for ({0} = 0; {0} < {1}; {0} += tiling.tileLength) {{", v, n));
            }
            put(process, depth + 1,
                fmt::format("count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, {} - {}));", n, v));
            if (padded_) put(process, depth + 1, "lanes = RoundUp(count, 64);");
        } else if (scans_backward(s)) {
            put(process, depth, fmt::format("for ({0} = {1} - 1; {0} >= 0; --{0}) {{", v, n));
        } else {
            put(process, depth, fmt::format("for ({0} = 0; {0} < {1}; ++{0}) {{", v, n));
        }
        block(s.body, process, depth + 1);
        put(process, depth, "}");
        held_ = before;
        loop_done_ = true;
    }

    void segment(const std::vector<const Stmt*>& run, Lines& process, int depth) {
        if (loop_done_) ++segment_;
        loop_done_ = false;
        compute_.clear();
        copy_in_.clear();
        copy_out_.clear();
        free_.clear();
        vector_.begin_method();
        scalar_.restart();
        notes_.clear();
        for (const Stmt* s : run) statement(*s);
        flush_edges();
        for (const std::string& f : free_) compute_.push_back(f);
        for (const Value& v : hold_) vector_.release(v);
        hold_.clear();
        for (const auto& [b, place] : narrow_) places_[b] = place;
        narrow_.clear();
        // Temporaries of this segment alone.
        Method m{copy_in_, compute_, copy_out_, {}};
        for (const std::string& n : notes_) m.note += (m.note.empty() ? "" : "; ") + n;
        methods_.push_back(std::move(m));
        const std::string number = fmt::format("@{}", methods_.size() - 1);
        if (!copy_in_.empty()) put(process, depth, "CopyIn" + number + "();");
        if (!compute_.empty()) put(process, depth, "Compute" + number + "();");
        if (!copy_out_.empty()) put(process, depth, "CopyOut" + number + "();");
    }

    // What a statement of a kernel with several methods does, in the words of the declaration.
    void note(const Stmt& s) {
        const auto name = [&](BufferId b) { return p_.buffers[b].name; };
        if (s.kind == StmtKind::Fill) notes_.push_back(name(s.dst) + " begins");
        if (s.kind == StmtKind::Accumulate)
            notes_.push_back(fmt::format("{} takes in {}", name(s.dst), m_.print(p_.buffers[s.a].value)));
        if (s.kind == StmtKind::Reduce) notes_.push_back(name(s.dst) + " is complete");
        if (s.kind == StmtKind::Store && !has(local_, m_.equations[s.equation].lhs))
            notes_.push_back(m_.tensors[m_.equations[s.equation].lhs].name);
    }
    void statement(const Stmt& s) {
        if (s.kind != StmtKind::Load && s.kind != StmtKind::Gather) flush_edges();
        note(s);
        switch (s.kind) {
            case StmtKind::Load:
            case StmtKind::Gather: load(s); break;
            case StmtKind::Map: map(s); break;
            case StmtKind::Fill: fill(s); break;
            case StmtKind::Accumulate: accumulate(s); break;
            case StmtKind::Reduce: reduce(s); break;
            case StmtKind::Scan: scan_stmt(s); break;
            case StmtKind::Store: store(s); break;
            case StmtKind::ScatterReduce: scatter(s); break;
            case StmtKind::AccumulatePair:
            case StmtKind::ReducePair: throw Unsupported{"Two folds in one walk (\"online\") have no form here."};
            case StmtKind::For:
            case StmtKind::Contract: throw Unsupported{"A contraction in blocks has no form here."};
        }
        held_.after(p_, s);
    }

    // ---- the product on the cube
    void matmul_types(Lines& out) const {
        const std::string t = memory_type(product_->type), nd = "matmul::MatmulType<TPosition::GM, CubeFormat::ND, ";
        out.push_back(fmt::format("    using FactorA = {}{}, {}>;", nd, t, product_->transposed_a));
        out.push_back(fmt::format("    using FactorB = {}{}, {}>;", nd, t, product_->transposed_b));
        out.push_back(fmt::format("    using Result = {}float>;", nd));
        out.push_back("    matmul::Matmul<FactorA, FactorB, Result> mm;");
    }
    static std::string times(const Queue& q) { return q.stride == 1 ? "" : fmt::format("{} * ", q.stride); }
    std::string depth() { return scalar_.sym(m_.vars[product_->k].extent); }
    bool depth_known() const { return m_.vars[product_->k].extent.lower() > 0; }
    // This core's rows of the product. Its tasks of the epilogue are the same rows.
    void multiply(Lines& out) {
        const Product& x = *product_;
        const std::string m = scalar_.sym(m_.vars[x.m].extent), n = scalar_.sym(m_.vars[x.n].extent);
        Lines l;
        l.push_back("const int64_t firstRow = GetBlockIdx() * tiling.rowsPerCore;");
        l.push_back("const int64_t lastRow = Lower<int64_t>(firstRow + tiling.rowsPerCore, tiling.rows);");
        if (!depth_known()) {
            helpers_.use("Await");
            l.push_back(fmt::format("if ({} == 0 && firstRow < lastRow) {{  // a sum of nothing", depth()));
            l.push_back(fmt::format(
                "    InitGlobalMemory({0}Gm[firstRow * {1}], static_cast<uint64_t>((lastRow - firstRow) * {1}), 0.0f);",
                names_.tensor(x.acc), factor(n)));
            l.push_back("    Await<HardEvent::MTE3_MTE2>();");
            l.push_back("    return;");
            l.push_back("}");
        }
        l.push_back("for (int64_t row = firstRow; row < lastRow;) {");
        const std::string rowM = names_.var(x.m);
        l.push_back(fmt::format("    {} = row % {};", rowM, factor(m)));
        if (!x.batch.empty()) {
            std::string rest = fmt::format("row / {}", factor(m));
            for (size_t i = x.batch.size(); i-- > 0;) {
                const std::string e = factor(scalar_.sym(m_.vars[x.batch[i]].extent));
                l.push_back(i == 0 ? fmt::format("    {} = {};", names_.var(x.batch[i]), rest)
                                   : fmt::format("    {} = {} % {};", names_.var(x.batch[i]), rest, e));
                rest = fmt::format("{} / {}", rest, e);
            }
        }
        l.push_back(fmt::format(
            "    const int64_t rows = Lower<int64_t>(lastRow - row, {} - {});  // within one matrix", factor(m), rowM));
        const std::string old_n = scalar_.vars.at(x.n), old_k = scalar_.vars.at(x.k);
        scalar_.vars[x.n] = scalar_.vars[x.k] = "0";
        std::string condition;
        Lines none;
        const Expr a = m_.expr(x.a), b = m_.expr(x.b);
        const std::string at_a = scalar_.offset(a.ref, a.args.data(), Outside::Error, condition, none);
        const std::string at_b = scalar_.offset(b.ref, b.args.data(), Outside::Error, condition, none);
        scalar_.vars[x.n] = old_n;
        scalar_.vars[x.k] = old_k;
        l.push_back(fmt::format("    mm.SetTensorA({}Gm[{}], {});", names_.tensor(a.ref), at_a, x.transposed_a));
        l.push_back(fmt::format("    mm.SetTensorB({}Gm[{}], {});", names_.tensor(b.ref), at_b, x.transposed_b));
        l.push_back(fmt::format("    mm.SetTail(static_cast<int>(rows), static_cast<int>({}), static_cast<int>({}));",
                                n, scalar_.sym(m_.vars[x.k].extent)));
        l.push_back(fmt::format("    mm.IterateAll({}Gm[row * {}]);", names_.tensor(x.acc), factor(n)));
        l.push_back("    row += rows;");
        l.push_back("}");
        l.push_back("mm.End();");
        out.push_back(
            "    // This core's rows of the product, to global memory: the cube hands its results over there in any "
            "case.");
        method(out, "Multiply", l);
    }

    // ---- the class

    KernelSource assemble(Lines process) {
        KernelSource r;
        r.name = name_;
        // Numbers for methods, where there is more than one of a kind.
        std::map<size_t, std::string> in_name, compute_name, out_name;
        const auto number = [&](Lines Method::* part, const std::string& base, std::map<size_t, std::string>& names) {
            size_t n = 0;
            for (const Method& m : methods_) n += !(m.*part).empty();
            size_t k = 0;
            for (size_t i = 0; i < methods_.size(); ++i)
                if (!(methods_[i].*part).empty()) names[i] = n == 1 ? base : base + std::to_string(++k);
        };
        number(&Method::in, "CopyIn", in_name);
        number(&Method::compute, "Compute", compute_name);
        number(&Method::out, "CopyOut", out_name);
        for (std::string& l : process)
            for (const auto& [base, names] :
                 {std::pair{"CopyIn@", &in_name}, {"Compute@", &compute_name}, {"CopyOut@", &out_name}})
                if (const size_t at = l.find(base); at != std::string::npos) {
                    const size_t id = std::stoul(l.substr(at + std::string(base).size()));
                    l = l.substr(0, at) + names->at(id) + "();";
                    break;
                }

        const bool lanes = block_ != kNone;
        Lines out;
        const auto add = [&](const std::string& s) { out.push_back(s); };
        const std::string tiling_type = upper_camel(name_) + "Tiling";
        // Parameters in a fixed order.
        const auto rank = [&](TensorId t) {
            return m_.tensors[t].role == Role::Input      ? 0
                   : m_.tensors[t].role == Role::Constant ? 1
                   : m_.tensors[t].role == Role::Temp     ? 2
                                                          : 3;
        };
        std::stable_sort(parameters_.begin(), parameters_.end(),
                         [&](TensorId a, TensorId b) { return std::pair(rank(a), a) < std::pair(rank(b), b); });
        faults_ |= scalar_.faults;
        Lines multiply_lines;
        if (product_) {
            parameter(m_.expr(product_->a).ref);
            parameter(m_.expr(product_->b).ref);
            std::stable_sort(parameters_.begin(), parameters_.end(),
                             [&](TensorId a, TensorId b) { return std::pair(rank(a), a) < std::pair(rank(b), b); });
            multiply(multiply_lines);
        }
        std::string arguments, names;
        for (TensorId t : parameters_) {
            arguments += fmt::format("GM_ADDR {}, ", names_.tensor(t));
            names += names_.tensor(t) + ", ";
        }
        if (faults_ && product_) throw Unsupported{"A product and an index that is data in one kernel."};
        if (faults_) {
            arguments += "GM_ADDR faults, ";
            names += "faults, ";
        }
        add(fmt::format("class {} {{", class_));
        add("public:");
        add(fmt::format("    __aicore__ inline {}() {{}}", class_));
        add("");
        add(fmt::format("    __aicore__ inline void Init({}const {} &tilingData, TPipe *pipe)", arguments,
                        tiling_type));
        add("    {");
        add("        tiling = tilingData;");
        for (TensorId t : parameters_) {
            const DType d = stored_type(t);
            std::vector<std::string> extents;
            for (const Sym& s : m_.tensors[t].shape) extents.push_back(scalar_.sym(s));
            add(fmt::format("        {}Gm.SetGlobalBuffer((__gm__ {} *){}, {});", names_.tensor(t), memory_type(d),
                            names_.tensor(t), product_of(extents)));
        }
        if (faults_) add("        faultGm.SetGlobalBuffer((__gm__ int32_t *)faults, GetBlockNum());");
        if (product_ && !depth_known()) {
            add(fmt::format("        if ({} > 0) {{", depth()));
            add("            REGIST_MATMUL_OBJ(pipe, GetSysWorkSpacePtr(), mm, &tiling.cube);");
            add("        }");
        } else if (product_) {
            add("        REGIST_MATMUL_OBJ(pipe, GetSysWorkSpacePtr(), mm, &tiling.cube);");
        }
        const auto budget = [&](const std::string& name, int64_t copies, int64_t eighths, int64_t fixed) {
            r.budget.push_back({name, copies, eighths, fixed});
        };
        for (const Queue& q : queues_) {
            const bool one = scalar_queues_.count(q.name) > 0 || !lanes;
            add(one ? fmt::format("        pipe->InitBuffer({}, BUFFER_NUM, 32);", q.name)
                    : fmt::format("        pipe->InitBuffer({}, BUFFER_NUM, {}tiling.tileLength * sizeof({}));", q.name,
                                  times(q), q.type));
            budget(q.name, 2, one ? 0 : 8 * q.bytes * q.stride, one ? 32 : 0);
        }
        for (const Queue& b : buffers_) {
            add(fmt::format("        pipe->InitBuffer({}, {}tiling.tileLength * sizeof({}));", b.name, times(b),
                            b.type));
            budget(b.name, 1, 8 * b.bytes * b.stride, 0);
        }
        for (size_t i = 0; i < vector_.tensors.busy.size(); ++i) {
            add(fmt::format("        pipe->InitBuffer(tmpBuf{}, tiling.tileLength * sizeof(float));", i));
            budget(fmt::format("tmpBuf{}", i), 1, 32, 0);
        }
        for (size_t i = 0; i < vector_.masks.busy.size(); ++i) {
            add(fmt::format("        pipe->InitBuffer(maskBuf{}, tiling.tileLength / 8);", i));
            budget(fmt::format("maskBuf{}", i), 1, 1, 32);
        }
        if (work_ != Work::None) {
            add("        pipe->InitBuffer(foldedBuf, 32);");
            budget("foldedBuf", 1, 0, 32);
            const int64_t share = work_ == Work::Sums ? 16 : work_ == Work::Extremes ? 8 : 4;
            add(fmt::format("        pipe->InitBuffer(workBuf, tiling.tileLength / {} + {});  // {}", share,
                            share == 4 ? 64 : 32,
                            share == 16  ? "a float for each 256 bytes folded"
                            : share == 8 ? "an extreme and its place for each 256 bytes folded"
                                         : "extremes and places of every 256 bytes folded, and of these again"));
            budget("workBuf", 1, (8 + share - 1) / share, 64);
        }
        if (faults_) {
            add("        pipe->InitBuffer(faultBuf, 32);");
            budget("faultBuf", 1, 0, 32);
        }
        for (const auto& [step, buffer] : offset_buffers_) {
            const std::string name = buffer.substr(0, buffer.size() - 3) + "s";  // "offsetBuf"
            add(fmt::format("        // Every {} element of a row, as byte offsets.", step == 8    ? "second"
                                                                                      : step == 12 ? "third"
                                                                                                   : "fourth"));
            add(fmt::format("        LocalTensor<int32_t> {} = {}.Get<int32_t>();", name, buffer));
            add(fmt::format("        CreateVecIndex({}, 0, tiling.tileLength);", name));
            add(fmt::format("        Muls({0}, {0}, {1}, tiling.tileLength);", name, step));
        }
        if (whole_) {
            add(fmt::format("        count = static_cast<uint32_t>({});", scalar_.sym(m_.vars[block_].extent)));
            if (padded_) add("        lanes = RoundUp(count, 64);");
        }
        add("    }");
        add("");
        helpers_.use("Lower");
        add("    __aicore__ inline void Process()");
        add("    {");
        if (product_) add("        Multiply();");
        if (!once_.empty()) add("        CopyInOnce();");
        add("        // Consecutive tasks for each core; the last core may have fewer.");
        add("        const int64_t first = GetBlockIdx() * tiling.tasksPerCore;");
        add("        const int64_t last = Lower<int64_t>(first + tiling.tasksPerCore, tiling.tasks);");
        add("        for (int64_t task = first; task < last; ++task) {");
        if (!nest_.grid.empty()) add("            Locate(task);");
        if (turns()) {
            const std::string v = names_.var(turned_), end = own_.unique("end");
            add("            CopyInRows();");
            add("            Turn();");
            add(fmt::format("            for (const int64_t {1} = {0} + {2}; {0} < {1}; ++{0}) {{", v, end, width_));
        }
        out.insert(out.end(), process.begin(), process.end());
        if (turns()) add("            }");
        add("        }");
        for (TensorId t : scattered_)
            add(fmt::format(
                "        DataCacheCleanAndInvalid<{}, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>({}Gm);",
                memory_type(stored_type(t)), names_.tensor(t)));
        if (faults_) add("        ReportFault();");
        add("    }");
        add("");
        add("private:");
        out.insert(out.end(), multiply_lines.begin(), multiply_lines.end());
        locate(out);
        if (!once_.empty()) {
            helpers_.use("Await");
            Lines l = once_;
            l.push_back("Await<HardEvent::MTE2_V>();");
            l.insert(l.end(), once_tails_.begin(), once_tails_.end());
            add("    // What every task reads.");
            method(out, "CopyInOnce", l);
        }
        if (turns()) {
            add("    // Rows that lie across the tiles: a part of them for every lane, and what lanes find side by "
                "side.");
            method(out, "CopyInRows", rows_in_);
            method(out, "Turn", rows_turned_);
        }
        for (size_t i = 0; i < methods_.size(); ++i) {
            method(out, in_name[i], methods_[i].in);
            if (compute_name.size() > 1 && !methods_[i].compute.empty() && methods_[i].note.size() < 100)
                add("    // " + methods_[i].note);
            method(out, compute_name[i], methods_[i].compute);
            method(out, out_name[i], methods_[i].out);
        }
        if (scalar_.checks) {
            add("    // An index that is data. Outside its dimension it is a fault, and place 0 stands in for it.");
            add("    __aicore__ inline int64_t Checked(int64_t index, int64_t size)");
            add("    {");
            add("        if (index < 0 || index >= size) {");
            add("            fault = 1;");
            add("            return 0;");
            add("        }");
            add("        return index;");
            add("    }");
            add("");
        }
        if (faults_) {
            add("    __aicore__ inline void ReportFault()");
            add("    {");
            add("        LocalTensor<int32_t> flag = faultBuf.Get<int32_t>();");
            add("        flag.SetValue(0, fault);");
            add("        Await<HardEvent::S_MTE3>();");
            add("        DataCopyPad(faultGm[GetBlockIdx()], flag, DataCopyExtParams{1, sizeof(int32_t), 0, 0, 0});");
            add("    }");
            add("");
            helpers_.use("Await");
        }
        add(fmt::format("    {} tiling;", tiling_type));
        if (product_) matmul_types(out);
        for (TensorId t : parameters_)
            add(fmt::format("    GlobalTensor<{}> {}Gm;", memory_type(stored_type(t)), names_.tensor(t)));
        if (faults_) add("    GlobalTensor<int32_t> faultGm;");
        for (const Queue& q : queues_)
            add(fmt::format("    {}, 1> {};",
                            q.kind == Queue::Copy  ? "TQueBind<TPosition::VECIN, TPosition::VECOUT"
                            : q.kind == Queue::Out ? "TQue<TPosition::VECOUT"
                                                   : "TQue<TPosition::VECIN",
                            q.name));
        for (const Queue& b : buffers_) add(fmt::format("    TBuf<TPosition::VECCALC> {};", b.name));
        for (size_t i = 0; i < vector_.tensors.busy.size(); ++i)
            add(fmt::format("    TBuf<TPosition::VECCALC> tmpBuf{};", i));
        for (size_t i = 0; i < vector_.masks.busy.size(); ++i)
            add(fmt::format("    TBuf<TPosition::VECCALC> maskBuf{};", i));
        if (work_ != Work::None) add("    TBuf<TPosition::VECCALC> foldedBuf, workBuf;");
        if (faults_) add("    TBuf<TPosition::VECCALC> faultBuf;");
        std::vector<VarId> vars;
        for (const tile::GridAxis& g : nest_.grid) vars.push_back(g.var);
        for (VarId v : loop_vars_)
            if (!has(vars, v)) vars.push_back(v);
        for (VarId v : vars)
            add(fmt::format("    int64_t {} = 0;{}", names_.var(v), v == block_ ? "  // where the tile begins" : ""));
        if (turns()) add(fmt::format("    uint32_t {} = 0;  // elements of the present rows", width_));
        if (lanes) add("    uint32_t count = 0;  // elements of the present tile");
        if (lanes && padded_) add("    uint32_t lanes = 0;  // the same, rounded up to whole 256 bytes");
        for (const Member& x : members_) add(fmt::format("    {} {} = {};", x.type, x.name, x.initial));
        if (faults_) add("    int32_t fault = 0;");
        add("};");
        add("");
        add(fmt::format("extern \"C\" __global__ {} void {}({}{} tiling)", product_ ? "__mix__(1, 2)" : "__aicore__",
                        name_ + "_kernel", arguments, tiling_type));
        add("{");
        add("    TPipe pipe;  // outside the class, so that the compiler can fold constants");
        add(fmt::format("    {} op;", class_));
        add(fmt::format("    op.Init({}tiling, &pipe);", names));
        add("    op.Process();");
        add("}");
        for (const std::string& l : out) r.device += l + "\n";

        r.parameters = parameters_;
        r.faults = faults_;
        r.one_core = one_core_;
        r.mix = product_ != nullptr;
        if (product_ && block_ != product_->n) throw Unsupported{"The epilogue of a product runs along its columns."};
        r.block_in_grid = in_grid_;
        r.whole = whole_;
        scalar_.sizes.clear();
        scalar_.host = true;
        std::vector<std::string> tasks;
        for (const tile::GridAxis& g : nest_.grid) {
            const std::string n = scalar_.sym(m_.vars[g.var].extent);
            if (g.var != block_) tasks.push_back(g.var == turned_ ? groups(n) : n);
        }
        r.tasks = product_of(tasks);
        if (lanes) r.block_extent = scalar_.sym(m_.vars[block_].extent);
        if (product_) {
            r.rows = r.tasks;
            r.row_m = scalar_.sym(m_.vars[product_->m].extent);
            r.row_n = scalar_.sym(m_.vars[product_->n].extent);
            r.row_k = scalar_.sym(m_.vars[product_->k].extent);
            r.factor_bytes = static_cast<int64_t>(size_of(product_->type));
        }
        count_budget(r);
        return r;
    }
    // Leaves out waits for the vector unit where nothing was given to it since the last.
    static Lines without_idle_waits(const Lines& body) {
        static const std::string to_vector = "Await<HardEvent::S_V>();", to_scalar = "Await<HardEvent::V_S>();";
        Lines r;
        for (size_t i = 0; i < body.size(); ++i) {
            size_t last = r.size();
            while (body[i] == to_scalar && last > 0 && r[last - 1] != to_vector) {
                const std::string& l = r[last - 1];
                const bool declares = l.rfind("LocalTensor<", 0) == 0 && l.find(".Get<") != std::string::npos;
                last = declares ? last - 1 : 0;
            }
            if (body[i] != to_scalar || last == 0) {
                r.push_back(body[i]);
                continue;
            }
            // The loops that follow are those of the scalar unit too: one wait after them, where they have one.
            size_t end = i + 1;
            while (end < body.size() && (body[end][0] == ' ' || body[end] == "}" || body[end].rfind("for (", 0) == 0))
                ++end;
            if (end < body.size() && body[end] == to_vector) r.erase(r.begin() + static_cast<long>(last) - 1);
        }
        return r;
    }
    void method(Lines& out, const std::string& name, const Lines& with_idle) {
        const Lines body = without_idle_waits(with_idle);
        if (name.empty() || body.empty()) return;
        out.push_back(fmt::format("    __aicore__ inline void {}()", name));
        out.push_back("    {");
        for (const std::string& l : body) out.push_back("        " + l);
        out.push_back("    }");
        out.push_back("");
    }
    void locate(Lines& out) {
        if (nest_.grid.empty()) return;
        out.push_back("    // Where a task lies.");
        out.push_back("    __aicore__ inline void Locate(int64_t task)");
        out.push_back("    {");
        std::string rest = "task";
        bool named = false;
        std::vector<const tile::GridAxis*> axes;
        for (const tile::GridAxis& g : nest_.grid) axes.push_back(&g);
        // The innermost axis varies fastest.
        for (size_t i = axes.size(); i-- > 0;) {
            const VarId v = axes[i]->var;
            const std::string n = scalar_.sym(m_.vars[v].extent);
            const bool tiled = v == block_;
            const bool grouped = v == turned_;
            const std::string steps = tiled ? "tilesInRow" : grouped ? groups(n) : factor(n);
            if (tiled && axes.size() > 1)
                out.push_back(fmt::format(
                    "        const int64_t tilesInRow = ({} + tiling.tileLength - 1) / tiling.tileLength;", n));
            std::string place = i == 0 ? rest : fmt::format("{} % {}", rest, steps);
            if (tiled) place = (i == 0 ? place : "(" + place + ")") + " * tiling.tileLength";
            if (grouped) place = fmt::format("{} * {}", i == 0 && rest == "task" ? place : "(" + place + ")", group_);
            out.push_back(fmt::format("        {} = {};", names_.var(v), place));
            if (i == 1) {
                rest += " / " + steps;
            } else if (i > 1) {
                out.push_back(named ? fmt::format("        rest /= {};", steps)
                                    : fmt::format("        int64_t rest = {} / {};", rest, steps));
                named = true;
                rest = "rest";
            }
        }
        if (block_ != kNone && in_grid_) {
            out.push_back(
                fmt::format("        count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, {} - {}));",
                            scalar_.sym(m_.vars[block_].extent), names_.var(block_)));
            if (padded_) out.push_back("        lanes = RoundUp(count, 64);");
        }
        if (turns())
            out.push_back(fmt::format("        {} = static_cast<uint32_t>(Lower<int64_t>({}, {} - {}));", width_,
                                      group_, turned_extent(), names_.var(turned_)));
        out.push_back("    }");
        out.push_back("");
    }
    void count_budget(KernelSource& r) const {
        int64_t eighths = 0, fixed = 0;
        for (const Budget& b : r.budget) {
            eighths += b.copies * b.per_lane;
            fixed += b.copies * b.fixed;
        }
        r.max_tile = eighths == 0 ? kLanes : (kUbBytes - fixed - 2048) * 8 / eighths / kLanes * kLanes;
        if (r.max_tile < kLanes) {
            std::string all;
            int64_t bytes = 0;
            for (const Budget& b : r.budget) {
                all += fmt::format("{}{} {}", all.empty() ? "" : ", ", b.buffer, b.bytes(kLanes));
                bytes += b.bytes(kLanes);
            }
            throw Unsupported{
                fmt::format("Its {} buffers take {} bytes for the smallest tile, of {} elements, and the "
                            "unified buffer has {} ({}).",
                            r.budget.size(), bytes, kLanes, kUbBytes, all)};
        }
        size_t made = 0;
        for (const Budget& b : r.budget) made += static_cast<size_t>(b.copies);
        if (made > 64) throw Unsupported{fmt::format("It needs {} buffers, and a kernel may have 64.", made)};
    }
};
}  // namespace

Result<KernelSource> write_kernel(const tile::Program& p, size_t nest, const Names& names, Helpers& helpers,
                                  const std::string& suffix, const Product* product) {
    try {
        KernelWriter plain(p, nest, names, helpers, suffix, product, false);
        KernelSource r = plain.write();
        if (plain.needs_padding()) return KernelWriter(p, nest, names, helpers, suffix, product, true).write();
        return r;
    } catch (const Unsupported& u) { return Diagnostic(u.reason); }
}

}  // namespace opwright::target::ascend
