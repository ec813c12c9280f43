// Private to random_model*.cpp: an ONNX model that grows by random operators, with the shapes of its values.
#pragma once
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <variant>

#include "onnx_messages.pb.h"  // generated
#include "verify/random_model.h"

namespace opwright::verify::models {

// An extent at the sizes that the model is made at; with a symbol, the model leaves it open. Extents that are worked out from
// open ones get a symbol of their own.
struct Extent {
    int64_t n = 1;
    std::string symbol;
    bool open() const { return !symbol.empty(); }
    bool one() const { return n == 1 && !open(); }
    bool operator==(const Extent&) const = default;
};
using Extents = std::vector<Extent>;

struct Value {
    std::string name;
    DType type = DType::F32;
    Extents shape;
    bool constant = false;
    bool rounded = false;  // not the same to the bit in every right run
    bool chosen = false;   // see RandomModel::chosen
    int readers = 0;
};
using V = size_t;  // position in values
inline constexpr V kNoValue = std::numeric_limits<size_t>::max();  // an optional input that is left out

// What an operator does to rounded operands: passes elements on, rounds, or chooses by comparing them.
enum class Kind : uint8_t { Exact, Rounds, Chooses };

using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

inline constexpr int64_t kMostElements = 6000, kMostWork = 150000;

class Builder {
public:
    explicit Builder(uint64_t seed);
    RandomModel finish();

protected:
    uint64_t pick(uint64_t n) { return random_() % n; }
    bool chance(uint64_t one_in) { return pick(one_in) == 0; }
    template <class T>
    const T& any(const std::vector<T>& v) {
        return v[pick(v.size())];
    }
    int64_t any_of(std::initializer_list<int64_t> v) { return v.begin()[pick(v.size())]; }

    V input(DType t, Extents shape, int64_t limit = 0);  // integers lie below `limit`
    V constant(const Tensor& t);
    V ints(const std::vector<int64_t>& v);
    V number(double v, std::optional<DType> t = {});  // a scalar
    V weight(const Shape& s, double scale = 1, double offset = 0, std::optional<DType> t = {});  // constant random values
    V op(const std::string& type, const std::vector<V>& in, Extents shape, const Attributes& a = {},
         Kind kind = Kind::Rounds, std::optional<DType> t = {});
    std::vector<V> ops(const std::string& type, const std::vector<V>& in, const std::vector<Extents>& shapes,
                       const Attributes& a = {}, Kind kind = Kind::Rounds, const std::vector<DType>& types = {});

    const Extents& shape(V v) const { return values_[v].shape; }
    size_t rank(V v) const { return values_[v].shape.size(); }
    DType type(V v) const { return values_[v].type; }
    bool floats(V v) const { return is_float(values_[v].type); }
    static int64_t count(const Extents& s);
    static bool closed(const Extents& s);
    static Shape numbers(const Extents& s);
    Extent fresh(int64_t n) { return {n, "?" + std::to_string(++symbols_)}; }
    // An extent worked out from `from`: open where that is.
    Extent derived(const Extent& from, int64_t n) { return from.open() ? fresh(n) : Extent{n, ""}; }

    // Values that may be read: a recent one for the most part. `ok` narrows the choice.
    std::optional<V> some(const std::function<bool(V)>& ok);
    std::optional<V> some_float(size_t least_rank = 0);
    // Of the broadcast of two shapes; none where they do not go together.
    static std::optional<Extents> broadcast(const Extents& a, const Extents& b);

    Tensor random_tensor(DType t, const Shape& s, int64_t limit, double scale = 1, double offset = 0);

    std::mt19937_64 random_;
    DType stored_ = DType::F32;
    bool dynamic_ = false;
    std::vector<Value> values_;
    std::map<std::string, int64_t> sizes_, other_sizes_;  // of the symbols of inputs

private:
    opwright::onnx::ModelProto model_;
    struct Given {
        V value;
        int64_t limit;
    };
    std::vector<Given> inputs_;
    std::vector<NamedInputs> given_;
    int symbols_ = 0;
};

}  // namespace opwright::verify::models
