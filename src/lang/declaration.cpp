#include "lang/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lang/declaration_names.h"
#include "lang/declaration_text.h"

namespace opwright::lang {
using namespace math;
namespace {

std::string quoted(std::string_view s) {
    std::string r = "\"";
    for (const char c : s) {
        if (c == '"' || c == '\\') r += '\\';
        r += c == '\n' ? ' ' : c == '{' ? '(' : c == '}' ? ')' : c;  // braces would ask for a value
    }
    return r + "\"";
}
const char* update_sign(Update u) {
    switch (u) {
        case Update::Set: return "=";
        case Update::Add: return "+=";
        case Update::Mul: return "*=";
        case Update::Max: return "max=";
        case Update::Min: return "min=";
        case Update::Overwrite: return ":=";
    }
    return "=";
}

class Printer {
public:
    Printer(const Program& p, const std::vector<DeclarationExample>& examples)
        : p_(p), examples_(examples), names_(p) {}

    Result<std::string> run() {
        std::string body;
        for (const TensorId t : constants()) body += table(t);
        for (const Requirement& r : p_.requirements)
            if (!r.value.is_const())
                body += fmt::format("    require {}, {}\n", condition_text(r.value), quoted(r.message));
        std::vector<bool> defined(p_.tensors.size());
        for (const Equation& q : p_.equations) {
            OPW_TRY(std::string line, equation(q, defined[q.lhs]));
            defined[q.lhs] = true;
            equations_ += line;
        }
        for (const auto& [name, extent] : names_.ranges())
            body += fmt::format("    {} in 0..{}\n", name, sym_text(extent, {}));
        body += equations_;
        for (const DeclarationExample& e : examples_) body += example(e);
        return header() + body;
    }

private:
    std::string header() const {
        const auto list = [&](const std::vector<TensorId>& ts) {
            std::string r;
            for (TensorId t : ts) {
                r += fmt::format("{}{}: {}[", r.empty() ? "" : ", ", names_.tensor(t),
                                 opwright::name(p_.tensors[t].dtype));
                for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d)
                    r += (d ? ", " : "") + sym_text(p_.tensors[t].shape[d], {});
                r += "]";
            }
            return r;
        };
        std::string r = fmt::format("op {}({}", names_.op(), list(p_.inputs));
        for (const std::string& s : names_.attributes())
            r += fmt::format("{} {}: int", s == names_.attributes().front() ? ";" : ",", s);
        r += ") -> " + (p_.outputs.size() == 1 ? list(p_.outputs) : "(" + list(p_.outputs) + ")") + ":\n";
        if (!p_.doc.empty()) r += "    " + quoted(p_.doc) + "\n";
        return r;
    }

    std::vector<TensorId> constants() const {
        std::vector<TensorId> r;
        for (TensorId t = 0; t < p_.tensors.size(); ++t)
            if (p_.tensors[t].role == Role::Constant) r.push_back(t);
        return r;
    }
    std::string table(TensorId t) const {
        const Tensor& data = p_.tensors[t].data;
        std::string dims, values;
        for (const int64_t n : data.shape()) dims += (dims.empty() ? "" : ",") + std::to_string(n);
        const std::function<void(size_t, int64_t&)> nest = [&](size_t level, int64_t& at) {
            if (level == data.shape().size()) {
                values +=
                    is_float(data.dtype()) ? number_text(data.get(at), data.dtype()) : std::to_string(data.get_int(at));
                ++at;
                return;
            }
            values += "[";
            for (int64_t i = 0; i < data.shape()[level]; ++i) {
                if (i) values += ", ";
                nest(level + 1, at);
            }
            values += "]";
        };
        int64_t at = 0;
        nest(0, at);
        return fmt::format("    const {}: {}[{}] = {}\n", names_.tensor(t), opwright::name(data.dtype()), dims, values);
    }

    Result<std::string> equation(const Equation& q, bool defined) {
        names_.begin(q);
        ExpressionText text(p_, names_);
        const TensorInfo& t = p_.tensors[q.lhs];
        const bool typed = !defined && t.role == Role::Temp;
        std::string r;
        if (typed && q.update != Update::Set) r += zero(q.lhs);
        std::string at;
        for (ExprId a : q.at) at += (at.empty() ? "" : ",") + text(a);
        r += fmt::format("    {}{}[{}]{} {} {}\n", names_.tensor(q.lhs),
                         typed && q.update == Update::Set ? fmt::format(": {}", opwright::name(t.dtype)) : "", at,
                         q.update != Update::Set && q.outside == Outside::Value ? " outside drop" : "",
                         update_sign(q.update), text(q.rhs));
        if (text.too_long())
            return Diagnostic(
                       fmt::format("the equation of {} in {} shares so many parts that its text would be too long",
                                   t.name, p_.name))
                .with_next("Split the operator into several equations.");
        return r;
    }
    // Pieces may define an output, not a temporary: that is defined first.
    std::string zero(TensorId t) {
        std::string at;
        for (const std::string& n : names_.over(p_.tensors[t].shape)) at += (at.empty() ? "" : ",") + n;
        return fmt::format("    {}: {}[{}] = {}\n", names_.tensor(t), opwright::name(p_.tensors[t].dtype), at,
                           p_.tensors[t].dtype == DType::Bool ? "false" : "0");
    }

    std::string example(const DeclarationExample& e) const {
        std::string r = "    example";
        for (TensorId t : p_.inputs) {
            r += fmt::format("{} {} = {}[", t == p_.inputs.front() ? "" : ",", names_.tensor(t),
                             opwright::name(p_.tensors[t].dtype));
            for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) {
                const auto n = evaluate(p_.tensors[t].shape[d], e.sizes);
                if (!n) return "";
                r += (d ? "," : "") + std::to_string(*n);
            }
            r += "]";
            if (const auto v = e.values.find(p_.tensors[t].name); v != e.values.end())
                r += fmt::format(" in {}..{}", v->second.low, v->second.high);
        }
        for (const std::string& s : names_.attributes()) {
            const auto v = e.sizes.find(s);
            if (v == e.sizes.end()) return "";
            r += fmt::format("{} {} = {}", s == names_.attributes().front() ? ";" : ",", s, v->second);
        }
        return r + "\n";
    }

    const Program& p_;
    const std::vector<DeclarationExample>& examples_;
    DeclarationNames names_;
    std::string equations_;
};
}  // namespace

Result<std::string> declaration(const Program& p, const std::vector<DeclarationExample>& examples) {
    return Printer(p, examples).run();
}

}  // namespace opwright::lang
