"""From the public data to the readers that ship, by one command.

    python -m lab.foundry --data DATA --encoders ENCODERS --work runs/foundry

DATA has SQuAD 1.1 and 2.0, the attacked sets, `more-questions` and prose, as `docs/data.md` lists
them; ENCODERS has `mpnet` and `gte-small`, as `python -m lab.foundry.fetch` writes them. Interrupt
it whenever you like: the same command goes on where it stopped. Every stage prints what it cost;
`--until STAGE` stops after one, `--share 0.1` rehearses on a tenth of the data.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.foundry.stages import STAGES, STUDENTS, TEACHERS, Foundry
from rmreader.core.errors import UserError


def main() -> None:
    """Read the command line, then run the stages that are not done yet."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.foundry",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [stage.__name__ for stage in STAGES]
    parser.add_argument("--data", type=Path, required=True, help="the public data")
    parser.add_argument("--encoders", type=Path, required=True, help="what lab.foundry.fetch wrote")
    parser.add_argument("--work", type=Path, required=True, help="where everything is made")
    parser.add_argument("--share", type=float, default=1.0, help="of the data, to rehearse")
    parser.add_argument("--until", choices=names, default=names[-1], help="the last stage to run")
    parser.add_argument(
        "--teachers",
        nargs="+",
        choices=TEACHERS,
        default=TEACHERS[:1],
        help="those to learn from; the readers that ship had the first alone",
    )
    parser.add_argument(
        "--students", nargs="+", choices=STUDENTS, default=STUDENTS, help="those to make"
    )
    parser.add_argument("settings", nargs="*", help="changes to every recipe: section.key=value")
    args = parser.parse_args()
    foundry = Foundry(
        data=args.data,
        encoders=args.encoders,
        work=args.work,
        share=args.share,
        settings=tuple(args.settings),
        teachers=tuple(args.teachers),
        students=tuple(args.students),
    )
    try:
        foundry.run(args.until)
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
