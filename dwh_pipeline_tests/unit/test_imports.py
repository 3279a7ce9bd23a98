"""Importing the package does nothing: no Java, no environment, no file but the modules themselves.

One process imports every module twice. The first time brings in what others wrote; then our modules are forgotten and
imported again under watch, so that whatever is seen was done by an import of ours.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dwh_pipeline

_PACKAGE = Path(dwh_pipeline.__file__).parent

# What libraries read for themselves whenever a class or command is declared with them: pydantic its own switch, click
# the language of its texts. No setting of ours.
_OF_LIBRARIES = {"PYDANTIC_DISABLE_PLUGINS", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"}

_WATCHED_IMPORT = """
import importlib, json, os, pkgutil, sys

package_folder = sys.argv[1]
seen = {"modules": [], "started": [], "environment": [], "files": []}
watching = False


def where():
    frame = sys._getframe()
    while frame and not frame.f_code.co_filename.startswith(package_folder):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "not from a module of the package"


def audit(event, arguments):
    if not watching:
        return
    if event in ("subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.system", "socket.connect"):
        seen["started"].append([event, repr(arguments)[:200], where()])
    elif event == "open":
        path, mode, flags = arguments
        name = os.fsdecode(path) if isinstance(path, (str, bytes)) else repr(path)
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if writes or not (name.startswith(package_folder) and name.endswith((".py", ".pyc"))):
            seen["files"].append([name, mode, where()])
    elif event in ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree", "tempfile.mkdtemp"):
        seen["files"].append([event, repr(arguments)[:200], where()])


def noted(method):
    def read(self, *arguments):
        if watching:
            seen["environment"].append([str(arguments[0]) if arguments else "all of it", where()])
        return method(self, *arguments)

    return read


def import_all():
    package = importlib.import_module("dwh_pipeline")
    names = [module.name for module in pkgutil.walk_packages(package.__path__, "dwh_pipeline.")]
    for name in names:
        importlib.import_module(name)
    return names


sys.addaudithook(audit)
import_all()
for name in [name for name in sys.modules if name.partition(".")[0] == "dwh_pipeline"]:
    del sys.modules[name]
environment = type(os.environ)
for method in ("__getitem__", "__iter__", "__setitem__", "__delitem__"):
    setattr(environment, method, noted(getattr(environment, method)))
watching = True
seen["modules"] = import_all()
watching = False

from pyspark import SparkContext

seen["java"] = SparkContext._gateway is not None or SparkContext._active_spark_context is not None
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was seen while every module of the package was imported, in a folder that is not the project's."""
    process = subprocess.run(
        [sys.executable, "-B", "-c", _WATCHED_IMPORT, str(_PACKAGE)],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    found: dict[str, Any] = json.loads(process.stdout)
    return found


def test_every_module_was_imported(seen: dict[str, Any]) -> None:
    files = [path.relative_to(_PACKAGE.parent).with_suffix("") for path in _PACKAGE.rglob("*.py")]
    names = {".".join(path.parts).removesuffix(".__init__") for path in files} - {"dwh_pipeline"}
    assert set(seen["modules"]) == names


def test_importing_starts_no_java_and_no_other_process(seen: dict[str, Any]) -> None:
    assert not seen["java"]
    assert seen["started"] == []


def test_importing_reads_no_environment(seen: dict[str, Any]) -> None:
    assert [[name, place] for name, place in seen["environment"] if name not in _OF_LIBRARIES] == []


def test_importing_opens_nothing_but_the_modules_and_writes_nothing(seen: dict[str, Any]) -> None:
    assert seen["files"] == []
