"""The parts of the package besides transcription: windows, log-mel, speech detection, live streams, graphs."""
import asyncio
import os
import subprocess
import unittest

import numpy as np
import python_kit as kit

import max_whisper as mw
from max_whisper import graph, vad

MODEL = mw.Model(kit.small_model(), threads=1)
SOUND = kit.noise(6.0)
QUICK = dict(beam_size=None, temperature_increment=None, sample_len=12, no_speech_threshold=None)


def reference_log_mel(samples, padding, filters):
    """openai-whisper's log_mel_spectrogram in float64"""
    padded = np.pad(np.concatenate([samples, np.zeros(padding)]).astype(np.float64), 200, mode="reflect")
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    frames = np.lib.stride_tricks.sliding_window_view(padded, 400)[::160][:-1]
    power = np.abs(np.fft.rfft(frames * hann, axis=1)) ** 2
    log = np.log10(np.maximum(filters.astype(np.float64) @ power.T, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


class Pieces(unittest.TestCase):
    def test_log_mel(self):
        for n_mels in (80, 128):
            filters = mw.mel_filters(n_mels)
            self.assertEqual(filters.shape, (n_mels, 201))
            for n, padding in ((len(SOUND), 0), (48000, 480000), (16077, 0), (16150, 33), (8000, 0)):
                got = mw.log_mel(SOUND[:n], n_mels, padding)
                want = reference_log_mel(SOUND[:n], padding, filters)
                self.assertEqual(got.shape, want.shape)
                self.assertLess(np.abs(got - want).max(), 2e-4, (n_mels, n, padding))
        self.assertEqual(mw.log_mel(SOUND[:100]).shape, (80, 0))
        with self.assertRaises(mw.Error):
            mw.log_mel(SOUND, 81)
        with self.assertRaises(ValueError):
            mw.log_mel(SOUND, padding=-1)

    def test_window(self):
        mel = MODEL.log_mel(SOUND, 480000)[:, :len(SOUND) // 160]
        with MODEL.window(**QUICK) as window:
            features = window.encode(mel)
            self.assertEqual(features.shape, (1500, 16))
            text = window.decode()
            result = MODEL.transcribe(SOUND, **QUICK).result()
            first = [token for segment in result.segments if segment.seek == 0 for token in segment.tokens]
            self.assertEqual(text.tokens[:len(first)], first)
            self.assertEqual(text.avg_logprob, result.segments[0].avg_logprob)
            prompted = window.decode(MODEL.encode(" something before"))
            window.set_features(features)
            self.assertEqual(window.decode(MODEL.encode(" something before")).tokens, prompted.tokens)
            times, probabilities = window.align(MODEL.encode(" one two three"), len(SOUND) // 160)
            self.assertEqual((len(times), len(probabilities)), (4, 3))
            self.assertTrue((np.diff(times) >= 0).all() and times[-1] <= 6.0)
            with self.assertRaisesRegex(mw.Error, "English-only"):
                window.languages()
            with self.assertRaisesRegex(ValueError, "mel"):
                window.encode(np.zeros((79, 3000)))
            with self.assertRaisesRegex(ValueError, "features"):
                window.set_features(np.zeros((3, 3)))
        with self.assertRaisesRegex(ValueError, "closed"):
            window.decode()
        with self.assertRaisesRegex(ValueError, "vad"):
            MODEL.window(vad=True)

    def test_languages(self):
        model = mw.Model(kit.released("base"), threads=1)
        code, probability, all_of_them = model.detect_language(kit.speech("pocketsphinx-librivox-0880.wav"))
        self.assertEqual((code, len(all_of_them)), ("en", 99))
        self.assertAlmostEqual(sum(all_of_them.values()), 1, places=4)
        self.assertAlmostEqual(probability, all_of_them["en"])
        info = model.transcribe(kit.speech("pocketsphinx-librivox-0880.wav")).info
        self.assertAlmostEqual(info.language_probability, probability, places=5)
        self.assertEqual(MODEL.detect_language(SOUND)[:2], ("en", 1.0))


class Speech(unittest.TestCase):
    def setUp(self):
        if not mw._native.vad_location(None, None):
            self.skipTest("the weights of speech detection are not on this machine (make model)")

    def test_vad(self):
        path = kit.speech("pocketsphinx-librivox-0880.wav")
        regions = vad.regions(path)
        self.assertTrue(regions and all(0 <= region.start < region.end for region in regions))
        done = subprocess.run([kit.command(), "vad", path, "--json"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            for region in regions:
                self.assertIn(f"{region.start:.2f}"[:4], done.stdout)
        probabilities = vad.probabilities(path)
        self.assertEqual(len(probabilities), -(-len(mw.decode_audio(path)) // 512))
        self.assertEqual(vad.regions(np.zeros(16000, np.float32)), [])
        with self.assertRaisesRegex(TypeError, "did you mean 'threshold'"):
            vad.Detector(treshold=0.5)

    def test_live(self):
        sound = mw.decode_audio(kit.speech("pocketsphinx-librivox-0880.wav"))
        blocks = [sound[at:at + 8000] for at in range(0, len(sound), 8000)]
        model = mw.Model(kit.released("tiny.en"), threads=1)
        options = dict(step_ms=10000.0, beam_size=None)
        events = list(model.listen(blocks, **options))
        self.assertEqual(events[-1].kind, "end")
        text = "".join(event.text for event in events if event.kind == "final")
        self.assertIn("young man", text)

        async def later():
            async def source():
                for block in blocks:
                    await asyncio.sleep(0)
                    yield block
            return "".join([event.text async for event in model.listen(source(), **options) if event.kind == "final"])
        self.assertEqual(asyncio.run(later()), text)
        with model.live(keep_result=True, **options) as live:
            live.feed((sound * 32767).astype(np.int16))
            live.finish()
            list(live.events())
            self.assertIn("young man", live.result().text)
            self.assertGreater(live.stats.fed, 2.9)
        with self.assertRaisesRegex(TypeError, "did you mean 'pause_ms'"):
            model.live(pause_msec=3)
        with self.assertRaisesRegex(ValueError, "closed"):
            live.feed(sound)


class Graphs(unittest.TestCase):
    def test_arithmetic(self):
        g = graph.Graph("small")
        rows = g.size("rows", 64)
        x = g.input("x", np.float32, [rows, 8])
        weights = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)
        y = g.linear(x, g.constant(weights))
        g.output("y", (y * 2 - 1).relu())
        g.output("best", y.argmax())
        best, index = y.top_k(2)
        g.output("two", best)
        g.output("halves", g.concat([y.slice(1, 0, 2), y.slice(1, 3)], axis=1))
        for engine in ("max", "cpu"):
            program = g.compile(engine=engine, threads=1)
            for n in (1, 7):
                a = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
                got = program(a)
                want = a @ weights.T
                np.testing.assert_allclose(got[0], np.maximum(want * 2 - 1, 0), atol=1e-5)
                np.testing.assert_array_equal(got[1], want.argmax(axis=1))
                np.testing.assert_allclose(got[2], -np.sort(-want, axis=1)[:, :2], atol=1e-5)
                np.testing.assert_allclose(got[3], want[:, [0, 1, 3, 4]], atol=1e-5)
                self.assertEqual([len(program(x=a)), program.outputs], [4, ["y", "best", "two", "halves"]])
        self.assertIn("linear", str(g))

    def test_state(self):
        g = graph.Graph("sum")
        x = g.input("x", np.float32, [1, 3])
        state = g.state("total", np.float32, [1, 3])
        g.output("total", g.state_write(state, state + x, g.constant(np.zeros(1, np.int32))))
        program = g.compile(threads=1)
        ones = np.ones((1, 3), np.float32)
        totals = [program(ones)[0].tolist() for _ in range(3)]
        self.assertEqual(totals, [[[1.0] * 3], [[2.0] * 3], [[3.0] * 3]])

    def test_mistakes(self):
        g = graph.Graph("wrong")
        a, b = g.input("a", np.float32, [2, 3]), g.input("b", np.float32, [4, 5])
        with self.assertRaisesRegex(ValueError, "matmul"):
            a @ b
        h = graph.Graph("other")
        with self.assertRaisesRegex(ValueError, "another graph"):
            h.input("x", np.float32, [2, 3]) + a
        with self.assertRaises(TypeError):
            h.input("c", np.complex64, [2])
        ok = graph.Graph("ok")
        ok.output("y", ok.input("x", np.float32, [2]).exp())
        program = ok.compile(threads=1)
        for arguments, kind in (((), TypeError), ((np.zeros(2),), TypeError), ((np.zeros(3, np.float32),), ValueError)):
            with self.assertRaises(kind, msg=str(arguments)):
                program(*arguments)
        with self.assertRaisesRegex(TypeError, "did you mean 'threads'"):
            ok.compile(thread=1)


class Commands(unittest.TestCase):
    def test_command(self):
        self.assertEqual(mw.command(), os.path.join(kit.BUILD, "max-whisper"))
        done = subprocess.run([os.sys.executable, "-m", "max_whisper", "version"], capture_output=True, text=True,
                              check=True)
        self.assertIn(mw.__version__, done.stdout)

    def test_verify(self):
        answer = mw.verify(kit.small_model())
        self.assertTrue(answer, answer.report)
        with self.assertRaises(mw.Error):
            mw.verify("no-such-model")


if __name__ == "__main__":
    kit.main("python-parts")
