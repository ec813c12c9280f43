#include "target/cpu/emit/tiles.h"

#include <array>
#include <stdexcept>

#if defined(__x86_64__)
#  include <llvm/IR/Constants.h>
#  include <llvm/IR/GlobalVariable.h>
#  include <llvm/IR/IntrinsicsX86.h>
#  include <llvm/IR/Module.h>

#  include "loop/program.h"
#endif

namespace opwright::target::cpu {

#if defined(__x86_64__)
using namespace llvm;

namespace {
// What LDTILECFG reads (Intel's Software Developer's Manual, volume 1, 18.1): the palette, the row to start at after a fault,
// from byte 16 on the bytes of a row of each tile, from byte 48 on their rows.
GlobalVariable* configuration(Module& m) {
    const char* name = "opwright.tiles";
    if (GlobalVariable* g = m.getNamedGlobal(name)) return g;
    std::array<uint8_t, 64> bytes{};
    bytes[0] = 1;
    for (size_t t = 0; t < loop::kTiles; ++t) {
        bytes[16 + 2 * t] = 4 * loop::kTileWords;
        bytes[48 + t] = loop::kTileRows;
    }
    Constant* data = ConstantDataArray::get(m.getContext(), ArrayRef<uint8_t>(bytes.data(), bytes.size()));
    auto* g = new GlobalVariable(m, data->getType(), true, GlobalValue::PrivateLinkage, data, name);
    g->setAlignment(Align(64));
    return g;
}
Value* bytes_of(IRBuilder<>& b, Value* stride) { return b.CreateShl(stride, 2); }
}  // namespace

void configure_tiles(IRBuilder<>& b) {
    b.CreateIntrinsic(Intrinsic::x86_ldtilecfg, {}, {configuration(*b.GetInsertBlock()->getModule())});
}
void release_tiles(IRBuilder<>& b) { b.CreateIntrinsic(Intrinsic::x86_tilerelease, {}, {}); }
void zero_tile(IRBuilder<>& b, int tile) {
    b.CreateIntrinsic(Intrinsic::x86_tilezero, {}, {b.getInt8(static_cast<uint8_t>(tile))});
}
void load_tile(IRBuilder<>& b, int tile, Value* address, Value* stride) {
    b.CreateIntrinsic(Intrinsic::x86_tileloadd64, {}, {b.getInt8(static_cast<uint8_t>(tile)), address, bytes_of(b, stride)});
}
void store_tile(IRBuilder<>& b, int tile, Value* address, Value* stride) {
    b.CreateIntrinsic(Intrinsic::x86_tilestored64, {}, {b.getInt8(static_cast<uint8_t>(tile)), address, bytes_of(b, stride)});
}
void dot_tiles(IRBuilder<>& b, loop::TileFn f, int sum, int rows, int columns) {
    // By TileFn; of the instructions' two letters the first is that of the rows' factor.
    constexpr Intrinsic::ID ids[] = {Intrinsic::x86_tdpbf16ps, Intrinsic::x86_tdpbuud, Intrinsic::x86_tdpbusd,
                                     Intrinsic::x86_tdpbsud, Intrinsic::x86_tdpbssd};
    const auto tile = [&](int t) { return b.getInt8(static_cast<uint8_t>(t)); };
    b.CreateIntrinsic(ids[static_cast<size_t>(f)], {}, {tile(sum), tile(rows), tile(columns)});
}
#else
namespace {
[[noreturn]] void missing() { throw std::logic_error("CPU emitter: this architecture has no tiles"); }
}  // namespace
void configure_tiles(llvm::IRBuilder<>&) { missing(); }
void release_tiles(llvm::IRBuilder<>&) { missing(); }
void zero_tile(llvm::IRBuilder<>&, int) { missing(); }
void load_tile(llvm::IRBuilder<>&, int, llvm::Value*, llvm::Value*) { missing(); }
void store_tile(llvm::IRBuilder<>&, int, llvm::Value*, llvm::Value*) { missing(); }
void dot_tiles(llvm::IRBuilder<>&, loop::TileFn, int, int, int) { missing(); }
#endif

}  // namespace opwright::target::cpu
