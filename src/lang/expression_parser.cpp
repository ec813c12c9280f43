#include "lang/expression_parser.h"

#include <array>

#include "base/dtype.h"

namespace opwright::lang {

using math::Fn;

namespace {
constexpr int kMaxDepth = 200;   // of recursion while parsing
constexpr int kMaxHeight = 256;  // of an expression's tree: a sum of 200 terms is a tree 200 high

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
}  // namespace

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

bool is_reduction(std::string_view word) {
    return std::find(kReductions.begin(), kReductions.end(), word) != kReductions.end();
}
bool is_reserved(std::string_view word) {
    const auto type = dtype_from_name(word);
    if (type && name(*type) == word) return true;
    return is_reduction(word) || std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

Expr* ExpressionParser::make(ExprKind kind, uint32_t begin) {
    Expr& e = file_->exprs.emplace_back();
    e.kind = kind;
    e.begin = begin;
    return &e;
}

Expr* ExpressionParser::done(Expr* e) {
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

void ExpressionParser::too_deep(uint32_t begin, uint32_t end) {
    fail(begin, end, "This expression is nested more than 200 deep.",
         "Name a part of it as an intermediate and use the name.");
}

const Expr* ExpressionParser::expression(int level) {
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

bool ExpressionParser::is_comparison(const Token& t) {
    for (const Infix& i : kInfix)
        if (i.level == kComparison && t.is(i.text)) return true;
    return false;
}

const Expr* ExpressionParser::prefix(int level) {
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

const Expr* ExpressionParser::postfix() {
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

const Expr* ExpressionParser::named() {
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

bool ExpressionParser::outside(Expr& e) {
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

bool ExpressionParser::items(std::vector<const Expr*>& out, std::string_view close, const std::string& where,
                             std::vector<Setting>* settings) {
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

const Expr* ExpressionParser::item() {
    const uint32_t begin = now().begin;
    const Expr* e = expression();
    if (!e || !now().is("...")) return e;
    return expand(e, begin);
}

Expr* ExpressionParser::expand(const Expr* e, uint32_t begin) {
    ++at_;
    Expr* x = make(ExprKind::Expand, begin);
    x->args = {e};
    return done(x);
}

bool ExpressionParser::setting_list(std::vector<Setting>& out, std::string_view close) {
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

bool ExpressionParser::binding(Binding& b, const std::string& what) {
    if (!name(b.name, what, &b.at, &b.at_end)) return false;
    if (accept("...")) {
        b.pack = true;
        if (accept("(")) {
            if (!(b.rank = expression()) || !expect(")", "to close the rank of " + quoted(b.name))) return false;
        }
    }
    return true;
}

bool ExpressionParser::range(Binding& b) {
    if (!(b.begin = expression(kComparison + 1))) return false;
    if (!expect("..", "between the ends of the range of " + quoted(b.name),
                "Write " + b.name + " in BEGIN..END; END itself is not in the range."))
        return false;
    return (b.end = expression(kComparison + 1)) != nullptr;
}

const Expr* ExpressionParser::reduction() {
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
        expected("',', 'where', ';' or ']' in the indices of " + quoted(e->name), "Write " + e->name + "[i, j](...).");
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

}  // namespace opwright::lang
