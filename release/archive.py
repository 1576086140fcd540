"""The source archive, the same to the last byte whoever makes it from the same files."""

import gzip
import tarfile
from pathlib import Path


def write_archive(folder: Path, target: Path, moment: int) -> None:
    """Write ``folder`` as a gzipped tar: names in order, one date, no owner, plain modes."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime = moment
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        runs = entry.isdir() or entry.mode & 0o100
        entry.mode = 0o755 if runs else 0o644
        return entry

    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=moment) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in [folder, *sorted(folder.rglob("*"))]:
            # A link, or a file that setuptools linked, is written as what it leads to.
            entry = archive.gettarinfo(path, path.relative_to(folder.parent).as_posix())
            if path.is_file():
                entry.type = tarfile.REGTYPE
                entry.size = path.stat().st_size
                with path.open("rb") as content:
                    archive.addfile(plain(entry), content)
            else:
                archive.addfile(plain(entry))
