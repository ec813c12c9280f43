"""Functions that triton.language lacks, or has at less than the stated accuracy.

The emitter copies those that a kernel uses, with what they use, into its file. Errors are in ulps against the exact
value, in float32 unless said otherwise; each is as exact for infinities, NaN and zeros of either sign as IEEE 754
asks. Float64 goes through the same formulas, on the exact functions of the device library.
"""

import triton
import triton.language as tl


@triton.jit
def _await_earlier(EARLY: tl.constexpr):
    # Begins a kernel that may be launched before the one ahead of it in the stream has ended: what that one wrote can be
    # read, and what it read be overwritten, from here on. The next one may do the same. (Not tl.extra.cuda.gdc_wait,
    # which Triton 3.4 has and cannot compile.)
    if EARLY:
        tl.inline_asm_elementwise(
            "griddepcontrol.wait; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )
        tl.inline_asm_elementwise(
            "griddepcontrol.launch_dependents; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )


@triton.jit
def _again(x, OPAQUE: tl.constexpr):
    # 16-bit elements, as something that the compiler takes for new: it converts them once more instead of keeping all of
    # a row as 32-bit numbers, for which there are no registers. The assembly is empty.
    if OPAQUE:
        return tl.inline_asm_elementwise("// $0", "=r,0", [x], dtype=x.dtype, is_pure=False, pack=2)
    else:
        return x


@triton.jit
def _maximum(a, b):
    # NaN wins, as it does in torch.maximum.
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _minimum(a, b):
    # NaN wins, as it does in torch.minimum.
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _multiply(a, b):
    return a * b


@triton.jit
def _every_part(value, words_ptr, part, PARTS: tl.constexpr, rest: tl.constexpr):
    # What the parts of a row fold to, of which each of PARTS programs has one: `value` is that of `part`. They run at the
    # same time, and each awaits the others. A word tells by its upper half that the value in its lower half is there; words
    # are 0 at the launch, and nobody writes one twice. A lane of a warp reads one, so that all threads of the warp await
    # the same; `rest` fills the lanes up.
    word = value.to(tl.uint32, bitcast=True).to(tl.int64) | (1 << 32)
    tl.atomic_xchg(words_ptr + part, word, sem="relaxed")
    parts = tl.arange(0, 32)
    of_parts = words_ptr + tl.minimum(parts, PARTS - 1)
    words = tl.load(of_parts, volatile=True)
    while tl.min(words, 0) == 0:
        words = tl.load(of_parts, volatile=True)
    return tl.where(parts < PARTS, words.to(tl.uint32).to(tl.float32, bitcast=True), rest)


@triton.jit
def _copysign(x, y):
    # |x| with the sign bit of y, which a comparison with 0 would not see in -0.
    if x.dtype == tl.float64:
        bits = tl.abs(x).to(tl.int64, bitcast=True) | (y.to(tl.int64, bitcast=True) & (-1 << 63))
        return bits.to(tl.float64, bitcast=True)
    else:
        bits = tl.abs(x).to(tl.int32, bitcast=True) | (y.to(tl.int32, bitcast=True) & (-1 << 31))
        return bits.to(tl.float32, bitcast=True)


@triton.jit
def _div(a, b):
    # Correctly rounded: `/` on float32 is an approximation of 2 ulps.
    if b.dtype == tl.float64:
        return a / b
    else:
        return tl.div_rn(a, b)


@triton.jit
def _sqrt(x):
    # Correctly rounded: tl.sqrt on float32 is an approximation.
    if x.dtype == tl.float64:
        return tl.sqrt(x)
    else:
        return tl.sqrt_rn(x)


@triton.jit
def _exp(x):
    # tl.exp rounds x / ln 2, which costs |x| / 2 ulps. Here what the rounded t leaves of x, found by fused
    # multiply-adds with ln 2 in two parts, is put back: exp(x) = 2**t * exp(rest), and exp(rest) = 1 + rest. 2 ulps.
    if x.dtype == tl.float64:
        return tl.exp(x)
    else:
        # Beyond these ends the result is 0 or infinity; NaN stays.
        x = tl.maximum(x, -104.0, propagate_nan=tl.PropagateNan.ALL)
        x = tl.minimum(x, 88.72284, propagate_nan=tl.PropagateNan.ALL)
        t = x * 1.44269504
        rest = tl.fma(t, 1.90465432e-9, tl.fma(t, -0.693147182, x))
        power = tl.exp2(t)
        return tl.fma(power, rest, power)


@triton.jit
def _short_exp(x):
    # About 18 bits of exp, for results of 16: a quarter of its instructions.
    return tl.exp2(x * 1.44269504)


@triton.jit
def _short_share(e, total):
    # e / total for results of 16 bits: one division a row.
    return e * tl.div_rn(1.0, total)


@triton.jit
def _share(e, total):
    # e / total, correctly rounded, for 0 <= e <= 1 <= total: one division a row, and for each element what its product
    # leaves, put back (Markstein). The general division costs a dozen instructions an element.
    inverse = tl.div_rn(1.0, total)
    q = e * inverse
    return tl.fma(tl.fma(0.0 - q, total, e), inverse, q)


@triton.jit
def _not_below_lowest(m):
    # -inf as the lowest finite number, from which -inf differs by -inf: -inf - -inf would be NaN. NaN stays.
    if m.dtype == tl.float64:
        return tl.maximum(m, -1.7976931348623157e308, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.maximum(m, -3.4028234663852886e38, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _power(x, SCALE: tl.constexpr, BASE_2: tl.constexpr, SHORT: tl.constexpr):
    if SCALE != 1.0:
        x = x * SCALE
    if BASE_2:
        return tl.exp2(x)
    elif SHORT:
        return _short_exp(x)
    else:
        return _exp(x)


@triton.jit
def _add_exponentials(
    largest,
    total,
    x,
    V: tl.constexpr,
    SCALE: tl.constexpr = 1.0,
    BASE_2: tl.constexpr = False,
    SHORT: tl.constexpr = False,
):
    # One walk for the largest x and the sum of exp(x - largest): where a larger x comes, the sum is rescaled to it. V
    # neighbours, which lie in one thread, share a sum, so that there is little to rescale.
    if V == 1:
        top = _maximum(largest, x)
        shift = _not_below_lowest(top)
        more = _power(x - shift, SCALE, BASE_2, SHORT)
    else:
        LAST: tl.constexpr = len(largest.shape)
        if LAST == 1:
            x = tl.reshape(x, [largest.shape[0], V])
        else:
            x = tl.reshape(x, [largest.shape[0], largest.shape[1], V])
        top = _maximum(largest, tl.reduce(x, LAST, _maximum))
        shift = _not_below_lowest(top)
        more = tl.sum(_power(x - tl.expand_dims(shift, LAST), SCALE, BASE_2, SHORT), LAST)
    return top, total * _power(largest - shift, SCALE, BASE_2, SHORT) + more


@triton.jit
def _rescaled(
    largest,
    total,
    top,
    SCALE: tl.constexpr = 1.0,
    BASE_2: tl.constexpr = False,
    SHORT: tl.constexpr = False,
):
    # Sums of exp(x - largest) as those of exp(x - top).
    return total * _power(largest - _not_below_lowest(top), SCALE, BASE_2, SHORT)


@triton.jit
def _in_lane(left, LANES: tl.constexpr, V: tl.constexpr):
    # How many of the next LANES * V elements of a row fall to each lane, where `left` are left.
    return tl.minimum(tl.maximum(left - V * tl.arange(0, LANES), 0), V)


@triton.jit
def _add_deviations(total, squares, x, start, extent, V: tl.constexpr):
    # One walk for the sum of x and the squared deviations from the mean. V neighbours, which lie in one thread, have a
    # sum and squared deviations of their own; the square of what the means differ by joins them to those of the lane
    # so far (Chan, Golub and LeVeque). x is 0 beyond the extent. Equal whole numbers deviate by exactly 0.
    RANK: tl.constexpr = len(total.shape)
    LANES: tl.constexpr = total.shape[RANK - 1]
    before = tl.cast(start // (LANES * V) * V, total.dtype)
    n = _in_lane(extent - start, LANES, V)
    if RANK == 2:
        n = n[None, :]
    if V > 1:
        inside = tl.arange(0, V) < tl.expand_dims(n, RANK)
        if RANK == 1:
            x = tl.reshape(x, [LANES, V])
        else:
            x = tl.reshape(x, [total.shape[0], LANES, V])
        more = tl.sum(x, RANK)
        d = x - tl.expand_dims(_div(more, tl.maximum(n, 1).to(total.dtype)), RANK)
        d = tl.where(inside, d, 0.0)
        squares += tl.sum(d * d, RANK)
    else:
        more = x
        squares += x - x  # NaN where it is infinite
    # Scaled, so that products of large sums do not overflow.
    n = n.to(total.dtype) * (1.0 / 4096)
    before = before * (1.0 / 4096)
    away = more * before - total * n
    away *= away / tl.maximum(n * before * (n + before) * 4096.0, 1e-30)
    # An infinite sum stays: what overflows with it would make it NaN.
    return total + more, tl.where(squares == float("inf"), squares, squares + away)


@triton.jit
def _deviations_from(total, squares, extent, centre, V: tl.constexpr):
    # The squared deviations of each lane's elements from `centre`: by n times the square of what their mean is away
    # from it more than from their mean. Where a sum overflowed, so did the row's: then the centre is infinite.
    RANK: tl.constexpr = len(total.shape)
    LANES: tl.constexpr = total.shape[RANK - 1]
    n = extent // (LANES * V) * V + _in_lane(extent % (LANES * V), LANES, V)
    if RANK == 2:
        n = n[None, :]
    away = _div(total, tl.maximum(n, 1).to(total.dtype)) - centre
    away = tl.where(tl.abs(total) == float("inf"), centre, away)
    return tl.where((n > 0) & (squares != float("inf")), squares + n * (away * away), squares)


@triton.jit
def _expm1(x):
    # Kahan: for u = exp(x), (u - 1) * x / log(u) loses nothing to the rounding of u. 4 ulps.
    u = _exp(x)
    near = (u - 1.0) * _div(x, tl.log(u))
    return tl.where(u == 1.0, x, tl.where(tl.abs(x) < 1.0, near, u - 1.0))


@triton.jit
def _log1p(x):
    # Kahan: for u = 1 + x, log(u) * x / (u - 1) loses nothing to the rounding of u. 3 ulps.
    u = 1.0 + x
    near = tl.log(u) * _div(x, u - 1.0)
    return tl.where(u == 1.0, x, tl.where(u < float("inf"), near, u))


@triton.jit
def _tan(x):
    return _div(tl.sin(x), tl.cos(x))


@triton.jit
def _sinh(x):
    # exp(|x| - 1) * (e / 2) far out, where exp(|x|) would overflow before the result does. 4 ulps.
    a = tl.abs(x)
    t = _expm1(a)
    near = 0.5 * (t + _div(t, t + 1.0))
    return _copysign(tl.where(a < 20.0, near, _exp(a - 1.0) * 1.3591409142295225), x)


@triton.jit
def _cosh(x):
    a = tl.abs(x)
    t = _exp(a)
    return tl.where(a < 20.0, 0.5 * (t + _div(1.0, t)), _exp(a - 1.0) * 1.3591409142295225)


@triton.jit
def _tanh(x):
    # t / (t + 2) for t = exp(2 |x|) - 1, which is 1 to the last bit from 20 on. 4 ulps.
    a = tl.abs(x)
    t = _expm1(2.0 * a)
    return _copysign(tl.where(a > 20.0, 1.0, _div(t, t + 2.0)), x)


@triton.jit
def _atan(x):
    # The argument is brought below tan(pi/8) = 0.414; then a polynomial (float32) or a quotient of two (float64), as in
    # Cephes by S. Moshier. 3 ulps.
    a = tl.abs(x)
    far = a > 2.414213562373095
    middle = (a > 0.4142135623730951) & (a <= 2.414213562373095)
    top = tl.where(far, -1.0, tl.where(middle, a - 1.0, a))
    r = _div(top, tl.where(far, a, tl.where(middle, a + 1.0, 1.0)))
    z = r * r
    zero = tl.zeros_like(x)
    base = tl.where(far, 1.5707963267948966, tl.where(middle, 0.7853981633974483, zero))
    if x.dtype == tl.float64:
        # pi/2 and pi/4 are no float64: the rest of them is added with the small part.
        rest = tl.where(far, 6.123233995736766e-17, tl.where(middle, 3.061616997868383e-17, zero))
        p = -8.750608600031904122785e-1 * z - 1.615753718733365076637e1
        p = (p * z - 7.500855792314704667340e1) * z - 1.228866684490136173410e2
        p = p * z - 6.485021904942025371773e1
        q = (z + 2.485846490142306297962e1) * z + 1.650270098316988542046e2
        q = ((q * z + 4.328810604912902668951e2) * z + 4.853903996359136964868e2) * z
        q = q + 1.945506571482613964425e2
        return _copysign(base + (r + (r * (z * (p / q)) + rest)), x)
    else:
        p = (8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1
        p = (p * z - 3.33329491539e-1) * z * r + r
        return _copysign(base + p, x)


@triton.jit
def _asin(x):
    return _atan(_div(x, _sqrt((1.0 - x) * (1.0 + x))))


@triton.jit
def _acos(x):
    return 2.0 * _atan(_sqrt(_div(1.0 - x, 1.0 + x)))


@triton.jit
def _atan2(y, x):
    ax = tl.abs(x)
    ay = tl.abs(y)
    low = tl.minimum(ax, ay)
    high = tl.maximum(ax, ay)
    a = _atan(tl.where(low == high, tl.where(high == 0.0, 0.0, 1.0), _div(low, high)))
    a = tl.where(ay > ax, 1.5707963267948966 - a, a)
    # x's sign bit chooses the half plane, so that atan2(+-0, -0) is +-pi.
    a = tl.where(_copysign(1.0 + 0.0 * a, x) < 0.0, 3.141592653589793 - a, a)
    return _copysign(tl.where((x != x) | (y != y), x + y, a), y)


@triton.jit
def _asinh(x):
    # log1p(a + a^2 / (1 + sqrt(a^2 + 1))); beyond 1e9, where a^2 might overflow, log(a) + log(2). 4 ulps.
    a = tl.abs(x)
    b = tl.where(a > 1e9, 1.0, a)
    square = b * b
    near = _log1p(b + _div(square, 1.0 + _sqrt(square + 1.0)))
    return _copysign(tl.where(a > 1e9, tl.log(a) + 0.6931471805599453, near), x)


@triton.jit
def _acosh(x):
    # log1p(t + sqrt(2 t + t^2)) for t = x - 1. 4 ulps.
    t = tl.where(x > 1e9, 1.0, x - 1.0)
    near = _log1p(t + _sqrt(2.0 * t + t * t))
    return tl.where(x < 1.0, float("nan"), tl.where(x > 1e9, tl.log(x) + 0.6931471805599453, near))


@triton.jit
def _atanh(x):
    # log1p(2 a / (1 - a)) / 2. 4 ulps.
    a = tl.abs(x)
    return _copysign(0.5 * _log1p(_div(2.0 * a, 1.0 - a)), x)


@triton.jit
def _pow(x, y):
    # 2**(y * log2|x|) in float64, where the rounding of the exponent does not show; the sign by y's parity. 1 ulp.
    a = tl.abs(x).to(tl.float64)
    e = y.to(tl.float64)
    r = tl.exp2(e * tl.log2(a)).to(tl.float32)
    one = (y == 0.0) | (x == 1.0) | ((a == 1.0) & (tl.abs(y) == float("inf")))
    r = tl.where(one, 1.0, r)
    whole = tl.floor(y) == y
    odd = whole & (tl.floor(y * 0.5) != y * 0.5)
    r = tl.where(odd, _copysign(r, x), r)
    return tl.where((x < 0.0) & (a < float("inf")) & (whole == 0), float("nan"), r)


@triton.jit
def _pow64(x, y):
    # exp(y * log|x|) with the logarithm in two parts, since the exponential magnifies its error by up to 700: log(m) =
    # 2 atanh(t) for t = (m - 1) / (m + 1), 0.88 < m < 1.15. 2 ulps.
    a = tl.abs(x)
    tiny = a < 2.2250738585072014e-308
    bits = tl.where(tiny, a * 18014398509481984.0, a).to(tl.int64, bitcast=True)
    k = ((bits >> 52) & 2047) - tl.where(tiny, 1077, 1023)
    m = ((bits & 4503599627370495) | 4607182418800017408).to(tl.float64, bitcast=True)
    upper = m > 1.4142135623730951
    m = tl.where(upper, m * 0.5, m)
    k = (k + upper.to(tl.int64)).to(tl.float64)
    # A factor of 13/16 or 5/4 brings m near 1, so that the series' rounding does not show.
    factor = tl.where(m > 1.1, 0.8125, tl.where(m < 0.9, 1.25, tl.full([], 1.0, tl.float64)))
    f_high = tl.where(
        m > 1.1,
        0.20763936477828793,
        tl.where(m < 0.9, -0.22314355131425145, tl.full([], 0.0, tl.float64)),
    )
    f_low = tl.where(
        m > 1.1,
        -4.3425422595242564e-14,
        tl.where(m < 0.9, 4.169796584527195e-14, tl.full([], 0.0, tl.float64)),
    )
    m_high = m * factor
    m_low = tl.fma(m, factor, 0.0 - m_high)
    d = m_high + 1.0
    d_low = (m_high - (d - (d - m_high))) + (1.0 - (d - m_high)) + m_low
    t = (m_high - 1.0) / d
    t_low = ((tl.fma(0.0 - t, d, m_high - 1.0) - t * d_low) + m_low) / d
    z = t * t
    series = 1.0 / 25.0 * z + 1.0 / 23.0
    series = (series * z + 1.0 / 21.0) * z + 1.0 / 19.0
    series = (series * z + 1.0 / 17.0) * z + 1.0 / 15.0
    series = (series * z + 1.0 / 13.0) * z + 1.0 / 11.0
    series = (series * z + 1.0 / 9.0) * z + 1.0 / 7.0
    series = (series * z + 1.0 / 5.0) * z + 1.0 / 3.0
    high = k * 0.6931471805598903 + f_high
    total = high + 2.0 * t
    low = (high - total) + 2.0 * t
    low = low + (2.0 * (t * z * series + t_low) + (k * 5.497923018708371e-14 + f_low))
    log_high = total + low
    log_low = (total - log_high) + low
    p = y * log_high
    lost = tl.fma(y, log_high, 0.0 - p) + y * log_low
    power = tl.exp(p)
    r = tl.where((power > 0.0) & (power < float("inf")), power + power * lost, power)
    r = tl.where(
        (a == 0.0) | (a == float("inf")),
        tl.where((a == 0.0) == (y > 0.0), tl.zeros_like(r), float("inf")),
        r,
    )
    r = tl.where(x != x, x, r)
    one = (y == 0.0) | (x == 1.0) | ((a == 1.0) & (tl.abs(y) == float("inf")))
    r = tl.where(one, 1.0, r)
    whole = tl.floor(y) == y
    odd = whole & (tl.floor(y * 0.5) != y * 0.5)
    r = tl.where(odd, _copysign(r, x), r)
    return tl.where((x < 0.0) & (a < float("inf")) & (whole == 0), float("nan"), r)


@triton.jit
def _round(x):
    # To the nearest, halves to even: adding and taking away 2**23 (2**52) drops the fraction.
    a = tl.abs(x)
    if x.dtype == tl.float64:
        r = tl.where(a < 4503599627370496.0, (a + 4503599627370496.0) - 4503599627370496.0, a)
    else:
        r = tl.where(a < 8388608.0, (a + 8388608.0) - 8388608.0, a)
    return _copysign(r, x)


@triton.jit
def _trunc(x):
    return _copysign(tl.floor(tl.abs(x)), x)


@triton.jit
def _sign(x):
    return tl.where(x > 0.0, 1.0, tl.where(x < 0.0, -1.0, x))


@triton.jit
def _fmod(x, y):
    # Exact. In float64 a quotient cut to 29 bits times y has no rounding; ten such steps reach any quotient of two
    # float32.
    r = tl.abs(x).to(tl.float64)
    b = tl.abs(y).to(tl.float64)
    for _ in range(10):
        q = r / b
        q = (q.to(tl.int64, bitcast=True) & (-1 << 24)).to(tl.float64, bitcast=True)
        r = r - tl.where(q < 536870912.0, tl.floor(q), q) * b
    r = tl.where(r >= b, r - b, r)
    invalid = (tl.abs(x) == float("inf")) | (y == 0.0) | (x != x) | (y != y)
    r = tl.where(tl.abs(y) == float("inf"), tl.abs(x), r.to(tl.float32))
    return _copysign(tl.where(invalid, float("nan"), r), x)


@triton.jit
def _fmod64(x, y):
    # Exact. A quotient cut to 24 bits, or to a whole number, times either half of the divisor's bits has no rounding, nor
    # have the differences; where the quotient was rounded up the remainder is negative, and is counted from the other
    # side. 32 steps reach quotients of 2**700; for those up to 2**2098 multiples of y go before.
    r = tl.abs(x)
    b = tl.abs(y)
    below = r < 0.0
    for part in tl.static_range(3):
        step = b
        for _ in tl.static_range(2 - part):
            step = step * 5.260135901548374e210
        high = (step.to(tl.int64, bitcast=True) & -134217728).to(tl.float64, bitcast=True)
        for _ in range(32):
            q = r / step
            cut = (q.to(tl.int64, bitcast=True) & -536870912).to(tl.float64, bitcast=True)
            q = tl.where(q < 16777216.0, tl.floor(q), cut)
            rest = tl.where(r >= step, (r - q * high) - q * (step - high), r)
            below = below ^ (rest < 0.0)
            r = tl.abs(rest)
    r = tl.where(below & (r != 0.0), b - r, r)
    invalid = (tl.abs(x) == float("inf")) | (y == 0.0) | (x != x) | (y != y)
    r = tl.where(b == float("inf"), tl.abs(x), r)
    return _copysign(tl.where(invalid, float("nan"), r), x)


@triton.jit
def _floor_mod(x, y):
    # The remainder with the divisor's sign.
    if x.dtype == tl.float64:
        r = _fmod64(x, y)
    else:
        r = _fmod(x, y)
    return tl.where(r == 0.0, _copysign(r, y), tl.where((r < 0.0) != (y < 0.0), r + y, r))


@triton.jit
def _int_div(a, b):
    # Toward zero; 0 for a divisor of 0, and the wrapped negative for -1, where the instruction is undefined.
    q = a // tl.where((b == 0) | (b == -1), 1, b)
    return tl.where(b == 0, 0, tl.where(b == -1, 0 - a, q))


@triton.jit
def _int_mod(a, b):
    # The sign of a; 0 for a divisor of 0.
    return tl.where(b == 0, 0, a % tl.where((b == 0) | (b == -1), 1, b))


@triton.jit
def _int_floor_div(a, b):
    q = _int_div(a, b)
    return tl.where((b != 0) & (q * b != a) & ((a < 0) != (b < 0)), q - 1, q)


@triton.jit
def _int_floor_mod(a, b):
    # The remainder with the divisor's sign.
    r = _int_mod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


@triton.jit
def _uint_div(a, b):
    return tl.where(b == 0, 0, a // tl.where(b == 0, 1, b))


@triton.jit
def _uint_mod(a, b):
    return tl.where(b == 0, 0, a % tl.where(b == 0, 1, b))


@triton.jit
def _int_pow(x, n, BITS: tl.constexpr, SIGNED: tl.constexpr):
    # By squaring; a negative exponent leaves 1 and -1, and of all else 0.
    r = x * 0 + 1
    power = x
    for bit in tl.static_range(BITS):
        r = tl.where(((n >> bit) & 1) != 0, r * power, r)
        power = power * power
    if SIGNED:
        unit = tl.where(x == 1, 1, tl.where(x == -1, tl.where((n & 1) != 0, -1, 1), 0))
        r = tl.where(n < 0, unit, r)
    return r


@triton.jit
def _to_int(x, LOW: tl.constexpr, HIGH: tl.constexpr, DTYPE: tl.constexpr):
    # Toward zero; NaN to 0; what lies outside to the nearest end. HIGH + 1 is a power of two, and so exact.
    inside = (x >= LOW) & (x < HIGH + 1.0)
    r = tl.where(inside, x, 0.0).to(DTYPE)
    return tl.where(x < LOW, LOW, tl.where(x >= HIGH + 1.0, HIGH, r)).to(DTYPE)


@triton.jit
def _reflect(i, n):
    # c b | a b c | b a
    period = tl.where(n > 1, 2 * n - 2, 1)
    r = i % period
    r = tl.where(r < 0, r + period, r)
    return tl.where(r < n, r, period - r)


@triton.jit
def _mirror(i, n):
    # b a | a b c | c b
    r = i % (2 * n)
    r = tl.where(r < 0, r + 2 * n, r)
    return tl.where(r < n, r, 2 * n - 1 - r)


@triton.jit
def _wrap(i, n):
    r = i % n
    return tl.where(r < 0, r + n, r)


@triton.jit
def _shift_left(a, b, BITS: tl.constexpr):
    # Past the width nothing is left.
    return tl.where((b >= 0) & (b < BITS), a << b, 0)


@triton.jit
def _shift_right(a, b, BITS: tl.constexpr):
    # Past the width the sign is left.
    return tl.where((b >= 0) & (b < BITS), a >> b, tl.where(a < 0, -1, 0))


@triton.jit
def _uint_shift_right(a, b, BITS: tl.constexpr):
    return tl.where((b >= 0) & (b < BITS), a >> b, 0)


@triton.jit
def _report(error_ptr, wrong, CODE: tl.constexpr):
    # Every thread that sees the error writes the same number to the same place.
    tl.store(error_ptr + wrong.to(tl.int32) * 0, CODE, mask=wrong)


@triton.jit
def _int_maximum(a, b):
    return tl.maximum(a, b)


@triton.jit
def _int_minimum(a, b):
    return tl.minimum(a, b)


@triton.jit
def _better(x, at, best, best_at, LARGEST: tl.constexpr, FIRST: tl.constexpr):
    # Whether x at place `at` wins over the best so far: NaN wins over all numbers, of equals the first (or the last).
    if FIRST:
        before = at < best_at
    else:
        before = at > best_at
    if LARGEST:
        ahead = x > best
    else:
        ahead = x < best
    same = (x == best) | ((x != x) & (best != best))
    return ahead | ((x != x) & (best == best)) | (same & before)
