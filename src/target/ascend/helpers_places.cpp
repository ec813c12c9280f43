// Places in tensors, and tiles between global memory and the unified buffer.
#include "target/ascend/helper_tables.h"

namespace opwright::target::ascend {

const std::vector<Helper>& places_helpers() {
    static const std::vector<Helper> all = {
        // ---- places
        {"Lower", {}, R"(
template <typename T>
__aicore__ inline T Lower(T a, T b)
{
    return a < b ? a : b;
}
)"},
        {"Higher", {}, R"(
template <typename T>
__aicore__ inline T Higher(T a, T b)
{
    return a > b ? a : b;
}
)"},
        {"FloorDiv", {}, R"(
// a / b rounded toward minus infinity; 0 where b is 0.
__aicore__ inline int64_t FloorDiv(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    const int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
)"},
        {"FloorMod", {}, R"(
// The remainder with the sign of b; 0 where b is 0.
__aicore__ inline int64_t FloorMod(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
)"},
        {"Clamp", {}, R"(
// The nearest place in 0 .. n-1.
__aicore__ inline int64_t Clamp(int64_t i, int64_t n)
{
    return i < 0 || n == 0 ? 0 : i < n ? i : n - 1;
}
)"},
        {"Reflect", {"FloorMod"}, R"(
// Folds a place back at the first and last element: ... 2 1 [0 1 2 3] 2 1 ...
__aicore__ inline int64_t Reflect(int64_t i, int64_t n)
{
    const int64_t period = 2 * (n - 1);
    const int64_t m = FloorMod(i, period);
    return m < period - m ? m : period - m;
}
)"},
        {"Mirror", {"FloorMod"}, R"(
// Folds a place back at the edges: ... 1 0 [0 1 2 3] 3 2 ...
__aicore__ inline int64_t Mirror(int64_t i, int64_t n)
{
    const int64_t period = 2 * n;
    const int64_t m = FloorMod(i, period);
    return m < period - 1 - m ? m : period - 1 - m;
}
)"},
        {"RoundUp", {}, R"(
__aicore__ inline uint32_t RoundUp(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}
)"},
        {"LoadTile", {}, R"(
// `count` elements from global memory in one burst, which need not be whole 32 bytes.
template <typename T>
__aicore__ inline void LoadTile(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const DataCopyPadExtParams<T> padParams{false, 0, 0, T()};
    DataCopyPad(dst, src, copyParams, padParams);
}
)"},
        {"LoadPaddedTile", {"RoundUp"}, R"(
// `count` elements from global memory in one burst, and zeros up to whole 32 bytes.
template <typename T>
__aicore__ inline void LoadPaddedTile(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const uint8_t zeros = static_cast<uint8_t>(RoundUp(count, 32 / sizeof(T)) - count);
    const DataCopyPadExtParams<T> padParams{true, 0, zeros, T()};
    DataCopyPad(dst, src, copyParams, padParams);
}
)"},
        {"LanesInside", {"Lower"}, R"(
struct Lanes {
    uint32_t begin, end;
};

// Which of `count` lanes, the first of which is element `start`, lie in a row of `size` elements.
__aicore__ inline Lanes LanesInside(int64_t start, int64_t size, uint32_t count)
{
    const int64_t begin = start < 0 ? Lower<int64_t>(-start, count) : 0;
    const int64_t end = Lower<int64_t>(size - start, count);
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end > begin ? end : begin)};
}
)"},
        {"LoadWindow", {"LanesInside", "RoundUp"}, R"(
// `count` elements of a row of `size`, from `start` on, which may lie before it. Elements beyond its ends are `outside`:
// DataCopyPad pads up to whole 32 bytes, and whole blocks are filled.
template <typename T>
__aicore__ inline void LoadWindow(const LocalTensor<T> &dst, const GlobalTensor<T> &row, int64_t start, int64_t size,
                                  uint32_t count, T outside)
{
    constexpr uint32_t block = 32 / sizeof(T);
    const Lanes inside = LanesInside(start, size, count);
    const uint32_t first = inside.begin / block * block;
    const uint32_t last = inside.begin < inside.end ? RoundUp(inside.end, block) : first;
    if (first < last) {
        const DataCopyExtParams copyParams{1, static_cast<uint32_t>((inside.end - inside.begin) * sizeof(T)), 0, 0, 0};
        const DataCopyPadExtParams<T> padParams{true, static_cast<uint8_t>(inside.begin - first),
                                                static_cast<uint8_t>(last - inside.end), outside};
        DataCopyPad(dst[first], row[start + inside.begin], copyParams, padParams);
    }
    if (first > 0) {
        Duplicate(dst, outside, static_cast<int32_t>(first));
    }
    if (last < count) {
        Duplicate(dst[last], outside, static_cast<int32_t>(RoundUp(count, block) - last));
    }
}
)"},
        {"ClampEdges", {"LanesInside", "Clamp"}, R"(
// Fetches the lanes that lie beyond the ends of a row: the nearest element.
template <typename T>
__aicore__ inline void ClampEdges(const LocalTensor<T> &dst, const GlobalTensor<T> &row, int64_t start, int64_t size,
                               uint32_t count)
{
    const Lanes inside = LanesInside(start, size, count);
    for (uint32_t lane = 0; lane < inside.begin; ++lane) {
        dst.SetValue(lane, row.GetValue(Clamp(start + lane, size)));
    }
    for (uint32_t lane = inside.end; lane < count; ++lane) {
        dst.SetValue(lane, row.GetValue(Clamp(start + lane, size)));
    }
}
)"},
        {"WrapEdges", {"LanesInside", "FloorMod"}, R"(
// Fetches the lanes that lie beyond the ends of a row: the row again.
template <typename T>
__aicore__ inline void WrapEdges(const LocalTensor<T> &dst, const GlobalTensor<T> &row, int64_t start, int64_t size,
                               uint32_t count)
{
    const Lanes inside = LanesInside(start, size, count);
    for (uint32_t lane = 0; lane < inside.begin; ++lane) {
        dst.SetValue(lane, row.GetValue(FloorMod(start + lane, size)));
    }
    for (uint32_t lane = inside.end; lane < count; ++lane) {
        dst.SetValue(lane, row.GetValue(FloorMod(start + lane, size)));
    }
}
)"},
        {"ReflectEdges", {"LanesInside", "Reflect"}, R"(
// Fetches the lanes that lie beyond the ends of a row: what lies as far on this side of the end.
template <typename T>
__aicore__ inline void ReflectEdges(const LocalTensor<T> &dst, const GlobalTensor<T> &row, int64_t start, int64_t size,
                               uint32_t count)
{
    const Lanes inside = LanesInside(start, size, count);
    for (uint32_t lane = 0; lane < inside.begin; ++lane) {
        dst.SetValue(lane, row.GetValue(Reflect(start + lane, size)));
    }
    for (uint32_t lane = inside.end; lane < count; ++lane) {
        dst.SetValue(lane, row.GetValue(Reflect(start + lane, size)));
    }
}
)"},
        {"MirrorEdges", {"LanesInside", "Mirror"}, R"(
// Fetches the lanes that lie beyond the ends of a row: what lies as far on this side of the edge.
template <typename T>
__aicore__ inline void MirrorEdges(const LocalTensor<T> &dst, const GlobalTensor<T> &row, int64_t start, int64_t size,
                               uint32_t count)
{
    const Lanes inside = LanesInside(start, size, count);
    for (uint32_t lane = 0; lane < inside.begin; ++lane) {
        dst.SetValue(lane, row.GetValue(Mirror(start + lane, size)));
    }
    for (uint32_t lane = inside.end; lane < count; ++lane) {
        dst.SetValue(lane, row.GetValue(Mirror(start + lane, size)));
    }
}
)"},
        {"StoreTile", {}, R"(
// `count` elements to global memory in one burst; no byte beyond them is written.
template <typename T>
__aicore__ inline void StoreTile(const GlobalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    DataCopyPad(dst, src, copyParams);
}
)"},
        {"Await", {}, R"(
// Lets the second pipe of the event wait for the first.
template <HardEvent event>
__aicore__ inline void Await()
{
    const TEventID id = GetTPipePtr()->FetchEventID(event);
    SetFlag<event>(id);
    WaitFlag<event>(id);
}
)"},
        {"FillTail", {"RoundUp"}, R"(
// Zeroes what DataCopyPad leaves undefined behind `count` elements: comparisons work on whole 256 bytes.
template <typename T>
__aicore__ inline void FillTail(const LocalTensor<T> &t, uint32_t count, uint32_t lanes)
{
    const uint32_t begin = RoundUp(count, 32 / sizeof(T));
    if (begin < lanes) {
        Duplicate(t[begin].template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                  static_cast<int32_t>((lanes - begin) * sizeof(T) / sizeof(int16_t)));
    }
}
)"},
    };
    return all;
}

}  // namespace opwright::target::ascend
