"""``rmreader doctor``: what this installation can do."""

from __future__ import annotations

import dataclasses

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, table


@app.command()
def doctor(json: Json = False) -> None:
    """Versions, devices, kernels, shipped readers, and what is missing and how to get it."""
    from rmreader.doctor import diagnose

    found = diagnose()
    if json:
        emit_json(dataclasses.asdict(found))
        return
    rows = [*found.versions.items()]
    rows += [("device", device) for device in found.devices]
    rows += [(f"kernel {name}", state) for name, state in found.kernels.items()]
    rows += [(f"reader {r.name}", f"{r.bytes / 1e6:.1f} MB, {r.state}") for r in found.readers]
    rows += [("readers", "none shipped")] * (not found.readers)
    for extra in found.extras:
        missing = f"missing {', '.join(extra.missing)}: {extra.get}" if extra.missing else "present"
        rows.append((f"extra {extra.name}", missing))
    rows += [(f"folder {name}", place) for name, place in found.folders.items()]
    table(rows, ("what", "state"))
