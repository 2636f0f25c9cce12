"""The package itself: its stub, its docstrings, its command."""

import ast
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import parascan
import pytest


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
    for word in ("parascan", "device", "kernels", "NVRTC", "CPU"):
        assert f"\n{word}" in f"\n{printed}", printed


@pytest.mark.skipif(not (sys.platform == "linux" and shutil.which("cc")), reason="the driver is one written in C")
@pytest.mark.parametrize("version, major", [(12040, 12), (13000, 13), (14010, 13)])
def test_the_compiler_is_no_newer_than_the_driver(tmp_path, version, major):
    for package, name in (("cuda_nvrtc", "libnvrtc.so.12"), ("cu13", "libnvrtc.so.13")):
        (tmp_path / "nvidia" / package / "lib").mkdir(parents=True)
        (tmp_path / "nvidia" / package / "lib" / name).touch()
    (tmp_path / "driver.c").write_text(f"int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}")
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PARASCAN_NVRTC"}
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment |= {"PYTHONPATH": path, "LD_LIBRARY_PATH": str(tmp_path)}
    program = "import os, parascan; print(os.environ['PARASCAN_NVRTC'])"
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip().endswith(f"libnvrtc.so.{major}")
