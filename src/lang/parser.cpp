#include "lang/parser.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/dtype.h"
#include "lang/expression_parser.h"

namespace opwright::lang {
namespace {

constexpr int kMaxBlocks = 32;

class Parser : ExpressionParser {
public:
    explicit Parser(SourceRef source) : ExpressionParser(std::move(source)) {}

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
    int blocks_ = 0;
    OpDecl* op_ = nullptr;

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
            } else if (now().is("gradient") && ahead().kind == TokenKind::Name && !ahead().is("in")) {
                gradient(top);
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

    // gradient NAME: a word like others wherever no name follows it.
    void gradient(bool top) {
        const Token word = now();
        ++at_;
        if (!top) {
            fail(word.begin, word.end, "A gradient cannot be named inside an 'if'.",
                 "Move the line to the operator's own level.");
            return;
        }
        if (!op_->gradient.empty()) {
            fail(word.begin, last_end(), "The operator " + quoted(op_->name) + " names its gradient twice.",
                 "Leave one of the two lines out.");
            return;
        }
        if (!name(op_->gradient, "an operator", &op_->gradient_at, &op_->gradient_end)) return;
        if (!accept(TokenKind::Newline) && !at_end())
            expected("the end of the line after the name of the gradient", "Write gradient NAME, the name of an operator.");
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

ParseResult parse(SourceRef source) { return Parser(std::move(source)).run(); }
SettingsResult parse_settings(SourceRef source) { return Parser(std::move(source)).run_settings(); }

}  // namespace opwright::lang
