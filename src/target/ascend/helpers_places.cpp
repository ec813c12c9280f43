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
        {"LoadRows", {"RoundUp"}, R"(
// `width` elements of each of `rows` rows, whose beginnings lie `stride` elements apart. In the unified buffer each row
// takes whole blocks of 32 bytes, which are filled up with zeros.
template <typename T>
__aicore__ inline void LoadRows(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t rows, uint32_t width,
                                int64_t stride)
{
    const uint32_t pitch = RoundUp(width, 32 / sizeof(T));
    const uint32_t rowBytes = static_cast<uint32_t>(width * sizeof(T));
    const DataCopyPadExtParams<T> padParams{true, 0, static_cast<uint8_t>(pitch - width), T()};
    const int64_t gap = (stride - width) * static_cast<int64_t>(sizeof(T));
    if (gap <= UINT32_MAX) {
        const DataCopyExtParams copyParams{static_cast<uint16_t>(rows), rowBytes, static_cast<uint32_t>(gap), 0, 0};
        DataCopyPad(dst, src, copyParams, padParams);
        return;
    }
    for (uint32_t row = 0; row < rows; ++row) {
        DataCopyPad(dst[row * pitch], src[row * stride], DataCopyExtParams{1, rowBytes, 0, 0, 0}, padParams);
    }
}
)"},
        {"TurnedBits", {}, R"(
// Elements that are moved as they are.
template <size_t bytes>
struct TurnedBits {
    using type = uint32_t;
};
template <>
struct TurnedBits<2> {
    using type = uint16_t;
};
)"},
        {"TurnRows", {"RoundUp", "TurnedBits"}, R"(
// Element c of row r of src (as LoadRows leaves them) becomes element r of row c of dst, whose rows lie dstPitch apart.
// Rows behind the last, up to `lanes`, a multiple of 16, count as zeros.
template <typename T>
__aicore__ inline void TurnRows(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t rows, uint32_t lanes,
                                uint32_t width, uint32_t dstPitch)
{
    using Bits = TurnedBits<sizeof(T)>;
    constexpr uint32_t block = 32 / sizeof(T);
    const uint32_t pitch = RoundUp(width, block);
    if (rows < lanes) {
        Duplicate(src[rows * pitch].template ReinterpretCast<typename Bits::type>(), typename Bits::type(0),
                  static_cast<int32_t>((lanes - rows) * pitch));
    }
    // A repeat turns 16 rows of a block each; a single one takes no stride.
    TransDataTo5HDParams params;
    params.repeatTimes = static_cast<uint8_t>(lanes / 16);
    params.srcRepStride = lanes > 16 ? static_cast<uint16_t>(16 * pitch / block) : 0;
    params.dstRepStride = lanes > 16 ? static_cast<uint16_t>(16 / block) : 0;
    for (uint32_t column = 0; column < width; column += block) {
        uint64_t from[16];
        uint64_t to[16];
        for (uint32_t i = 0; i < 16; ++i) {
            // 16 elements of 32 bits are two blocks.
            const uint32_t at = block == 16 ? (column + i) * dstPitch : (column + i / 2) * dstPitch + i % 2 * block;
            from[i] = reinterpret_cast<uint64_t>(src[i * pitch + column].GetPhyAddr());
            to[i] = reinterpret_cast<uint64_t>(dst[at].GetPhyAddr());
        }
        TransDataTo5HD<typename Bits::type>(to, from, params);
    }
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
