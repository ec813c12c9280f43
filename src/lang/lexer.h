// Source text to tokens. Blocks are given by indentation, as Indent and Dedent tokens; line ends inside brackets
// vanish.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace opwright::lang {

enum class TokenKind : uint8_t { Name, Integer, Float, String, Punct, Newline, Indent, Dedent, End };

struct Token {
    TokenKind kind = TokenKind::End;
    uint32_t begin = 0, end = 0;  // bytes of the source
    std::string_view text;        // as written; of a String without its quotes, escapes untouched
    int64_t integer = 0;
    double number = 0;  // Integer and Float

    bool is(std::string_view punct_or_word) const {
        return (kind == TokenKind::Punct || kind == TokenKind::Name) && text == punct_or_word;
    }
};

struct Tokens {
    std::vector<Token> tokens;  // ends in End; the text they view is that of the source given
    std::vector<Diagnostic> errors;
};

// Never fails: what cannot be read is reported and skipped. At most `kMaxSourceBytes` are read.
inline constexpr size_t kMaxSourceBytes = 4u << 20;
Tokens lex(const SourceRef& source);

}  // namespace opwright::lang
