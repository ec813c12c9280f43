// Tokens to declarations. Recovers at the next statement or declaration, so that one run reports several errors.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "lang/ast.h"

namespace opwright::lang {

struct ParseResult {
    std::unique_ptr<File> file;      // the declarations without an error
    std::vector<Diagnostic> errors;  // in order of the text, at most 20
};

// Nesting of expressions and blocks is limited (200 and 64), so that no input exhausts the stack.
ParseResult parse(SourceRef source);

// "stride = [2, 1], pad = 1" alone, as a person writes attributes on a command line. Empty text: none.
struct SettingsResult {
    std::unique_ptr<File> file;  // owns the expressions
    std::vector<Setting> settings;
    std::vector<Diagnostic> errors;
};
SettingsResult parse_settings(SourceRef source);

// Words that cannot name a tensor, an index or an attribute.
bool is_reserved(std::string_view word);
bool is_reduction(std::string_view word);  // sum, max, argmax, logsumexp, ...; also the scans

}  // namespace opwright::lang
