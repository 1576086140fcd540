"""What pyproject.toml cannot say: compile the C operators into a library, and make a release.

The library lies beside ``native.py`` and uses no part of Python: it needs no Python headers, and
one wheel per platform serves every Python 3. Where no compiler is found (``CC``, else cc, gcc or
clang) the wheel is for any platform and reads in float, more slowly.

The version is that of the tag, and the links of the README lead to it. Two builds of one commit are
the same to the last byte, and the wheel has a list of its parts. What does this is in ``release/``.
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
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # which a build in isolation leaves out

from release.archive import write_archive  # noqa: E402
from release.description import description  # noqa: E402
from release.parts import NAME, parts  # noqa: E402
from release.version import NUMBER, moment, stamped, version  # noqa: E402

VERSION = version(ROOT)
MOMENT = moment(ROOT)
os.environ["SOURCE_DATE_EPOCH"] = str(MOMENT)  # which setuptools dates the files of a wheel by
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
    """Build, and the library with it; the code that was built says its version."""

    sub_commands = [*build.sub_commands, ("build_native", None)]

    def run(self) -> None:
        super().run()
        built = Path(self.build_lib) / NUMBER.relative_to("src")
        if built.is_file():  # as it is but for an editable installation
            code = built.read_text(encoding="utf-8")
            built.unlink()  # it may be a link to the source
            built.write_text(stamped(code, VERSION), encoding="utf-8")


class Source(sdist):
    """The source archive, the same whoever makes it."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        target = Path(f"{base_name}.tar.gz")
        write_archive(Path(base_dir), target, MOMENT)
        return str(target)


class Wheel(bdist_wheel):
    """A wheel for this platform and any Python 3, or for any platform without a compiler."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]

    def write_wheelfile(self, folder: str, *words: object, **more: object) -> None:
        super().write_wheelfile(folder, *words, **more)
        lists = Path(folder) / "sboms"
        lists.mkdir(exist_ok=True)
        package = Path(self.bdist_dir) / "rmreader"
        text = parts(ROOT / "pyproject.toml", package, VERSION, MOMENT)
        (lists / NAME).write_text(text, encoding="utf-8")
        # Modes depend on whoever checked the files out.
        for path in Path(self.bdist_dir).rglob("*"):
            if path.is_file():
                path.chmod(0o644)


class Package(Distribution):
    """To setuptools a library is an extension: it belongs where compiled things do."""

    def has_ext_modules(self) -> bool:
        return compiler() is not None


setup(
    version=VERSION,
    long_description=description((ROOT / "README.md").read_text(encoding="utf-8"), VERSION),
    long_description_content_type="text/markdown",
    distclass=Package,
    cmdclass={"build": Build, "build_native": BuildNative, "bdist_wheel": Wheel, "sdist": Source},
)
