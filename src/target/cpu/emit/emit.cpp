#include "target/cpu/emit/emit.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <set>
#include <stdexcept>
#include <unordered_map>

#include "loop/builder.h"
#include "target/cpu/emit/arithmetic.h"
#include "target/cpu/emit/order.h"
#include "target/cpu/emit/tiles.h"
#include "target/cpu/emit/math.h"

namespace opwright::target::cpu {
namespace {

using namespace loop;
using llvm::BasicBlock;
using llvm::Value;

// Alias scopes: one for each buffer that overlaps no other.
class AliasScopes {
public:
    AliasScopes(const Program& p, llvm::LLVMContext& c) : scopes_(p.buffers.size()), others_(p.buffers.size()) {
        llvm::MDBuilder md(c);
        llvm::MDNode* domain = md.createAnonymousAliasScopeDomain("buffers");
        std::vector<llvm::Metadata*> scopes(p.buffers.size());
        for (size_t i = 0; i < scopes.size(); ++i)
            if (alone(p.buffers[i])) scopes[i] = md.createAnonymousAliasScope(domain, p.buffers[i].name);
        for (size_t i = 0; i < scopes.size(); ++i) {
            if (!scopes[i]) continue;
            std::vector<llvm::Metadata*> others;
            for (size_t j = 0; j < scopes.size(); ++j)
                if (j != i && scopes[j]) others.push_back(scopes[j]);
            scopes_[i] = llvm::MDNode::get(c, {scopes[i]});
            if (!others.empty()) others_[i] = llvm::MDNode::get(c, others);
        }
    }

    template <class Instruction>
    Instruction* mark(Instruction* i, BufferId b) const {
        const auto k = static_cast<size_t>(b);
        if (scopes_[k]) i->setMetadata(llvm::LLVMContext::MD_alias_scope, scopes_[k]);
        if (others_[k]) i->setMetadata(llvm::LLVMContext::MD_noalias, others_[k]);
        return i;
    }

    static bool alone(const Buffer& b) { return b.space != Space::Param || b.no_alias; }

private:
    std::vector<llvm::MDNode*> scopes_, others_;
};

// Emits one function. Pure expressions go as far out as their operands allow: into the open preheader of the outermost
// loop that does not change them, but never out of an If. Loads go before the innermost loop when nothing in it changes
// them. Locals are SSA values; loops and Ifs make the phis.
class FunctionEmitter {
public:
    FunctionEmitter(Program& p, const Features& f, llvm::Module& m, const AliasScopes& aliases)
        : p_(p), f_(f), module_(m), aliases_(aliases), b_(m.getContext()), a_(m, b_, f) {}

    void emit(const Function& f) {
        emit_scratch_size(f);
        llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty();
        start(llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, i64, i64, ptr, ptr}, false), f.name,
              {"buffers", "symbols", "task_begin", "task_end", "scratch", "status"});
        buffers_ = arg(0), symbols_ = arg(1), scratch_ = arg(4), status_ = arg(5);
        task_begin_ = arg(2), task_end_ = arg(3);
        std::set<BufferId> used;
        tiles_ = false;
        collect(f.body, used);
        prepare_buffers(used);
        if (tiles_) configure_tiles(b_);
        block(f.body);
        b_.SetInsertPoint(current());
        if (tiles_) release_tiles(b_);
#if defined(__x86_64__)
        // Streaming stores are ordered with nothing, not even the release by which the caller learns of the end.
        if (streams_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
#endif
        b_.CreateRetVoid();
        finish();
    }

private:
    struct Placed {
        Value* value = nullptr;
        int depth = 0;  // index of the innermost scope that it depends on
    };
    enum class ScopeKind { Function, Loop, Unrolled, Branch };
    struct Scope {
        ScopeKind kind;
        BasicBlock* preheader = nullptr;  // Loop: open block before the loop, run only when the body runs
        std::unordered_map<ExprId, Placed> values;
        std::vector<BufferId> written = {};  // Loop: buffers that the body stores to
    };

    // ---- functions and blocks ----

    void start(llvm::FunctionType* type, const std::string& name, std::initializer_list<const char*> args) {
        fn_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
        a_.set_attributes(fn_);
        unsigned i = 0;
        for (const char* a : args) {
            fn_->getArg(i)->setName(a);
            if (type->getParamType(i)->isPointerTy()) fn_->addParamAttr(i, llvm::Attribute::NoAlias);
            ++i;
        }
        streams_ = false;
        scopes_.clear();
        scopes_.push_back({ScopeKind::Function, nullptr, {}});
        symbol_values_.assign(p_.symbols.size(), nullptr);
        buffer_values_.assign(p_.buffers.size(), nullptr);
        vars_.assign(p_.variables.size(), {});
        lets_.assign(p_.lets.size(), {});
        locals_.assign(p_.locals.size(), nullptr);
        entry_ = new_block("entry");
        current_ = new_block("start");
        b_.SetInsertPoint(current_);
    }

    void finish() {
        b_.SetInsertPoint(entry_);
        b_.CreateBr(&*std::next(fn_->begin()));
    }

    Value* arg(unsigned i) { return fn_->getArg(i); }
    BasicBlock* new_block(const char* name) { return BasicBlock::Create(module_.getContext(), name, fn_); }
    BasicBlock* current() const { return current_; }
    void enter(BasicBlock* b) {
        current_ = b;
        b_.SetInsertPoint(b);
    }

    // Functions without scratch memory share one, as an alias.
    void emit_scratch_size(const Function& f) {
        std::set<BufferId> used;
        collect(f.body, used);
        std::erase_if(used, [&](BufferId id) { return !in_scratch(p_.buffer(id)); });
        const char* shared = "opwright.no_scratch";
        llvm::Function* none = used.empty() ? module_.getFunction(shared) : nullptr;
        if (!none) {
            start(llvm::FunctionType::get(b_.getInt64Ty(), {b_.getPtrTy()}, false), used.empty() ? shared : f.name + ".scratch",
                  {"symbols"});
            symbols_ = arg(0);
            Value* total = b_.getInt64(0);
            for (BufferId id : used) total = b_.CreateAdd(total, scratch_bytes(p_.buffer(id)));
            b_.CreateRet(total);
            finish();
            none = fn_;
        }
        if (used.empty()) llvm::GlobalAlias::create(llvm::GlobalValue::ExternalLinkage, f.name + ".scratch", none);
    }

    static bool in_scratch(const Buffer& b) {
        return b.space == Space::Scratch || (b.space == Space::Param && b.elements != ExprId::none);
    }

    // Rounded up to 64; a negative extent counts as 0.
    Value* scratch_bytes(const Buffer& buffer) {
        Value* n = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value(buffer.elements), b_.getInt64(0));
        n = b_.CreateMul(n, b_.getInt64(size_of(buffer.dtype)));
        return b_.CreateAnd(b_.CreateAdd(n, b_.getInt64(63)), b_.getInt64(-64));
    }

    void collect(const Block& block, std::set<BufferId>& used) {
        std::vector<bool> seen(p_.node_count());
        collect(block, used, seen);
    }
    void collect(const Block& block, std::set<BufferId>& used, std::vector<bool>& seen) {
        auto expr = [&](auto& self, ExprId e) -> void {
            if (e == ExprId::none || seen[static_cast<size_t>(e)]) return;
            seen[static_cast<size_t>(e)] = true;
            if (p_.node(e).buffer != BufferId::none) used.insert(p_.node(e).buffer);
            for (ExprId a : p_.node(e).args) self(self, a);
        };
        auto all = [&](std::initializer_list<ExprId> es) { for (ExprId e : es) expr(expr, e); };
        for (StmtId id : block) {
            const Stmt& s = p_.stmt(id);
            if (auto* x = std::get_if<For>(&s)) all({x->begin, x->end, x->step}), collect(x->body, used, seen);
            if (auto* x = std::get_if<If>(&s))
                all({x->condition}), collect(x->then_body, used, seen), collect(x->else_body, used, seen);
            if (auto* x = std::get_if<Let>(&s)) all({x->value});
            if (auto* x = std::get_if<Declare>(&s)) all({x->value});
            if (auto* x = std::get_if<Assign>(&s)) all({x->value});
            if (auto* x = std::get_if<Store>(&s)) all({x->offset, x->value, x->mask}), used.insert(x->buffer);
            if (auto* x = std::get_if<Scatter>(&s)) all({x->offsets, x->value, x->mask}), used.insert(x->buffer);
            if (auto* x = std::get_if<Prefetch>(&s)) all({x->offset}), used.insert(x->buffer);
            if (std::holds_alternative<TileZero>(s) || std::holds_alternative<TileDot>(s)) tiles_ = true;
            if (auto* x = std::get_if<TileLoad>(&s)) all({x->offset, x->stride}), used.insert(x->buffer), tiles_ = true;
            if (auto* x = std::get_if<TileStore>(&s)) all({x->offset, x->stride}), used.insert(x->buffer), tiles_ = true;
            if (auto* x = std::get_if<SetError>(&s)) all({x->code});
        }
    }

    void prepare_buffers(const std::set<BufferId>& used) {
        Value* offset = b_.getInt64(0);
        for (BufferId id : used) {
            const Buffer& buffer = p_.buffer(id);
            Value*& v = buffer_values_[static_cast<size_t>(id)];
            switch (buffer.space) {
                case Space::Param:
                    v = b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getPtrTy(), buffers_, buffer.argument), buffer.name);
                    if (in_scratch(buffer)) {
                        Value *own = b_.CreateGEP(b_.getInt8Ty(), scratch_, offset), *bytes = scratch_bytes(buffer);
                        v = b_.CreateSelect(b_.CreateICmpSGT(bytes, b_.getInt64(0)), own, v, buffer.name);
                        offset = b_.CreateAdd(offset, bytes);
                    }
                    break;
                case Space::Scratch:
                    v = b_.CreateGEP(b_.getInt8Ty(), scratch_, offset, buffer.name);
                    offset = b_.CreateAdd(offset, scratch_bytes(buffer));
                    break;
                case Space::Local: {
                    llvm::Type* e = a_.memory_type({buffer.dtype, 1});
                    llvm::IRBuilder<>::InsertPointGuard guard(b_);
                    b_.SetInsertPoint(entry_);
                    auto* slot = b_.CreateAlloca(llvm::ArrayType::get(e, static_cast<uint64_t>(p_.node(buffer.elements).payload)),
                                                 nullptr, buffer.name);
                    slot->setAlignment(llvm::Align(64));
                    v = slot;
                    break;
                }
            }
        }
    }

    // ---- expressions ----

    Value* value(ExprId e) { return evaluate(e).value; }

    Placed evaluate(ExprId e) {
        const Node n = p_.node(e);
        switch (n.op) {
            case Op::Literal: return {a_.literal(n.type.dtype, n.payload), 0};
            case Op::Symbol: return {symbol(static_cast<size_t>(n.payload)), 0};
            case Op::TaskBegin: return {task_begin_, 0};
            case Op::TaskEnd: return {task_end_, 0};
            case Op::Var: return vars_[static_cast<size_t>(n.payload)];
            case Op::Let: return lets_[static_cast<size_t>(n.payload)];
            case Op::Local: return {locals_[static_cast<size_t>(n.payload)], top()};
            default: break;
        }
        if (p_.impure(e)) {
            auto it = statement_values_.find(e);
            if (it != statement_values_.end()) return it->second;
            if (n.op == Op::Load || n.op == Op::Gather)
                if (const int loop = loop_without_change(n)) return load_before(loop, e, n);
            const Placed v{compute(e, n), top()};
            return statement_values_[e] = v;
        }
        for (size_t i = scopes_.size(); i-- > 0;)
            if (auto it = scopes_[i].values.find(e); it != scopes_[i].values.end()) return it->second;

        const MathPlan plan = math_plan(e, n);
        int depth = 0;
        auto need = [&](ExprId a) { if (a != ExprId::none) depth = std::max(depth, evaluate(a).depth); };
        if (plan.value) need(plan.value), need(plan.valid);
        if (!plan.value || !plan.c_function.empty())
            for (ExprId a : n.args) need(a);
        int home = depth;  // where the value is kept
        for (int i = depth + 1; i <= top(); ++i)
            if (scopes_[static_cast<size_t>(i)].kind == ScopeKind::Branch) home = i;
        int loop = home + 1;
        while (loop <= top() && scopes_[static_cast<size_t>(loop)].kind != ScopeKind::Loop) ++loop;
        Placed v{nullptr, depth};
        if (loop <= top()) {
            BasicBlock* here = current_;
            enter(scopes_[static_cast<size_t>(loop)].preheader);
            v.value = compute(e, n, plan);
            scopes_[static_cast<size_t>(loop)].preheader = current_;
            enter(here);
            home = loop;
        } else {
            v.value = compute(e, n, plan);
        }
        scopes_[static_cast<size_t>(home)].values[e] = v;
        return v;
    }

    int top() const { return static_cast<int>(scopes_.size()) - 1; }

    // The scope of the innermost loop if this load gives the same on all its turns and happens whenever it turns; else 0.
    int loop_without_change(const Node& n) {
        int loop = top();
        while (scopes_[static_cast<size_t>(loop)].kind == ScopeKind::Unrolled) --loop;
        const Scope& scope = scopes_[static_cast<size_t>(loop)];
        if (scope.kind != ScopeKind::Loop) return 0;
        for (ExprId a : n.args)
            if (a != ExprId::none && (p_.impure(a) || evaluate(a).depth >= loop)) return 0;
        const bool may_alias = !AliasScopes::alone(p_.buffer(n.buffer));
        for (BufferId b : scope.written)
            if (b == n.buffer || (may_alias && !AliasScopes::alone(p_.buffer(b)))) return 0;
        return loop;
    }

    Placed load_before(int loop, ExprId e, const Node& n) {
        auto& values = scopes_[static_cast<size_t>(loop)].values;
        if (auto it = values.find(e); it != values.end()) return it->second;
        BasicBlock* here = current_;
        enter(scopes_[static_cast<size_t>(loop)].preheader);
        const Placed v{compute(e, n, {}), top()};
        scopes_[static_cast<size_t>(loop)].preheader = current_;
        enter(here);
        return scopes_[static_cast<size_t>(loop)].values[e] = v;
    }

    void stores(const Block& block, std::vector<BufferId>& out) const {
        for (StmtId id : block) {
            const Stmt& s = p_.stmt(id);
            if (auto* x = std::get_if<Store>(&s)) out.push_back(x->buffer);
            if (auto* x = std::get_if<Scatter>(&s)) out.push_back(x->buffer);
            if (auto* x = std::get_if<TileStore>(&s)) out.push_back(x->buffer);
            if (auto* x = std::get_if<For>(&s)) stores(x->body, out);
            if (auto* x = std::get_if<If>(&s)) stores(x->then_body, out), stores(x->else_body, out);
        }
    }

    MathPlan math_plan(ExprId, const Node& n) {
        auto operand = [&](int i) { return Expr(&p_, n.args[i]); };
        if (n.op == Op::Unary) return plan_math(n.unary(), operand(0), f_);
        if (n.op == Op::Binary) return plan_math(n.binary(), operand(0), operand(1), f_);
        return {};
    }

    Value* symbol(size_t i) {
        Value*& v = symbol_values_[i];
        if (!v) {
            llvm::IRBuilder<>::InsertPointGuard guard(b_);
            b_.SetInsertPoint(entry_);
            v = b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstGEP1_64(b_.getInt64Ty(), symbols_, i), p_.symbols[i].name);
        }
        return v;
    }

    Value* compute(ExprId e, const Node& n) { return compute(e, n, math_plan(e, n)); }

    Value* compute(ExprId, const Node& n, const MathPlan& plan) {
        if (plan.value || !plan.c_function.empty()) return math(n, plan);
        auto operand = [&](int i) { return value(n.args[i]); };
        const Type from = n.args[0] == ExprId::none ? n.type : p_.type(n.args[0]);
        switch (n.op) {
            case Op::Broadcast: return a_.broadcast(operand(0), n.type.lanes);
            case Op::Ramp: return a_.ramp(n.type, operand(0), n.payload);
            case Op::FirstLanes: return a_.first_lanes(operand(0), n.type.lanes);
            case Op::Unary: return a_.unary(n.unary(), from, operand(0));
            case Op::Binary: {
                Value* x = operand(0);
                if (n.payload) return a_.min_max(n.binary(), from, x, operand(1), /*numbers=*/true);
                return a_.binary(n.binary(), from, x, operand(1));
            }
            case Op::Select: {
                Value *c = operand(0), *x = operand(1), *y = operand(2);
                return b_.CreateSelect(c, x, y);
            }
            case Op::Fma:
            case Op::MulAdd: {
                Value *x = operand(0), *y = operand(1), *z = operand(2);
                return a_.mul_add(x, y, z, n.op == Op::Fma);
            }
            case Op::Dot: {
                Value *sum = operand(0), *x = operand(1);
                return a_.dot(n.dot(), n.type, x, operand(2), sum);
            }
            case Op::Scale: {
                Value* x = operand(0);
                return a_.scale(n.type, x, operand(1));
            }
            case Op::Cast: return n.payload ? a_.normal_to_bf16(from, operand(0)) : a_.cast(from, n.type.dtype, operand(0));
            case Op::Wrap: return a_.wrap(from, n.type.dtype, operand(0));
            case Op::Bitcast: return b_.CreateBitCast(operand(0), a_.type(n.type));
            case Op::Load: return load(n);
            case Op::Gather: return gather(n, operand(0));
            case Op::ReduceLanes: return a_.reduce(n.binary(), from, operand(0), n.payload != 0);
            case Op::Extract: return b_.CreateExtractElement(operand(0), static_cast<uint64_t>(n.payload));
            case Op::Insert: {
                Value* x = operand(0);
                return b_.CreateInsertElement(x, operand(1), static_cast<uint64_t>(n.payload));
            }
            case Op::Shuffle: {
                Value* x = operand(0);
                if (n.args[1] == ExprId::none) return b_.CreateShuffleVector(x, p_.shuffle_lanes(n.payload));
                return b_.CreateShuffleVector(x, operand(1), p_.shuffle_lanes(n.payload));
            }
            case Op::Lookup: return a_.lookup(n.type, operand(0), p_.lookup_entries(n.payload));
            case Op::Literal:
            case Op::Symbol:
            case Op::TaskBegin:
            case Op::TaskEnd:
            case Op::Var:
            case Op::Let:
            case Op::Local: break;  // leaves, see evaluate
        }
        throw std::logic_error("CPU emitter: a leaf reached compute");
    }

    // The fast value, with the lanes outside of its range computed by the C library, or all by the plain instruction.
    Value* math(const Node& n, const MathPlan& plan) {
        auto arguments = [&] {
            std::vector<Value*> args;
            for (ExprId a : n.args)
                if (a != ExprId::none) args.push_back(value(a));
            return args;
        };
        if (!plan.value) {
            auto args = arguments();
            return a_.call_lanes(plan.c_function, n.type, args);
        }
        Value* fast = value(plan.value);
        if (!plan.valid) return fast;
        Value* ok = value(plan.valid);
        auto args = arguments();
        Value* all = n.type.is_vector() ? a_.reduce(BinaryFn::And, n.type.with(DType::Bool), ok) : ok;
        BasicBlock *before = current_, *slow = new_block("slow"), *after = new_block("after");
        auto* branch = b_.CreateCondBr(all, after, slow);
        branch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(module_.getContext()).createBranchWeights(2000, 1));
        enter(slow);
        Value* exact = plan.c_function.empty() ? a_.binary(n.binary(), n.type, args[0], args[1])
                                               : a_.call_lanes(plan.c_function, n.type, args, fast, ok);
        b_.CreateBr(after);
        enter(after);
        llvm::PHINode* phi = b_.CreatePHI(fast->getType(), 2);
        phi->addIncoming(fast, before);
        phi->addIncoming(exact, slow);
        return phi;
    }

    // ---- memory ----

    Value* address(BufferId b, Value* offset) {
        return b_.CreateGEP(a_.memory_type({p_.buffer(b).dtype, 1}), buffer_values_[static_cast<size_t>(b)], offset);
    }
    static llvm::Align align(Type t) { return llvm::Align(size_of(t.dtype)); }
    Value* from_memory(Type t, Value* v) {
        return t.dtype == DType::Bool ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
    }
    Value* to_memory(Type t, Value* v) { return t.dtype == DType::Bool ? b_.CreateZExt(v, a_.memory_type(t)) : v; }

    // One named place from another, as a register tile reads its rows: the first is a pointer that stays in a register
    // through the loop of the second, which is then part of the load.
    Value* place_from_place(const Node& n) {
        const Node& offset = p_.node(n.args[0]);
        const auto named = [&](ExprId e) { return p_.node(e).op == Op::Let; };
        if (offset.op != Op::Binary || offset.binary() != BinaryFn::Add || !named(offset.args[0]) || !named(offset.args[1]))
            return nullptr;
        llvm::Type* element = a_.memory_type({p_.buffer(n.buffer).dtype, 1});
        return b_.CreateGEP(element, address(n.buffer, value(offset.args[0])), value(offset.args[1]));
    }

    Value* load(const Node& n) {
        if (Value* at = n.payload == 1 && n.args[1] == ExprId::none ? place_from_place(n) : nullptr)
            return from_memory(n.type, aliases_.mark(b_.CreateAlignedLoad(a_.memory_type(n.type), at, align(n.type)), n.buffer));
        Value* offset = value(n.args[0]);
        Value* mask = n.args[1] == ExprId::none ? nullptr : value(n.args[1]);
        Value* otherwise = mask ? to_memory(n.type, value(n.args[2])) : nullptr;
        llvm::Type* type = a_.memory_type(n.type);
        if (!n.type.is_vector() && mask) return masked_scalar_load(n, offset, mask, otherwise);
        if (n.payload == 1 && !mask)
            return from_memory(n.type, aliases_.mark(b_.CreateAlignedLoad(type, address(n.buffer, offset), align(n.type)), n.buffer));
        if (n.payload == 1)
            return from_memory(n.type, aliases_.mark(b_.CreateMaskedLoad(type, address(n.buffer, offset), align(n.type), mask,
                                                                         otherwise), n.buffer));
        const int64_t stride = n.payload;
        // A masked one too, where masks of memory are cheap and a gather takes an access for each lane.
        const bool cheap = !mask || (f_.vector_bytes >= 32 && size_of(n.type.dtype) >= 4);
        if (stride >= -4 && stride <= 4 && stride != 0 && cheap)
            return from_memory(n.type, wide_strided_load(n, offset, mask, otherwise));
        return gather_at(n, a_.ramp({DType::I64, n.type.lanes}, offset, stride), mask, otherwise);
    }

    Value* masked_scalar_load(const Node& n, Value* offset, Value* mask, Value* otherwise) {
        BasicBlock *before = current_, *read = new_block("read"), *after = new_block("after");
        b_.CreateCondBr(mask, read, after);
        enter(read);
        llvm::Type* type = a_.memory_type(n.type);
        Value* v = aliases_.mark(b_.CreateAlignedLoad(type, address(n.buffer, offset), align(n.type)), n.buffer);
        b_.CreateBr(after);
        enter(after);
        llvm::PHINode* phi = b_.CreatePHI(type, 2);
        phi->addIncoming(otherwise, before);
        phi->addIncoming(v, read);
        return from_memory(n.type, phi);
    }

    // Stride of at most 4 either way: whole vectors over the span from the first element to the last, and no further,
    // picked apart by shuffles. Under a mask nothing is read for lanes that are off.
    Value* wide_strided_load(const Node& n, Value* offset, Value* mask, Value* otherwise) {
        const int lanes = n.type.lanes, step = static_cast<int>(std::abs(n.payload));
        if (n.payload < 0) offset = b_.CreateAdd(offset, b_.getInt64(static_cast<uint64_t>((lanes - 1) * n.payload)));
        const int span = (lanes - 1) * step + 1;
        llvm::Type* type = a_.memory_type(n.type);
        Value* result = nullptr;
        std::vector<int> have(static_cast<size_t>(lanes), -1);
        for (int chunk = 0; chunk < step; ++chunk) {
            const int start = std::min(chunk * lanes, span - lanes);
            Value* place = address(n.buffer, b_.CreateAdd(offset, b_.getInt64(static_cast<uint64_t>(start))));
            // Lanes that this part holds and no earlier one did; by element of the part the lane that it is.
            std::vector<int> table(static_cast<size_t>(lanes)), lane_of(static_cast<size_t>(lanes), lanes);
            for (int i = 0; i < lanes; ++i) {
                const auto k = static_cast<size_t>(i);
                const int at = (n.payload < 0 ? lanes - 1 - i : i) * step - start;
                const bool mine = have[k] < 0 && at >= 0 && at < lanes;
                table[k] = mine ? (result ? lanes + at : at) : (result ? i : -1);
                if (!mine) continue;
                have[k] = chunk;
                lane_of[static_cast<size_t>(at)] = i;
            }
            llvm::Instruction* part = nullptr;
            if (mask) {
                llvm::Constant* none = llvm::Constant::getNullValue(mask->getType());
                part = b_.CreateMaskedLoad(type, place, align(n.type), b_.CreateShuffleVector(mask, none, lane_of),
                                           llvm::Constant::getNullValue(type));
            } else {
                part = b_.CreateAlignedLoad(type, place, align(n.type));
            }
            aliases_.mark(part, n.buffer);
            result = result ? b_.CreateShuffleVector(result, part, table) : b_.CreateShuffleVector(part, table);
        }
        return mask ? b_.CreateSelect(mask, result, otherwise) : result;
    }

    Value* gather(const Node& n, Value* offsets) {
        Value* mask = n.args[1] == ExprId::none ? nullptr : value(n.args[1]);
        Value* otherwise = mask ? to_memory(n.type, value(n.args[2])) : nullptr;
        return gather_at(n, offsets, mask, otherwise);
    }

    Value* gather_at(const Node& n, Value* offsets, Value* mask, Value* otherwise) {
        Value* all = mask ? mask : llvm::Constant::getAllOnesValue(a_.type(n.type.with(DType::Bool)));
        return from_memory(n.type, aliases_.mark(b_.CreateMaskedGather(a_.memory_type(n.type), address(n.buffer, offsets),
                                                                       align(n.type), all, otherwise), n.buffer));
    }

    // ---- statements ----

    void block(const Block& block) {
        for (StmtId s : block) {
            statement_values_.clear();
            std::visit([&](const auto& x) { statement(x); }, p_.stmt(s));
        }
    }

    static bool contains(const std::vector<LocalId>& v, LocalId x) {
        return std::find(v.begin(), v.end(), x) != v.end();
    }

    // Locals that the block assigns and that live outside of it.
    void assigned(const Block& block, std::vector<LocalId>& declared, std::vector<LocalId>& out) {
        for (StmtId id : block) {
            const Stmt& s = p_.stmt(id);
            if (auto* x = std::get_if<Declare>(&s)) declared.push_back(x->local);
            if (auto* x = std::get_if<Assign>(&s); x && !contains(declared, x->local) && !contains(out, x->local))
                out.push_back(x->local);
            if (auto* x = std::get_if<For>(&s)) assigned(x->body, declared, out);
            if (auto* x = std::get_if<If>(&s)) assigned(x->then_body, declared, out), assigned(x->else_body, declared, out);
        }
    }
    std::vector<LocalId> assigned(const Block& block) {
        std::vector<LocalId> declared, out;
        assigned(block, declared, out);
        return out;
    }
    Value*& local(LocalId id) { return locals_[static_cast<size_t>(id)]; }

    void statement(const For& s) {
        Value *begin = value(s.begin), *end = value(s.end), *step = value(s.step);
        if (s.kind == ForKind::Unrolled) return unrolled(s);
        const std::vector<LocalId> carried = assigned(s.body);
        std::vector<Value*> initial;
        for (LocalId l : carried) initial.push_back(local(l));

        BasicBlock *guard = current_, *preheader = new_block("preheader"), *body = new_block("loop"), *exit = new_block("exit");
        b_.CreateCondBr(b_.CreateICmpSLT(begin, end), preheader, exit);
        enter(body);
        llvm::PHINode* var = b_.CreatePHI(b_.getInt64Ty(), 2, p_.variable(s.var).name);
        std::vector<llvm::PHINode*> phis;
        for (LocalId l : carried) {
            phis.push_back(b_.CreatePHI(local(l)->getType(), 2, p_.local(l).name));
            local(l) = phis.back();
        }
        scopes_.push_back({ScopeKind::Loop, preheader, {}});
        stores(s.body, scopes_.back().written);
        vars_[static_cast<size_t>(s.var)] = {var, top()};
        block(s.body);
        Value* next = b_.CreateAdd(var, step, "", false, true);
        BasicBlock* latch = current_;
        b_.CreateCondBr(b_.CreateICmpSLT(next, end), body, exit);

        preheader = scopes_.back().preheader;
        scopes_.pop_back();
        enter(preheader);
        b_.CreateBr(body);
        var->addIncoming(begin, preheader);
        var->addIncoming(next, latch);
        enter(exit);
        for (size_t i = 0; i < carried.size(); ++i) {
            phis[i]->addIncoming(initial[i], preheader);
            phis[i]->addIncoming(local(carried[i]), latch);
            llvm::PHINode* out = b_.CreatePHI(phis[i]->getType(), 2);
            out->addIncoming(initial[i], guard);
            out->addIncoming(local(carried[i]), latch);
            local(carried[i]) = out;
        }
    }

    void unrolled(const For& s) {
        const int64_t begin = p_.node(s.begin).payload, end = p_.node(s.end).payload, step = p_.node(s.step).payload;
        scopes_.push_back({ScopeKind::Unrolled, nullptr, {}});
        for (int64_t i = begin; i < end; i += step) {
            scopes_.back().values.clear();
            vars_[static_cast<size_t>(s.var)] = {b_.getInt64(static_cast<uint64_t>(i)), top()};
            block(s.body);
        }
        scopes_.pop_back();
    }

    void statement(const If& s) {
        Value* condition = value(s.condition);
        BasicBlock *then_block = new_block("then"), *else_block = new_block("else"), *join = new_block("join");
        b_.CreateCondBr(condition, then_block, else_block);
        const std::vector<Value*> before = locals_;
        auto branch = [&](BasicBlock* start, const Block& body) {
            locals_ = before;
            enter(start);
            scopes_.push_back({ScopeKind::Branch, nullptr, {}});
            block(body);
            scopes_.pop_back();
            b_.CreateBr(join);
            return current_;
        };
        BasicBlock* then_end = branch(then_block, s.then_body);
        const std::vector<Value*> then_locals = locals_;
        BasicBlock* else_end = branch(else_block, s.else_body);
        enter(join);
        for (size_t i = 0; i < locals_.size(); ++i) {
            if (!before[i] || then_locals[i] == locals_[i]) continue;  // declared inside, or the same on both ways
            llvm::PHINode* phi = b_.CreatePHI(before[i]->getType(), 2);
            phi->addIncoming(then_locals[i], then_end);
            phi->addIncoming(locals_[i], else_end);
            locals_[i] = phi;
        }
    }

    void statement(const Let& s) { lets_[static_cast<size_t>(s.let)] = evaluate(s.value); }
    void statement(const Declare& s) { local(s.local) = value(s.value); }
    void statement(const Assign& s) { local(s.local) = value(s.value); }

    void statement(const Store& s) {
        const Type t = p_.type(s.value);
        Value *offset = value(s.offset), *mask = s.mask == ExprId::none ? nullptr : value(s.mask);
        Value* v = to_memory(t, value(s.value));
        if (!t.is_vector()) {
            BasicBlock* after = nullptr;
            if (mask) {
                BasicBlock* write = new_block("write");
                after = new_block("after");
                b_.CreateCondBr(mask, write, after);
                enter(write);
            }
            aliases_.mark(b_.CreateAlignedStore(v, address(s.buffer, offset), align(t)), s.buffer);
            if (mask) {
                b_.CreateBr(after);
                enter(after);
            }
            return;
        }
        int64_t stride = s.stride;
        if (stride == -1) {
            std::vector<int> reversed;
            for (int i = t.lanes; i-- > 0;) reversed.push_back(i);
            v = b_.CreateShuffleVector(v, reversed);
            if (mask) mask = b_.CreateShuffleVector(mask, reversed);
            offset = b_.CreateSub(offset, b_.getInt64(static_cast<uint64_t>(t.lanes - 1)));
            stride = 1;
        }
        if (stride != 1) return scatter_to(s.buffer, t, a_.ramp({DType::I64, t.lanes}, offset, stride), v, mask);
        if (mask) aliases_.mark(b_.CreateMaskedStore(v, address(s.buffer, offset), align(t), mask), s.buffer);
        else if (s.streaming) stream(v, address(s.buffer, offset), s.buffer);
        else aliases_.mark(b_.CreateAlignedStore(v, address(s.buffer, offset), align(t)), s.buffer);
    }

    // The alignment that the program promises is what lets LLVM use the non-temporal instruction.
    void stream(Value* v, Value* address, BufferId buffer) {
        const uint64_t bytes = module_.getDataLayout().getTypeStoreSize(v->getType());
        llvm::StoreInst* store = b_.CreateAlignedStore(v, address, llvm::Align(std::min<uint64_t>(bytes, 64)));
        streams_ = true;
        store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                           llvm::MDNode::get(b_.getContext(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
        aliases_.mark(store, buffer);
    }

    void statement(const Scatter& s) {
        const Type t = p_.type(s.value);
        Value *offsets = value(s.offsets), *mask = s.mask == ExprId::none ? nullptr : value(s.mask);
        Value* v = to_memory(t, value(s.value));
        scatter_to(s.buffer, t, offsets, v, mask);
    }

    void scatter_to(BufferId b, Type t, Value* offsets, Value* v, Value* mask) {
        Value* all = mask ? mask : llvm::Constant::getAllOnesValue(a_.type(t.with(DType::Bool)));
        aliases_.mark(b_.CreateMaskedScatter(v, address(b, offsets), align(t), all), b);
    }

    void statement(const Prefetch& s) {
        Value* place = address(s.buffer, value(s.offset));
        b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                           {place, b_.getInt32(s.for_write), b_.getInt32(s.far ? 2 : 3), b_.getInt32(1)});
    }

    void statement(const TileZero& s) { zero_tile(b_, s.tile); }
    void statement(const TileLoad& s) {
        Value *offset = value(s.offset), *stride = value(s.stride);
        load_tile(b_, s.tile, address(s.buffer, offset), stride);
    }
    void statement(const TileStore& s) {
        Value *offset = value(s.offset), *stride = value(s.stride);
        store_tile(b_, s.tile, address(s.buffer, offset), stride);
    }
    void statement(const TileDot& s) { dot_tiles(b_, s.fn, s.sum, s.rows, s.columns); }

    void statement(const SetError& s) {
        Value* code = value(s.code);
        Value* old = b_.CreateLoad(b_.getInt64Ty(), status_);
        b_.CreateStore(b_.CreateSelect(b_.CreateICmpEQ(old, b_.getInt64(0)), code, old), status_);
    }

    void statement(const Comment&) {}

    Program& p_;
    const Features& f_;
    llvm::Module& module_;
    const AliasScopes& aliases_;
    llvm::IRBuilder<> b_;
    Arithmetic a_;
    llvm::Function* fn_ = nullptr;
    BasicBlock *entry_ = nullptr, *current_ = nullptr;  // entry_ stays open until the end
    Value *buffers_ = nullptr, *symbols_ = nullptr, *task_begin_ = nullptr, *task_end_ = nullptr, *scratch_ = nullptr,
          *status_ = nullptr;
    std::vector<Scope> scopes_;
    std::unordered_map<ExprId, Placed> statement_values_;
    std::vector<Value*> symbol_values_, buffer_values_, locals_;
    std::vector<Placed> vars_, lets_;
    bool streams_ = false;  // the function has streaming stores
    bool tiles_ = false;    // the function uses tiles
};

}  // namespace

std::unique_ptr<llvm::Module> emit_module(const Program& program, const Features& features, llvm::LLVMContext& context) {
    auto module = std::make_unique<llvm::Module>("opwright", context);
    Program expanded = program;  // math functions add expressions
    AliasScopes aliases(expanded, context);
    FunctionEmitter emitter(expanded, features, *module, aliases);
    for (const Function& f : program.functions) emitter.emit(f);
    if (!program.plain_addresses)
        for (llvm::Function& f : *module) interleave(f);
    // A symbol that every object has, by which the loader links it.
    llvm::Type* i32 = llvm::Type::getInt32Ty(context);
    new llvm::GlobalVariable(*module, i32, true, llvm::GlobalValue::ExternalLinkage,
                             llvm::ConstantInt::get(i32, static_cast<uint64_t>(kEmitterVersion)), "opwright.object");
#ifndef NDEBUG
    std::string faults;
    llvm::raw_string_ostream out(faults);
    if (llvm::verifyModule(*module, &out)) throw std::logic_error("CPU emitter: invalid LLVM IR: " + out.str());
#endif
    return module;
}

}  // namespace opwright::target::cpu
