"""Makes the npm package of a version: npm.py VERSION FOLDER

FOLDER gets acp-proxy-VERSION.tgz. The package has no code of acp-proxy: it starts the version of the same number.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

TEMPLATE = Path(__file__).parent / "npm"
LICENSE = Path(__file__).parents[1] / "LICENSE"


def main() -> None:
    reader = argparse.ArgumentParser(description="Make the npm package of a version.")
    reader.add_argument("version", metavar="VERSION")
    reader.add_argument("folder", type=Path, metavar="FOLDER", help="gets acp-proxy-VERSION.tgz")
    given = reader.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    npm = shutil.which("npm")
    if npm is None:
        reader.error("npm is missing: install Node.js")
    with tempfile.TemporaryDirectory() as away:
        package = Path(away, "package")
        shutil.copytree(TEMPLATE, package)
        shutil.copy(LICENSE, package)
        described = package / "package.json"
        about = json.loads(described.read_text(encoding="utf-8")) | {"version": given.version}
        described.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        os.chmod(package / "acp-proxy.js", 0o755)
        target = str(given.folder.resolve())
        subprocess.run([npm, "pack", "--silent", "--pack-destination", target], cwd=package, check=True)


if __name__ == "__main__":
    main()
