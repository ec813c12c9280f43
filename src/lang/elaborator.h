// One operator being elaborated: its names with what they mean, and the methods that turn its declaration into
// equations of a Program. Internal to lang; elaborate.h is the door. Each .cpp beside holds the methods of one topic.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "lang/ast.h"
#include "lang/library.h"
#include "lang/value.h"
#include "math/program.h"

namespace opwright::lang {

inline constexpr int kMaxRank = 16;             // dims of a pack, and of a tensor
inline constexpr size_t kMaxSteps = 2'000'000;  // expressions evaluated in one elaboration
inline constexpr int kMaxDepth = 400;           // of evaluation, through operators called on numbers
inline constexpr size_t kMaxEquations = 4096;
inline constexpr size_t kMaxList = 65'536;                // elements of a list or table
inline constexpr size_t kMaxCalls = 32;                   // operators calling operators
inline constexpr int64_t kMaxInteger = int64_t{1} << 53;  // of integers known at elaboration: extents, attributes

// The type an expression is wanted in, where something around it says so: literals without a type take it.
using Want = std::optional<DType>;

// One dim as the declaration sees it.
struct LogicalDim {
    int physical = -1;       // dim of the tensor; -1: the tensor has fewer dims, the index is dropped
    math::Sym extent;        // of the index that stands here
    math::Sym own;           // of the tensor
    bool broadcast = false;  // own may be 1 where extent is not
};

// A tensor as the declaration sees it; in an operator called on numbers, a number.
struct View {
    std::string name;
    math::TensorId id = math::kNone;
    Value scalar;  // where id is kNone
    DType type = DType::F32;
    std::vector<LogicalDim> dims;
    uint32_t at = 0, at_end = 0;  // where it was declared or defined
};

// The extents behind a name of a dim or of a range.
struct Dim {
    bool pack = false;
    bool stated = false;  // by a range: a plain access must then contain it, not equal it
    std::vector<math::Sym> extents, begins;
    std::string origin;  // "dim 1 of `x`", "its range"
    uint32_t at = 0, at_end = 0;
};

// One tensor argument of a call.
struct BoundArg {
    bool present = true;
    DType type = DType::F32;
    std::vector<math::Sym> shape;
    math::TensorId id = math::kNone;
    std::optional<Value> scalar;
};

// How the caller wants an output called.
struct OutputSlot {
    std::string name;  // empty: nobody uses it
    math::Role role = math::Role::Output;
};

// What all operators of one elaboration share.
struct Shared {
    math::Program program;
    std::function<const OpDecl*(const std::string&, const OpDecl& from)> find;
    std::function<std::vector<std::string>()> operator_names;
    std::vector<const OpDecl*> stack;
    Broadcasting broadcasting = Broadcasting::AtRunTime;
    size_t steps = 0;
    int depth = 0;                                      // of evaluation under way, inlined operators included
    uint64_t symbol_limit = 4096;                       // nodes of an expression of extents, as a tree
    std::unordered_map<std::string, int> tensor_names;  // taken; with the number to try next for a name like it
    struct VarInfo {
        std::string name, origin;
        bool stated = false, bound = false;
        math::Sym begin;
    };
    std::vector<VarInfo> vars;  // by VarId
};

// One list a parameter: absent optional ones filled in, a variadic one with all that is left.
Result<std::vector<std::vector<BoundArg>>> group_arguments(const OpDecl& op, std::vector<BoundArg> args,
                                                           const Span& place);

// "dim 1 of `x`", for messages.
std::string dim_of(size_t d, const std::string& tensor);
// The dtype that a word of the language names; only its short spelling.
std::optional<DType> dtype_word(const std::string& s);
bool is_comparison(math::Fn f);
// Whether an access must stay inside its tensor, so that its plain indices take their extents from it.
bool plain_outside(const Expr& access);
// float int signed unsigned numeric any; `in_dtype_class` also takes a dtype.
bool is_dtype_class(const std::string& c);
bool in_dtype_class(const std::string& c, DType t);

class Elaborator {
public:
    Elaborator(Shared& shared, const OpDecl& op) : s_(shared), p_(shared.program), op_(op) {}

    // ---- bind.cpp. In this order: attributes, then arguments (one list a parameter; several only for a variadic one).
    Status bind_attributes(const std::map<std::string, Value>& given, Span place);
    Status bind_arguments(std::vector<std::vector<BoundArg>> args, std::vector<OutputSlot> outputs, Span place);
    Result<Value> to_attribute(const AttributeDecl& a, const Value& v, const Span& place) const;
    // Extents and types for arguments made up from the declaration: every named extent a symbol. `like` has the ranks
    // and types to follow where the declaration leaves them open (an example), or is empty.
    Result<std::vector<std::vector<BoundArg>>> symbolic_arguments(const std::vector<std::vector<BoundArg>>& like,
                                                                  int pack_rank);

    // ---- statements.cpp
    Status run();
    const View& output(size_t i) const { return views_.at(op_.outputs[i].name); }
    Result<Value> eval_static(const Expr& e) {
        in_equation_ = false;
        return eval(e, {});
    }
    bool scalar_mode = false;  // called on numbers: every tensor is a Value

private:
    Shared& s_;
    math::Program& p_;
    const OpDecl& op_;
    std::map<std::string, Value> values_;  // attributes and lets
    std::map<std::string, Dim> dims_;
    std::map<std::string, View> views_;
    std::map<std::string, std::vector<View>> variadic_;   // parameters xs*
    std::map<std::string, std::vector<math::Sym>> each_;  // dims c* of them, by tensor
    std::optional<size_t> loop_at_;                       // the tensor a `for` is at
    std::map<std::string, DType> types_;
    std::set<std::string> absent_;  // optional parameters left out
    std::map<std::string, std::pair<const Param*, OutputSlot>> outputs_;
    std::map<std::string, Value> indices_;                  // in force: Computed, or a List of them
    std::unordered_map<const Expr*, Value> element_;        // packs inside an expansion under way
    std::map<std::string, std::vector<math::VarId>> vars_;  // index variables made, by name
    std::set<std::string> before_loop_;                     // tensors defined before the `for` under way
    std::set<std::string> written_;                         // tensors that an equation or call here defines
    bool in_equation_ = false;                              // names of dims are indices, not extents
    bool in_let_ = false;  // names are extents, but the value may be computed at run time
    bool computing() const { return in_equation_ || in_let_; }

    // ---- messages
    template <class E>
    Diagnostic error(const E& at, std::string message, std::string next = {}) const {
        return Diagnostic(std::move(message), Span{op_.source, at.begin, at.end}, std::move(next));
    }
    Diagnostic error_at(uint32_t begin, uint32_t end, std::string message, std::string next = {}) const {
        return Diagnostic(std::move(message), Span{op_.source, begin, end}, std::move(next));
    }
    std::string known_names_hint(const std::string& word) const;  // "Did you mean `stride`? " or ""
    std::string source_of(const Expr& e) const;                   // the text of e, shortened
    Status step(const Expr& e);

    // ---- bind.cpp
    struct Occurrence;
    struct Slot;
    Status bind_types(const std::vector<std::vector<BoundArg>>& args, const Span& place);
    Status bind_ranks(const std::vector<std::vector<BoundArg>>& args, std::map<std::string, int>& lengths,
                      const Span& place);
    bool not_one(const math::Sym& extent) const;
    Status unify(const std::string& key, const std::vector<Occurrence>& all, math::Sym& common, const Span& place);
    Result<std::optional<int>> stated_rank(const Expr& e, std::map<std::string, int>& lengths);
    Result<std::vector<Slot>> slots_of(const Param& p, int rank, const std::map<std::string, int>& lengths);
    Result<std::vector<int64_t>> positions(const Expr& axes, int rank);
    Result<DType> type_of(const TypeRef& t) const;
    bool allowed(const TypeConstraint& c, DType t) const;
    Diagnostic at_call(const Span& place, const Param& p, std::string message, std::string next) const;

    // ---- statements.cpp
    Status block(const std::vector<Stmt>& b);
    Status statement(const Stmt& s);
    Status range(const Stmt& s);
    Result<Dim> stated_range(const Binding& b);
    Status let(const Stmt& s);
    Status constant(const Stmt& s);
    Status conditional(const Stmt& s);
    Status loop(const Stmt& s);
    Status require(const Stmt& s);
    Status call_statement(const Stmt& s);
    Result<std::vector<View>> call(const Expr& e, std::vector<OutputSlot> slots);
    Result<std::vector<View>> call_with(const Expr& e, const OpDecl& callee, std::vector<BoundArg> args,
                                        std::vector<OutputSlot> slots, bool on_numbers);
    Status free_name(const std::string& name, uint32_t at, uint32_t end) const;
    Result<std::optional<bool>> decided(const Expr& condition);
    void add_requirement(math::Sym value, std::string message);
    std::string fresh_name(const std::string& base);

    // ---- equation.cpp
    struct Found {
        std::vector<math::Sym> extents;
        std::string origin;
        bool pack = false, known = false;
    };
    Status equation(const Stmt& s);
    Status equation_inside(const Stmt& s);
    Status scalar_equation(const Stmt& s);
    void names_in(const Expr& e, bool under_expand, std::map<std::string, Found>& out) const;
    void infer(const Expr& e, std::map<std::string, Found>& names);
    void infer_access(const std::vector<const Expr*>& items, const std::vector<std::optional<math::Sym>>& extents,
                      const std::string& tensor, std::map<std::string, Found>& names);
    std::optional<size_t> length_of(const Expr& e);  // of an expansion, before its packs have values
    Status bring_in(const std::string& name, bool pack, const Found* found, uint32_t at, uint32_t end, bool bound,
                    const Dim* range = nullptr);
    math::VarId variable(const std::string& name, const math::Sym& extent, bool stated, bool bound,
                         const std::string& origin, const math::Sym& begin);
    Result<std::vector<std::optional<math::Sym>>> declared_dims(const Param& output, std::optional<size_t> count);
    Result<std::optional<DType>> output_type(const Param& output) const;
    Result<View*> define(const std::string& name, DType type, std::vector<math::Sym> shape, uint32_t at, uint32_t end);
    Status check_declared(const Param& output, const View& v, const Expr& at);
    Result<const View*> tensor(const std::string& name, const Expr& at) const;
    // Indices of the tensor itself for those of the declaration, with the checks of extents.
    // How the extent of a plain index must meet that of its dim: Equal on the left of what defines a tensor; Agree
    // elsewhere, where an index of a stated range may go over a part; Within on the left of updates; Any where an
    // `outside` is given.
    enum class Extents : uint8_t { Equal, Agree, Within, Any };
    Result<std::vector<math::ExprId>> lower(const View& v, const std::vector<Value>& at, const Expr& e, Extents rule);
    Status check_plain(const View& v, size_t d, math::VarId var, const Expr& e, Extents rule);
    Status check_inside(const View& v, size_t d, math::ExprId index, const Expr& e);
    Result<Value> access(const Expr& e, Want want);
    Result<Value> inside(const Expr& e);
    Result<std::pair<math::Outside, std::optional<Value>>> outside(const Expr& e, DType type);

    // ---- expression.cpp
    Result<Value> eval(const Expr& e, Want want);
    Result<Value> lookup(const Expr& e);
    Result<Value> unary(const Expr& e, Want want);
    Result<Value> binary(const Expr& e, Want want);
    Result<Value> static_binary(const Expr& e, const Value& a, const Value& b);
    Result<Value> compare_static(const Expr& e, const Value& a, const Value& b);
    Result<Value> apply(const Expr& e, math::Fn fn, std::vector<Value> args, Want want);
    Result<Value> select(const Expr& e, Want want);
    Result<Value> membership(const Expr& e);
    Result<Value> function(const Expr& e, Want want);
    Result<Value> builtin(const Expr& e, Want want, bool& known);
    Result<Value> extent(const Expr& e);
    Result<std::vector<Value>> extents_of(const Expr& e);
    Result<Value> cast(const Expr& e, bool wrap);
    Result<Value> bitcast(const Expr& e);
    Result<Value> scalar_call(const Expr& e, const OpDecl& callee, Want want);
    Result<DType> type_argument(const Expr& e);
    Status arity(const Expr& e, size_t n) const;
    Want peek(const Expr& e) const;  // the type of e where it is plain to see without evaluating it
    // A Value as an expression of the Program; literals take the type wanted.
    Result<Value> computed(const Expr& e, Value v, Want want);
    Result<math::ExprId> as_index(const Expr& e, const Value& v);
    Result<math::ExprId> as_bool(const Expr& e, const Value& v);
    math::ExprId widen(const Value& v);   // 16-bit floats as f32
    math::ExprId narrow(const Value& v);  // as its own type
    Result<math::Sym> checked_sym(const Expr& e, math::Sym s) const;

    // ---- pack.cpp
    Result<std::vector<Value>> expand(const Expr& e, Want want);  // e is an Expand
    Result<std::vector<Value>> expand(const Expr& of, const Expr& at, Want want);
    Result<std::vector<Value>> items(const std::vector<const Expr*>& args, Want want);
    Result<std::vector<Value>> list_argument(const Expr& e);  // a pack, a list, or an expansion
    Result<Value> pack_function(const Expr& e, bool& known);
    void packs_in(const Expr& e, std::set<std::string>& bound, std::vector<const Expr*>& out) const;
    bool is_pack(const std::string& name) const;

    // ---- reduce.cpp
    Result<Value> reduce(const Expr& e, Want want);
    Result<Value> reduce_inside(const Expr& e, Want want, std::vector<math::VarId>& vars,
                                std::vector<math::Sym>& extents);
    Result<Value> logsumexp(const Expr& e, const Value& body, const std::vector<math::VarId>& vars,
                            math::ExprId condition);
    bool is_scan(const Expr& e) const;
    // The Scan itself, of the type it is computed in.
    Result<Value> scan(const Expr& e, Want want, math::VarId& along);
    // Stores v in a tensor over its free variables and reads it back.
    Result<Value> through_temporary(const std::string& base, const Expr& at, math::ExprId e, DType counted_as,
                                    math::VarId also = math::kNone);
};

}  // namespace opwright::lang
