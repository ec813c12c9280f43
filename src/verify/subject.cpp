#include "verify/subject.h"

namespace opwright::verify {

std::string_view name(Layout l) {
    constexpr std::string_view names[] = {"contiguous", "misaligned", "transposed", "sliced", "expanded", "reversed"};
    return names[static_cast<int>(l)];
}
std::vector<Layout> all_layouts() {
    return {Layout::Contiguous, Layout::Misaligned, Layout::Transposed,
            Layout::Sliced,     Layout::Expanded,   Layout::Reversed};
}

namespace {
std::vector<int64_t> dense_strides(const Shape& s) {
    std::vector<int64_t> r(s.size(), 1);
    for (size_t d = s.size(); d-- > 1;) r[d - 1] = r[d] * s[d];
    return r;
}

class DenseSubject final : public Subject {
public:
    DenseSubject(Compiled::Dense run, std::vector<int64_t> widths) : run_(std::move(run)), widths_(std::move(widths)) {}
    Status run(const math::SymValues& sizes, std::span<const View> inputs, std::span<const View> outputs) override {
        std::vector<Tensor> in, out;
        for (const View& v : inputs) in.push_back(Tensor::wrap(v.dtype, v.shape, v.data));
        for (const View& v : outputs) out.push_back(Tensor::wrap(v.dtype, v.shape, v.data));
        return run_(sizes, in, out);
    }
    std::vector<int64_t> widths() const override { return widths_; }

private:
    Compiled::Dense run_;
    std::vector<int64_t> widths_;
};

View view_of(const Tensor& t) {
    View v{t.dtype(), t.shape(), dense_strides(t.shape()), nullptr, {}};
    v.data = static_cast<unsigned char*>(const_cast<void*>(t.data()));
    v.storage = {v.data, t.bytes()};
    return v;
}
}  // namespace

bool View::dense() const {
    const std::vector<int64_t> want = dense_strides(shape);
    for (size_t d = 0; d < shape.size(); ++d)
        if (shape[d] != 1 && strides[d] != want[d]) return size() == 0;
    return true;
}

std::shared_ptr<Subject> Compiled::of(Dense run, std::vector<int64_t> widths) {
    return std::make_shared<DenseSubject>(std::move(run), std::move(widths));
}

Status Compiled::operator()(const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                            std::vector<Tensor>& outputs) const {
    std::vector<View> in, out;
    for (const Tensor& t : inputs) in.push_back(view_of(t));
    for (Tensor& t : outputs) out.push_back(view_of(t));
    return subject_->run(sizes, in, out);
}

}  // namespace opwright::verify
