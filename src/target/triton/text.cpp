#include "target/triton/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace opwright::target::triton {
using namespace math;
namespace {

std::string upper(std::string s) {
    for (char& c : s) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return s;
}

struct SymText {
    const std::map<std::string, std::string>& names;
    std::string all(const Sym& s, const char* join, int level) const {
        std::string r;
        for (const Sym& o : s.operands()) r += (r.empty() ? "" : join) + text(o, level);
        return r;
    }
    // level: 0 sum, 1 product, 2 atom
    std::string text(const Sym& s, int level) const {
        const auto wrap = [&](const std::string& t, int own) { return own < level ? "(" + t + ")" : t; };
        switch (s.kind()) {
            case SymKind::Const:
                return *s.constant() < 0 ? wrap(std::to_string(*s.constant()), 1) : std::to_string(*s.constant());
            case SymKind::Symbol: {
                const auto it = names.find(s.symbol_name());
                return it == names.end() ? s.symbol_name() : it->second;
            }
            case SymKind::Add: {
                std::string r;
                for (const Sym& o : s.operands()) {
                    std::string t = text(o, 1);
                    if (r.empty())
                        r = t;
                    else if (t.starts_with("-"))
                        r += " - " + t.substr(1);
                    else
                        r += " + " + t;
                }
                return wrap(r, 0);
            }
            case SymKind::Mul: {
                const auto& o = s.operands();
                std::string r;
                for (const Sym& f : o)
                    if (f.is(-1) && r.empty() && o.size() > 1)
                        r = "-";
                    else
                        r += (r.empty() || r == "-" ? "" : " * ") + text(f, f.is_const() ? 1 : 2);
                return wrap(r, 1);
            }
            case SymKind::FloorDiv: return wrap(all(s, " // ", 2), 1);
            case SymKind::Mod: return wrap(all(s, " % ", 2), 1);
            case SymKind::Min: return "min(" + all(s, ", ", 0) + ")";
            case SymKind::Max: return "max(" + all(s, ", ", 0) + ")";
            case SymKind::Less: return "int(" + all(s, " < ", 0) + ")";
            case SymKind::Equal: return "int(" + all(s, " == ", 0) + ")";
            case SymKind::Select:
                return fmt::format("({} if {} else {})", text(s.operands()[1], 0), text(s.operands()[0], 0),
                                   text(s.operands()[2], 0));
        }
        return "";
    }
};
}  // namespace

std::string python(const Sym& s, const std::map<std::string, std::string>& symbols) {
    return SymText{symbols}.text(s, 0);
}

File::File(const Program& p) {
    for (const char* n : {"INDEX", "GROUP_M", "error", "messages", "check_indices", "elements", "reference", "check",
                          "wide", "device", "grid", "options", "block_m", "block_n", "block_k", "PARTS", "words"})
        names.reserve(n);
    function_ = names.take(p.name);
    for (const TensorInfo& t : p.tensors) tensors_.push_back(names.take(t.name));
    own_ = tensors_.size();
    // Extents are called by the index that runs over them, in capitals.
    for (const Var& v : p.vars)
        if (!v.extent.is_const()) hints_.emplace_back(v.extent.str(), upper(v.name));
    for (const TensorInfo& t : p.tensors)
        for (size_t d = 0; d < t.shape.size(); ++d)
            if (!t.shape[d].is_const()) hints_.emplace_back(t.shape[d].str(), fmt::format("{}_{}", upper(t.name), d));
    for (const std::string& n : p.symbols()) symbols_[n] = size(Sym::symbol(n));
}

std::string File::size(const Sym& s) {
    if (const auto c = s.constant()) return std::to_string(*c);
    for (const Size& known : sizes_)
        if (known.value == s) return known.name;
    const auto hint = std::find_if(hints_.begin(), hints_.end(), [&](auto& h) { return h.first == s.str(); });
    std::string wanted = hint != hints_.end()          ? hint->second
                         : s.kind() == SymKind::Symbol ? upper(s.symbol_name())
                                                       : std::string("SIZE");
    if (hint == hints_.end() && s.kind() == SymKind::Mul &&
        std::all_of(s.operands().begin(), s.operands().end(),
                    [](const Sym& f) { return f.kind() == SymKind::Symbol; })) {
        wanted.clear();
        for (const Sym& f : s.operands()) wanted += (wanted.empty() ? "" : "_") + symbols_.at(f.symbol_name());
    }
    sizes_.push_back({names.take(wanted), s, ""});
    sizes_.back().text = python(s, symbols_);
    return sizes_.back().name;
}

void File::product(const std::vector<Sym>& extents) {
    const Sym all = math::product(extents);
    if (all.is_const() || extents.size() < 2) return;
    for (const Size& known : sizes_)
        if (known.value == all) return;
    std::string name, text;
    for (const Sym& s : extents) {
        const std::string n = size(s);
        if (n == "1") continue;
        name += (name.empty() ? "" : "_") + n;
        text += (text.empty() ? "" : " * ") + n;
    }
    sizes_.push_back({names.take(name), all, text});
}

void File::enter(const Program& kernel) {
    tensors_.resize(own_);
    for (size_t t = own_; t < kernel.tensors.size(); ++t) tensors_.push_back(names.take(kernel.tensors[t].name));
    // What is left of a row of which the beginning is held (schedule/hold_beginning.h).
    for (const Var& v : kernel.vars)
        for (const Var& held : kernel.vars)
            if (held.name == v.name + "_held" && !v.extent.is_const())
                hints_.emplace_back(v.extent.str(), upper(v.name) + "_REST");
}

void File::reserve_sizes(Names& n) const {
    for (const auto& [extent, name] : hints_) n.reserve(name);
    for (const Size& s : sizes_) n.reserve(s.name);
    n.reserve("SIZE");
}

int File::report(std::string message) {
    const auto it = std::find(reports_.begin(), reports_.end(), message);
    if (it != reports_.end()) return static_cast<int>(it - reports_.begin()) + 1;
    reports_.push_back(std::move(message));
    return static_cast<int>(reports_.size());
}

void File::reach(const Sym& s) {
    if (s.upper() < (int64_t{1} << 31)) return;
    if (std::find(reaches_.begin(), reaches_.end(), s) == reaches_.end()) reaches_.push_back(s);
}

// ---- functions.py, cut into its functions
namespace {
struct Function {
    std::string name, text;
    std::vector<std::string> uses;
};
bool calls(const std::string& text, const std::string& name) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
        const char before = text[at - 1], after = at + name.size() < text.size() ? text[at + name.size()] : ' ';
        const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
        if (!part(before) && !part(after)) return true;
    }
    return false;
}
// `starts`: what the text of a function begins with, up to its name.
std::vector<Function> read_functions(const char* file, std::initializer_list<std::string_view> starts) {
    std::vector<Function> r;
    const std::string_view all = resource(file);
    const auto find = [&](size_t from) {
        std::pair<size_t, size_t> first{std::string_view::npos, 0};
        for (const std::string_view s : starts)
            if (const size_t at = all.find(s, from); at < first.first) first = {at, s.size()};
        return first;
    };
    for (auto [at, start] = find(0); at != std::string_view::npos;) {
        const auto [next, next_start] = find(at + 1);
        std::string_view text = all.substr(at, next == std::string_view::npos ? next : next - at);
        while (text.ends_with("\n")) text.remove_suffix(1);
        const std::string_view head = text.substr(start);
        if (text.starts_with("\n")) text.remove_prefix(1);
        r.push_back({std::string(head.substr(0, head.find('('))), std::string(text), {}});
        at = next, start = next_start;
    }
    for (Function& f : r)
        for (const Function& g : r)
            if (&f != &g && calls(f.text, g.name)) f.uses.push_back(g.name);
    return r;
}
const std::vector<Function>& triton_functions() {
    static const std::vector<Function> all = read_functions("functions.py", {"@triton.jit\ndef "});
    return all;
}
const std::vector<Function>& launch_functions() {
    static const std::vector<Function> all = read_functions("launch_functions.py", {"\ndef "});
    return all;
}
const std::vector<Function>& numpy_functions() {
    static const std::vector<Function> all = read_functions("numpy_functions.py", {"\ndef ", "\nclass "});
    return all;
}

const std::string& note(std::set<std::string>& used, const std::vector<Function>& all, const std::string& name) {
    const auto [it, fresh] = used.insert(name);
    if (fresh)
        for (const Function& f : all)
            if (f.name == name)
                for (const std::string& u : f.uses) note(used, all, u);
    return *it;
}
std::string sources(const std::set<std::string>& used, const std::vector<Function>& all) {
    std::string r;
    for (const Function& f : all)
        if (used.count(f.name)) r += f.text + "\n\n\n";
    return r;
}
}  // namespace

const std::string& File::helper(const std::string& name) { return note(helpers_, triton_functions(), name); }
std::string File::helpers() const { return sources(helpers_, triton_functions()); }
const std::string& File::launch_helper(const std::string& name) {
    return note(launch_helpers_, launch_functions(), name);
}
std::string File::launch_helpers() const { return sources(launch_helpers_, launch_functions()); }
const std::string& File::numpy_helper(const std::string& name) { return note(numpy_helpers_, numpy_functions(), name); }
std::string File::numpy_helpers() const { return sources(numpy_helpers_, numpy_functions()); }

}  // namespace opwright::target::triton
