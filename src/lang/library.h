// The operator library: parsed declarations, from ops/*.op (embedded in the binary) and from files that a person names.
#pragma once
#include <map>
#include <memory>
#include <optional>
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

// The range that values of an example's tensor lie in: low <= v < high.
struct ValueRange {
    double low = 0, high = 0;
};

// One example line of a declaration: concrete arguments that must elaborate and verify.
struct Example {
    std::vector<Argument>
        arguments;  // in parameter order, those of a variadic one last; absent ones have present == false
    std::vector<std::optional<ValueRange>> values;  // of each argument, where the example states it
    Attributes attributes;
    Span span;
};

struct Parameter {
    std::string name;
    bool optional = false;
    bool variadic = false;  // takes all arguments that are left; the last one
};

// What becomes of a broadcast dim whose extent is not known while the operator is elaborated. AtRunTime: it may turn
// out to be 1 or the common extent, and the program serves both. Known: only an extent known to be 1 is broadcast;
// others must be equal, as a Requirement, which keeps accesses affine and extents simple.
enum class Broadcasting : uint8_t { AtRunTime, Known };

class Library {
public:
    // The embedded library, parsed once. A mistake in it is a bug: aborts with the diagnostic.
    static const Library& standard();

    // Parses a file and adds its declarations; they may call those of `standard()` and each other. A name of
    // `standard()` given again hides it here. On an error nothing is added; `all_errors` gets every error of the file,
    // the Status the first.
    Status add(SourceRef source, std::vector<Diagnostic>* all_errors = nullptr);

    const OpDecl* find(const std::string& name) const;                          // nullptr if unknown
    std::vector<std::string> names() const;                                     // sorted
    std::vector<const OpDecl*> declarations_of(const std::string& file) const;  // in order of the file

    // The operator with concrete ranks, types and attributes as a Program. Errors: unknown operator (with "did you
    // mean"), wrong number, rank, type or extent of an argument (names and extents in notes), unknown or ill-typed
    // attribute, a `require` that is false. Extents that cannot be compared now become Requirements of the Program.
    Result<math::Program> elaborate(const std::string& op, const std::vector<Argument>& arguments,
                                    const Attributes& attributes,
                                    Broadcasting broadcasting = Broadcasting::AtRunTime) const;

    // As above, with arguments made up from the declaration: every named extent a symbol of that name. Attributes
    // without a default, ranks, dtypes and the optional parameters present are those of the first example, where there
    // is one; else packs have the stated or given rank, dtype variables are f32 (or the first allowed), all parameters
    // present. `floats` stands in for the float types of the inputs.
    Result<math::Program> elaborate_symbolic(const std::string& op, int pack_rank = 2,
                                             std::optional<DType> floats = std::nullopt) const;

    std::vector<Parameter> parameters(const OpDecl& d) const;
    std::vector<std::string> attribute_names(const OpDecl& d) const;
    const std::string& doc(const OpDecl& d) const;
    const std::string& file(const OpDecl& d) const;  // "elementwise.op" or a path
    // The declaration's source text as written.
    std::string source_text(const OpDecl& d) const;
    Result<std::vector<Example>> examples(const OpDecl& d) const;
    // "stride = [2, 1], pad = 1, mode = \"edge\", to = f16" as attributes of d, checked against their kinds. Empty:
    // none.
    Result<Attributes> parse_attributes(const OpDecl& d, SourceRef text) const;

    Library();  // empty, over `standard()`
    ~Library();
    Library(Library&&) noexcept;

private:
    explicit Library(const Library* base);
    Diagnostic unknown(const std::string& op) const;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace opwright::lang
