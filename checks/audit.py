"""Looks for known vulnerabilities of the locked packages: `python -m checks.audit PIP_AUDIT LOCK`.

PIP_AUDIT is the program pip-audit, and LOCK is the file with the locked versions. Without data
about any package, the audit is skipped: the reason is printed, and the exit status is 0.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def audit(program: str, lock: str) -> tuple[int, list[str]]:
    """Runs pip-audit; returns an exit status and the lines to print."""
    command = [program, "--requirement", lock, "--no-deps", "--disable-pip", "--format", "json"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        packages: list[dict[str, Any]] = json.loads(result.stdout)["dependencies"]
    except OSError as error:
        return 0, [f"audit skipped: {program} cannot be run ({error.strerror})"]
    except ValueError:
        lines = result.stderr.strip().splitlines() or ["it printed nothing"]
        return 0, [f"audit skipped: pip-audit got no data ({lines[-1]})"]
    known = [each for each in packages if "vulns" in each]
    if not known:
        reasons = {each.get("skip_reason", "").partition(":")[0] for each in packages}
        return 0, [f"audit skipped: no data about any package ({'; '.join(sorted(reasons))})"]
    faults = [
        f"{each['name']} {each['version']}: {fault['id']}, fixed in "
        f"{', '.join(fault['fix_versions']) or 'no version'}"
        for each in known
        for fault in each["vulns"]
    ]
    count = f"{len(known)} of {len(packages)} packages audited, {len(faults)} vulnerabilities"
    return int(bool(faults)), [*faults, count]


def main(arguments: Sequence[str]) -> int:
    status, lines = audit(*arguments)
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
