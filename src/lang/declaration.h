// A Program as a declaration of the language: what was derived can be read, checked, run and verified like what was
// written.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "lang/library.h"

namespace opwright::lang {

// Sizes and, by tensor name, value ranges for one example line.
struct DeclarationExample {
    math::SymValues sizes;
    std::map<std::string, ValueRange> values;
};

// The text of an operator that elaborates to a program of the same equations. Symbols that no parameter's dims name
// become integer attributes. Errors: an expression that shares so much that its text would not end.
Result<std::string> declaration(const math::Program& p, const std::vector<DeclarationExample>& examples = {});

}  // namespace opwright::lang
