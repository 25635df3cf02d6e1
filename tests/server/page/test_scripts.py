"""tests/server/page/test_scripts.py - the page's scripts under node: their syntax, and test_scripts.mjs for the parts
that need no browser (times after edits, formats, resampling, events). Skipped where there is no node."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("MXW_SOURCE_ROOT") or os.path.abspath(os.path.join(HERE, "..", "..", ".."))
node = shutil.which("node") or shutil.which("nodejs")
if not node:
    print("SKIP: page-scripts: node is not installed", flush=True)
    sys.exit(77)
with tempfile.TemporaryDirectory(prefix="page-scripts-") as folder:
    # Files called .js are modules only where a package says so.
    with open(os.path.join(folder, "package.json"), "w", encoding="ascii") as stream:
        stream.write('{"type": "module"}')
    for path in glob.glob(os.path.join(ROOT, "apps", "server", "page", "www", "*.js")):
        shutil.copy(path, folder)
    shutil.copy(os.path.join(HERE, "test_scripts.mjs"), folder)
    for path in sorted(glob.glob(os.path.join(folder, "*.js"))):
        if subprocess.run([node, "--check", path], check=False).returncode:
            sys.exit(f"syntax: {os.path.basename(path)}")
    sys.exit(subprocess.run([node, os.path.join(folder, "test_scripts.mjs")], check=False).returncode)
