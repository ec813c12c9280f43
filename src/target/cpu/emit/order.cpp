#include "target/cpu/emit/order.h"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace opwright::target::cpu {
namespace {

bool is_prefetch(const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
    return call && call->getIntrinsicID() == llvm::Intrinsic::prefetch;
}

// Each instruction goes as late as what needs it allows, counted in instructions from the end: values stay short in
// registers, and what is as far from the end in one chain as in another comes to stand together. What is asked for ahead
// comes first, though nothing waits for it: among the stores at the end it left a Zen 5 to its own prefetching, by which a GELU
// of 64 M elements took 10 to 20 ms, by where its loop lay in memory; before the loads it takes 10 anywhere.
void interleave(llvm::BasicBlock& block) {
    std::vector<llvm::Instruction*> body;
    std::unordered_map<const llvm::Value*, size_t> place;
    for (llvm::Instruction& i : block) {
        if (llvm::isa<llvm::PHINode>(i) || i.isTerminator()) continue;
        place[&i] = body.size();
        body.push_back(&i);
    }
    std::vector<int> from_end(body.size(), 0);
    constexpr int kFirst = 1 << 20;
    int reader = 0, writer = 0;  // least distances from the end of a later instruction that reads or writes memory
    for (size_t k = body.size(); k-- > 0;) {
        const llvm::Instruction& i = *body[k];
        int d = is_prefetch(i) ? kFirst : from_end[k];
        if (!is_prefetch(i) && i.mayReadOrWriteMemory()) {
            d = std::max(d, i.mayWriteToMemory() ? std::max(reader, writer) : writer);
            if (i.mayWriteToMemory()) writer = std::max(writer, d + 1);
            reader = std::max(reader, d + (i.mayWriteToMemory() ? 1 : 0));
        }
        if (i.mayReadFromMemory() && !is_prefetch(i)) reader = std::max(reader, d + 1);
        from_end[k] = d;
        for (const llvm::Value* v : i.operands())
            if (const auto at = place.find(v); at != place.end())
                from_end[at->second] = std::max(from_end[at->second], d + 1);
    }
    std::vector<size_t> order(body.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return from_end[a] > from_end[b]; });
    for (size_t k : order) body[k]->moveBefore(block.getTerminator());
}

}  // namespace

void interleave(llvm::Function& f) {
    for (llvm::BasicBlock& block : f) {
        const auto* end = llvm::dyn_cast_or_null<llvm::BranchInst>(block.getTerminator());
        if (!end || !end->isConditional()) continue;
        if (end->getSuccessor(0) != &block && end->getSuccessor(1) != &block) continue;
        // A register tile has its additions side by side already, and no register to spare.
        constexpr int kMostPartialResults = 4;
        const auto partial = std::count_if(block.phis().begin(), block.phis().end(),
                                           [](const llvm::PHINode& x) { return x.getType()->isVectorTy(); });
        if (partial <= kMostPartialResults) interleave(block);
    }
}

}  // namespace opwright::target::cpu
