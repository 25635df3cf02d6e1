"""Threads, processes, signals and memory: one model shared, forks refused, Ctrl-C, cancelled tasks, nothing lost.

    test_threads.py [--calls N]     N: how often the memory test transcribes (1000)
"""
import asyncio
import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import python_kit as kit

import max_whisper as mw

CALLS = int(sys.argv[sys.argv.index("--calls") + 1]) if "--calls" in sys.argv else 1000
if "--calls" in sys.argv:
    del sys.argv[sys.argv.index("--calls"):sys.argv.index("--calls") + 2]
QUICK = dict(beam_size=None, temperature_increment=None, sample_len=8, no_speech_threshold=None)
# Long enough that a test can act in its middle: the narrow model decodes a window in milliseconds.
LONG = kit.noise(120.0)


class MallInfo(ctypes.Structure):
    """glibc's struct mallinfo2"""
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks",
                                                     "fsmblks", "uordblks", "fordblks", "keepcost")]


def allocated_kib():
    """What is allocated and not freed, by anyone in this process; pages that malloc keeps for later do not count."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        raise unittest.SkipTest("the C library has no mallinfo2()")
    libc.mallinfo2.restype = MallInfo
    gc.collect()
    info = libc.mallinfo2()
    return (info.uordblks + info.hblkhd) // 1024


class Threads(unittest.TestCase):
    def test_shared_model(self):
        """Results of many threads on one model, in batches, are those of one after another."""
        model = mw.Model(kit.small_model(), threads=1, batch=4)
        sounds = [kit.noise(2.0 + seed % 3, seed) for seed in range(12)]
        alone = [model.transcribe(sound, **QUICK).result().segments for sound in sounds]
        self.assertGreater(len({str(one) for one in alone}), 1)
        runs = model._native.counters(3)[0]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda sound: model.transcribe(sound, **QUICK).result().segments, sounds))
        self.assertEqual(together, alone)
        self.assertEqual([result.segments for result in model.transcribe_many(sounds, **QUICK)], alone)
        self.assertGreater(model._native.counters(3)[0], runs)

    def test_many_fails_in_place(self):
        model = mw.Model(kit.small_model(), threads=1, batch=2)
        results = model.transcribe_many([kit.noise(1.0), "missing.wav", kit.noise(1.0)], **QUICK)
        self.assertTrue(next(results).text)
        with self.assertRaises(FileNotFoundError):
            next(results)

    def test_python_runs_meanwhile(self):
        """The lock is released: another thread gets its turns while one call transcribes."""
        model = mw.Model(kit.small_model(), threads=1)
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.wait(0.001):
                ticks.append(None)
        ticker = threading.Thread(target=tick)
        transcription = model.transcribe(LONG, **QUICK)
        ticker.start()
        n_segments = 0
        before = len(ticks)
        while next(transcription, None) is not None:
            n_segments += 1
        stop.set()
        ticker.join()
        self.assertGreater(len(ticks), before)

    def test_one_thread_at_a_time(self):
        model = mw.Model(kit.small_model(), threads=1)
        inside, go_on = threading.Event(), threading.Event()

        def hold(progress):
            inside.set()
            go_on.wait(30)
        transcription = model.transcribe(LONG, **QUICK, progress=hold)
        worker = threading.Thread(target=transcription.result)
        worker.start()
        self.assertTrue(inside.wait(30))
        with self.assertRaisesRegex(RuntimeError, "another thread is using it"):
            transcription._session.next()
        go_on.set()
        worker.join()

    def test_cancel(self):
        model = mw.Model(kit.small_model(), threads=1)
        transcription = model.transcribe(LONG, **QUICK)
        next(transcription)
        transcription.cancel()
        with self.assertRaises(mw.Cancelled):
            transcription.result()


class Async(unittest.TestCase):
    def test_tasks(self):
        model = mw.Model(kit.small_model(), threads=1, batch=2)
        sounds = [kit.noise(2.0, seed) for seed in range(4)]
        alone = [model.transcribe(sound, **QUICK).result().segments for sound in sounds]

        async def main():
            results = await asyncio.gather(*(model.transcribe_async(sound, **QUICK) for sound in sounds))
            streamed = [segment async for segment in model.transcribe(sounds[0], **QUICK)]
            return [result.segments for result in results], streamed
        together, streamed = asyncio.run(main())
        self.assertEqual(together, alone)
        self.assertEqual(streamed, alone[0])

    def test_cancelled_task(self):
        model = mw.Model(kit.small_model(), threads=1)
        begun = threading.Event()

        def slow(progress):
            begun.set()
            time.sleep(0.01)

        async def main():
            task = asyncio.create_task(model.transcribe_async(np.tile(LONG, 5), **QUICK, progress=slow))
            await asyncio.to_thread(begun.wait, 30)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        asyncio.run(main())
        self.assertTrue(model.transcribe(kit.noise(1.0), **QUICK).result().text)   # the model is as before


class Processes(unittest.TestCase):
    def run_python(self, text, **options):
        return subprocess.run([sys.executable, "-c", textwrap.dedent(text), kit.small_model()], capture_output=True,
                              text=True, timeout=120, cwd=os.path.dirname(os.path.abspath(__file__)), check=False,
                              **options)

    def test_fork(self):
        done = self.run_python("""
            import os, sys
            import numpy as np
            import max_whisper
            model = max_whisper.Model(sys.argv[1], threads=2)
            quick = dict(beam_size=None, temperature_increment=None, sample_len=8)
            transcription = model.transcribe(np.zeros(16000, np.float32), **quick)
            child = os.fork()
            if child == 0:
                for use in (lambda: model.transcribe(np.zeros(16000, np.float32)), transcription.result,
                            lambda: max_whisper.Model(sys.argv[1]), lambda: model.encode("a")):
                    try:
                        use()
                    except RuntimeError as error:
                        print("refused" if "'spawn'" in str(error) else error)
                del transcription, model
                sys.stdout.flush()
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            print(status, len(transcription.result().segments) >= 0)
        """)
        self.assertEqual(done.stdout.split(), ["refused"] * 4 + ["0", "True"], done.stderr)

    def test_fork_before(self):
        """A child that is forked off before the first model may use the library."""
        done = self.run_python("""
            import os, sys
            import numpy as np
            import max_whisper
            child = os.fork()
            model = max_whisper.Model(sys.argv[1], threads=1)
            quick = dict(beam_size=None, temperature_increment=None, sample_len=8)
            duration = model.transcribe(np.zeros(16000, np.float32), **quick).result().duration
            os.write(1, f"{duration}\\n".encode())  # one write: lines of two processes never mix
            if child:
                sys.exit(os.waitpid(child, 0)[1])
        """)
        self.assertEqual((done.stdout.split(), done.returncode), (["1.0", "1.0"], 0), done.stderr)

    def test_ctrl_c(self):
        """KeyboardInterrupt in the middle of a call, and the process ends by it."""
        done = self.run_python("""
            import os, signal, sys, threading, time
            import numpy as np
            import python_kit as kit
            import max_whisper
            model = max_whisper.Model(sys.argv[1], threads=1)
            sound = np.tile(kit.noise(60.0), 60)
            threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                model.transcribe(sound, beam_size=5, sample_len=200, no_speech_threshold=None).result()
                print("not interrupted")
            except KeyboardInterrupt:
                print("interrupted")
        """)
        self.assertEqual(done.stdout.split(), ["interrupted"], done.stderr)

    def test_exit_with_work(self):
        """Leaving the interpreter with handles open neither hangs nor crashes."""
        done = self.run_python("""
            import sys
            import numpy as np
            import max_whisper
            model = max_whisper.Model(sys.argv[1], threads=2)
            quick = dict(beam_size=None, temperature_increment=None, sample_len=8)
            transcription = model.transcribe(np.zeros(16000, np.float32), **quick)
            other = max_whisper.Model(sys.argv[1], threads=1).transcribe(np.zeros(160000, np.float32), **quick)
            next(other, None)
        """)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Memory(unittest.TestCase):
    def test_flat(self):
        """Memory after many calls is what it was after the first ones, whatever is done with results."""
        model = mw.Model(kit.small_model(), threads=1)
        sound = kit.noise(1.0)

        def use(n):
            for i in range(n):
                transcription = model.transcribe(sound, **QUICK, word_timestamps=i % 4 == 0, token_details=i % 3,
                                                 progress=(lambda p: None) if i % 2 else None)
                if i % 5:
                    result = transcription.result()
                    result.to("json")
                    model.decode(model.encode(result.text))
                if i % 7 == 0:
                    with self.assertRaises(ValueError):
                        model.transcribe(sound * np.nan).result()
        use(min(CALLS // 5, 200))
        before = allocated_kib()
        use(CALLS)
        grown = allocated_kib() - before
        self.assertLess(grown, 100, f"KiB more after {CALLS} calls")

    def test_models(self):
        """Models that are dropped are freed, also with transcriptions that were never finished."""
        def use():
            for _ in range(20):
                model = mw.Model(kit.small_model(), threads=2)
                next(model.transcribe(LONG, **QUICK))
                model.window()
                del model
        use()
        before = allocated_kib()
        use()
        self.assertLess(allocated_kib() - before, 100)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)   # also where it is ignored, in the background
    kit.main("python-threads")
