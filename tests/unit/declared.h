// Programs of declarations that a test writes out.
#pragma once
#include <gtest/gtest.h>

#include <sstream>

#include "lang/library.h"

namespace opwright {

// The operator f of `source`. Dims that are numbers in `shapes` ("n c h v; m c 3 3", an input each) are known, all others are symbols.
inline math::Program declared(const std::string& source, const std::string& shapes) {
    lang::Library library;
    const auto added = library.add(std::make_shared<const Source>(Source{"test.op", source}));
    EXPECT_TRUE(added.ok()) << (added.ok() ? "" : render(added.error()));
    std::vector<lang::Argument> arguments;
    std::istringstream inputs(shapes);
    for (std::string input; std::getline(inputs, input, ';');) {
        lang::Argument a{DType::F32, {}, true};
        std::istringstream dims(input);
        for (std::string d; dims >> d;)
            a.shape.push_back(std::isdigit(static_cast<unsigned char>(d[0])) ? math::Sym(static_cast<int64_t>(std::stol(d)))
                                                                           : math::Sym::symbol(d));
        arguments.push_back(std::move(a));
    }
    const auto p = library.elaborate("f", arguments, {});
    EXPECT_TRUE(p.ok()) << (p.ok() ? "" : render(p.error()));
    return *p;
}

}  // namespace opwright
