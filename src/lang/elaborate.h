// A declaration with concrete ranks, dtypes and attributes as a Program: the door to the elaborator.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lang/ast.h"
#include "lang/library.h"

namespace opwright::lang {

// How names of operators are resolved: as seen from the declaration `from`.
struct Resolver {
    std::function<const OpDecl*(const std::string&, const OpDecl& from)> find;
    std::function<std::vector<std::string>()> names;
};

Result<math::Program> elaborate(const OpDecl& op, const std::vector<Argument>& arguments, const Attributes& attributes,
                                Broadcasting broadcasting, const Resolver& r);
Result<math::Program> elaborate_symbolic(const OpDecl& op, int pack_rank, std::optional<DType> floats, const Resolver& r);
Result<std::vector<Example>> examples_of(const OpDecl& op);
Result<Attributes> attributes_of(const OpDecl& op, SourceRef text);

}  // namespace opwright::lang
