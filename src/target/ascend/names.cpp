#include "target/ascend/names.h"

#include <cctype>

namespace opwright::target::ascend {
using namespace math;

namespace {
// Words of C++, and names that the emitted classes use themselves.
const char* const kReserved[] = {
    "alignas", "and",       "asm",      "auto",     "bool",      "break",    "case",   "char",     "class",
    "const",   "continue",  "default",  "delete",   "do",        "double",   "else",   "enum",     "explicit",
    "export",  "extern",    "false",    "float",    "for",       "friend",   "goto",   "half",     "if",
    "inline",  "int",       "long",     "mutable",  "namespace", "new",      "not",    "operator", "or",
    "private", "protected", "public",   "register", "return",    "short",    "signed", "sizeof",   "static",
    "struct",  "switch",    "template", "this",     "throw",     "true",     "try",    "typedef",  "typename",
    "union",   "unsigned",  "using",    "virtual",  "void",      "volatile", "while",  "xor",      "bfloat16_t",
    "pipe",    "tiling",    "task",     "lane",     "count",     "lanes",    "fault",  "first",    "last",
    "sqrt",    "value",     "place",    "rest"};
}  // namespace

std::string upper_camel(const std::string& s) {
    std::string r;
    bool up = true;
    for (char c : s) {
        if (c == '_' || !std::isalnum(static_cast<unsigned char>(c))) {
            up = true;
            continue;
        }
        r += up ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
        up = false;
    }
    return r.empty() || std::isdigit(static_cast<unsigned char>(r[0])) ? "V" + r : r;
}
std::string lower_camel(const std::string& s) {
    std::string r = upper_camel(s);
    r[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(r[0])));
    return r;
}

std::string memory_type(DType t) {
    switch (t) {
        case DType::Bool:
        case DType::U8: return "uint8_t";
        case DType::I8: return "int8_t";
        case DType::I16: return "int16_t";
        case DType::I32: return "int32_t";
        case DType::I64: return "int64_t";
        case DType::U16: return "uint16_t";
        case DType::U32: return "uint32_t";
        case DType::U64: return "uint64_t";
        case DType::F16: return "half";
        case DType::BF16: return "bfloat16_t";
        case DType::F32: return "float";
        case DType::F64: return "double";
    }
    return {};
}
std::string scalar_type(DType t) {
    return t == DType::Bool ? "bool" : t == DType::F16 || t == DType::BF16 ? "float" : memory_type(t);
}

Names::Names(const Program& p) {
    for (const char* r : kReserved) taken_.insert(r);
    // Variables that are in use have the first choice: inlined operators leave others of the same names behind.
    std::set<VarId> used;
    std::set<ExprId> seen;
    std::vector<ExprId> open;
    for (const Equation& q : p.equations) {
        used.insert(q.vars.begin(), q.vars.end());
        open.push_back(q.rhs);
    }
    while (!open.empty()) {
        const ExprId e = open.back();
        open.pop_back();
        if (!seen.insert(e).second) continue;
        const Expr& x = p.expr(e);
        used.insert(x.vars.begin(), x.vars.end());
        open.insert(open.end(), x.args.begin(), x.args.end());
    }
    for (bool now : {true, false})
        for (VarId v = 0; v < p.vars.size(); ++v)
            if ((used.count(v) > 0) == now) vars_[v] = unique(lower_camel(p.vars[v].name));
    // Symbols by the dim of an input that they are the extent of, named like the variable that runs over it.
    for (const std::string& s : p.symbols()) {
        std::string wish;
        for (VarId v = 0; v < p.vars.size() && wish.empty(); ++v)
            if (p.vars[v].extent.kind() == SymKind::Symbol && p.vars[v].extent.symbol_name() == s)
                wish = "size" + upper_camel(p.vars[v].name);
        for (const TensorInfo& t : p.tensors)
            for (size_t d = 0; d < t.shape.size() && wish.empty(); ++d)
                if (t.shape[d].kind() == SymKind::Symbol && t.shape[d].symbol_name() == s)
                    wish = lower_camel(t.name) + "Dim" + std::to_string(d);
        fields_[s] = unique(wish.empty() ? "size" + upper_camel(s) : wish);
    }
    for (TensorId t = 0; t < p.tensors.size(); ++t) tensors_[t] = unique(lower_camel(p.tensors[t].name));
}

std::string Names::unique(const std::string& wish) {
    std::string r = wish;
    for (int i = 1; !taken_.insert(r).second; ++i) r = wish + std::to_string(i);
    return r;
}

}  // namespace opwright::target::ascend
