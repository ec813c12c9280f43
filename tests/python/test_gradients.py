"""Derived gradients against PyTorch's autograd, through the command: `opwright grad` prints, `opwright run` compiles and runs.

Not run where PyTorch is not installed (requirements-bench.txt has it)."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its autograd is not compared")
F = torch.nn.functional


def unary(f, low=-2.0, high=2.0):
    return (lambda x: f(x), {"x": (low, high)})


def norm_groups(x, scale, bias):  # [n, g, c, d...] with one scale a channel
    n, g, c, *d = x.shape
    return F.group_norm(x.reshape(n, g * c, *d), g, scale.reshape(-1), bias.reshape(-1)).reshape(x.shape)


# name: (function of tensors by name, ranges by name). Shapes are those of the declaration's first example.
OPERATORS = {
    "relu": unary(torch.relu),
    "leaky_relu": unary(lambda x: F.leaky_relu(x, 0.01)),
    "prelu": (lambda x, slope: torch.where(x < 0, slope * x, x), {}),
    "relu6": unary(F.relu6, -3, 9),
    "elu": unary(F.elu),
    "selu": unary(F.selu),
    "celu": unary(lambda x: F.celu(x, 2.0)),
    "sigmoid": unary(torch.sigmoid, -30, 30),
    "hard_sigmoid": unary(lambda x: (0.2 * x + 0.5).clamp(0, 1), -5, 5),
    "log_sigmoid": unary(F.logsigmoid, -30, 30),
    "silu": unary(F.silu, -30, 30),
    "hard_swish": unary(F.hardswish, -5, 5),
    "gelu": unary(F.gelu),
    "gelu_tanh": unary(lambda x: F.gelu(x, approximate="tanh")),
    "softplus": unary(F.softplus, -15, 15),
    "mish": unary(F.mish),
    "softsign": unary(F.softsign),
    "swiglu": (lambda x, gate: F.silu(gate) * x, {}),
    "neg": unary(torch.neg),
    "abs": unary(torch.abs),
    "reciprocal": unary(torch.reciprocal, 0.5, 2),
    "sqrt": unary(torch.sqrt, 0.1, 4),
    "rsqrt": unary(torch.rsqrt, 0.1, 4),
    "square": unary(torch.square),
    "exp": unary(torch.exp),
    "exp2": unary(torch.exp2),
    "expm1": unary(torch.expm1),
    "log": unary(torch.log, 0.1, 4),
    "log2": unary(torch.log2, 0.1, 4),
    "log1p": unary(torch.log1p, -0.5, 4),
    "sin": unary(torch.sin),
    "cos": unary(torch.cos),
    "tan": unary(torch.tan, -1, 1),
    "asin": unary(torch.asin, -0.9, 0.9),
    "acos": unary(torch.acos, -0.9, 0.9),
    "atan": unary(torch.atan),
    "sinh": unary(torch.sinh),
    "cosh": unary(torch.cosh),
    "tanh": unary(torch.tanh),
    "asinh": unary(torch.asinh),
    "acosh": unary(torch.acosh, 1.2, 4),
    "atanh": unary(torch.atanh, -0.9, 0.9),
    "erf": unary(torch.erf),
    "floor": unary(torch.floor),
    "hypot": (torch.hypot, {}),
    "outer": (torch.outer, {}),
    "dot": (torch.dot, {}),
    "trace": unary(torch.trace),
    "determinant_2": unary(torch.linalg.det),
    "determinant_3": unary(torch.linalg.det),
    "linear": (lambda x, w, bias: F.linear(x, w, bias), {}),
    "mse_loss": (F.mse_loss, {}),
    "l1_loss": (F.l1_loss, {}),
    "softmax": unary(lambda x: torch.softmax(x, -1), -30, 30),
    "log_softmax": unary(lambda x: torch.log_softmax(x, -1), -30, 30),
    "layer_norm": (lambda x, scale, bias: F.layer_norm(x, scale.shape, scale, bias), {}),
    "rms_norm": (lambda x, scale: F.rms_norm(x, scale.shape, scale, 1e-5), {}),
    "group_norm": (norm_groups, {}),
    "instance_norm": (lambda x, scale, bias: F.instance_norm(x, weight=scale, bias=bias), {}),
    "copy": unary(torch.clone),
}
# Functions along the axes of the declaration's first example.
ALONG = {
    "reduce_sum": torch.sum,
    "reduce_mean": torch.mean,
    "reduce_max": torch.amax,
    "reduce_min": torch.amin,
    "reduce_prod": lambda x, axes: x.prod(axes[0]),
    "reduce_l1": lambda x, axes: x.abs().sum(axes),
    "reduce_l2": lambda x, axes: x.square().sum(axes).sqrt(),
    "reduce_log_sum_exp": torch.logsumexp,
    "flip": torch.flip,
    "running_sum": lambda x, axes: torch.cumsum(x, axes[0]),
    "running_product": lambda x, axes: torch.cumprod(x, axes[0]),
}


def axes_of(source):
    """The axes in a declaration's first example."""
    found = re.search(r"^ *example .*\bax[ie]s = (\[[^\]]*\]|\d+)", source, re.M)
    return tuple(int(v) for v in found.group(1).strip("[]").split(","))


def shapes_of(text):
    """Parameters of the printed example: name -> (dtype, shape)."""
    line = re.search(r"^ *example (.*)$", text, re.M).group(1)
    return {n: (t, tuple(int(v) for v in s.split(",") if v)) for n, t, s in re.findall(r"(\w+) = (\w+)\[([\d,]*)\]", line)}


def inputs_of(text):
    """Names of a declaration's parameters."""
    return re.findall(r"(\w+): \w+\[", re.search(r"^op \w+\((.*?)\) ->", text, re.M).group(1))


def differentiate(opwright, target, folder):
    code, text, errors = opwright("grad", target)
    assert code == 0, errors
    path = folder / f"gradient_{len(list(folder.iterdir()))}.op"
    path.write_text(text)
    return path, text


def numbers(shape, low, high, seed):
    return np.asarray(np.random.default_rng(seed).uniform(low, high, shape), np.float32)


def run(opwright, path, inputs, folder):
    np.savez(folder / "in.npz", **inputs)
    code, _, errors = opwright("run", path, "--input", folder / "in.npz", "--output", folder / "out.npz", "--threads", "1")
    assert code == 0, errors
    with np.load(folder / "out.npz") as out:
        return dict(out)


def compare(got, tensors):
    for name, x in tensors.items():
        if f"d{name}" not in got:
            continue
        want = x.grad.numpy() if x.grad is not None else np.zeros(tuple(x.shape), np.float32)
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(got[f"d{name}"], want, rtol=3e-5, atol=3e-5 * scale)


@pytest.mark.parametrize("name", sorted([*OPERATORS, *ALONG]))
def test_operator(opwright, tmp_path, name):
    code, source, _ = opwright("ops", "--show", name)
    assert code == 0
    if name in ALONG:
        function, ranges = lambda x: ALONG[name](x, axes_of(source)), {}
    else:
        function, ranges = OPERATORS[name]
    path, text = differentiate(opwright, name, tmp_path)
    # Every float parameter of the operator, from the operator's own example.
    params = shapes_of(re.search(r"^ *example .*$", source, re.M).group(0))
    if "example" not in text:  # the operator's example broadcasts, its form for open extents does not
        params = {n: (t, (2, 3)) for n, (t, _) in params.items()}
    tensors = {
        n: torch.tensor(numbers(s, *ranges.get(n, (-1.0, 1.0)), seed=i), requires_grad=True)
        for i, (n, (t, s)) in enumerate(params.items())
    }
    y = function(*tensors.values())
    others = {n: np.zeros(s, np.float32) for n, (t, s) in (shapes_of(text).items() if "example" in text else ()) if n.startswith("d")}
    dy = numbers(tuple(y.shape), -1, 1, seed=99)
    for cotangent in ("plain", "transposed", "expanded"):
        if cotangent == "transposed":
            dy = np.array(dy, order="F")
        if cotangent == "expanded":
            dy = np.broadcast_to(np.float32(0.5), dy.shape)
        for x in tensors.values():
            x.grad = None
        if y.requires_grad and y.grad_fn is not None:
            y.backward(torch.from_numpy(np.array(dy, order="C")), retain_graph=True)
        feed = {**others, **{n: x.detach().numpy() for n, x in tensors.items()}, "dy": dy}
        compare(run(opwright, path, {n: feed[n] for n in inputs_of(text)}, tmp_path), tensors)


@pytest.mark.parametrize("name", ["softplus", "mish", "log_sigmoid", "silu", "gelu", "softsign", "elu", "relu", "abs", "tanh"])
def test_at_zero(opwright, tmp_path, name):
    """Where parts of a function have kinks that the whole has not, and where PyTorch settles one."""
    path, _ = differentiate(opwright, name, tmp_path)
    values = np.array([[0.0, -0.0, 1e-30], [-1e-30, 1e-4, -1e-4]], np.float32)
    x = torch.tensor(values, requires_grad=True)
    dy = numbers(values.shape, 0.5, 1, 3)
    OPERATORS[name][0](x).backward(torch.from_numpy(dy))
    compare(run(opwright, path, {"x": values, "dy": dy}, tmp_path), {"x": x})


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm"])
def test_saved(opwright, tmp_path, name):
    """The gradient that is given values of the forward pass, with the operator that delivers them."""
    code, text, errors = opwright("grad", name, "--save")
    assert code == 0, errors
    path = tmp_path / "saved.op"
    path.write_text(text)
    function, ranges = OPERATORS[name]
    code, source, _ = opwright("ops", "--show", name)
    params = shapes_of(re.search(r"^ *example .*$", source, re.M).group(0))
    tensors = {n: torch.tensor(numbers(s, *ranges.get(n, (-1.0, 1.0)), seed=i), requires_grad=True) for i, (n, (t, s)) in enumerate(params.items())}
    y = function(*tensors.values())
    dy = numbers(tuple(y.shape), -1, 1, seed=99)
    y.backward(torch.from_numpy(dy))
    feed = {n: x.detach().numpy() for n, x in tensors.items()}
    feed["y"] = y.detach().numpy()
    if f"op {name}_forward(" in text:
        np.savez(tmp_path / "in.npz", **{n: feed[n] for n in params})
        code, _, errors = opwright("run", path, "--op", f"{name}_forward", "--input", tmp_path / "in.npz", "--output", tmp_path / "y.npz")
        assert code == 0, errors
        with np.load(tmp_path / "y.npz") as saved:
            feed.update(saved)
    gradient = text[text.index(f"op {name}_gradient(") :]
    others = {n: np.zeros(s, np.float32) for n, (t, s) in shapes_of(gradient).items() if n.startswith("d")}
    feed = {**others, **feed, "dy": dy}
    np.savez(tmp_path / "in.npz", **{n: feed[n] for n in inputs_of(gradient)})
    code, _, errors = opwright("run", path, "--op", f"{name}_gradient", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
    assert code == 0, errors
    with np.load(tmp_path / "out.npz") as out:
        compare(dict(out), tensors)


CONV = [(1, 1, 0), (2, 1, 1), (1, 2, 2), (3, 2, 1), (2, 2, 3)]


@pytest.mark.parametrize("stride,dilation,pad", CONV)
def test_convolution(opwright, tmp_path, stride, dilation, pad):
    """A declaration of one's own, with attributes as defaults."""
    source = tmp_path / "c.op"
    source.write_text(
        "op c(x[n, i, h, v], w[o, i, k, l]) -> y[n, o, p, q] where T in float:\n"
        f"    p in 0..(h + {2 * pad} - {dilation} * (k - 1) - 1) // {stride} + 1\n"
        f"    q in 0..(v + {2 * pad} - {dilation} * (l - 1) - 1) // {stride} + 1\n"
        f"    y[n, o, p, q] = sum[i, k, l](x[n, i, {stride} * p + {dilation} * k - {pad}, {stride} * q + {dilation} * l - {pad}]"
        " outside zero * w[o, i, k, l])\n"
        "    example x = f32[2,3,9,8], w = f32[4,3,3,2]\n"
    )
    path, _ = differentiate(opwright, source, tmp_path)
    x = torch.tensor(numbers((2, 3, 9, 8), -1, 1, 1), requires_grad=True)
    w = torch.tensor(numbers((4, 3, 3, 2), -1, 1, 2), requires_grad=True)
    y = F.conv2d(x, w, stride=stride, padding=pad, dilation=dilation)
    dy = numbers(tuple(y.shape), -1, 1, 3)
    y.backward(torch.from_numpy(dy))
    got = run(opwright, path, {"x": x.detach().numpy(), "w": w.detach().numpy(), "dy": dy}, tmp_path)
    compare(got, {"x": x, "w": w})


@pytest.mark.parametrize("kernel,stride,pad", [(2, 2, 0), (3, 1, 1), (3, 2, 1)])
def test_max_pool(opwright, tmp_path, kernel, stride, pad):
    source = tmp_path / "m.op"
    source.write_text(
        "op m(x[n, c, h, v]) -> y[n, c, p, q] where T in float:\n"
        f"    p in 0..(h + {2 * pad} - {kernel}) // {stride} + 1\n"
        f"    q in 0..(v + {2 * pad} - {kernel}) // {stride} + 1\n"
        f"    y[n, c, p, q] = max[k in 0..{kernel}, l in 0..{kernel}](x[n, c, {stride} * p + k - {pad}, {stride} * q + l - {pad}]"
        " outside (-inf))\n"
        "    example x = f32[2,3,9,8]\n"
    )
    path, _ = differentiate(opwright, source, tmp_path)
    x = torch.tensor(numbers((2, 3, 9, 8), -1, 1, 1), requires_grad=True)
    y = F.max_pool2d(x, kernel, stride, pad)
    dy = numbers(tuple(y.shape), -1, 1, 3)
    y.backward(torch.from_numpy(dy))
    compare(run(opwright, path, {"x": x.detach().numpy(), "dy": dy}, tmp_path), {"x": x})


def test_second_order(opwright, tmp_path):
    """The gradient of a gradient, both printed."""
    path, _ = differentiate(opwright, "softmax", tmp_path)
    again, text = differentiate(opwright, path, tmp_path)
    shape = shapes_of(text)["x"][1]
    x = torch.tensor(numbers(shape, -2, 2, 1), requires_grad=True)
    dy = torch.tensor(numbers(shape, -1, 1, 2), requires_grad=True)
    (dx,) = torch.autograd.grad(torch.softmax(x, -1), x, dy, create_graph=True)
    ddx = numbers(shape, -1, 1, 3)
    dx.backward(torch.from_numpy(ddx))
    feed = {"x": x.detach().numpy(), "dy": dy.detach().numpy(), "ddx": ddx}
    got = run(opwright, again, {n: feed[n] for n in inputs_of(text)}, tmp_path)
    compare(got, {"x": x, "dy": dy})
