// Any text as declarations: refused with messages that can be shown, or elaborated into well-formed Programs; never a
// crash, a hang or a malformed Program. Text after a zero byte is read as attributes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "lang/check.h"
#include "lang/library.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace opwright;
    if (size > 8192) return 0;
    std::string text(reinterpret_cast<const char*>(data), size);
    std::string attributes;
    if (const size_t zero = text.find('\0'); zero != std::string::npos) {
        attributes = text.substr(zero + 1);
        text.resize(zero);
    }
    const auto source = std::make_shared<const Source>(Source{"input.op", std::move(text)});
    for (const Diagnostic& d : lang::check(source)) {
        if (d.message.empty()) std::abort();
        (void)render(d, true);
    }
    lang::Library library;
    if (!library.add(source).ok()) return 0;
    const auto settings = std::make_shared<const Source>(Source{"attributes", std::move(attributes)});
    for (const lang::OpDecl* d : library.declarations_of("input.op")) {
        (void)library.source_text(*d);
        if (const auto a = library.parse_attributes(*d, settings); !a.ok()) (void)render(a.error());
        for (const std::string& name : library.names()) {
            if (library.find(name) != d) continue;
            const auto p = library.elaborate_symbolic(name);
            if (!p.ok()) break;
            if (!math::verify(*p).empty()) std::abort();
            (void)p->print();
            (void)p->canonical();
            (void)p->symbols();
        }
    }
    return 0;
}
