"""Checks the types of the page's JavaScript with TypeScript: `python -m checks.page_types`.

`npx` installs the compiler for this check alone; neither the page nor the package contains it.
Without npm or a network the check prints SKIPPED. `checks/page/tsconfig.json` has the options of
the compiler. `checks/page/types.d.ts` has the types that modules share.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

TYPESCRIPT = "typescript@5.9.3"
PROJECT = Path(__file__).resolve().parent / "page"
PENDING = ("service/static/look/",)
"""Folders whose modules have no types yet. Faults in these modules do not fail the check."""

FAULT = re.compile(r"(?P<path>[^\s(]+)\(\d+,\d+\): error TS\d+: ")


def faults_of(output: str) -> list[str]:
    """Returns the faults in the compiler's output, each with the lines that explain it."""
    faults: list[str] = []
    for line in output.splitlines():
        if FAULT.match(line):
            faults.append(line)
        elif faults and line.startswith(" "):
            faults[-1] += f"\n{line}"
    return faults


def check() -> int:
    npx = shutil.which("npx")
    if npx is None:
        print("SKIPPED: npx was not found, so the types of the page are not checked. Install npm.")
        return 0
    command = [npx, "--yes", "--package", TYPESCRIPT, "--", "tsc", "--pretty", "false", "-p"]
    done = subprocess.run([*command, str(PROJECT)], capture_output=True, text=True, check=False)
    faults = faults_of(done.stdout)
    if done.returncode and not faults:
        reason = (done.stderr or done.stdout).strip().splitlines()
        print(f"SKIPPED: {TYPESCRIPT} could not run, so the types of the page are not checked:")
        print("\n".join(reason[:5]))
        return 0
    found = [fault for fault in faults if not fault.startswith(PENDING)]
    print("\n".join([*found, f"The page has {len(found)} faults of types."]))
    if len(found) < len(faults):
        print(f"{len(faults) - len(found)} more faults are in {', '.join(PENDING)}.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(check())
