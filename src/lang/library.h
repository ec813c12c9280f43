// The operator library: parsed declarations, from ops/*.op (embedded in the binary) and from files that a person names.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "math/program.h"

namespace opwright::lang {

struct OpDecl;  // ast.h

struct EmbeddedFile {
    std::string_view name;  // "elementwise.op"
    std::string_view text;
};
// The files of ops/, generated into the binary at build time.
const std::vector<EmbeddedFile>& embedded_library();

// The value bound to an attribute. Integers may be symbolic (a slice's start that depends on an extent).
using Attribute = std::variant<math::Sym, double, bool, std::string, DType, std::vector<math::Sym>, std::vector<double>,
                               std::vector<std::string>>;
using Attributes = std::map<std::string, Attribute>;

// What is known of one tensor argument.
struct Argument {
    DType dtype = DType::F32;
    std::vector<math::Sym> shape;
    bool present = true;  // false: an optional parameter left out
};

// One example line of a declaration: concrete arguments that must elaborate and verify.
struct Example {
    std::vector<Argument> arguments;  // in parameter order; absent ones have present == false
    Attributes attributes;
    Span span;
};

struct Parameter {
    std::string name;
    bool optional = false;
};

class Library {
public:
    // The embedded library, parsed once. A mistake in it is a bug: aborts with the diagnostic.
    static const Library& standard();

    // Parses a file and adds its declarations; they may call those of `standard()` and each other.
    Status add(SourceRef source);

    const OpDecl* find(const std::string& name) const;      // nullptr if unknown
    std::vector<std::string> names() const;                 // sorted
    std::vector<const OpDecl*> declarations_of(const std::string& file) const;  // in order of the file

    // The operator with concrete ranks, types and attributes as a Program. Errors: unknown operator (with "did you
    // mean"), wrong number, rank, type or extent of an argument (names and extents in notes), unknown or ill-typed
    // attribute, a `require` that is false. Extents that cannot be compared now become Requirements of the Program.
    Result<math::Program> elaborate(const std::string& op, const std::vector<Argument>& arguments,
                                    const Attributes& attributes) const;

    // As above, with arguments made up from the declaration: every named extent a symbol of that name, packs of the
    // stated or given rank (default 2), dtype variables f32 (or the first allowed).
    Result<math::Program> elaborate_symbolic(const std::string& op, int pack_rank = 2) const;

    std::vector<Parameter> parameters(const OpDecl& d) const;
    std::vector<std::string> attribute_names(const OpDecl& d) const;
    const std::string& doc(const OpDecl& d) const;
    const std::string& file(const OpDecl& d) const;          // "elementwise.op" or a path
    // The declaration's source text as written.
    std::string source_text(const OpDecl& d) const;
    Result<std::vector<Example>> examples(const OpDecl& d) const;

    Library();
    ~Library();
    Library(Library&&) noexcept;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace opwright::lang
