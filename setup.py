"""The one step that pyproject.toml cannot say: compile the C operators into a library.

The library lies beside ``native.py`` and uses no part of Python: it needs no Python headers, and
one wheel per platform serves every Python 3. Where no compiler is found (``CC``, else cc, gcc or
clang) the wheel is for any platform and reads in float, more slowly.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

ROOM = Path("src/rmreader/reading/engine")
LIBRARY = ROOM / "_native.so"
FLAGS = ["-O3", "-std=gnu11", "-ffp-contract=off", "-Wno-psabi", "-fPIC", "-shared"]


def compiler() -> list[str] | None:
    """The command that compiles C, or None."""
    if "CC" in os.environ:
        return shlex.split(os.environ["CC"]) or None
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    return None


class BuildNative(Command):
    """Compile into the build folder, or into the source tree for an editable installation."""

    description = "compile the operators in C"
    user_options: list = []
    editable_mode = False

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        target = self.target()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        command = compiler()
        # Renamed when whole: running processes may have the previous library mapped.
        made = target.with_suffix(".new")
        arguments = [*FLAGS, *map(str, sorted(ROOM.glob("c/*.c"))), "-o", str(made)]
        if command is None or subprocess.run([*command, *arguments]).returncode:
            print(
                "rmreader: no working C compiler, so the 8-bit readers will be read in float",
                file=sys.stderr,
            )
            made.unlink(missing_ok=True)
            return
        made.replace(target)

    def target(self) -> Path:
        return LIBRARY if self.editable_mode else Path(self.build_lib) / LIBRARY.relative_to("src")

    def get_source_files(self) -> list[str]:
        return [str(path) for path in sorted(ROOM.glob("c/*.[ch]"))]

    def get_outputs(self) -> list[str]:
        return [str(self.target())] if self.target().exists() else []

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class Build(build):
    """Build, and the library with it."""

    sub_commands = [*build.sub_commands, ("build_native", None)]


class Wheel(bdist_wheel):
    """A wheel for this platform and any Python 3, or for any platform without a compiler."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class Package(Distribution):
    """To setuptools a library is an extension: it belongs where compiled things do."""

    def has_ext_modules(self) -> bool:
        return compiler() is not None


setup(
    distclass=Package,
    cmdclass={"build": Build, "build_native": BuildNative, "bdist_wheel": Wheel},
)
