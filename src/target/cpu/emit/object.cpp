// LLVM IR to object code: compile_object of jit.h.
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Scalar.h>

#include <mutex>
#include <set>
#include <stdexcept>

#include "loop/verify.h"
#include "target/cpu/emit/emit.h"

namespace opwright::target::cpu {

const int kEmitterVersion = 40;

std::string llvm_version() { return LLVM_VERSION_STRING; }

namespace {

std::unique_ptr<llvm::TargetMachine> target_machine(const Features& f) {
    static std::once_flag once;
    std::call_once(once, [] {
        llvm::InitializeNativeTarget();
        llvm::InitializeNativeTargetAsmPrinter();
        llvm::InitializeNativeTargetAsmParser();
    });
    const std::string triple = llvm::sys::getProcessTriple();
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (!target) throw std::logic_error("CPU emitter: LLVM has no target for this machine: " + error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // contraction is said in the program
    std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
        triple, f.cpu, f.attributes, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, true));
    if (!machine) throw std::logic_error("CPU emitter: LLVM makes no code for " + triple);
    return machine;
}

// A loop with a register tile whose rows lie at places of their own: factors loaded from one named place after another.
constexpr int kTileRows = 6;
bool has_placed_rows(const loop::Program& p, const loop::Block& block) {
    int rows = 0;
    for (const loop::StmtId id : block) {
        const loop::Stmt& s = p.stmt(id);
        if (const auto* f = std::get_if<loop::For>(&s); f && has_placed_rows(p, f->body)) return true;
        if (const auto* i = std::get_if<loop::If>(&s))
            if (has_placed_rows(p, i->then_body) || has_placed_rows(p, i->else_body)) return true;
        const auto* let = std::get_if<loop::Let>(&s);
        if (!let || p.node(let->value).op != loop::Op::Load) continue;
        const loop::Node& offset = p.node(p.node(let->value).args[0]);
        rows += offset.op == loop::Op::Binary && offset.binary() == loop::BinaryFn::Add &&
                p.node(offset.args[0]).op == loop::Op::Let && p.node(offset.args[1]).op == loop::Op::Let;
    }
    return rows >= kTileRows;
}

// Passes of LLVM's that some code is better off without.
//
// Loop strength reduction grows faster than the code: of a strided convolution (5,000 instructions) it took 2.3 s of 2.6,
// of a plain one (2,000) 0.07 s of 0.17. Large modules do without; their loops were measured to run as fast, within the
// noise of 5 %. Small ones keep it: convolutions with a stride of 2 take up to 1.8 times as long without. Matrix products
// run as fast without, within 2 %, and take a quarter less to compile. So do operators that take their elements one beside the
// other: softmax and layer norm take two thirds of the time to compile, short rows run up to a fifth faster (each variable
// that goes along with the index is one to set up for every row), and of chains, sums and transposes nothing was slower.
// Pooling, which reads windows, is a quarter slower without.
//
// The scheduler before register allocation loads all factors of such a tile ahead of its sums, and what fitted the
// registers does not any more: of 14 x 2 vectors with rows at 14 places, 43 of 115 instructions went to the stack and
// back (8 of 54 of 13 x 2 in the order as written). The processor finds the order by itself.
constexpr unsigned kReducedInstructions = 3000;
class Passes final : public llvm::OptPassGate {
public:
    Passes(const llvm::Module& m, const loop::Program& p)
        : reduce_(!p.plain_addresses && !p.plain_indices && m.getInstructionCount() <= kReducedInstructions) {
        for (const loop::Function& f : p.functions)
            if (has_placed_rows(p, f.body)) tiles_.insert("function (" + f.name + ")");
    }
    bool shouldRunPass(const llvm::StringRef pass, const llvm::StringRef unit) override {
        if (pass == "Loop Strength Reduction") return reduce_;
        return pass != "Machine Instruction Scheduler" || !tiles_.count(unit.str());
    }
    bool isEnabled() const override { return !reduce_ || !tiles_.empty(); }

private:
    bool reduce_;
    std::set<std::string> tiles_;
};

bool has_local_buffers(const loop::Program& p) {
    for (const loop::Buffer& b : p.buffers)
        if (b.space == loop::Space::Local) return true;
    return false;
}

std::string generate(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType kind) {
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream out(bytes);
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, out, nullptr, kind, /*DisableVerify=*/true))
        throw std::logic_error("CPU emitter: LLVM cannot write this kind of file");
    passes.run(module);
    return {bytes.begin(), bytes.end()};
}

}  // namespace

Result<Object> compile_object(const loop::Program& program, const Features& features, const CompileOptions& options) {
#ifndef NDEBUG
    if (const auto faults = loop::verify(program); !faults.empty())
        throw std::logic_error("the loop program does not verify: " + faults[0]);
#endif
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module = emit_module(program, features, context);
    Passes gate(*module, program);
    context.setOptPassGate(gate);
    std::unique_ptr<llvm::TargetMachine> machine = target_machine(features);
    module->setTargetTriple(machine->getTargetTriple().str());
    module->setDataLayout(machine->createDataLayout());
    if (has_local_buffers(program)) {
        llvm::legacy::PassManager passes;
        passes.add(llvm::createSROAPass());
        passes.run(*module);
    }
    Object object;
    if (options.want_ir) {
        llvm::raw_string_ostream out(object.ir);
        module->print(out, nullptr);
    }
    if (options.want_assembly) {  // code generation changes the module, so each kind of file has its own
        llvm::LLVMContext other;
        other.setOptPassGate(gate);
        std::unique_ptr<llvm::Module> copy = emit_module(program, features, other);
        copy->setTargetTriple(machine->getTargetTriple().str());
        copy->setDataLayout(machine->createDataLayout());
        object.assembly = generate(*copy, *machine, llvm::CodeGenFileType::AssemblyFile);
    }
    object.code = generate(*module, *machine, llvm::CodeGenFileType::ObjectFile);
    return object;
}

}  // namespace opwright::target::cpu
