"""The package itself: its stub, its docstrings, its command."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import parascan


def test_the_stub_is_that_of_the_functions():
    stub = ast.parse(Path(parascan.__file__).with_suffix(".pyi").read_text())
    functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name for node in stub.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")}
    assert set(functions) | classes == set(parascan.__all__)
    for name, node in functions.items():
        arguments, signature = node.args, inspect.signature(getattr(parascan, name))
        given = {
            inspect.Parameter.POSITIONAL_ONLY: arguments.posonlyargs,
            inspect.Parameter.POSITIONAL_OR_KEYWORD: arguments.args,
            inspect.Parameter.KEYWORD_ONLY: arguments.kwonlyargs,
        }
        for kind, stubbed in given.items():
            names = [parameter.name for parameter in signature.parameters.values() if parameter.kind is kind]
            assert names == [argument.arg for argument in stubbed], name
        defaults = [p.default for p in signature.parameters.values() if p.default is not inspect.Parameter.empty]
        stubbed = [ast.literal_eval(value) for value in arguments.defaults + arguments.kw_defaults if value]
        assert defaults == stubbed, name


def test_docstrings():
    for name in parascan.__all__:
        if inspect.isfunction(getattr(parascan, name)):
            assert "hape" in getattr(parascan, name).__doc__, name


def test_the_command():
    printed = subprocess.run([sys.executable, "-m", "parascan"], capture_output=True, text=True, check=True).stdout
    for word in ("parascan", "driver", "device", "kernels", "NVRTC", "CPU"):
        assert f"\n{word}" in f"\n{printed}", printed
