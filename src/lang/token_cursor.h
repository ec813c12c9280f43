// A walk over tokens, with the errors met on the way. Internal to the parser.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "lang/ast.h"
#include "lang/lexer.h"
#include "lang/parser.h"

namespace opwright::lang {

inline constexpr size_t kMaxErrors = 20;

inline std::string quoted(const std::string& s) { return "`" + s + "`"; }

class TokenCursor {
protected:
    explicit TokenCursor(SourceRef source) : tokens_(lex(source)), file_(std::make_unique<File>()) {
        file_->source = std::move(source);
        errors_ = std::move(tokens_.errors);
        lexed_errors_ = errors_.size();
    }

    Tokens tokens_;
    std::unique_ptr<File> file_;
    std::vector<Diagnostic> errors_;
    size_t lexed_errors_ = 0;
    size_t at_ = 0;

    const Token& now() const { return tokens_.tokens[at_]; }
    const Token& ahead(size_t n = 1) const { return tokens_.tokens[std::min(at_ + n, tokens_.tokens.size() - 1)]; }
    bool at_end() const { return now().kind == TokenKind::End; }
    uint32_t last_end() const { return at_ > 0 ? tokens_.tokens[at_ - 1].end : 0; }
    bool accept(std::string_view text) {
        if (!now().is(text)) return false;
        ++at_;
        return true;
    }
    bool accept(TokenKind k) {
        if (now().kind != k) return false;
        ++at_;
        return true;
    }
    Diagnostic& fail(uint32_t begin, uint32_t end, std::string message, std::string next) {
        return errors_.emplace_back(std::move(message), Span{file_->source, begin, end}, std::move(next));
    }
    std::string found() const {
        switch (now().kind) {
            case TokenKind::Newline: return "the end of the line";
            case TokenKind::Indent: return "a deeper indentation";
            case TokenKind::Dedent: return "the end of the block";
            case TokenKind::End: return "the end of the file";
            case TokenKind::Name:
            case TokenKind::Integer:
            case TokenKind::Float:
            case TokenKind::Punct: return "'" + std::string(now().text) + "'";
            case TokenKind::String: return "a string";
        }
        return {};
    }
    // Reports that `what` was expected here; always false.
    bool expected(const std::string& what, std::string next) {
        uint32_t begin = now().begin, end = now().end;
        if (now().kind == TokenKind::Newline || now().kind == TokenKind::Dedent || at_end()) begin = end = last_end();
        fail(begin, end, "Expected " + what + ", but found " + found() + ".", std::move(next));
        return false;
    }
    bool expect(std::string_view text, const std::string& where, std::string next = {}) {
        if (accept(text)) return true;
        if (next.empty()) next = "Write '" + std::string(text) + "' here.";
        return expected("'" + std::string(text) + "' " + where, std::move(next));
    }
    // A name that may be given to something; the message says what for.
    bool name(std::string& out, const std::string& what, uint32_t* begin = nullptr, uint32_t* end = nullptr) {
        if (now().kind != TokenKind::Name)
            return expected(what, "Names are letters, digits and '_', and start with no digit.");
        out = std::string(now().text);
        if (is_reserved(out)) {
            fail(now().begin, now().end, quoted(out) + " is a word of the language and cannot name " + what + ".",
                 "Choose another name, e.g. " + quoted(out + "_") + ".");
            return false;
        }
        if (begin) *begin = now().begin;
        if (end) *end = now().end;
        ++at_;
        return true;
    }
};

}  // namespace opwright::lang
