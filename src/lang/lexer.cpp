#include "lang/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

namespace opwright::lang {
namespace {

constexpr size_t kMaxErrors = 20;
constexpr size_t kMaxIndents = 64;
// Longest first, so that the first match is the right one.
constexpr std::array<std::string_view, 38> kPuncts = {
    "...", "..", "->", "//", "**", "==", "!=", "<=", ">=", "<<", ">>", "+=", "*=", "-=", "/=", ":=", "&&", "||", "+",
    "-",   "*",  "/",  "%",  "<",  ">",  "=",  "&",  "|",  "^",  "~",  "?",  ":",  ";",  ",",  "(",  ")",  "[",  "]"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_name(char c) { return starts_name(c) || is_digit(c); }

class Lexer {
public:
    explicit Lexer(const SourceRef& source) : source_(source), text_(source->text) {}

    Tokens run() {
        if (text_.size() > kMaxSourceBytes) {
            report(0, 0, "The file is larger than 4 MiB, which no operator declaration needs.",
                   "Check that this is a file of operator declarations, or split it.");
            push(TokenKind::End, 0, 0);
            return std::move(out_);
        }
        while (at_ < text_.size() && out_.errors.size() < kMaxErrors) {
            if (line_start_ && !begin_line()) continue;
            next();
        }
        if (!out_.tokens.empty() && out_.tokens.back().kind != TokenKind::Newline) push(TokenKind::Newline, at_, at_);
        for (; indents_.size() > 1; indents_.pop_back()) push(TokenKind::Dedent, at_, at_);
        push(TokenKind::End, at_, at_);
        return std::move(out_);
    }

private:
    const SourceRef& source_;
    std::string_view text_;
    size_t at_ = 0;
    bool line_start_ = true;
    std::vector<std::pair<char, size_t>> brackets_;  // open ones with their places
    std::vector<size_t> indents_ = {0};
    Tokens out_;

    void report(size_t begin, size_t end, std::string message, std::string next) {
        out_.errors.emplace_back(std::move(message),
                                 Span{source_, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)},
                                 std::move(next));
    }
    Token& push(TokenKind k, size_t begin, size_t end) {
        Token t;
        t.kind = k;
        t.begin = static_cast<uint32_t>(begin);
        t.end = static_cast<uint32_t>(end);
        t.text = text_.substr(std::min(begin, text_.size()), end - begin);
        out_.tokens.push_back(t);
        return out_.tokens.back();
    }
    char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

    // Reads the indentation of a line; false when the line is blank (and has been skipped).
    bool begin_line() {
        line_start_ = false;
        const size_t begin = at_;
        while (peek() == ' ') ++at_;
        if (peek() == '\t') {
            report(at_, at_ + 1, "This line is indented with a tab.", "Indent with spaces.");
            while (peek() == ' ' || peek() == '\t') ++at_;
        }
        if (at_ >= text_.size() || peek() == '\n' || peek() == '\r' || peek() == '#') {
            skip_line();
            return false;
        }
        const size_t column = at_ - begin;
        if (column > indents_.back()) {
            if (indents_.size() > kMaxIndents) {
                report(begin, at_, "Blocks are nested more than 64 deep.",
                       "Move the inner part into an operator of its own.");
                at_ = text_.size();
                return false;
            }
            indents_.push_back(column);
            push(TokenKind::Indent, begin, at_);
        }
        while (column < indents_.back()) {
            indents_.pop_back();
            push(TokenKind::Dedent, at_, at_);
        }
        if (column != indents_.back()) {
            report(begin, at_, "The indentation of this line matches no block around it.",
                   "Indent it like the lines of the block it belongs to.");
            indents_.push_back(column);
            push(TokenKind::Indent, begin, at_);
        }
        return true;
    }
    void skip_line() {
        const size_t end = text_.find('\n', at_);
        at_ = end == std::string_view::npos ? text_.size() : end + 1;
        line_start_ = true;
    }

    void next() {
        const char c = peek();
        const size_t begin = at_;
        if (c == ' ' || c == '\t' || c == '\r') {
            ++at_;
        } else if (c == '#') {
            const size_t end = text_.find('\n', at_);
            at_ = end == std::string_view::npos ? text_.size() : end;
        } else if (c == '\n') {
            ++at_;
            // A block's first words at the margin end a bracket that was left open: one precise error, not one a line.
            const bool new_op = !brackets_.empty() && text_.compare(at_, 3, "op ") == 0;
            if (new_op) {
                const auto [bracket, place] = brackets_.back();
                report(place, place + 1, std::string("This '") + bracket + "' is never closed.",
                       std::string("Write the '") + (bracket == '(' ? ')' : ']') + "' that ends it.");
                brackets_.clear();
            }
            if (brackets_.empty()) {
                push(TokenKind::Newline, begin, at_);
                line_start_ = true;
            }
        } else if (starts_name(c)) {
            while (in_name(peek())) ++at_;
            push(TokenKind::Name, begin, at_);
        } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
            number();
        } else if (c == '"') {
            string();
        } else {
            punct();
        }
        if (at_ >= text_.size() && !brackets_.empty()) {
            const auto [bracket, place] = brackets_.back();
            report(place, place + 1, std::string("This '") + bracket + "' is never closed.",
                   std::string("Write the '") + (bracket == '(' ? ')' : ']') + "' that ends it.");
            brackets_.clear();
        }
    }

    void number() {
        const size_t begin = at_;
        bool floating = false;
        while (is_digit(peek())) ++at_;
        if (peek() == '.' && peek(1) != '.') {  // not the ".." of a range
            floating = true;
            ++at_;
            while (is_digit(peek())) ++at_;
        }
        if ((peek() == 'e' || peek() == 'E') &&
            (is_digit(peek(1)) || ((peek(1) == '-' || peek(1) == '+') && is_digit(peek(2))))) {
            floating = true;
            at_ += 2;
            while (is_digit(peek())) ++at_;
        }
        if (in_name(peek())) {
            while (in_name(peek())) ++at_;
            report(begin, at_,
                   "'" + std::string(text_.substr(begin, at_ - begin)) + "' is neither a number nor a name.",
                   "Names start with a letter or '_'; put an operator between a number and a name.");
            push(TokenKind::Integer, begin, at_);
            return;
        }
        Token& t = push(floating ? TokenKind::Float : TokenKind::Integer, begin, at_);
        if (floating) {
            t.number = std::strtod(std::string(t.text).c_str(), nullptr);
            return;
        }
        const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), t.integer);
        if (error != std::errc() || end != t.text.data() + t.text.size())
            report(begin, at_, "The integer " + std::string(t.text) + " does not fit 64 bits.",
                   "Write it as a floating-point number, e.g. with '.0' at its end.");
        t.number = static_cast<double>(t.integer);
    }

    void string() {
        const size_t begin = at_++;
        while (at_ < text_.size() && peek() != '"' && peek() != '\n') at_ += peek() == '\\' && peek(1) != '\n' ? 2 : 1;
        at_ = std::min(at_, text_.size());
        if (peek() != '"') report(begin, at_, "This string has no closing quote on its line.", "End it with '\"'.");
        Token& t = push(TokenKind::String, begin, at_);
        t.text = text_.substr(begin + 1, at_ - begin - 1);
        if (peek() == '"') ++at_;
        t.end = static_cast<uint32_t>(at_);
    }

    void punct() {
        const size_t begin = at_;
        for (std::string_view p : kPuncts) {
            if (p[0] != text_[begin] || text_.compare(at_, p.size(), p) != 0) continue;
            at_ += p.size();
            if (p == "(" || p == "[") brackets_.emplace_back(p[0], begin);
            if (p == ")" || p == "]") close(p[0], begin);
            push(TokenKind::Punct, begin, at_);
            return;
        }
        ++at_;
        while ((peek() & 0xc0) == 0x80) ++at_;  // the rest of a UTF-8 sequence
        const unsigned char c = static_cast<unsigned char>(text_[begin]);
        std::string shown = c < 0x20 || c == 0x7f ? "The byte " + std::to_string(c)
                                                  : "'" + std::string(text_.substr(begin, at_ - begin)) + "'";
        report(begin, at_, shown + " means nothing in an operator declaration.",
               "Remove it, or put it into a string or a comment.");
    }
    void close(char c, size_t place) {
        if (brackets_.empty()) {
            report(place, place + 1, std::string("This '") + c + "' closes nothing.", "Remove it, or open it before.");
            return;
        }
        const auto [open, at] = brackets_.back();
        brackets_.pop_back();
        if ((open == '(') == (c == ')')) return;
        report(place, place + 1, std::string("This '") + c + "' meets a '" + open + "'.",
               std::string("Close the '") + open + "' with '" + (open == '(' ? ')' : ']') + "' first.");
        out_.errors.back().with_note(std::string("the '") + open + "' is here",
                                     {source_, static_cast<uint32_t>(at), static_cast<uint32_t>(at + 1)});
    }
};

}  // namespace

Tokens lex(const SourceRef& source) { return Lexer(source).run(); }

}  // namespace opwright::lang
