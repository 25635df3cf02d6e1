"""A job on a real Ray cluster: three nodes on this machine, on which an actor, a node and the driver are killed.

Whatever dies, each recording has exactly one row, with the text of the command line. Needs Ray, from the environment of
`tools/python-env ray` (or $MXW_RAY_PYTHON, an interpreter that has it), tiny.en and the package speech.
"""
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def interpreter_with_ray():
    """This one becomes it; without one, the test is skipped by name."""
    if importlib.util.find_spec("ray"):
        return
    python = os.environ.get("MXW_RAY_PYTHON")
    if not python:
        found = subprocess.run([os.path.join(ROOT, "tools", "python-env"), "ray", "--path"], capture_output=True,
                               text=True, check=False)
        python = found.stdout.strip()
    if not python or "MXW_RAY_TRIED" in os.environ:
        print("SKIP: python-ray-cluster: Ray is not on this machine (tools/python-env ray)")
        sys.exit(77)
    os.execve(python, [python, *sys.argv], {**os.environ, "MXW_RAY_TRIED": "1"})


interpreter_with_ray()
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import python_kit as kit  # noqa: E402

LONG = "prompts-161s.wav"
CLIPS = (LONG, "two_cities.wav", "beckett.wav", "endgame_nagg_nell.wav", "pocketsphinx-goforward.wav",
         "pocketsphinx-numbers.wav", "pocketsphinx-something.wav", "pocketsphinx-librivox-0870.wav",
         "pocketsphinx-librivox-0880.wav", "pocketsphinx-librivox-0890.wav", "pocketsphinx-cards-001.wav",
         "pocketsphinx-cards-002.wav")
STORE = 100 << 20   # bytes of each node's object store: little, and enough
PATIENCE_S = 600    # only so that nothing waits for ever


def children_of(pid):
    """(pid, name) of the processes that it started."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as stream:
                    text = stream.read()
                with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as stream:
                    line = stream.read()
            except OSError:
                continue
            if int(text.rsplit(")", 1)[1].split()[1]) == pid:
                found.append((int(name), line))
    return found


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = kit.released("tiny.en")
        cls.clips = [kit.speech(name) for name in CLIPS]
        cls.want = cls.by_command_line()
        from ray.cluster_utils import Cluster as RayCluster
        one = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": STORE}
        cls.cluster = RayCluster(initialize_head=True, head_node_args={**one, "include_dashboard": False})
        cls.addClassCleanup(cls.cluster.shutdown)
        cls.one = one
        cls.nodes = [cls.cluster.add_node(**one) for _ in range(2)]
        cls.cluster.wait_for_nodes()

    @classmethod
    def by_command_line(cls):
        """Name to (text, segments)."""
        out = os.path.join(kit.FOLDER, "command")
        subprocess.run([kit.command(), *cls.clips, "--model", cls.model, "--output-dir", out, "--format", "json",
                        "--quiet"], check=True)
        made = {}
        for clip in cls.clips:
            name = os.path.splitext(os.path.basename(clip))[0] + ".json"
            with open(os.path.join(out, name), encoding="utf-8") as stream:
                whole = json.load(stream)
            made[clip] = (whole["text"], [(one["start"], one["end"], one["text"], one["tokens"])
                                          for one in whole["segments"]])
        return made

    # ---- a job and its end ---------------------------------------------------------------------------------------

    def begin(self, name, clips, *words):
        """The command, on the cluster; rows and windows are kept at once."""
        self.output = os.path.join(kit.FOLDER, name)
        manifest = os.path.join(kit.FOLDER, name + ".jsonl")
        with open(manifest, "w", encoding="utf-8") as stream:
            for clip in [*clips, "/no/such/recording.wav"]:
                print(json.dumps({"path": clip}), file=stream)
        command = [sys.executable, "-m", "max_whisper.ray", manifest, self.output, "--address", self.cluster.address,
                   "--model", self.model, "--cpus", "1", "--keep-every", "0", "--output-format", "jsonl", *words]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: job.poll() is None and job.kill())
        return job

    def finish(self, job, clips):
        """Every recording exactly once, the one that is not there with its error, the others with the right text."""
        out, said = job.communicate(timeout=PATIENCE_S)
        self.assertEqual((job.returncode, out.strip()), (1, os.path.join(self.output, "results.jsonl")), said)
        with open(out.strip(), encoding="utf-8") as stream:
            rows = [json.loads(line) for line in stream]
        self.assertEqual(sorted(row["path"] for row in rows), sorted([*clips, "/no/such/recording.wav"]))
        for row in rows:
            if row["path"] not in self.want:
                self.assertTrue(row["error"] and row["text"] is None)
                continue
            self.assertIsNone(row["error"], row)
            self.assertEqual((row["text"], [(one["start"], one["end"], one["text"], one["tokens"])
                                            for one in row["segments"]]), self.want[row["path"]])
        self.assertEqual(sorted(os.listdir(self.output)), ["job.json", "results.jsonl"])
        return {row["path"]: row for row in rows}

    def until(self, job, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if job.poll() is not None:
                self.fail(f"the job ended before {what}: {job.stderr.read()}")
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def kept(self, folder):
        try:
            return [name for name in os.listdir(os.path.join(self.output, folder)) if not name.startswith(".")]
        except FileNotFoundError:
            return []

    def actors_on(self, node):
        """Processes of the actors of a node."""
        raylets = [info.process.pid for kind, processes in node.all_processes.items() if kind == "raylet"
                   for info in processes]
        return [pid for raylet in raylets for pid, line in children_of(raylet) if "MapWorker" in line]

    # ---- what dies -----------------------------------------------------------------------------------------------

    def test_actor(self):
        job = self.begin("actor", self.clips)
        self.until(job, lambda: self.kept("parts"), "a row was kept")
        victims = self.actors_on(self.nodes[0])
        self.assertTrue(victims)
        os.kill(victims[0], signal.SIGKILL)
        rows = self.finish(job, self.clips)
        self.assertEqual(len(rows), len(self.clips) + 1)

    def test_driver(self):
        """And a long recording goes on inside."""
        from max_whisper.ray._job import key_of
        long = next(clip for clip in self.clips if clip.endswith(LONG))
        windows = f"windows/{key_of(long)}"
        job = self.begin("driver", self.clips)
        self.until(job, lambda: len(self.kept(windows)) >= 2 and self.kept("parts"), "two windows and a row were kept")
        job.kill()
        job.communicate()
        before = {}
        for name in self.kept("parts"):
            with open(os.path.join(self.output, "parts", name), encoding="utf-8") as stream:
                before.update((row["path"], row) for row in map(json.loads, stream))
        self.assertNotIn(long, before)
        rows = self.finish(self.begin("driver", self.clips), self.clips)
        for path, row in before.items():
            self.assertEqual(rows[path], row)   # was not done again
        self.assertGreaterEqual(rows[long]["windows_resumed"], 2)
        self.assertGreater(rows[long]["windows"], rows[long]["windows_resumed"])

    def test_node(self):
        job = self.begin("node", self.clips)
        victim = self.nodes.pop()
        self.addCleanup(lambda: self.nodes.append(self.cluster.add_node(**self.one)))
        self.until(job, lambda: self.kept("parts") and self.actors_on(victim), "a row was kept and the node works")
        self.cluster.remove_node(victim, allow_graceful=False)
        self.finish(job, self.clips)

    # ---- nothing dies --------------------------------------------------------------------------------------------

    def test_again_and_errors(self):
        clips = self.clips[4:7]
        self.finish(self.begin("again", clips), clips)
        stamp = os.stat(os.path.join(self.output, "results.jsonl")).st_mtime_ns
        self.finish(self.begin("again", clips), clips)
        self.assertEqual(os.stat(os.path.join(self.output, "results.jsonl")).st_mtime_ns, stamp)
        more = self.clips[4:9]
        self.finish(self.begin("again", more, "--retry-errors"), more)

    def test_model_that_is_not_there(self):
        job = self.begin("model", self.clips[4:5], "--model", "/no/such/model.pt")
        _, said = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 1)
        line = said.strip().splitlines()[-1]
        self.assertRegex(line, r"max-whisper-ray: .*/no/such/model.pt")

    def test_map_batches(self):
        """The class by itself, as docs/cluster.md shows it."""
        program = f"""
import ray, max_whisper.ray
ray.init(address={self.cluster.address!r}, log_to_driver=False)
clips = {self.clips[4:7]!r}
rows = ray.data.from_items([dict(path=clip, mine=i) for i, clip in enumerate(clips)], override_num_blocks=3)
rows = rows.map_batches(max_whisper.ray.Transcriber, fn_constructor_kwargs=dict(model={self.model!r}), batch_size=1,
                        compute=ray.data.ActorPoolStrategy(size=2), num_cpus=1)
import json
print(json.dumps([[row["path"], row["text"], row["mine"], row["segments"]] for row in rows.take_all()]))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(sorted(row[2] for row in rows), [0, 1, 2])
        for path, text, _, segments in rows:
            self.assertEqual((text, segments[0]["text"]), (self.want[path][0], self.want[path][1][0][2]))


if __name__ == "__main__":
    kit.main("python-ray-cluster")
