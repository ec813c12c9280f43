#include "lang/parser.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/dtype.h"
#include "lang/lexer.h"

namespace opwright::lang {
namespace {

using math::Fn;

constexpr size_t kMaxErrors = 20;
constexpr int kMaxDepth = 200;   // of recursion while parsing
constexpr int kMaxHeight = 256;  // of an expression's tree: a sum of 200 terms is a tree 200 high
constexpr int kMaxBlocks = 32;

constexpr std::array kWords = {"op",      "let",     "const", "if",  "elif", "else", "for",
                               "require", "example", "in",    "and", "or",   "not",  "outside",
                               "where",   "true",    "false", "inf", "nan",  "pi",   "none"};
constexpr std::array kReductions = {"sum",    "prod",    "max",    "min",         "any",         "all",
                                    "mean",   "argmax",  "argmin", "argmax_last", "argmin_last", "logsumexp",
                                    "cumsum", "cumprod", "cummax", "cummin"};

struct Infix {
    std::string_view text;
    int level;
    Fn fn;
};
// The higher the level, the tighter it binds. `in` and unary operators are handled apart.
constexpr int kNot = 3, kComparison = 4, kUnary = 11, kPower = 12;
constexpr std::array kInfix = {
    Infix{"or", 1, Fn::Or},   Infix{"and", 2, Fn::And},      Infix{"==", 4, Fn::Eq},    Infix{"!=", 4, Fn::Ne},
    Infix{"<", 4, Fn::Lt},    Infix{"<=", 4, Fn::Le},        Infix{">", 4, Fn::Gt},     Infix{">=", 4, Fn::Ge},
    Infix{"|", 5, Fn::BitOr}, Infix{"^", 6, Fn::BitXor},     Infix{"&", 7, Fn::BitAnd}, Infix{"<<", 8, Fn::Shl},
    Infix{">>", 8, Fn::Shr},  Infix{"+", 9, Fn::Add},        Infix{"-", 9, Fn::Sub},    Infix{"*", 10, Fn::Mul},
    Infix{"/", 10, Fn::Div},  Infix{"//", 10, Fn::FloorDiv}, Infix{"%", 10, Fn::Mod},   Infix{"**", kPower, Fn::Pow}};

std::string quoted(const std::string& s) { return "`" + s + "`"; }

std::string unescape(std::string_view s) {
    std::string out;
    for (size_t i = 0; i < s.size(); ++i) {
        if (s[i] == '\\' && i + 1 < s.size())
            out += s[++i] == 'n' ? '\n' : s[i];
        else
            out += s[i];
    }
    return out;
}

class Parser {
public:
    explicit Parser(SourceRef source) : tokens_(lex(source)), file_(std::make_unique<File>()) {
        file_->source = std::move(source);
        errors_ = std::move(tokens_.errors);
        lexed_errors_ = errors_.size();
    }

    ParseResult run() {
        while (!at_end() && errors_.size() < kMaxErrors) {
            if (now().kind == TokenKind::Newline) {
                ++at_;
                continue;
            }
            const size_t before = errors_.size();
            auto op = declaration();
            if (op && errors_.size() == before)
                file_->ops.push_back(std::move(op));
            else
                skip_to_declaration();
        }
        // What the lexer refused makes the tokens after it doubtful: its own errors are the precise ones.
        if (lexed_errors_ > 0) errors_.resize(lexed_errors_);
        return {std::move(file_), std::move(errors_)};
    }

    SettingsResult run_settings() {
        SettingsResult r;
        while (accept(TokenKind::Newline) || accept(TokenKind::Indent)) {}
        if (errors_.empty() && now().kind == TokenKind::Name && setting_list(r.settings, "")) {
            while (accept(TokenKind::Newline) || accept(TokenKind::Dedent)) {}
        }
        if (errors_.empty() && !at_end()) expected("an attribute", "Write NAME = VALUE, separated by ','.");
        r.file = std::move(file_);
        r.errors = std::move(errors_);
        return r;
    }

private:
    Tokens tokens_;
    std::unique_ptr<File> file_;
    std::vector<Diagnostic> errors_;
    size_t lexed_errors_ = 0;
    size_t at_ = 0;
    int depth_ = 0;
    int blocks_ = 0;
    OpDecl* op_ = nullptr;

    // ---- tokens
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

    void skip_to_declaration() {
        // A declaration starts where `op NAME` follows a line's end.
        while (!at_end()) {
            const bool line_start = at_ == 0 || tokens_.tokens[at_ - 1].kind == TokenKind::Newline ||
                                    tokens_.tokens[at_ - 1].kind == TokenKind::Dedent;
            if (line_start && now().is("op") && ahead().kind == TokenKind::Name) return;
            ++at_;
        }
    }
    // To the start of the next statement of this block.
    void skip_statement() {
        int inner = 0;
        for (; !at_end(); ++at_) {
            if (now().kind == TokenKind::Indent) ++inner;
            if (now().kind == TokenKind::Dedent && inner-- == 0) return;
            if (now().kind == TokenKind::Newline && inner == 0 && ahead().kind != TokenKind::Indent) {
                ++at_;
                return;
            }
            if (now().kind == TokenKind::Dedent && inner == 0) {
                ++at_;
                return;
            }
        }
    }

    // ---- expressions
    Expr* make(ExprKind kind, uint32_t begin) {
        Expr& e = file_->exprs.emplace_back();
        e.kind = kind;
        e.begin = begin;
        return &e;
    }
    // Closes a node: its end, and the check of the tree's height.
    Expr* done(Expr* e) {
        e->end = last_end();
        int height = 1;
        const auto take = [&](const Expr* c) {
            if (c) height = std::max(height, c->height + 1);
        };
        for (const Expr* c : e->args) take(c);
        for (const Setting& s : e->settings) take(s.value);
        for (const Binding& b : e->bindings) {
            take(b.rank);
            take(b.begin);
            take(b.end);
        }
        take(e->outside_value);
        take(e->rank);
        e->height = height;
        if (height <= kMaxHeight) return e;
        too_deep(e->begin, e->end);
        return nullptr;
    }
    void too_deep(uint32_t begin, uint32_t end) {
        fail(begin, end, "This expression is nested more than 200 deep.",
             "Name a part of it as an intermediate and use the name.");
    }

    const Expr* expression(int level = 1) {
        struct Depth {
            int& d;
            explicit Depth(int& x) : d(x) { ++d; }
            ~Depth() { --d; }
        } guard(depth_);
        if (depth_ > kMaxDepth) {
            too_deep(now().begin, now().end);
            return nullptr;
        }
        const uint32_t begin = now().begin;  // of the whole, parentheses included
        const Expr* left = prefix(level);
        while (left) {
            const Infix* found = nullptr;
            const Token& sign = now();
            const bool word = sign.kind == TokenKind::Name;
            const bool in = word && sign.text == "in";
            if (sign.kind == TokenKind::Punct || (word && (sign.text == "or" || sign.text == "and")))
                for (const Infix& i : kInfix)
                    if (sign.text == i.text) {
                        found = &i;
                        break;
                    }
            const int binds = in ? kComparison : found ? found->level : 0;
            if (binds == 0 || binds < level) {
                if (now().is("&&") || now().is("||") || now().is("!")) {
                    fail(now().begin, now().end, "'" + std::string(now().text) + "' is no operator of the language.",
                         std::string("Write '") + (now().is("&&") ? "and" : "or") + "'.");
                    return nullptr;
                }
                return left;
            }
            ++at_;
            const Expr* right = expression(binds == kPower ? binds : binds + 1);
            if (!right) return nullptr;
            if (binds == kComparison && (now().is("in") || is_comparison(now()))) {
                fail(begin, now().end, "Comparisons do not chain.",
                     "Join two of them with 'and', as in 'a < b and b < c'.");
                return nullptr;
            }
            Expr* e = make(in ? ExprKind::In : ExprKind::Binary, begin);
            if (found) e->fn = found->fn;
            e->name = std::string(sign.text);
            e->args = {left, right};
            left = done(e);
        }
        return nullptr;
    }
    static bool is_comparison(const Token& t) {
        for (const Infix& i : kInfix)
            if (i.level == kComparison && t.is(i.text)) return true;
        return false;
    }
    const Expr* prefix(int level) {
        const bool is_not = now().is("not");
        if (!is_not && !now().is("-") && !now().is("+") && !now().is("~")) return postfix();
        const Token& sign = now();
        if (is_not && level > kNot) {
            expected("a value", "Put 'not ...' into parentheses here.");
            return nullptr;
        }
        ++at_;
        const Expr* of = expression(is_not ? kNot : kUnary);
        if (!of || sign.is("+")) return of;
        Expr* e = make(ExprKind::Unary, sign.begin);
        e->fn = is_not ? Fn::Not : sign.is("-") ? Fn::Neg : Fn::BitNot;
        e->name = std::string(sign.text);
        e->args = {of};
        return done(e);
    }

    const Expr* postfix() {
        const Token& t = now();
        switch (t.kind) {
            case TokenKind::Integer:
            case TokenKind::Float: {
                ++at_;
                Expr* e = make(t.kind == TokenKind::Integer ? ExprKind::Integer : ExprKind::Float, t.begin);
                e->integer = t.integer;
                e->number = t.number;
                return done(e);
            }
            case TokenKind::String: {
                ++at_;
                Expr* e = make(ExprKind::String, t.begin);
                e->name = unescape(t.text);
                return done(e);
            }
            case TokenKind::Name: return named();
            case TokenKind::Punct:
                if (accept("(")) {
                    const Expr* e = expression();
                    if (!e || !expect(")", "to close the parenthesis")) return nullptr;
                    return e;
                }
                if (accept("[")) {
                    Expr* e = make(ExprKind::List, t.begin);
                    if (!items(e->args, "]", "in a list")) return nullptr;
                    return done(e);
                }
                break;
            case TokenKind::Newline:
            case TokenKind::Indent:
            case TokenKind::Dedent:
            case TokenKind::End: break;
        }
        expected("a value", "A value is a number, a name, an access such as x[i], a call such as exp(e), or (e).");
        return nullptr;
    }

    const Expr* named() {
        const Token& t = now();
        const std::string word(t.text);
        if (is_reduction(word) && ahead().is("[")) return reduction();
        const bool fold = (word == "and" || word == "or") && ahead().is("(");  // and(c...) folds a pack
        if (!fold && is_reserved(word) && !is_reduction(word) && word != "true" && word != "false" && word != "inf" &&
            word != "nan" && word != "pi" && word != "none" && !dtype_from_name(word)) {
            expected("a value", "`" + word + "` is a word of the language and cannot be used as a name.");
            return nullptr;
        }
        ++at_;
        if (accept("(")) {
            Expr* e = make(ExprKind::Call, t.begin);
            e->name = word;
            if (!items(e->args, ")", "in the arguments of " + quoted(word), &e->settings)) return nullptr;
            return done(e);
        }
        if (accept("[")) {
            Expr* e = make(ExprKind::Access, t.begin);
            e->name = word;
            if (!items(e->args, "]", "in the indices of " + quoted(word))) return nullptr;
            if (now().is("outside") && !outside(*e)) return nullptr;
            return done(e);
        }
        Expr* e = make(ExprKind::Name, t.begin);
        e->name = word;
        return done(e);
    }
    bool outside(Expr& e) {
        ++at_;
        if (accept("(")) {
            e.outside = "(";
            e.outside_value = expression();
            return e.outside_value && expect(")", "to close the value outside");
        }
        if (now().kind != TokenKind::Name)
            return expected("a word after 'outside'",
                            "Write zero, clamp, wrap, reflect, mirror, error or a value in parentheses.");
        e.outside = std::string(now().text);
        ++at_;
        return true;
    }

    // expr ["..."] { "," expr ["..."] } up to `close`, with settings after ";" where allowed.
    bool items(std::vector<const Expr*>& out, std::string_view close, const std::string& where,
               std::vector<Setting>* settings = nullptr) {
        while (!now().is(close) && !(settings && now().is(";"))) {
            const Expr* e = item();
            if (!e) return false;
            out.push_back(e);
            if (!accept(",")) break;
        }
        if (settings && accept(";") && !setting_list(*settings, close)) return false;
        if (accept(close)) return true;
        return expected("',' or '" + std::string(close) + "' " + where,
                        "Separate values by ',' and end with '" + std::string(close) + "'.");
    }
    const Expr* item() {
        const uint32_t begin = now().begin;
        const Expr* e = expression();
        if (!e || !now().is("...")) return e;
        return expand(e, begin);
    }
    Expr* expand(const Expr* e, uint32_t begin) {
        ++at_;
        Expr* x = make(ExprKind::Expand, begin);
        x->args = {e};
        return done(x);
    }
    bool setting_list(std::vector<Setting>& out, std::string_view close) {
        while (!now().is(close)) {
            Setting s;
            s.at = now().begin;
            s.at_end = now().end;
            if (now().kind != TokenKind::Name) return expected("the name of an attribute", "Write NAME = VALUE.");
            s.name = std::string(now().text);
            ++at_;
            if (!expect("=", "after the attribute " + quoted(s.name), "Write " + s.name + " = VALUE.")) return false;
            if (!(s.value = expression())) return false;
            out.push_back(std::move(s));
            if (!accept(",")) break;
        }
        return true;
    }

    bool binding(Binding& b, const std::string& what) {
        if (!name(b.name, what, &b.at, &b.at_end)) return false;
        if (accept("...")) {
            b.pack = true;
            if (accept("(")) {
                if (!(b.rank = expression()) || !expect(")", "to close the rank of " + quoted(b.name))) return false;
            }
        }
        return true;
    }
    bool range(Binding& b) {
        if (!(b.begin = expression(kComparison + 1))) return false;
        if (!expect("..", "between the ends of the range of " + quoted(b.name),
                    "Write " + b.name + " in BEGIN..END; END itself is not in the range."))
            return false;
        return (b.end = expression(kComparison + 1)) != nullptr;
    }

    const Expr* reduction() {
        const Token& t = now();
        Expr* e = make(ExprKind::Reduce, t.begin);
        e->name = std::string(t.text);
        at_ += 2;
        do {
            Binding b;
            if (!binding(b, "an index to go over")) return nullptr;
            if (accept("in") && !range(b)) return nullptr;
            e->bindings.push_back(b);
        } while (accept(","));
        const Expr* condition = nullptr;
        if (accept("where") && !(condition = expression())) return nullptr;
        if (accept(";")) {
            do {
                Setting s;
                s.at = now().begin;
                s.at_end = now().end;
                if (now().kind == TokenKind::Name && ahead().is("=")) {
                    s.name = std::string(now().text);
                    at_ += 2;
                }
                if (!(s.value = expression())) return nullptr;
                e->settings.push_back(s);
            } while (accept(","));
        }
        if (!accept("]")) {
            expected("',', 'where', ';' or ']' in the indices of " + quoted(e->name),
                     "Write " + e->name + "[i, j](...).");
            return nullptr;
        }
        if (!expect("(", "before what " + quoted(e->name) + " goes over",
                    "Put the body into parentheses: " + e->name + "[i](x[i])."))
            return nullptr;
        const Expr* body = expression();
        if (!body || !expect(")", "after the body of " + quoted(e->name))) return nullptr;
        e->args = {body};
        if (condition) e->args.push_back(condition);
        return done(e);
    }

    // ---- declarations
    // dims: ["~"] expr ["..." ["(" rank ")"]] or NAME "*", up to `]`.
    bool dims(std::vector<const Expr*>& out, const std::string& of) {
        while (!now().is("]")) {
            const uint32_t begin = now().begin;
            const bool broadcast = accept("~");
            const bool each =
                now().kind == TokenKind::Name && ahead().is("*") && (ahead(2).is(",") || ahead(2).is("]"));
            const Expr* e = each ? named() : expression();
            if (!e) return false;
            if (each) {
                ++at_;
                Expr* x = make(ExprKind::Each, begin);
                x->args = {e};
                if (!(e = done(x))) return false;
            }
            if (now().is("...")) {
                Expr* x = expand(e, begin);
                if (!x) return false;
                if (accept("(")) {
                    if (!(x->rank = expression()) || !expect(")", "to close the rank of a pack")) return false;
                    if (!done(x)) return false;
                }
                e = x;
            }
            if (broadcast) {
                Expr* b = make(ExprKind::Broadcast, begin);
                b->args = {e};
                if (!(e = done(b))) return false;
            }
            out.push_back(e);
            if (!accept(",")) break;
        }
        if (accept("]")) return true;
        return expected("',' or ']' in the dims of " + quoted(of), "Separate dims by ',' and end with ']'.");
    }
    bool type_ref(TypeRef& t) {
        t.begin = now().begin;
        if (now().kind != TokenKind::Name)
            return expected("a type", "A type is a dtype such as f32, a dtype variable, or acc(T).");
        t.name = std::string(now().text);
        ++at_;
        if (t.name == "acc" && accept("(")) {
            t.accumulate = true;
            if (now().kind != TokenKind::Name) return expected("a dtype variable in acc(...)", "Write acc(T).");
            t.name = std::string(now().text);
            ++at_;
            if (!expect(")", "to close acc(...)")) return false;
        }
        t.end = last_end();
        return true;
    }
    bool param(Param& p, const std::string& what, bool may_be_optional) {
        if (!name(p.name, what, &p.begin, &p.name_end)) return false;
        if (now().is("?")) {
            if (!may_be_optional) {
                fail(now().begin, now().end, "An output cannot be optional.",
                     "Remove the '?', or declare a second operator without it.");
                return false;
            }
            ++at_;
            p.optional = true;
        }
        if (may_be_optional && !p.optional && accept("*")) p.variadic = true;
        if (accept(":") && !type_ref(p.type)) return false;
        if (!expect("[", "before the dims of " + quoted(p.name),
                    "Write the dims in brackets; a scalar is " + p.name + "[]."))
            return false;
        if (!dims(p.dims, p.name)) return false;
        p.end = last_end();
        return true;
    }
    static AttributeKind kind_named(std::string_view word) {
        constexpr std::array<std::pair<std::string_view, AttributeKind>, 8> kinds = {
            {{"int", AttributeKind::Int},
             {"float", AttributeKind::Float},
             {"bool", AttributeKind::Bool},
             {"string", AttributeKind::String},
             {"dtype", AttributeKind::DType},
             {"ints", AttributeKind::Ints},
             {"floats", AttributeKind::Floats},
             {"strings", AttributeKind::Strings}}};
        for (const auto& [text, kind] : kinds)
            if (text == word) return kind;
        return AttributeKind::Unstated;
    }
    static AttributeKind kind_of_default(const Expr* e) {
        switch (e->kind) {
            case ExprKind::Integer: return AttributeKind::Int;
            case ExprKind::Float: return AttributeKind::Float;
            case ExprKind::String: return AttributeKind::String;
            case ExprKind::Unary: return kind_of_default(e->args[0]);
            case ExprKind::Name:
                if (e->name == "true" || e->name == "false") return AttributeKind::Bool;
                if (e->name == "inf" || e->name == "nan" || e->name == "pi") return AttributeKind::Float;
                return dtype_from_name(e->name) ? AttributeKind::DType : AttributeKind::Unstated;
            case ExprKind::List: {
                AttributeKind all = AttributeKind::Unstated;
                for (const Expr* a : e->args) {
                    const AttributeKind k = kind_of_default(a);
                    if (k == AttributeKind::Float || all == AttributeKind::Floats)
                        all = AttributeKind::Floats;
                    else if (k == AttributeKind::Int)
                        all = AttributeKind::Ints;
                    else if (k == AttributeKind::String)
                        all = AttributeKind::Strings;
                }
                return all;
            }
            case ExprKind::Binary:
            case ExprKind::In:
            case ExprKind::Call:
            case ExprKind::Access:
            case ExprKind::Reduce:
            case ExprKind::Expand:
            case ExprKind::Broadcast:
            case ExprKind::Each: return AttributeKind::Unstated;
        }
        return AttributeKind::Unstated;
    }
    bool attribute(AttributeDecl& a) {
        if (!name(a.name, "an attribute", &a.begin, &a.end)) return false;
        if (accept(":")) {
            a.kind = kind_named(now().text);
            if (a.kind == AttributeKind::Unstated) {
                std::string next = "The kinds are int, float, bool, string, dtype, ints, floats and strings.";
                const std::string near = did_you_mean(
                    std::string(now().text), {"int", "float", "bool", "string", "dtype", "ints", "floats", "strings"});
                if (!near.empty()) next = "Did you mean " + quoted(near) + "? " + next;
                return expected("the kind of the attribute " + quoted(a.name), std::move(next));
            }
            ++at_;
        }
        if (accept("=") && !(a.value = expression())) return false;
        if (a.kind == AttributeKind::Unstated && a.value) a.kind = kind_of_default(a.value);
        if (a.kind != AttributeKind::Unstated) return true;
        fail(a.begin, a.end, "The attribute " + quoted(a.name) + " has no kind.",
             "State it, as in " + a.name + ": int, or give a default whose kind is plain, as in " + a.name + " = 1.");
        return false;
    }
    bool constraint(TypeConstraint& c) {
        c.begin = now().begin;
        if (now().kind != TokenKind::Name) return expected("a dtype variable after 'where'", "Write where T in float.");
        c.variable = std::string(now().text);
        ++at_;
        if (!expect("in", "after the dtype variable " + quoted(c.variable), "Write where " + c.variable + " in float."))
            return false;
        do {
            if (now().kind != TokenKind::Name)
                return expected("a dtype or a class of dtypes",
                                "The classes are float, int, signed, unsigned, numeric, bool and any.");
            const std::string word(now().text);
            constexpr std::array classes = {"float", "int", "signed", "unsigned", "numeric", "bool", "any"};
            if (std::find(classes.begin(), classes.end(), word) == classes.end() && !dtype_from_name(word)) {
                std::vector<std::string> known(classes.begin(), classes.end());
                for (int i = 0; i < kDTypeCount; ++i) known.emplace_back(opwright::name(static_cast<DType>(i)));
                const std::string near = did_you_mean(word, known);
                fail(now().begin, now().end, quoted(word) + " is neither a dtype nor a class of dtypes.",
                     (near.empty() ? "" : "Did you mean " + quoted(near) + "? ") +
                         "The classes are float, int, signed, unsigned, numeric, bool and any.");
                return false;
            }
            c.allowed.push_back(word);
            ++at_;
        } while (accept("|"));
        c.end = last_end();
        return true;
    }

    std::unique_ptr<OpDecl> declaration() {
        auto op = std::make_unique<OpDecl>();
        op_ = op.get();
        op->source = file_->source;
        op->begin = now().begin;
        if (!accept("op")) {
            if (now().kind == TokenKind::Indent)
                fail(now().begin, now().end, "This line is indented but belongs to no declaration.",
                     "Start it at the margin, or put it into the body of an 'op'.");
            else
                expected("'op'", "A file is a list of declarations 'op NAME(...) -> ...:'.");
            return nullptr;
        }
        if (!name(op->name, "an operator", &op->name_at, &op->name_end)) return nullptr;
        if (!header(*op)) return nullptr;
        if (!body(*op)) return nullptr;
        // Without the line ends and comments that follow it.
        size_t last = at_;
        while (last > 0 && (tokens_.tokens[last - 1].kind == TokenKind::Newline ||
                            tokens_.tokens[last - 1].kind == TokenKind::Dedent))
            --last;
        op->end = last > 0 ? tokens_.tokens[last - 1].end : op->name_end;
        return op;
    }
    bool header(OpDecl& op) {
        if (!expect("(", "after the operator's name", "Write op " + op.name + "(x[m], ...) -> y[m]:.")) return false;
        while (!now().is(")") && !now().is(";")) {
            Param p;
            if (!param(p, "a parameter", true)) return false;
            if (!op.params.empty() && op.params.back().variadic) {
                const Param& last = op.params.back();
                fail(last.begin, last.end, "The variadic parameter " + quoted(last.name) + " is not the last one.",
                     "Move it behind the others: it takes all the arguments that are left.");
                return false;
            }
            op.params.push_back(std::move(p));
            if (!accept(",")) break;
        }
        if (accept(";")) {
            while (!now().is(")")) {
                AttributeDecl a;
                if (!attribute(a)) return false;
                op.attributes.push_back(a);
                if (!accept(",")) break;
            }
        }
        if (!accept(")"))
            return expected("',' or ')' after the parameters of " + quoted(op.name),
                            "Separate them by ','; attributes follow a ';'.");
        if (!expect("->", "before the outputs of " + quoted(op.name), "Write -> y[...] after the parameters."))
            return false;
        const bool several = accept("(");
        do {
            Param p;
            if (!param(p, "an output", false)) return false;
            op.outputs.push_back(std::move(p));
        } while (accept(","));
        if (several && !expect(")", "after the outputs of " + quoted(op.name))) return false;
        if (accept("where")) {
            do {
                TypeConstraint c;
                if (!constraint(c)) return false;
                op.constraints.push_back(std::move(c));
            } while (accept(","));
        }
        return unique_names(op) && expect(":", "at the end of the header of " + quoted(op.name));
    }
    bool unique_names(const OpDecl& op) {
        std::set<std::string> seen;
        const auto once = [&](const std::string& n, uint32_t begin, uint32_t end) {
            if (seen.insert(n).second) return true;
            fail(begin, end, "The name " + quoted(n) + " is given twice in the header of " + quoted(op.name) + ".",
                 "Rename one of the two.");
            return false;
        };
        for (const Param& p : op.params)
            if (!once(p.name, p.begin, p.name_end)) return false;
        for (const AttributeDecl& a : op.attributes)
            if (!once(a.name, a.begin, a.end)) return false;
        for (const Param& p : op.outputs)
            if (!once(p.name, p.begin, p.name_end)) return false;
        return true;
    }

    bool body(OpDecl& op) {
        if (!accept(TokenKind::Newline)) {  // a body on the header's own line
            Stmt s;
            if (!statement(s, true)) return false;
            op.body.push_back(std::move(s));
            return true;
        }
        if (!accept(TokenKind::Indent))
            return expected("the indented body of " + quoted(op.name), "Indent its equations below the header.");
        while (now().kind == TokenKind::String) {
            op.doc += (op.doc.empty() ? "" : "\n") + unescape(now().text);
            ++at_;
            if (!accept(TokenKind::Newline))
                return expected("the end of the line after the description",
                                "Put the equations on lines of their own.");
        }
        const size_t before = errors_.size();
        block(op.body, true);
        if (op.body.empty() && errors_.size() == before) {
            fail(op.name_at, op.name_end, "The operator " + quoted(op.name) + " has no equations.",
                 "Say what its outputs are: y[...] = ....");
        }
        return errors_.size() == before;
    }
    // Statements up to the Dedent that ends the block; errors are recorded and skipped over.
    void block(std::vector<Stmt>& out, bool top) {
        while (!at_end() && errors_.size() < kMaxErrors) {
            if (accept(TokenKind::Dedent)) return;
            if (accept(TokenKind::Newline)) continue;
            if (now().kind == TokenKind::Indent) {
                fail(now().begin, now().end, "This line is indented more than the lines before it.",
                     "Indent it like its neighbours.");
                ++at_;
                skip_to_dedent();
                continue;
            }
            const size_t before = errors_.size();
            if (now().is("example") && top) {
                example();
            } else {
                Stmt s;
                if (statement(s, top)) out.push_back(std::move(s));
            }
            if (errors_.size() != before) skip_statement();
        }
    }
    void skip_to_dedent() {
        int inner = 0;
        for (; !at_end(); ++at_) {
            if (now().kind == TokenKind::Indent) ++inner;
            if (now().kind == TokenKind::Dedent && inner-- == 0) {
                ++at_;
                return;
            }
        }
    }
    bool end_statement(Stmt& s) {
        s.end = last_end();
        if (accept(TokenKind::Newline) || at_end()) return true;
        return expected("the end of the statement", "Put the next statement on a line of its own.");
    }

    bool statement(Stmt& s, bool top) {
        s.begin = now().begin;
        if (now().is("example")) {
            fail(now().begin, now().end, "An example cannot stand inside an 'if'.",
                 "Move it to the operator's own level.");
            return false;
        }
        if (now().is("let")) return let(s);
        if (now().is("const")) return constant(s);
        if (now().is("require")) return require(s);
        if (now().is("if")) return conditional(s);
        if (now().is("for")) return loop(s);
        if (now().is("elif") || now().is("else")) {
            fail(now().begin, now().end, "This " + quoted(std::string(now().text)) + " follows no 'if'.",
                 "Put it right after the block of an 'if'.");
            return false;
        }
        (void)top;
        if (now().kind == TokenKind::String) {
            fail(now().begin, now().end, "A string cannot stand here.",
                 "The description of an operator is the first line of its body; use '#' for remarks.");
            return false;
        }
        if (now().is("(")) return call(s);
        if (now().kind != TokenKind::Name)
            return expected(
                "a statement",
                "A statement is an equation y[i] = ..., a range p in 0..n, let, const, require, if or example.");
        if (ahead().is("[") || ahead().is(":")) return equation(s);
        if (ahead().is("in") || ahead().is("...")) {
            s.kind = StmtKind::Range;
            if (!binding(s.binding, "an index")) return false;
            if (!expect("in", "after the index " + quoted(s.binding.name),
                        "State its range: " + s.binding.name + " in 0..n."))
                return false;
            return range(s.binding) && end_statement(s);
        }
        return call(s);
    }
    bool let(Stmt& s) {
        s.kind = StmtKind::Let;
        ++at_;
        if (!binding(s.binding, "a value")) return false;
        if (!expect("=", "after the name " + quoted(s.binding.name))) return false;
        return (s.value = item()) && end_statement(s);
    }
    bool constant(Stmt& s) {
        s.kind = StmtKind::Const;
        ++at_;
        if (!name(s.binding.name, "a table", &s.binding.at, &s.binding.at_end)) return false;
        if (accept(":") && !type_ref(s.type)) return false;
        if (!expect("[", "before the extents of the table " + quoted(s.binding.name)) || !dims(s.dims, s.binding.name))
            return false;
        return expect("=", "before the values of the table " + quoted(s.binding.name)) && (s.value = item()) &&
               end_statement(s);
    }
    bool require(Stmt& s) {
        s.kind = StmtKind::Require;
        ++at_;
        if (!(s.value = expression())) return false;
        if (!expect(",", "after the condition", "Say in a string after ',' what to do when the condition fails."))
            return false;
        if (now().kind != TokenKind::String)
            return expected("the message of the requirement in quotes",
                            "Write a full sentence that a user of the operator will read.");
        s.text = unescape(now().text);
        ++at_;
        return end_statement(s);
    }
    bool conditional(Stmt& s) {
        s.kind = StmtKind::If;
        if (++blocks_ > kMaxBlocks) {
            too_many_blocks();
            --blocks_;
            return false;
        }
        bool good = true, has_else = false;
        while (good && (now().is("if") || now().is("elif") || now().is("else")) && !has_else) {
            if (now().is("if") && !s.branches.empty()) break;
            const std::string word(now().text);
            has_else = word == "else";
            ++at_;
            Branch b;
            if (!has_else && !(b.condition = expression())) good = false;
            good = good && expect(":", "after " + quoted(word));
            good = good && inner_block(b, word);
            s.branches.push_back(std::move(b));
        }
        --blocks_;
        s.end = last_end();
        return good;
    }
    bool inner_block(Branch& b, const std::string& word) {
        if (!accept(TokenKind::Newline)) {
            Stmt only;
            if (!statement(only, false)) return false;
            b.block.push_back(std::move(only));
            return true;
        }
        if (!accept(TokenKind::Indent))
            return expected("an indented block", "Indent the statements that belong to " + quoted(word) + ".");
        block(b.block, false);
        return true;
    }
    bool loop(Stmt& s) {
        s.kind = StmtKind::For;
        if (++blocks_ > kMaxBlocks) {
            too_many_blocks();
            --blocks_;
            return false;
        }
        ++at_;
        bool good =
            name(s.binding.name, "a tensor", &s.binding.at, &s.binding.at_end) &&
            expect("in", "after " + quoted(s.binding.name), "Write for x in xs: with a variadic parameter xs*.");
        if (good && now().kind != TokenKind::Name)
            good = expected("a variadic parameter", "Write for x in xs: with a variadic parameter xs*.");
        if (good) {
            s.text = std::string(now().text);
            ++at_;
            good = expect(":", "after " + quoted(s.text)) && inner_block(s.branches.emplace_back(), "for");
        }
        --blocks_;
        s.end = last_end();
        return good;
    }
    void too_many_blocks() {
        fail(now().begin, now().end, "Blocks are nested more than 32 deep.",
             "Move the inner part into an operator of its own.");
    }
    bool equation(Stmt& s) {
        s.kind = StmtKind::Equation;
        if (is_reserved(now().text)) {
            std::string ignored;
            return name(ignored, "a tensor");
        }
        if (ahead().is(":")) {  // NAME: type[...] states the type of what is defined
            const Token& t = now();
            at_ += 2;
            if (!type_ref(s.type)) return false;
            if (!expect("[", "before the indices of " + quoted(std::string(t.text)))) return false;
            Expr* e = make(ExprKind::Access, t.begin);
            e->name = std::string(t.text);
            if (!items(e->args, "]", "in the indices of " + quoted(e->name)) || !(s.target = done(e))) return false;
        } else if (!(s.target = named())) {
            return false;
        }
        const Token& t = now();
        const bool word_update = (t.is("max") || t.is("min")) && ahead().is("=") && ahead().begin == t.end;
        if (accept("="))
            s.update = UpdateOp::Set;
        else if (accept("+="))
            s.update = UpdateOp::Add;
        else if (accept("*="))
            s.update = UpdateOp::Mul;
        else if (accept(":="))
            s.update = UpdateOp::Overwrite;
        else if (word_update) {
            s.update = t.is("max") ? UpdateOp::Max : UpdateOp::Min;
            at_ += 2;
        } else if (t.is("-=") || t.is("/=")) {
            fail(t.begin, t.end, "There is no update '" + std::string(t.text) + "'.",
                 t.is("-=") ? "Write y[...] += -(...)." : "Write y[...] *= 1 / (...).");
            return false;
        } else {
            return expected("'=' after " + quoted(s.target->name + "[...]"),
                            "The signs are =, +=, *=, max=, min= and :=.");
        }
        return (s.value = expression()) && end_statement(s);
    }
    bool call(Stmt& s) {
        s.kind = StmtKind::Call;
        const bool bracketed = accept("(");
        do {
            Binding b;
            if (now().kind == TokenKind::Name && now().text == "_") {
                b.name = "_";
                ++at_;
            } else if (!name(b.name, "a tensor", &b.at, &b.at_end)) {
                return false;
            }
            s.names.push_back(b);
        } while (accept(","));
        if (bracketed && !expect(")", "after the names on the left")) return false;
        const bool one = s.names.size() == 1;
        if (!expect("=", "after " + quoted(s.names.back().name),
                    one ? "Write " + s.names[0].name + "[i] = ... for an equation, or " + s.names[0].name +
                              " = OPERATOR(...) for a call."
                        : ""))
            return false;
        if (!(s.value = expression())) return false;
        if (s.value->kind != ExprKind::Call) {
            fail(s.value->begin, s.value->end,
                 "The tensor " + quoted(s.names[0].name) + " without indices can only be the result of an operator.",
                 "Write an equation with indices, as in " + s.names[0].name + "[i] = ...; use let for an integer.");
            return false;
        }
        return end_statement(s);
    }

    void example() {
        ExampleDecl x;
        x.begin = now().begin;
        ++at_;
        while (now().kind == TokenKind::Name) {
            ExampleTensor t;
            if (!name(t.name, "a parameter", &t.at, &t.at_end)) return;
            if (!expect("=", "after " + quoted(t.name), "Write " + t.name + " = f32[2,3].")) return;
            if (!type_ref(t.type)) return;
            if (!expect("[", "before the extents of " + quoted(t.name), "Write " + t.name + " = f32[2,3].") ||
                !dims(t.dims, t.name))
                return;
            if (accept("in")) {
                Binding b;
                b.name = t.name;
                if (!range(b)) return;
                t.low = b.begin;
                t.high = b.end;
            }
            x.tensors.push_back(std::move(t));
            if (!accept(",")) break;
        }
        if (accept(";") && !setting_list(x.settings, "\n")) return;
        x.end = last_end();
        if (!accept(TokenKind::Newline) && !at_end()) {
            expected("the end of the example", "Write example x = f32[2,3], ...; attribute = value, ....");
            return;
        }
        op_->examples.push_back(std::move(x));
    }
};

}  // namespace

bool is_reduction(std::string_view word) {
    return std::find(kReductions.begin(), kReductions.end(), word) != kReductions.end();
}
bool is_reserved(std::string_view word) {
    const auto type = dtype_from_name(word);
    if (type && name(*type) == word) return true;
    return is_reduction(word) || std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

ParseResult parse(SourceRef source) { return Parser(std::move(source)).run(); }
SettingsResult parse_settings(SourceRef source) { return Parser(std::move(source)).run_settings(); }

}  // namespace opwright::lang
