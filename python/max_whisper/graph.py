"""max_whisper/graph.py - the graph API: describe a computation once, run it on any engine, numpy in and out.

    graph = Graph("example")
    x = graph.input("x", np.float32, [graph.size("n", 64), 8])
    graph.output("y", (x @ graph.constant(weights)).relu())
    y, = graph.compile()(array)

Values belong to their graph; there are no implicit conversions of dtypes, and operators broadcast as numpy does.
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import check_names

__all__ = ["Graph", "Program", "Value"]

# By the library's numbers; numpy has no bfloat16.
_DTYPES = ("float32", "float16", "bfloat16", "int32", "int8", "uint8", "int64", "float64")
_END = 2 ** 63 - 1


def _dtype(dtype: Any) -> int:
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if name not in _DTYPES:
        raise TypeError(f"dtype: {name} is not one of {', '.join(_DTYPES)}")
    return _DTYPES.index(name)


class Value:
    """A value of a graph, not computed yet. + - * / @ and unary minus build on it, and so do its methods."""

    __slots__ = ("graph", "id")

    def __init__(self, graph: Graph, number: int) -> None:
        self.graph, self.id = graph, number

    def _of(self, other: Any) -> Value:
        if isinstance(other, Value):
            if other.graph is not self.graph:
                raise ValueError("a value of another graph")
            return other
        return self.graph.constant(np.asarray(other, np.float32))

    def __add__(self, other: Any) -> Value:
        return self.graph._binary("add", self, self._of(other))

    def __radd__(self, other: Any) -> Value:
        return self.graph._binary("add", self._of(other), self)

    def __sub__(self, other: Any) -> Value:
        return self.graph._binary("sub", self, self._of(other))

    def __rsub__(self, other: Any) -> Value:
        return self.graph._binary("sub", self._of(other), self)

    def __mul__(self, other: Any) -> Value:
        return self.graph._binary("mul", self, self._of(other))

    def __rmul__(self, other: Any) -> Value:
        return self.graph._binary("mul", self._of(other), self)

    def __truediv__(self, other: Any) -> Value:
        return self.graph._binary("div", self, self._of(other))

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph._binary("div", self._of(other), self)

    def __matmul__(self, other: Any) -> Value:
        return self.graph._binary("matmul", self, self._of(other))

    def __neg__(self) -> Value:
        return self.graph._unary("neg", self)

    # ---- functions of one value ----------------------------------------------------------------------------------

    def transpose(self) -> Value:
        """The last two axes exchanged."""
        return self.graph._unary("transpose", self)

    def relu(self) -> Value:
        return self.graph._unary("relu", self)

    def sigmoid(self) -> Value:
        return self.graph._unary("sigmoid", self)

    def tanh(self) -> Value:
        return self.graph._unary("tanh", self)

    def silu(self) -> Value:
        return self.graph._unary("silu", self)

    def exp(self) -> Value:
        return self.graph._unary("exp", self)

    def log(self) -> Value:
        return self.graph._unary("log", self)

    def sqrt(self) -> Value:
        return self.graph._unary("sqrt", self)

    def abs(self) -> Value:
        return self.graph._unary("abs", self)

    def softmax(self) -> Value:
        """Over the last axis."""
        return self.graph._unary("softmax", self)

    def argmax(self) -> Value:
        """Over the last axis: int32."""
        return self.graph._unary("argmax", self)

    def gelu(self, kind: Literal["erf", "tanh"] = "erf") -> Value:
        return self.graph._op("gelu", [self], [("erf", "tanh").index(kind)])

    def leaky_relu(self, slope: float = 0.01) -> Value:
        return self.graph._op("leaky_relu", [self], [], slope)

    def cast(self, dtype: Any) -> Value:
        return self.graph._op("cast", [self], [_dtype(dtype)])

    def reduce(self, kind: Literal["sum", "mean", "max", "min"], axis: int = -1) -> Value:
        """Over one axis, which goes away."""
        return self.graph._op("reduce", [self], [("sum", "mean", "max", "min").index(kind), axis])

    def slice(self, axis: int, start: int = 0, stop: int | None = None, step: int = 1) -> Value:
        """start:stop:step of an axis, as numpy takes them; step 1 or more."""
        return self.graph._op("slice", [self], [axis, start, _END if stop is None else stop, step])

    def reshape(self, *shape: int) -> Value:
        """One size may be -1: what is left."""
        return Value(self.graph, self.graph._native.lists("reshape", [self.id], shape))

    def permute(self, *axes: int) -> Value:
        return Value(self.graph, self.graph._native.lists("permute", [self.id], axes))

    def top_k(self, k: int) -> tuple[Value, Value]:
        """The k largest of the last axis, and their indices."""
        made = self.graph._native.lists("top_k", [self.id], [k])
        return Value(self.graph, made[0]), Value(self.graph, made[1])


class Graph:
    """A computation. A mistake is refused where it is made, with what was expected and what was given."""

    def __init__(self, name: str = "graph") -> None:
        self._native = _native.Graph(name)
        self._inputs: list[tuple[str, int]] = []
        self._outputs: list[str] = []
        self._names = itertools.count()

    def _unary(self, op: str, x: Value) -> Value:
        return Value(self, self._native.unary(op, x.id))

    def _binary(self, op: str, a: Value, b: Value) -> Value:
        return Value(self, self._native.binary(op, a.id, b.id))

    def _op(self, op: str, values: Sequence[Value | None], integers: Sequence[int], number: float = 0.0) -> Value:
        return Value(self, self._native.op(op, [value.id if value else 0 for value in values], integers, number))

    # ---- leaves and outputs --------------------------------------------------------------------------------------

    def size(self, name: str, maximum: int) -> int:
        """A size that stays open until the graph runs; use it in a shape."""
        return self._native.size(name, maximum)

    def input(self, name: str, dtype: Any, shape: Sequence[int]) -> Value:
        """An array that each run is given, in the order in which inputs were declared."""
        code = _dtype(dtype)
        value = Value(self, self._native.input(name, code, shape))
        self._inputs.append((name, code))
        return value

    def constant(self, array: npt.ArrayLike, name: str | None = None) -> Value:
        """An array that is part of the graph; it is copied."""
        values = np.asarray(array)
        values = np.ascontiguousarray(values).reshape(values.shape)
        return Value(self, self._native.constant(name or f"constant.{next(self._names)}", _dtype(values.dtype), values))

    def state(self, name: str, dtype: Any, shape: Sequence[int]) -> Value:
        """Memory that lasts from run to run, zero at first; state_write changes it."""
        return Value(self, self._native.state(name, _dtype(dtype), shape))

    def output(self, name: str, value: Value) -> None:
        """What a run gives, in the order of these calls."""
        self._native.output(name, value.id)
        self._outputs.append(name)

    # ---- layers --------------------------------------------------------------------------------------------------

    def linear(self, x: Value, weight: Value, bias: Value | None = None) -> Value:
        """x W^T + b; W is [out, in]."""
        return self._op("linear", [x, weight, bias], [])

    def layer_norm(self, x: Value, gamma: Value, beta: Value, eps: float = 1e-5) -> Value:
        return self._op("layer_norm", [x, gamma, beta], [], eps)

    def conv1d(self, x: Value, weight: Value, bias: Value | None = None, *, stride: int = 1, pad: int = 0,
               dilation: int = 1) -> Value:
        """x [n, t, in], weight [out, in, k]."""
        return self._op("conv1d", [x, weight, bias], [stride, pad, dilation])

    def conv2d(self, x: Value, weight: Value, bias: Value | None = None, *, stride: tuple[int, int] = (1, 1),
               pad: tuple[int, int] = (0, 0)) -> Value:
        """x [n, height, width, in], weight [height, width, in, out]."""
        return self._op("conv2d", [x, weight, bias], [*stride, *pad])

    def gather(self, table: Value, index: Value) -> Value:
        """Rows of the first axis; index is int32."""
        return self._binary("gather", table, index)

    def concat(self, values: Sequence[Value], axis: int = 0) -> Value:
        return Value(self, self._native.lists("concat", [value.id for value in values], [axis]))

    def lstm(self, x: Value, weight_ih: Value, weight_hh: Value, bias_ih: Value | None = None,
             bias_hh: Value | None = None, h0: Value | None = None, c0: Value | None = None,
             direction: Literal["forward", "reverse", "both"] = "forward") -> tuple[Value, Value, Value]:
        """y, h and c, with gates as PyTorch lays them out."""
        values = [value.id if value else 0 for value in (x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0)]
        y, h, c = self._native.lists("lstm", values, [("forward", "reverse", "both").index(direction)])
        return Value(self, y), Value(self, h), Value(self, c)

    def attention(self, q: Value, k: Value, v: Value, heads: int, scale: float, causal: bool = False) -> Value:
        """q [n, t, d], k and v [n, s, d], heads side by side in d."""
        return self._op("attention", [q, k, v], [heads, int(causal)], scale)

    def attention_cached(self, q: Value, k: Value, v: Value, sequence: Value, position: Value, cells: Value, heads: int,
                         scale: float) -> Value:
        return self._op("attention_cached", [q, k, v, sequence, position, cells], [heads], scale)

    def attention_window(self, q: Value, k: Value, v: Value, window: Value, heads: int, scale: float) -> Value:
        return self._op("attention_window", [q, k, v, window], [heads], scale)

    def attention_scores(self, q: Value, k: Value, head: Value, window: Value, heads: int, scale: float) -> Value:
        return self._op("attention_scores", [q, k, head, window], [heads], scale)

    def state_write(self, state: Value, x: Value, index: Value) -> Value:
        """state[index[i]] = x[i]; the state after that."""
        return self._op("state_write", [state, x, index], [])

    def compile(self, **options: Any) -> Program:
        """A program. Options: engine ("max", "cpu", "gpu"), device, threads, precision."""
        return Program(self, options)

    def __str__(self) -> str:
        return self._native.text()


class Program:
    """A graph that is compiled: call it with arrays, it gives arrays. One thread at a time."""

    def __init__(self, graph: Graph, options: dict[str, Any]) -> None:
        check_names("compile", options, ("engine", "device", "threads", "precision"))
        self._native = _native.Program(graph._native, options)
        self._inputs, self._outputs = list(graph._inputs), list(graph._outputs)

    def __call__(self, *inputs: npt.ArrayLike, **named: npt.ArrayLike) -> tuple[npt.NDArray[Any], ...]:
        """Inputs in the order of their declaration, or by name; outputs in theirs."""
        names = [name for name, _ in self._inputs]
        check_names("inputs", named, names)
        given = dict(zip(names, inputs), **named)
        if len(given) != len(names) or len(inputs) + len(named) != len(names):
            raise TypeError(f"inputs: {len(inputs) + len(named)} given; expected {', '.join(names) or 'none'}")
        tensors = [(code, self._array(name, code, given[name])) for name, code in self._inputs]
        made = self._native.execute(tensors, len(self._outputs))
        return tuple(np.frombuffer(data, _DTYPES[code] if code != 2 else np.uint16).reshape(shape)
                     for code, shape, data in made)

    @staticmethod
    def _array(name: str, code: int, value: npt.ArrayLike) -> npt.NDArray[Any]:
        array = np.asarray(value)
        if array.dtype != np.dtype(_DTYPES[code] if code != 2 else np.uint16):
            raise TypeError(f"{name}: an array of {array.dtype}; expected {_DTYPES[code]}")
        return np.ascontiguousarray(array).reshape(array.shape)

    @property
    def outputs(self) -> list[str]:
        """Names of what a call gives."""
        return list(self._outputs)
