"""Writes the seeds of onnx_fuzz into onnx_corpus/: one small model for each thing the importer reads.

Needs the Python package onnx. The files are kept in the repository, so that fuzzing needs no Python.
"""

import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent / "onnx_corpus"
F, I = TensorProto.FLOAT, TensorProto.INT64


def tensor(name, value, dtype=np.int64):
    return numpy_helper.from_array(np.array(value, dtype), name)


def save(name, nodes, inputs, outputs, initializers=(), functions=(), opset=17):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", opset)]
    if functions:
        opsets.append(helper.make_opsetid("mine", 1))
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8)
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString())


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def main():
    FOLDER.mkdir(exist_ok=True)
    node = helper.make_node
    x = value("x", F, ["N", 3, "?", None])
    y = value("y", F, None)
    k = value("y", I, None)

    save("relu", [node("Relu", ["x"], ["y"])], [x], [y])
    for op in ("Add", "Div", "Pow", "Max", "Min", "Mod", "PRelu", "And", "Equal", "BitShift", "Where"):
        save(
            op.lower(),
            [node(op, ["x", "b"] + (["b"] if op == "Where" else []), ["y"])],
            [x, value("b", F, ["M"])],
            [y],
        )
    save(
        "conv",
        [node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])],
        [x],
        [y],
        [tensor("w", np.ones((2, 3, 3, 3)), np.float32), tensor("b", [0, 1], np.float32)],
    )
    save(
        "convtranspose",
        [node("ConvTranspose", ["x", "w"], ["y"], output_padding=[1, 1], strides=[2, 2])],
        [x],
        [y],
        [tensor("w", np.ones((3, 2, 3, 3)), np.float32)],
    )
    save(
        "pools",
        [
            node("MaxPool", ["x"], ["a", "i"], kernel_shape=[2, 2], ceil_mode=1),
            node("AveragePool", ["a"], ["b"], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
            node("GlobalAveragePool", ["b"], ["y"]),
        ],
        [x],
        [y],
    )
    save(
        "gemm",
        [node("Gemm", ["a", "w", "b"], ["y"], transB=1, alpha=0.5)],
        [value("a", F, ["N", 4])],
        [y],
        [tensor("w", np.ones((2, 4)), np.float32), tensor("b", [1, 2], np.float32)],
    )
    save("matmul", [node("MatMul", ["x", "w"], ["y"])], [x], [y], [tensor("w", np.ones((5, 2)), np.float32)])
    save("einsum", [node("Einsum", ["x", "x"], ["y"], equation="nchw,ncHw->nhH")], [x], [y])
    save("softmax", [node("Softmax", ["x"], ["y"], axis=-1)], [x], [y], opset=11)
    save(
        "norms",
        [
            node("LayerNormalization", ["x", "s"], ["a"], axis=-1),
            node("BatchNormalization", ["a", "s", "s", "s", "s"], ["y"]),
        ],
        [x],
        [y],
        [tensor("s", [1, 2, 3], np.float32)],
    )
    save(
        "reduce",
        [node("ReduceMean", ["x"], ["a"], axes=[-1], keepdims=0), node("ArgMax", ["a"], ["y"], axis=1)],
        [x],
        [k],
        opset=13,
    )
    save(
        "resize",
        [node("Resize", ["x", "", "s"], ["y"], mode="linear")],
        [x],
        [y],
        [tensor("s", [1, 1, 2, 2], np.float32)],
    )
    save("pad", [node("Pad", ["x", "p"], ["y"], mode="reflect")], [x], [y], [tensor("p", [0, 0, 1, 1, 0, 0, 1, 1])])
    save(
        "moves",
        [
            node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
            node("Split", ["a"], ["b", "c"], axis=3, num_outputs=2),
            node("Concat", ["b", "c"], ["d"], axis=-1),
            node("Slice", ["d", "one", "two", "one"], ["e"]),
            node("Tile", ["e", "four"], ["y"]),
        ],
        [x],
        [y],
        [tensor("one", [1]), tensor("two", [2]), tensor("four", [1, 2, 1, 1])],
        opset=18,
    )
    save(
        "indices",
        [
            node("Gather", ["x", "i"], ["a"], axis=1),
            node("ScatterND", ["a", "n", "u"], ["b"]),
            node("GatherElements", ["b", "g"], ["c"]),
            node("OneHot", ["i", "depth", "on"], ["z"]),
            node("Trilu", ["c"], ["y"]),
        ],
        [x, value("n", I, [2, 4]), value("u", F, [2]), value("g", I, ["N", 3, 1, 1])],
        [y, value("z", F, None)],
        [tensor("i", [2, 0]), tensor("depth", 3), tensor("on", [0, 1], np.float32)],
    )
    save(
        "quantise",
        [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])],
        [x],
        [y],
        [tensor("s", 0.5, np.float32), tensor("z", 128, np.uint8)],
    )
    save(
        "shapes",
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["n"]),
            node("Unsqueeze", ["n", "axis"], ["n1"]),
            node("Concat", ["n1", "axis", "minus"], ["t"], axis=0),
            node("Reshape", ["x", "t"], ["r"]),
            node("ConstantOfShape", ["s"], ["c"]),
            node("Mul", ["s", "three"], ["m"]),
            node("Equal", ["m", "s"], ["e"]),
            node("Where", ["e", "m", "s"], ["w"]),
            node("ReduceProd", ["w"], ["p"]),
            node("Range", ["zero", "n", "one"], ["y"]),
        ],
        [x],
        [value("r", F, None), value("c", F, None), value("p", I, None), k],
        [tensor("zero", 0), tensor("one", 1), tensor("axis", [0]), tensor("minus", [-1]), tensor("three", [3])],
    )
    save(
        "scatter_shape",
        [
            node("Shape", ["x"], ["s"]),
            node("ScatterElements", ["s", "i", "u"], ["a"]),
            node("CumSum", ["a", "z"], ["b"]),
            node("Expand", ["b", "e"], ["c"]),
            node("Transpose", ["c"], ["d"]),
            node("Slice", ["d", "m", "l", "z1", "m"], ["y"]),
        ],
        [x],
        [k],
        [
            tensor("i", [1]),
            tensor("u", [7]),
            tensor("z", 0),
            tensor("z1", [0]),
            tensor("e", [2, 4]),
            tensor("m", [-1]),
            tensor("l", [-(2**63)]),
        ],
    )
    branch = [
        helper.make_graph([node("Identity", [name], [f"{name}_out"])], name, [], [value(f"{name}_out", F, None)])
        for name in ("x", "b")
    ]
    save(
        "branch",
        [
            node("Shape", ["x"], ["s"]),
            node("Size", ["s"], ["n"]),
            node("Cast", ["n"], ["c"], to=TensorProto.BOOL),
            node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1]),
        ],
        [x, value("b", F, ["M"])],
        [y],
    )
    twice = helper.make_function(
        "mine",
        "twice",
        ["v"],
        ["r"],
        [node("Add", ["v", "v"], ["m"]), node("Relu", ["m"], ["r"])],
        [helper.make_opsetid("", 17)],
    )
    save(
        "function",
        [node("twice", ["x"], ["a"], domain="mine"), node("twice", ["a"], ["y"], domain="mine")],
        [x],
        [y],
        functions=[twice],
    )
    typed = [
        helper.make_tensor(name, kind, [2], values)
        for name, kind, values in (
            ("f", F, [0.5, 1]),
            ("h", TensorProto.FLOAT16, [1, 2]),
            ("b", TensorProto.BOOL, [0, 1]),
            ("u", TensorProto.UINT64, [1, 2]),
            ("d", TensorProto.DOUBLE, [1, 2]),
            ("i", TensorProto.INT8, [-1, 2]),
        )
    ]
    save(
        "constants",
        [
            node("Constant", [], ["a"], value=typed[0]),
            node("Constant", [], ["c"], value_ints=[1, 2]),
            node("Constant", [], ["e"], value_float=0.5),
            node("Sum", ["a", "f", "e"], ["y"]),
        ],
        [],
        [y],
        typed,
    )
    save(
        "attention",
        [node("MatMul", ["q", "kt"], ["s"]), node("Softmax", ["s"], ["p"]), node("MatMul", ["p", "v"], ["y"])],
        [value("q", F, ["B", "T", 8]), value("kt", F, ["B", 8, "S"]), value("v", F, ["B", "S", 8])],
        [y],
    )
    save(
        "loop",
        [node("LSTM", ["x", "x", "x"], ["y"], hidden_size=3), node("NonZero", ["x"], ["z"])],
        [x],
        [y, value("z", I, None)],
    )
    print(len(list(FOLDER.glob("*.onnx"))), "models in", FOLDER)


if __name__ == "__main__":
    main()
