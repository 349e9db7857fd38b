"""Compiles each Triton kernel to machine code, and writes the sizes to standard output.

It runs in a process of its own, because the process of the tests may use Triton's interpreter.
"""

import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from model.backends.cuda import triton_kernels as programs
from model.backends.cuda.triton_kernels import (
    ATTENTION_WARPS,
    BLOCK,
    PART,
    PART_WARPS,
    ROW_WARPS,
    TEXT_WARPS,
)

CAPABILITIES = 80, 90  # Ampere and Hopper
DTYPES = "fp32", "bf16", "fp16"
HEADS = {"heads": 8, "head_dim": 24, "padded_dim": 32, "block": BLOCK}
TEXTS = {"head_dim": 24, "padded_dim": 32, "block": 64}
WIDTHS = {"width": 384, "padded_width": 512}
CONSTANTS: list[tuple[Any, dict[str, Any]]] = [
    (programs.attend_kernel, {**HEADS, "has_new": True, "has_rows": False}),
    (programs.attend_kernel, {**HEADS, "has_new": False, "has_rows": True}),
    (programs.attend_texts_kernel, {**TEXTS, "has_bias": True}),
    (programs.attend_texts_kernel, {**TEXTS, "has_bias": False}),
    (programs.embed_kernel, WIDTHS),
    (programs.add_norm_kernel, WIDTHS),
    (programs.recur_kernel, WIDTHS),
    (programs.part_maximum_kernel, {"part": PART}),
    (programs.choice_kernel, {"padded_parts": 8}),
]
WARPS = {
    "attend_kernel": ATTENTION_WARPS,
    "attend_texts_kernel": TEXT_WARPS,
    "part_maximum_kernel": PART_WARPS,
    "choice_kernel": 1,
}
INTEGERS = "lengths", "texts", "rows", "tokens", "positions", "chosen"
COUNTS = "columns", "parts", "zero_column"
FLOATS = "scale", "epsilon"


def type_of(name: str, dtype: str, constants: dict[str, Any]) -> str:
    if name in constants:
        return "constexpr"
    if name in INTEGERS:
        return "*i64"
    if name == "ids":
        return "*i32"
    if name == "largest":
        return "*fp32"
    if name in FLOATS:
        return "fp32"
    is_number = name in COUNTS or name.endswith(("_row", "_head", "_position", "_token"))
    return "i32" if is_number else f"*{dtype}"


def main() -> None:
    for kernel, constants in CONSTANTS:
        names = kernel.arg_names
        values = {(names.index(name),): value for name, value in constants.items()}
        options = {"num_warps": WARPS.get(kernel.__name__, ROW_WARPS), "num_stages": 2}
        for capability in CAPABILITIES:
            target = GPUTarget("cuda", capability, 32)
            for dtype in DTYPES:
                types = {name: type_of(name, dtype, constants) for name in names}
                source = ASTSource(kernel, types, values)
                compiled = triton.compile(source, target=target, options=options)
                size = len(compiled.asm["cubin"])
                sys.stdout.write(f"{kernel.__name__} {capability} {dtype} {size}\n")


if __name__ == "__main__":
    main()
