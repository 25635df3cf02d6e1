"""Jobs of max_whisper.ray as far as they need no Ray: manifests, order, stores, window records, rows, workers that die.

What needs pyarrow or fsspec is skipped by name where they are not installed.
"""
import importlib.util
import io
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import unittest

import numpy as np
import python_kit as kit

from max_whisper import ray as cluster
from max_whisper._audio import wav_bytes
from max_whisper.ray import _job, _journal, _manifest, _rows, _store
from max_whisper.ray.__main__ import job_of, main, parser
from max_whisper.ray._cluster import Cluster, fit
from max_whisper.ray._worker import Worker

QUICK = dict(beam_size=None, temperature_increment=None, sample_len=12, no_speech_threshold=None)
FORMATS = ["jsonl"] + (["parquet"] if importlib.util.find_spec("pyarrow") else [])


def folder(name):
    path = os.path.join(kit.FOLDER, name)
    os.makedirs(path, exist_ok=True)
    return path


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(data if isinstance(data, bytes) else data.encode())
    return path


def sound(name, seconds, seed=1):
    return put(os.path.join(folder("sounds"), name), wav_bytes(kit.noise(seconds, seed), 16000))


def needs(package):
    return unittest.skipUnless(importlib.util.find_spec(package), f"{package} is not installed")


def make_job(name, **more):
    return cluster.Job(folder(name), **{"model": kit.small_model(), "format": "jsonl", "threads": 1, "batch": 2,
                                        "interval_s": 0.0, "options": dict(QUICK), **more})


def rows_of(job):
    with open(os.path.join(job.output, job.results), "rb") as stream:
        return list(_rows.decode(stream, job.format))


class Manifest(unittest.TestCase):
    def refused(self, source, part, column=None):
        with self.assertRaises(_manifest.ManifestError) as caught:
            cluster.read_manifest(source, column)
        self.assertIn(part, str(caught.exception))
        self.assertIn(source, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_json_lines(self):
        path = put(os.path.join(folder("lists"), "a.jsonl"), '{"path": "x/1.wav", "duration": 7}\n\n'
                   '{"path": "/abs/2.wav", "size": 32000}\n{"path": "s3://b/3.wav"}\n{"path": "x/1.wav"}\n')
        self.assertEqual(cluster.read_manifest(path), [
            cluster.Entry(os.path.join(folder("lists"), "x/1.wav"), 7.0), cluster.Entry("/abs/2.wav", 2.0),
            cluster.Entry("s3://b/3.wav", None)])

    def test_columns(self):
        path = put(os.path.join(folder("lists"), "b.jsonl"), '{"audio_filepath": "/a.wav", "mine": "/b.wav"}\n')
        self.assertEqual(cluster.read_manifest(path)[0].path, "/a.wav")
        self.assertEqual(cluster.read_manifest(path, "mine")[0].path, "/b.wav")
        self.refused(path, "no column 'other'; it has 'audio_filepath', 'mine'", "other")

    def test_refused(self):
        lists = folder("lists")
        self.refused(os.path.join(lists, "none.jsonl"), "no such file")
        self.refused(os.path.join(lists, "none"), "no such file or folder")
        self.refused(put(os.path.join(lists, "c.txt"), "x"), "expected a folder, or a file .parquet or .jsonl")
        self.refused(put(os.path.join(lists, "empty.jsonl"), ""), "no recordings")
        self.refused(folder("nothing"), "no recordings in this folder")
        self.refused(folder("nothing"), "a folder has no column", "x")
        for text, part in (('{"path": "a"}\n{"path"', "line 2: not JSON"),
                           ("[1]", "line 1: expected an object, not list"),
                           ('{"path": 7}', "line 1: path: expected a path, not 7"), ('{"path": ""}', "expected a path"),
                           ('{"text": "a"}', "no column of paths"), ('{"path": "a", "duration": "x"}', "duration: 'x'"),
                           ('{"path": "a", "duration": -1}', "duration: -1 is not a length")):
            self.refused(put(os.path.join(lists, "d.jsonl"), text), part)

    @needs("pyarrow")
    def test_parquet(self):
        import pyarrow as pa
        import pyarrow.parquet as pq
        path = os.path.join(folder("lists"), "a.parquet")
        pq.write_table(pa.table({"url": ["/1.wav", "2.wav"], "duration": [3.5, None], "more": [1, 2]}), path)
        self.assertEqual(cluster.read_manifest(path), [
            cluster.Entry("/1.wav", 3.5), cluster.Entry(os.path.join(folder("lists"), "2.wav"), None)])
        self.refused(path, "no column 'x'; it has 'url', 'duration', 'more'", "x")
        self.refused(put(os.path.join(folder("lists"), "b.parquet"), "no parquet"), "not a Parquet file")

    def test_folder(self):
        where = folder("tree")
        for name, size in (("b.WAV", 32000), ("a/c.mp3", 16000), ("a/notes.txt", 5), ("wav", 5)):
            put(os.path.join(where, name), b"x" * size)
        self.assertEqual(cluster.read_manifest(where), [
            cluster.Entry(os.path.join(where, "b.WAV"), 2.0), cluster.Entry(os.path.join(where, "a/c.mp3"), 1.0)])

    def test_extensions(self):
        """Those of the command line."""
        with open(os.path.join(kit.ROOT, "apps/cli/transcribe/inputs.c"), encoding="utf-8") as stream:
            table = re.search(r"extensions\[\] = \{(.*?)NULL", stream.read(), re.S).group(1)
        self.assertEqual(_manifest.EXTENSIONS, frozenset(re.findall(r'"(\w+)"', table)))

    def test_order(self):
        known = [cluster.Entry("a", 3.0), cluster.Entry(put(os.path.join(folder("tree"), "d.wav"), b"x" * 160000)),
                 cluster.Entry("/not/there.wav"), cluster.Entry("b", 3.0)]
        _manifest.measure(known)
        self.assertEqual([entry.seconds for entry in known], [3.0, 10.0, 0.0, 3.0])
        self.assertEqual([entry.path[-5:] for entry in _manifest.longest_first(known)], ["d.wav", "a", "b", "e.wav"])


class Units(unittest.TestCase):
    def test_each_once_and_longest_first(self):
        generator = np.random.default_rng(1)
        for n, actors, batch in ((1, 8, 32), (5, 2, 4), (300, 3, 4), (5000, 4, 32), (100000, 100, 32)):
            lengths = generator.exponential(60, n)
            entries = _manifest.longest_first([cluster.Entry(str(i), float(s)) for i, s in enumerate(lengths)])
            units = _job.units_of(entries, actors, batch)
            self.assertEqual([entry for unit in units for entry in unit], entries)
            self.assertTrue(all(units))
            self.assertLessEqual(len(units), _job.MOST_UNITS)
            share = lengths.sum() / actors
            for unit in units:   # no unit holds up the end
                seconds = sum(entry.seconds for entry in unit)
                self.assertTrue(seconds <= share / 32 + 1e-6 or (len(unit) <= batch and seconds <= share / 8 + 1e-6) or
                                len(unit) == 1 or n > 32 * _job.MOST_UNITS, (n, actors, len(unit)))
            if n >= 4 * actors:
                self.assertGreaterEqual(len(units), 4 * actors)

    def test_long_ones_apart(self):
        entries = [cluster.Entry(str(i), s) for i, s in enumerate((160.0, 160.0, 10.0, 5.0, 5.0, 4.0, 4.0, 3.0))]
        self.assertEqual([len(unit) for unit in _job.units_of(entries, 2, 4)][:2], [1, 1])

    def test_millions(self):
        entry = cluster.Entry("x", 5.0)
        self.assertLessEqual(len(_job.units_of([entry] * 2_000_000, 8000, 32)), _job.MOST_UNITS)

    def test_lengths_unknown(self):
        units = _job.units_of([cluster.Entry(str(i), 0.0) for i in range(100)], 2, 4)
        self.assertEqual(sum(map(len, units)), 100)
        self.assertGreater(len(units), 8)


class Fit(unittest.TestCase):
    def fit(self, nodes, device="auto", **more):
        return fit(Cluster(**more), cluster.Job("x", device=device), nodes)

    def test_fit(self):
        self.assertEqual(self.fit([{"CPU": 16.0}, {"CPU": 6.0}]), (5, 4, 0.0))
        self.assertEqual(self.fit([{"CPU": 16.0}, {"CPU": 1.0}]), (17, 1, 0.0))
        self.assertEqual(self.fit([{"CPU": 16.0}, {"CPU": 1.0}], cpus=2), (8, 2, 0.0))
        self.assertEqual(self.fit([{"CPU": 32.0, "GPU": 4.0}, {"CPU": 8.0}]), (4, 8, 1.0))
        self.assertEqual(self.fit([{"CPU": 32.0, "GPU": 4.0}, {"CPU": 8.0}], device="cpu"), (10, 4, 0.0))
        self.assertEqual(self.fit([{"CPU": 32.0, "GPU": 4.0}], gpus=0.5), (8, 4, 0.5))
        self.assertEqual(self.fit([{"CPU": 8.0}], actors=3), (3, 4, 0.0))
        for nodes, more, part in (([{"CPU": 2.0}], dict(cpus=3), "3 cores"), ([{"CPU": 2.0}], dict(gpus=1.0), "1 GPU"),
                                  ([{}], {}, "a core"), ([{"CPU": 2.0}], dict(device="cuda"), "1 GPU")):
            with self.assertRaisesRegex(cluster.JobError, part):
                self.fit(nodes, **more)


class Store(unittest.TestCase):
    def each(self):
        yield _store.Store(folder("store"))
        if importlib.util.find_spec("fsspec"):
            yield _store.Store("memory://store")

    def test_whole_or_nothing(self):
        for store in self.each():
            store.write("a/b", b"first")
            with self.assertRaises(ZeroDivisionError), store.replacing("a/b") as stream:
                stream.write(b"half of the sec")
                raise ZeroDivisionError
            self.assertEqual((store.read("a/b"), store.read("a/b", 1, 3)), (b"first", b"ir"))
            with store.replacing("a/b") as stream:
                stream.write(b"second")
                self.assertEqual(store.names("a"), ["b"])
            self.assertEqual(store.names("a"), ["b"])
            with store.open("a/b") as stream:
                self.assertEqual(stream.read(), b"second")
            self.assertEqual(pickle.loads(pickle.dumps(store)).read("a/b"), b"second")
            self.assertEqual((store.names("none"), store.read_or_none("none/x")), ([], None))
            with self.assertRaises(FileNotFoundError):
                store.read("none")
            store.remove("a")
            store.remove("a")
            self.assertEqual((store.exists("a/b"), store.names("a")), (False, []))

    def test_paths(self):
        self.assertEqual(_store.absolute("b.wav", "s3://x/y"), "s3://x/y/b.wav")
        self.assertEqual(_store.absolute("file:///b.wav", "/y"), "/b.wav")
        self.assertEqual(_store.absolute("../b.wav", "/y/z"), "/y/b.wav")

    @unittest.skipIf(importlib.util.find_spec("fsspec"), "fsspec is installed")
    def test_without_fsspec(self):
        with self.assertRaisesRegex(ImportError, "s3://x: needs|s3://x needs the package fsspec: pip install"):
            _store.Store("s3://x")


class Windows(unittest.TestCase):
    """Finished windows of a recording are not decoded again."""

    def setUp(self):
        self.store = _store.Store(folder("windows-store"))
        self.maker = cluster.Transcriber(kit.small_model(), threads=1, batch=1, **QUICK)
        self.sound = kit.noise(100)
        self.addCleanup(self.maker.close)
        self.addCleanup(self.store.remove, "windows")

    def journal(self, look=True, interval=0.0):
        return _journal.Journal(self.store, "key", interval, look)

    def test_resume(self):
        want = self.maker.result(self.sound)
        self.assertGreater(want.n_windows, 2)
        whole = self.journal(False)
        self.assertEqual(self.maker.result(self.sound, whole).segments, want.segments)
        records = self.journal().stored()
        self.assertEqual(len(records), want.n_windows)
        self.store.remove(f"windows/key/{len(records):08d}")
        again = self.journal()
        got = self.maker.result(self.sound, again)
        self.assertEqual((got.segments, again.n_resumed), (want.segments, len(records) - 1))
        self.assertEqual(self.journal().stored(), records)

    def test_other_recording(self):
        self.maker.result(self.sound, self.journal(False))
        other = kit.noise(40, 7)
        again = self.journal()
        self.assertEqual(self.maker.result(other, again).segments, self.maker.result(other).segments)
        self.assertEqual(again.n_resumed, 0)
        kept = self.journal()
        self.assertEqual(self.maker.result(other, kept).n_windows, kept.n_resumed)

    def test_damage(self):
        journal = self.journal(False)
        for record in (b"one", b"two", b"three"):
            journal.add(record)
        self.assertEqual(self.journal().stored(), [b"one", b"two", b"three"])
        data = bytearray(self.store.read("windows/key/00000002"))
        data[-1] ^= 1
        self.store.write("windows/key/00000002", bytes(data))
        self.assertEqual(self.journal().stored(), [b"one"])
        self.store.write("windows/key/00000002", bytes(data)[:5])
        self.assertEqual(self.journal().stored(), [b"one"])
        self.store.remove("windows/key/00000002")
        self.assertEqual(self.journal().stored(), [b"one"])

    def test_interval(self):
        journal = self.journal(False, 1000.0)
        journal.add(b"one")
        self.assertEqual(self.journal().stored(), [])


class Rows(unittest.TestCase):
    def test_formats(self):
        maker = cluster.Transcriber(kit.small_model(), threads=1, batch=2, **{**QUICK, "word_timestamps": True})
        self.addCleanup(maker.close)
        rows = maker.rows([sound("a.wav", 2), "/not/there.wav"])
        self.assertEqual([row["error"] is None for row in rows], [True, False])
        self.assertIn("/not/there.wav", rows[1]["error"])
        self.assertTrue(rows[0]["text"] and rows[0]["segments"][0]["words"] and rows[0]["times"]["total_ms"] > 0)
        self.assertAlmostEqual(rows[0]["duration"], 2.0)
        for format in FORMATS:
            data = _rows.encode(rows * 200, format)
            back = list(_rows.decode(io.BytesIO(data), format))
            self.assertEqual(back, rows * 200)
            self.assertEqual(list(_rows.decode(io.BytesIO(data), format, ("path", "error")))[1],
                             {"path": "/not/there.wav", "error": rows[1]["error"]})

    @needs("pyarrow")
    def test_batches(self):
        import pyarrow as pa
        maker = cluster.Transcriber(kit.small_model(), threads=1, batch=2, **QUICK)
        self.addCleanup(maker.close)
        path = sound("a.wav", 2)
        with open(path, "rb") as stream:
            data = stream.read()
        want = maker.rows([path])[0]["text"]
        for batch in ({"path": np.array([path]), "more": np.array([7])}, pa.table({"path": [path], "more": [7]}),
                      {"bytes": np.array([data], object), "path": np.array(["x"]), "more": np.array([7])}):
            made = maker(batch)
            self.assertEqual((made["text"].to_pylist(), made["more"].to_pylist()), ([want], [7]))
            self.assertNotIn("bytes", made.column_names)
        with self.assertRaisesRegex(ValueError, "no column 'path' in the batch; it has 'file'"):
            maker({"file": [path]})

    def test_refused(self):
        with self.assertRaisesRegex(TypeError, "Transcriber: there is no option 'langauge'; did you mean 'language'"):
            cluster.Transcriber(kit.small_model(), langauge="en")
        with self.assertRaisesRegex(ValueError, "beam_size"):
            cluster.Transcriber(kit.small_model(), beam_size=-1)
        with self.assertRaises(FileNotFoundError):
            cluster.Transcriber("/no/such/model.pt")
        maker = cluster.Transcriber(kit.small_model(), threads=1)
        with self.assertRaisesRegex(TypeError, "cannot travel"):
            pickle.dumps(maker)
        maker.close()


class Jobs(unittest.TestCase):
    def begin(self, job, paths):
        store = _store.Store(job.output)
        job.begin(store)
        units = [[cluster.Entry(path)] if isinstance(path, str) else [cluster.Entry(one) for one in path]
                 for path in paths]
        return store, job.write_plan(store, units)

    def test_whole(self):
        files = [sound("a.wav", 2), sound("b ü.wav", 33, 2), "/not/there.wav",
                 put(folder("bad") + "/x.wav", "no sound")]
        for format in FORMATS:
            job = make_job("whole-" + format, format=format, files=["srt", "txt"], folder=folder("sounds"))
            store, places = self.begin(job, [files[:3], files[3:]])
            worker = Worker(job)
            reports = [worker.unit(number, place) for number, place in enumerate(places)]
            self.assertEqual([(one["files"], one["errors"], one["failure"]) for one in reports],
                             [(3, 1, None), (1, 1, None)])
            self.assertEqual(job.merge(store), (4, 2))
            rows = {row["path"]: row for row in rows_of(job)}
            self.assertEqual(sorted(rows), sorted(files))
            self.assertEqual(store.names(""), ["files", "job.json", job.results])
            with open(os.path.join(job.output, "files/b ü.wav.txt"), encoding="utf-8") as stream:
                self.assertEqual("".join(stream.read().split()), "".join(rows[files[1]]["text"].split()))
            self.assertTrue(os.path.exists(os.path.join(job.output, "files/a.wav.srt")))
            self.assertEqual(len(job.done(store)), 4)

    @needs("fsspec")
    def test_urls(self):
        """Recordings and output by URL."""
        import fsspec
        with open(sound("a.wav", 2), "rb") as stream:
            fsspec.filesystem("memory").pipe_file("/in/a.wav", stream.read())
        job = make_job("unused", files=["srt"])
        job.output = "memory://out"
        store, places = self.begin(job, [["memory://in/a.wav", "memory://in/b.wav", "nosuch://x", sound("a.wav", 2)]])
        self.assertEqual(Worker(job).unit(0, places[0])["errors"], 2)
        self.assertEqual(job.merge(store), (4, 2))
        with store.open(job.results) as stream:
            rows = {row["path"]: row for row in _rows.decode(stream, "jsonl")}
        self.assertTrue(rows["memory://in/a.wav"]["text"])
        self.assertEqual(rows["memory://in/a.wav"]["segments"], rows[sound("a.wav", 2)]["segments"])
        self.assertIn("FileNotFoundError", rows["memory://in/b.wav"]["error"])
        self.assertIn("nosuch", rows["nosuch://x"]["error"])
        self.assertTrue(store.read("files/in/a.wav.srt").strip())
        self.assertEqual(store.names(""), ["files", "job.json", job.results])

    def test_names(self):
        job = cluster.Job("x", folder="/data/in")
        for path, name in (("/data/in/a/b.wav", "files/a/b.wav.srt"), ("/data/other.wav", "files/data/other.wav.srt"),
                           ("s3://bucket/k/x.mp3", "files/bucket/k/x.mp3.srt"),
                           ("https://h/a?id=1", "files/h/a%3Fid=1.srt"),
                           ("s3://b/../../x", "files/b/%2E%2E/%2E%2E/x.srt")):
            self.assertEqual(job.file_name(path, "srt"), name)
        self.assertLess(len(job.file_name("/a/" + "ü" * 300, "srt")), 200)
        self.assertNotEqual(job.file_name("/a/" + "ü" * 300, "srt"), job.file_name("/a/" + "ü" * 301, "srt"))

    def test_other_options(self):
        job = make_job("options")
        store, places = self.begin(job, [sound("a.wav", 2)])
        make_job("options", model="base").begin(store)      # nothing is there yet
        job.begin(store)
        Worker(job).unit(0, job.write_plan(store, [[cluster.Entry(sound("a.wav", 2))]])[0])
        for more, part in ((dict(model="base"), "made with model"),
                           (dict(options={"beam_size": 2}), "made with options"),
                           (dict(format="parquet"), "made with format 'jsonl', not 'parquet'")):
            with self.assertRaisesRegex(cluster.JobError, part):
                make_job("options", **more).begin(store)
        store.remove("job.json")
        with self.assertRaisesRegex(cluster.JobError, "no job.json"):
            job.begin(store)

    def test_two_runs(self):
        """The older run may write nothing more."""
        job, path = make_job("two"), sound("a.wav", 2)
        store, places = self.begin(job, [path])
        other = make_job("two")
        other_places = self.begin(other, [path])[1]
        self.assertIn("another run has taken", Worker(job).unit(0, places[0])["failure"])
        with self.assertRaisesRegex(cluster.JobError, "another run"):
            job.merge(store)
        self.assertIsNone(Worker(other).unit(0, other_places[0])["failure"])
        self.assertEqual(other.merge(store), (1, 0))

    def test_each_once(self):
        """Rows of a run that was killed, and of the next one, for the same recordings."""
        job = make_job("once")
        store = self.begin(job, ["/x"])[0]
        good, bad = ({**_rows.empty_row("/x"), "text": "first"}, _rows.error_row("/x", "broken"))
        other = {**_rows.empty_row("/y"), "text": "y"}
        store.write("parts/a-000000-0000.jsonl", _rows.encode([bad, other], "jsonl"))
        store.write("parts/a-000001-0000.jsonl", _rows.encode([good], "jsonl"))
        store.write("parts/b-000000-0000.jsonl", _rows.encode([{**good, "text": "second"}, other], "jsonl"))
        self.assertEqual(list(job.done(store).values()), [False, False])
        self.assertEqual(job.merge(store), (2, 0))
        self.assertEqual(sorted((row["path"], row["text"]) for row in rows_of(job)), [("/x", "first"), ("/y", "y")])
        job.begin(store)   # more recordings later
        store.write("parts/c-000000-0000.jsonl", _rows.encode([_rows.error_row("/z", "broken")], "jsonl"))
        self.assertEqual(job.merge(store), (3, 1))
        self.assertEqual(job.done(store)[_job.key_of("/z")], True)
        job.begin(store)   # an error that was done again
        store.write("parts/d-000000-0000.jsonl", _rows.encode([{**good, "path": "/z"}], "jsonl"))
        self.assertEqual(job.merge(store), (3, 0))

    def test_failure(self):
        job = make_job("failure", model="/no/such/model.pt")
        self.assertIn("/no/such/model.pt", Worker(job).unit(0, (0, 0))["failure"])

    DYING = textwrap.dedent("""
        import os, pickle, sys
        from max_whisper.ray import _transcriber
        from max_whisper.ray._worker import Worker
        real = _transcriber.Transcriber.result
        def result(self, audio, *more):
            if audio.endswith("poison.wav"):
                os._exit(9)
            return real(self, audio, *more)
        _transcriber.Transcriber.result = result
        job, place = pickle.loads(bytes.fromhex(sys.argv[1]))
        print(Worker(job).unit(0, place))
        """)

    def test_recording_that_kills(self):
        """Found, and a row like any other; the rest of its unit is done, and what was done is not done again."""
        paths = [sound("a.wav", 2), sound("poison.wav", 2, 3), sound("c.wav", 3, 4)]
        job = make_job("poison", batch=1)
        store, places = self.begin(job, [paths])
        ends = []
        for _ in range(6):
            done = subprocess.run([sys.executable, "-c", self.DYING, pickle.dumps((job, places[0])).hex()], check=False,
                                  capture_output=True, text=True)
            ends.append(done.returncode)
            if done.returncode == 0:
                break
            self.assertEqual(done.returncode, 9, done.stderr)
        self.assertEqual(ends, [9, 9, 9, 0])
        self.assertEqual(job.merge(store), (3, 1))
        rows = {row["path"]: row for row in rows_of(job)}
        self.assertIn("the process that transcribed it died, 3 times", rows[paths[1]]["error"])
        self.assertTrue(rows[paths[0]]["text"] and rows[paths[2]]["text"])

    def test_long_recording_is_not_blamed(self):
        """One that came further each time before its process died is only long."""
        job, path = make_job("long"), sound("long.wav", 100)
        store, places = self.begin(job, [path])
        unit = job.run + "-000000"
        store.write(f"begun/{unit}", json.dumps({"attempt": 5, "alone": path, "windows": 0}).encode())
        key = _job.key_of(path)
        maker = cluster.Transcriber(kit.small_model(), threads=1, batch=1, **QUICK)
        want = maker.result(path, _journal.Journal(store, key, 0.0, False))
        maker.close()
        report = Worker(job).unit(0, places[0])
        self.assertEqual((report["errors"], report["attempt"]), (0, 6))
        job.merge(store)
        row, = rows_of(job)
        self.assertEqual((row["text"], row["windows_resumed"]), (want.text, want.n_windows))


class Command(unittest.TestCase):
    def run_it(self, *words):
        kept, sys.stderr = sys.stderr, io.StringIO()
        try:
            try:
                status = main([*words, "--quiet"])
            except SystemExit as end:
                status = end.code
            return status, sys.stderr.getvalue()
        finally:
            sys.stderr = kept

    def test_wrong(self):
        where, empty = folder("sounds"), folder("lists")
        sound("a.wav", 1)
        for words, status, part in (
                (("x.jsonl", "out"), 1, "x.jsonl: no such file"), (("x.jsonl",), 2, "OUTPUT"),
                ((where, "out", "--langauge", "en"), 2, "no option --langauge; did you mean --language?"),
                ((where, "out", "--beam-size", "many"), 2, "--beam-size"),
                ((where, "out", "--actors", "3:2"), 2, "--actors"),
                ((where, "out", "--batch", "0"), 2, "--batch: invalid number above 0 value: '0'"),
                ((where, "out", "--format", "srt,doc"), 1, "format: 'doc' is none of txt, srt"),
                ((where, "out", "--output-format", "csv"), 2, "csv"), ((where, "out", "--column", "x"), 1, "no column"),
                ((empty + "/none", "out"), 1, "no such file or folder")):
            got = self.run_it(*words)
            self.assertEqual(got[0], status, got)
            self.assertIn(part, got[1])
            self.assertEqual(got[1].count("\n"), 1, got[1])

    @unittest.skipIf(importlib.util.find_spec("ray"), "ray is installed")
    def test_without_ray(self):
        sound("a.wav", 1)
        status, said = self.run_it(folder("sounds"), os.path.join(kit.FOLDER, "no-ray"))
        self.assertEqual((status, said), (1, "max-whisper-ray: a cluster needs the package ray: "
                                             "pip install 'max-whisper[ray]'\n"))

    def test_options(self):
        words = [folder("sounds"), "out", "--beam-size", "none", "--vad", "--no-suppress-blank", "--language", "de",
                 "--languages", "none", "--temperature", "0.5", "--logprob-threshold", "none", "--format", "srt,vtt",
                 "--actors", "2:8", "--memory", "1.5G", "--track", "2"]
        job, pool = job_of(parser().parse_args(words))
        self.assertEqual(job.options, {"beam_size": None, "vad": True, "suppress_blank": False, "language": "de",
                                       "languages": None, "temperature": 0.5, "logprob_threshold": None, "track": 2})
        self.assertEqual((job.files, pool.actors, pool.most_actors, pool.memory), (["srt", "vtt"], 2, 8, 3 << 29))
        job.check()


if __name__ == "__main__":
    kit.main("python-ray")
