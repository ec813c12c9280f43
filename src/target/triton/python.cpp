#include "target/triton/python.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace opwright::target::triton {
namespace {

constexpr size_t kColumns = 100;
constexpr std::array kReserved = {
    "False", "None",  "True",   "and",      "as",     "assert",  "async", "await",     "break",  "class", "continue",
    "def",   "del",   "elif",   "else",     "except", "finally", "for",   "from",      "global", "if",    "import",
    "in",    "is",    "lambda", "nonlocal", "not",    "or",      "pass",  "raise",     "return", "try",   "while",
    "with",  "yield", "float",  "int",      "bool",   "range",   "len",   "max",       "min",    "abs",   "sum",
    "any",   "all",   "torch",  "triton",   "tl",     "np",      "math",  "isinstance"};

// A statement cut into what the layout needs: positions of brackets and of operators outside all brackets.
struct Operator {
    size_t at;    // of the space before it
    int binding;  // loose operators first
};
int binding_of(std::string_view op) {
    if (op == "if" || op == "else") return 0;
    if (op == "or") return 1;
    if (op == "and") return 2;
    if (op == "<" || op == ">" || op == "<=" || op == ">=" || op == "==" || op == "!=") return 3;
    if (op == "|") return 4;
    if (op == "^") return 5;
    if (op == "&") return 6;
    if (op == "<<" || op == ">>") return 7;
    if (op == "+" || op == "-") return 8;
    if (op == "*" || op == "/" || op == "//" || op == "%") return 9;
    return -1;
}

class Layout {
public:
    explicit Layout(std::string& out) : out_(out) {}

    void statement(std::string_view s, size_t indent) {
        if (indent + s.size() <= kColumns) return emit(s, indent);
        const size_t start = value_start(s);
        const std::string_view end = s.ends_with(":") ? ":" : s.ends_with(",") ? "," : "";
        const std::string_view core = s.substr(0, s.size() - end.size());
        const auto ops = operators(core, start);
        if (ops.empty() && (core.ends_with(")") || core.ends_with("]"))) {
            // "f(...).to(x)" whose f(... is too long for a line breaks in f's brackets.
            std::string_view head = core;
            size_t open = opening(head);
            while (indent + open + 1 > kColumns) {
                const size_t close = head.find_last_of(")]", open);
                if (close == std::string_view::npos || head.substr(close, 2) != ").") break;
                head = head.substr(0, close + 1);
                open = opening(head);
            }
            emit(head.substr(0, open + 1), indent);
            body(head.substr(open + 1, head.size() - open - 2), indent + 4, is_literal(head, open));
            emit(std::string(core.substr(head.size() - 1)) + std::string(end), indent);
        } else if (!ops.empty()) {
            emit(std::string(core.substr(0, start)) + "(", indent);
            body(core.substr(start), indent + 4);
            emit(")" + std::string(end), indent);
        } else {
            emit(s, indent);
        }
    }

private:
    void emit(std::string_view s, size_t indent) {
        out_.append(indent, ' ');
        out_ += s;
        out_ += '\n';
    }
    // The inside of brackets: on one line, or one element a line, or one operand a line.
    void body(std::string_view s, size_t indent, bool literal = false) {
        const std::vector<size_t> commas = depth_zero(s, ',');
        if (indent + s.size() <= kColumns && !(literal && !commas.empty())) return emit(s, indent);
        if (!commas.empty()) {
            size_t begin = 0;
            for (size_t i = 0; i <= commas.size(); ++i) {
                const size_t stop = i < commas.size() ? commas[i] : s.size();
                if (begin == stop) break;  // behind the comma of a tuple of one: each element has its own by now
                element(std::string(s.substr(begin, stop - begin)), indent);
                begin = std::min(stop + 2, s.size());
            }
            return;
        }
        const auto ops = operators(s, 0);
        if (ops.empty()) return statement(s, indent);
        operands(s, ops, indent);
    }
    void operands(std::string_view s, const std::vector<Operator>& ops, size_t indent) {
        const int loosest =
            std::min_element(ops.begin(), ops.end(), [](auto& a, auto& b) { return a.binding < b.binding; })->binding;
        size_t begin = 0;
        for (const Operator& o : ops)
            if (o.binding == loosest) {
                operand(s.substr(begin, o.at - begin), indent);
                begin = o.at + 1;
            }
        operand(s.substr(begin), indent);
    }
    // One of a list: "name=a * b," breaks before its operators.
    void element(std::string_view s, size_t indent) {
        const auto ops = operators(s, value_start(s));
        if (indent + s.size() + 1 <= kColumns || ops.empty()) return statement(std::string(s) + ",", indent);
        operands(std::string(s) + ",", ops, indent);
    }
    // "+ f(...)": an operand that is still too long breaks inside its own last brackets.
    void operand(std::string_view s, size_t indent) {
        if (indent + s.size() <= kColumns) return emit(s, indent);
        const auto [open, close] = breakable(s);
        if (close == 0 || indent + s.size() - close > kColumns) return emit(s, indent);
        emit(s.substr(0, open + 1), indent);
        body(s.substr(open + 1, close - open - 1), indent + 4, is_literal(s, open));
        emit(s.substr(close), indent);
    }
    // The last brackets that a line may break in: a subscript such as [:, None] stays whole. {0, 0}: none.
    static std::pair<size_t, size_t> breakable(std::string_view s) {
        std::pair<size_t, size_t> r{0, 0};
        size_t open = 0;
        scan(s, [&](size_t i, int depth) {
            if (depth != 0) return;
            if (s[i] == '(' || s[i] == '[' || s[i] == '{') open = i;
            if (s[i] == ')' || s[i] == '}' || (s[i] == ']' && is_literal(s, open))) r = {open, i};
        });
        return r;
    }
    // Brackets of a tuple or a list, not of a call or a subscript.
    static bool is_literal(std::string_view s, size_t open) {
        if (open == 0) return true;
        const char before = s[open - 1];
        return !(std::isalnum(static_cast<unsigned char>(before)) || before == '_' || before == ')' || before == ']');
    }

    // Calls f(position, depth) at every character outside strings; depth is that before an opening bracket.
    template <class F>
    static void scan(std::string_view s, F f) {
        int depth = 0;
        char quote = 0;
        for (size_t i = 0; i < s.size(); ++i) {
            const char c = s[i];
            if (quote) {
                if (c == '\\')
                    ++i;
                else if (c == quote)
                    quote = 0;
                continue;
            }
            if (c == '"' || c == '\'') quote = c;
            if (c == ')' || c == ']' || c == '}') --depth;
            f(i, depth);
            if (c == '(' || c == '[' || c == '{') ++depth;
        }
    }
    static std::vector<size_t> depth_zero(std::string_view s, char what) {
        std::vector<size_t> r;
        scan(s, [&](size_t i, int depth) {
            if (depth == 0 && s[i] == what) r.push_back(i);
        });
        return r;
    }
    static std::vector<Operator> operators(std::string_view s, size_t from) {
        std::vector<Operator> r;
        scan(s, [&](size_t i, int depth) {
            if (depth != 0 || i < from || s[i] != ' ') return;
            const size_t stop = s.find(' ', i + 1);
            if (stop == std::string_view::npos) return;
            if (const int b = binding_of(s.substr(i + 1, stop - i - 1)); b >= 0) r.push_back({i, b});
        });
        return r;
    }
    static size_t opening(std::string_view s) {
        size_t open = 0;
        scan(s.substr(0, s.size() - 1), [&](size_t i, int depth) {
            if (depth == 0 && (s[i] == '(' || s[i] == '[' || s[i] == '{')) open = i;
        });
        return open;
    }
    // Where the value of "y = ...", "y += ...", "return ...", "if ...:" begins.
    static size_t value_start(std::string_view s) {
        for (std::string_view word : {"return ", "if ", "elif ", "while ", "assert "})
            if (s.starts_with(word)) return word.size();
        size_t start = 0;
        scan(s, [&](size_t i, int depth) {
            // "mask=...": an argument by name
            if (depth == 0 && start == 0 && s[i] == '=' && i > 0 && i + 1 < s.size() && s[i + 1] != '=' &&
                s[i + 1] != ' ' && s.substr(0, i).find_first_of(" (=!<>") == std::string_view::npos)
                start = i + 1;
            if (depth == 0 && start == 0 && s.substr(i, 2) == "= " && i > 0 && s[i - 1] != '=' && s[i - 1] != '<' &&
                s[i - 1] != '>' && s[i - 1] != '!')
                start = i + 2;
        });
        return start;
    }

    std::string& out_;
};
}  // namespace

std::string Names::take(std::string_view wanted) {
    std::string base;
    for (char c : wanted) base += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
    if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "v" + base;
    const bool reserved = std::find(kReserved.begin(), kReserved.end(), base) != kReserved.end();
    if (!reserved && taken_.insert(base).second) return base;
    for (int i = 1;; ++i)
        if (std::string r = base + "_" + std::to_string(i); taken_.insert(r).second) return r;
}

void PythonWriter::line(std::string_view text) { Layout(text_).statement(text, static_cast<size_t>(4 * depth_)); }

void PythonWriter::comment(std::string_view text) {
    const size_t indent = static_cast<size_t>(4 * depth_);
    std::string line = "#";
    for (size_t begin = 0; begin < text.size();) {
        const size_t stop = std::min(text.find(' ', begin), text.size());
        const std::string_view word = text.substr(begin, stop - begin);
        if (indent + line.size() + 1 + word.size() > kColumns) {
            text_.append(indent, ' ').append(line) += '\n';
            line = "#";
        }
        line.append(" ").append(word);
        begin = stop + 1;
    }
    text_.append(indent, ' ').append(line) += '\n';
}

void PythonWriter::docstring(const std::vector<std::string>& lines) {
    const std::string pad(static_cast<size_t>(4 * depth_), ' ');
    for (size_t i = 0; i < lines.size(); ++i) {
        if (i == 0)
            text_ += pad + "\"\"\"";
        else if (!lines[i].empty())
            text_ += pad;
        text_ += lines[i];
        if (i + 1 < lines.size()) text_ += '\n';
    }
    if (lines.size() > 1) text_ += "\n" + pad;
    text_ += "\"\"\"\n";
}

void PythonWriter::blank(int lines) { text_.append(static_cast<size_t>(lines), '\n'); }
void PythonWriter::append(std::string_view block) { text_ += block; }

std::string quoted(std::string_view s) {
    std::string r = "\"";
    for (char c : s) {
        if (c == '"' || c == '\\') r += '\\';
        r += c == '\n' ? ' ' : c;
    }
    return r + "\"";
}

}  // namespace opwright::target::triton
