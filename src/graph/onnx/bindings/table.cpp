#include <algorithm>
#include <map>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx {
namespace {

using Key = std::pair<std::string_view, std::string_view>;  // domain, type
using Table = std::map<Key, Binding>;

const Table& table() {
    static const Table t = [] {
        using namespace bindings;
        Table out;
        for (const auto& family : {elementwise(), reductions(), normalisations(), losses(), contractions(), convolutions(),
                                   pools(), resamplers(), indexers(), layouts(), quantisers(), attentions(), spectra(),
                                   recurrences(), optimisers(), classical(), refusals()})
            for (const Entry& e : family) out.emplace(Key{e.domain, e.type}, e.bind);
        return out;
    }();
    return t;
}

}  // namespace

Binding find_binding(const std::string& domain, const std::string& op_type) {
    const auto found = table().find({domain == "ai.onnx" ? "" : domain, op_type});
    return found == table().end() ? nullptr : found->second;
}

std::vector<std::string> bound_operators() {
    std::vector<std::string> out;
    const auto refused = bindings::refusals();
    for (const auto& [key, bind] : table()) {
        const bool refuses = std::any_of(refused.begin(), refused.end(), [&](const bindings::Entry& e) {
            return e.domain == key.first && e.type == key.second;
        });
        if (!refuses) out.push_back((key.first.empty() ? "" : std::string(key.first) + ".") + std::string(key.second));
    }
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace opwright::graph::onnx
