// The syntax tree of operator declarations. Nodes live in the File that parsed them and never change.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "math/functions.h"

namespace opwright::lang {

struct Expr;

// NAME in BEGIN..END, or a name alone; a pack where written with "...", of the stated rank where given.
struct Binding {
    std::string name;
    uint32_t at = 0, at_end = 0;  // place of the name
    bool pack = false;
    const Expr* rank = nullptr;
    const Expr* begin = nullptr;  // both null: a name alone
    const Expr* end = nullptr;
};

struct Setting {
    std::string name;
    uint32_t at = 0, at_end = 0;
    const Expr* value = nullptr;
};

enum class ExprKind : uint8_t {
    Name,
    Integer,
    Float,
    String,     // `name` is the text
    List,       // [args]
    Unary,      // fn(args[0])
    Binary,     // fn(args[0], args[1])
    In,         // args[0] in args[1]
    Call,       // name(args; settings)
    Access,     // name[args], with what it means outside
    Reduce,     // name[bindings where args[1]; settings](args[0]); scans too
    Expand,     // args[0]...
    Broadcast,  // ~args[0], in the dims of parameters; args[0] may be an Expand
    Each,       // NAME*, in the dims of a variadic parameter: an extent of its own for every tensor
};

struct Expr {
    ExprKind kind = ExprKind::Name;
    math::Fn fn = math::Fn::Neg;
    int height = 1;               // of the tree below, itself included
    uint32_t begin = 0, end = 0;  // bytes of the source
    std::string name;
    int64_t integer = 0;
    double number = 0;
    std::vector<const Expr*> args;
    std::vector<Setting> settings;  // Reduce: a setting without a name is the accumulator
    std::vector<Binding> bindings;
    std::string outside;  // Access: the word after "outside", "" without one, "(" for a value
    const Expr* outside_value = nullptr;
    const Expr* rank = nullptr;  // Expand, in dims: the stated rank
};

// NAME, or acc(NAME); empty when not stated.
struct TypeRef {
    std::string name;
    bool accumulate = false;
    uint32_t begin = 0, end = 0;
    explicit operator bool() const { return !name.empty(); }
};

struct Param {
    std::string name;
    bool optional = false;
    bool variadic = false;
    TypeRef type;
    std::vector<const Expr*> dims;
    uint32_t begin = 0, end = 0;
    uint32_t name_end = 0;
};

enum class AttributeKind : uint8_t { Unstated, Int, Float, Bool, String, DType, Ints, Floats, Strings };

struct AttributeDecl {
    std::string name;
    AttributeKind kind = AttributeKind::Unstated;  // settled by the parser from the default where not written
    const Expr* value = nullptr;                   // the default; null: must be given. The name `none`: may be left out
    uint32_t begin = 0, end = 0;
};

struct TypeConstraint {
    std::string variable;
    std::vector<std::string> allowed;  // classes and dtypes
    uint32_t begin = 0, end = 0;
};

enum class StmtKind : uint8_t { Range, Let, Const, Equation, Call, If, For, Require };
enum class UpdateOp : uint8_t { Set, Add, Mul, Max, Min, Overwrite };

struct Stmt;
struct Branch {
    const Expr* condition = nullptr;  // null: else
    std::vector<Stmt> block;
};

struct Stmt {
    StmtKind kind = StmtKind::Equation;
    uint32_t begin = 0, end = 0;
    Binding binding;                // Range; Let, Const and For use its name and place
    TypeRef type;                   // Const; Equation where stated
    std::vector<const Expr*> dims;  // Const
    const Expr* target = nullptr;   // Equation: the Access on the left
    std::vector<Binding> names;     // Call: what it defines
    UpdateOp update = UpdateOp::Set;
    const Expr* value = nullptr;   // right-hand side; condition of Require
    std::string text;              // Require: the message; For: the variadic parameter
    std::vector<Branch> branches;  // If; For has one
};

struct ExampleTensor {
    std::string name;
    uint32_t at = 0, at_end = 0;
    TypeRef type;
    std::vector<const Expr*> dims;
    const Expr* low = nullptr;  // the range of its values, where stated
    const Expr* high = nullptr;
};

struct ExampleDecl {
    std::vector<ExampleTensor> tensors;
    std::vector<Setting> settings;
    uint32_t begin = 0, end = 0;
};

struct OpDecl {
    SourceRef source;
    std::string name;
    std::string doc;
    std::vector<Param> params;
    std::vector<AttributeDecl> attributes;
    std::vector<Param> outputs;
    std::vector<TypeConstraint> constraints;
    std::vector<Stmt> body;
    std::vector<ExampleDecl> examples;
    std::string gradient;  // the operator that computes its gradient, where one is named
    uint32_t gradient_at = 0, gradient_end = 0;
    uint32_t begin = 0, end = 0;  // the whole declaration
    uint32_t name_at = 0, name_end = 0;

    Span span(uint32_t b, uint32_t e) const { return {source, b, e}; }
    Span span(const Expr& e) const { return {source, e.begin, e.end}; }
};

struct File {
    SourceRef source;
    std::deque<Expr> exprs;  // owns the nodes
    std::vector<std::unique_ptr<OpDecl>> ops;
};

}  // namespace opwright::lang
