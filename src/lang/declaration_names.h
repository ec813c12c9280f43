// Names of a Program's parts in a declaration: legal, and each meaning one thing. Private to declaration*.cpp.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "math/program.h"

namespace opwright::lang {

class DeclarationNames {
public:
    explicit DeclarationNames(const math::Program& p);

    const std::string& op() const { return op_; }
    const std::string& tensor(math::TensorId t) const { return tensors_[t]; }
    // Symbols that no parameter's dims name.
    const std::vector<std::string>& attributes() const { return attributes_; }
    bool is_dim(const std::string& symbol) const { return dims_.count(symbol) > 0; }

    // Starts an equation: its variables get names. An index that runs over a dim, and reads only dims of that extent,
    // has the dim's name; others have ranges of their own, which equations share.
    void begin(const math::Equation& q);
    const std::string& index(math::VarId v) const { return equation_.at(v); }
    std::vector<std::string> over(const std::vector<math::Sym>& shape);
    const std::vector<std::pair<std::string, math::Sym>>& ranges() const { return ranges_; }

private:
    std::string take(const std::string& wanted);
    std::string index_name(const math::Sym& extent, const std::string& hint, bool plain, std::set<std::string>& used);

    const math::Program& p_;
    std::string op_;
    std::vector<std::string> tensors_, attributes_;
    std::set<std::string> taken_, dims_;
    std::vector<std::pair<std::string, math::Sym>> ranges_;
    std::map<math::VarId, std::string> equation_;
};

}  // namespace opwright::lang
