// Any text as declarations: refused with messages that can be shown, or elaborated; never a crash.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/diagnostic.h"
#include "lang/library.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace opwright;
    if (size > 4096) return 0;
    auto source = std::make_shared<Source>();
    source->name = "input.op";
    source->text.assign(reinterpret_cast<const char*>(data), size);
    lang::Library library;
    if (const Status added = library.add(source); !added.ok()) {
        (void)render(added.error(), true);
        return 0;
    }
    for (const std::string& name : library.names()) {
        const lang::OpDecl* d = library.find(name);
        (void)library.source_text(*d);
        const auto program = library.elaborate_symbolic(name);
        if (!program.ok()) (void)render(program.error());
        (void)library.examples(*d);
    }
    return 0;
}
