// Tokens to expressions, and what else stands inside brackets. Internal to the parser.
#pragma once
#include "lang/token_cursor.h"

namespace opwright::lang {

std::string unescape(std::string_view s);

class ExpressionParser : protected TokenCursor {
protected:
    using TokenCursor::TokenCursor;

    Expr* make(ExprKind kind, uint32_t begin);
    // Closes a node: its end, and the check of the tree's height.
    Expr* done(Expr* e);
    void too_deep(uint32_t begin, uint32_t end);
    const Expr* expression(int level = 1);
    static bool is_comparison(const Token& t);
    const Expr* prefix(int level);
    const Expr* postfix();
    const Expr* named();
    bool outside(Expr& e);
    // expr ["..."] { "," expr ["..."] } up to `close`, with settings after ";" where allowed.
    bool items(std::vector<const Expr*>& out, std::string_view close, const std::string& where,
               std::vector<Setting>* settings = nullptr);
    const Expr* item();
    Expr* expand(const Expr* e, uint32_t begin);
    bool setting_list(std::vector<Setting>& out, std::string_view close);
    bool binding(Binding& b, const std::string& what);
    bool range(Binding& b);
    const Expr* reduction();

private:
    int depth_ = 0;
};

}  // namespace opwright::lang
