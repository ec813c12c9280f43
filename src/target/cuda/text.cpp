#include "target/cuda/text.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace opwright::target::cuda {

namespace {
// Where the head of "for (...) body" or "if (...) body" ends, behind its bracket; npos where there is no body.
size_t head_end(std::string_view text) {
    if (!text.starts_with("for (") && !text.starts_with("if (")) return std::string_view::npos;
    int depth = 0;
    for (size_t i = text.find('('); i < text.size(); ++i) {
        depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
        if (depth == 0) return text.substr(i + 1) == " {" ? std::string_view::npos : i + 1;
    }
    return std::string_view::npos;
}
}  // namespace

void Code::raw(std::string_view text) {
    const size_t indent = static_cast<size_t>(depth_) * 4;
    if (indent + text.size() > 120) {
        if (const size_t end = head_end(text); end != std::string_view::npos && end + 1 < text.size()) {
            raw(text.substr(0, end));
            out_.append(indent + 4, ' ').append(text.substr(end + 1)) += '\n';
            return;
        }
        if (text.starts_with("for (")) {  // a line for each part of its head
            for (size_t part = 0; part < 2; ++part) {
                const size_t end = text.find("; ") + 1;
                out_.append(part == 0 ? indent : indent + 5, ' ').append(text.substr(0, end)) += '\n';
                text.remove_prefix(end + 1);
            }
            out_.append(indent + 5, ' ').append(text) += '\n';
            return;
        }
        // "a = condition ? value : other;" breaks before its branches.
        if (const size_t then = text.find(" ? "), other = text.find(" : ", then);
            then != std::string_view::npos && other != std::string_view::npos && text.starts_with("const ") &&
            text.find(" ? ", then + 1) == std::string_view::npos) {
            out_.append(indent, ' ').append(text.substr(0, then)) += '\n';
            out_.append(indent + 4, ' ').append(text.substr(then + 1, other - then - 1)) += '\n';
            out_.append(indent + 4, ' ').append(text.substr(other + 1)) += '\n';
            return;
        }
    }
    if (!text.empty()) out_.append(indent, ' ').append(text);
    out_ += '\n';
}

void Code::close_if() {
    const std::string outer(static_cast<size_t>(depth_ - 1) * 4, ' '), inner = outer + "    ";
    const auto line_before = [&](size_t end) { return end == 0 ? 0 : out_.rfind('\n', end - 1) + 1; };
    const size_t body = line_before(out_.size() - 1), head = line_before(body == 0 ? 0 : body - 1);
    const std::string_view all = out_, test = all.substr(head, body - head), statement = all.substr(body);
    const bool single = test.starts_with(outer + "if (") && test.ends_with(" {\n") && statement.starts_with(inner) &&
                        statement[inner.size()] != ' ' && statement.ends_with(";\n");
    if (!single || test.size() + statement.size() - inner.size() - 3 > 120) return close();
    --depth_;
    out_ = out_.substr(0, body - 2) + out_.substr(body + inner.size());
}

void Code::comment(std::string_view text) {
    const size_t width = 116 - static_cast<size_t>(depth_) * 4;
    while (!text.empty()) {
        size_t n = text.size();
        if (n > width) {
            n = text.rfind(' ', width);
            if (n == std::string_view::npos || n == 0) n = text.find(' ', width);
            if (n == std::string_view::npos) n = text.size();
        }
        raw("// " + std::string(text.substr(0, n)));
        text.remove_prefix(n);
        while (text.starts_with(' ')) text.remove_prefix(1);
    }
}

bool is_name(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

bool mentions_word(std::string_view text, std::string_view word) {
    const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
        if ((at == 0 || !part(text[at - 1])) && (at + word.size() == text.size() || !part(text[at + word.size()])))
            return true;
    return false;
}

Names::Names() {
    for (const char* w :
         {"alignas", "alignof", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const",
          "constexpr", "continue", "default", "delete", "do", "double", "else", "enum", "explicit", "export",
          "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace",
          "new", "not", "and", "or", "xor", "operator", "private", "protected", "public", "register", "return",
          "short", "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "true", "try",
          "typedef", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "INDEX",
          "Index", "f16", "bf16", "Pack", "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "fault",
          "point", "points", "lane", "warp", "exp", "log", "sin", "cos", "tan", "pow", "sqrt", "abs", "floor",
          "ceil", "round", "trunc", "min", "max", "erf", "tanh", "rint", "select", "bitand", "bitor", "compl",
          "stdin", "stdout", "stderr", "main", "THREADS", "VECTORS", "ITEMS", "NAN", "assert", "printf", "malloc",
          "free", "memcpy", "memset", "log1p", "expm1", "fmod", "remainder", "VECTOR", "TILE", "LANES", "ROWS",
          "PER", "STAGES", "SHARED", "BLOCKS"})
        used_.insert(w);
}

std::string Names::fresh(std::string_view wanted) {
    std::string base;
    for (char c : wanted) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "v" + base;
    std::string name = base;
    for (int i = 2; !used_.insert(name).second; ++i)
        name = fmt::format("{}{}{}", base, std::isdigit(static_cast<unsigned char>(base.back())) ? "_" : "", i);
    return name;
}

std::string_view c_type(DType t) {
    switch (t) {
        case DType::Bool: return "bool";
        case DType::I8: return "signed char";
        case DType::I16: return "short";
        case DType::I32: return "int";
        case DType::I64: return "long long";
        case DType::U8: return "unsigned char";
        case DType::U16: return "unsigned short";
        case DType::U32: return "unsigned";
        case DType::U64: return "unsigned long long";
        case DType::F16:
        case DType::BF16:
        case DType::F32: return "float";
        case DType::F64: return "double";
    }
    return "";
}
std::string_view memory_type(DType t) {
    if (t == DType::F16) return "f16";
    if (t == DType::BF16) return "bf16";
    return c_type(t);
}

std::string literal(double v, DType t) {
    const bool wide = t == DType::F64;
    if (std::isnan(v)) return wide ? "__longlong_as_double(0x7fffffffffffffffll)" : "__int_as_float(0x7fffffff)";
    if (std::isinf(v)) {
        const char* inf = wide ? "__longlong_as_double(0x7ff0000000000000ll)" : "__int_as_float(0x7f800000)";
        return (v < 0 ? "-" : "") + std::string(inf);
    }
    std::string s = wide ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
    if (s.find_first_of(".e") == std::string::npos) s += ".0";
    return wide ? s : s + "f";
}

std::string literal_int(int64_t v, DType t) {
    switch (t) {
        case DType::Bool: return v ? "true" : "false";
        case DType::I64: return v == INT64_MIN ? "(-9223372036854775807ll - 1)" : fmt::format("{}ll", v);
        case DType::U64: return fmt::format("{}ull", static_cast<uint64_t>(v));
        case DType::U32: return fmt::format("{}u", v);
        case DType::I32: return v == INT32_MIN ? "(-2147483647 - 1)" : fmt::format("{}", v);
        default: return fmt::format("({}){}", c_type(t), v);
    }
}

Operand print(const math::Sym& s, const std::function<std::string(const math::Sym&)>& name_of) {
    using math::SymKind;
    if (const auto c = s.constant()) {
        const std::string text = *c > INT32_MAX || *c < -INT32_MAX ? fmt::format("{}ll", *c) : fmt::format("{}", *c);
        return {text, *c < 0 ? Operand::Unary : Operand::Atom};
    }
    if (s.kind() != SymKind::Add && s.kind() != SymKind::Mul) return {name_of(s)};
    std::vector<Operand> p;
    for (const math::Sym& x : s.operands()) p.push_back(print(x, name_of));
    if (s.kind() == SymKind::Add) {
        std::string r = p[0].at(Operand::Sum);
        for (size_t i = 1; i < p.size(); ++i) {
            if (p[i].text.starts_with('-') && p[i].level >= Operand::Product)
                r += " - " + p[i].text.substr(1);
            else
                r += " + " + p[i].at(Operand::Sum);
        }
        return {r, Operand::Sum};
    }
    std::string r;
    for (size_t i = 0; i < p.size(); ++i) {
        if (i == 0 && s.operands()[0].is(-1))
            r = "-";
        else
            r += (r.empty() || r == "-" ? "" : " * ") + p[i].at(Operand::Product);
    }
    return {r, Operand::Product};
}

}  // namespace opwright::target::cuda
