"""The package's own API on a small random model: audio of every kind, options, results, files, errors."""
import dataclasses
import io
import os
import pickle
import subprocess
import unittest

import numpy as np
import python_kit as kit

import max_whisper as mw

MODEL = mw.Model(kit.small_model(), threads=1)
SOUND = kit.noise(3.0)
QUICK = dict(beam_size=None, temperature_increment=None, sample_len=12, no_speech_threshold=None)


def wav(samples, rate=16000):
    from max_whisper._audio import wav_bytes
    return wav_bytes(np.asarray(samples, np.float32), rate)


def text_of(audio, **options):
    return MODEL.transcribe(audio, **QUICK, **options).result().text


class Audio(unittest.TestCase):
    def setUp(self):
        # What a file can hold exactly.
        self.exact = (np.round(SOUND * 32768) / 32768).astype(np.float32)
        self.want = text_of(self.exact)
        self.path = os.path.join(kit.FOLDER, "sound.wav")
        with open(self.path, "wb") as stream:
            stream.write(wav(self.exact))

    def test_path_bytes_file(self):
        self.assertTrue(self.want)
        for audio in (self.path, os.fsencode(self.path).decode(), wav(self.exact), bytearray(wav(self.exact)),
                      memoryview(wav(self.exact)), io.BytesIO(wav(self.exact))):
            self.assertEqual(text_of(audio), self.want, type(audio))
        with open(self.path, "rb") as stream:
            self.assertEqual(text_of(stream), self.want)

    def test_pipe(self):
        class Pipe(io.RawIOBase):
            """Cannot seek, gives few bytes at a time."""
            def __init__(self, data):
                self.left = data

            def readable(self):
                return True

            def read(self, n=-1):
                n = min(n, 1000)
                got, self.left = self.left[:n], self.left[n:]
                return got
        self.assertEqual(text_of(Pipe(wav(self.exact))), self.want)

    def test_arrays(self):
        as_int16 = np.round(self.exact * 32768).astype(np.int16)
        for array in (self.exact.astype(np.float64), as_int16, as_int16.astype(np.int32) << 16,
                      np.stack([self.exact, self.exact]), np.stack([self.exact, self.exact], axis=1),
                      np.repeat(self.exact, 2)[::2], list(map(float, self.exact))):
            self.assertEqual(text_of(array), self.want)
        frozen = self.exact.copy()
        frozen.flags.writeable = False
        self.assertEqual(text_of(frozen), self.want)
        left = np.stack([self.exact, np.zeros_like(self.exact)], axis=1)
        self.assertEqual(text_of(left, channel=1), self.want)

    def test_no_copy(self):
        self.assertIs(mw._audio.samples_of(self.exact), self.exact)

    def test_rate(self):
        high = kit.noise(3.0, rate=44100)
        path = os.path.join(kit.FOLDER, "high.wav")
        with open(path, "wb") as stream:
            stream.write(wav(high, 44100))
        self.assertEqual(text_of(high, rate=44100), text_of(path))
        np.testing.assert_array_equal(mw.decode_audio(high, rate=44100), mw.decode_audio(path))

    def test_empty(self):
        result = MODEL.transcribe(np.zeros(0, np.float32)).result()
        self.assertEqual((result.text, result.segments, result.duration), ("", [], 0.0))

    def test_refused(self):
        for audio, kind in ((np.array(["a"]), TypeError), (np.zeros(5, complex), TypeError), (7, TypeError),
                            (None, TypeError), (np.zeros((2, 3, 4), np.float32), ValueError),
                            (np.full(99, np.nan, np.float32), ValueError), (np.full(99, np.inf), ValueError),
                            (io.StringIO("text"), TypeError), (b"not audio at all", mw.Error), (b"", mw.Error),
                            ("missing.wav", FileNotFoundError)):
            with self.assertRaises(kind, msg=repr(audio)) as caught:
                MODEL.transcribe(audio).result()
            self.assertNotIn("\n", str(caught.exception))
        with self.assertRaises(ValueError):
            MODEL.transcribe(SOUND, rate=3)
        with self.assertRaises(ValueError):
            MODEL.transcribe(SOUND, channel=2)

    def test_file_that_raises(self):
        class Broken(io.RawIOBase):
            def read(self, n=-1):
                raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            MODEL.transcribe(Broken())


class Options(unittest.TestCase):
    def test_names(self):
        with self.assertRaisesRegex(TypeError, "transcribe: there is no option 'langauge'; did you mean 'language'"):
            MODEL.transcribe(SOUND, langauge="en")
        with self.assertRaisesRegex(TypeError, "did you mean 'threads'"):
            mw.Model(kit.small_model(), thread=1)
        names = set(mw.TranscribeOptions.__annotations__)
        self.assertEqual(names, set(mw._native.SESSION_OPTIONS) | set(mw._options.OWN))

    def test_values(self):
        for options, kind, part in ((dict(beam_size="5"), TypeError, "beam_size: expected an integer, not str"),
                                    (dict(beam_size=-1), ValueError, "beam_size"),
                                    (dict(beam_size=10 ** 30), ValueError, "beam_size"),
                                    (dict(language=5), TypeError, "language: expected a string"),
                                    (dict(language="klingonese"), ValueError, "klingonese"),
                                    (dict(task="sing"), ValueError, "transcribe|translate"),
                                    (dict(temperature=()), ValueError, "temperature"),
                                    (dict(temperature=(0, 0.3, -1)), ValueError, "temperatures: "),
                                    (dict(language="e\0n"), ValueError, "zero"),
                                    (dict(progress=3), TypeError, "progress"),
                                    (dict(parallel=2), ValueError, "needs vad")):
            with self.assertRaises(kind, msg=str(options)) as caught:
                MODEL.transcribe(SOUND, **options)
            self.assertIn(part, str(caught.exception))

    def test_lists(self):
        made = mw._options.session_options(dict(suppress_tokens=[1, np.int64(2)], clip_timestamps=[0, 1.5],
                                                languages=["en", "de"], temperature=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0)))
        self.assertEqual(made["suppress_tokens"], "1,2")
        self.assertEqual(made["clip_timestamps"], "0,1.5")
        self.assertEqual(made["languages"], "en,de")
        self.assertAlmostEqual(made["temperature_increment"], 0.2)

    def test_model(self):
        with self.assertRaises(FileNotFoundError):
            mw.Model("no-such-model")
        with self.assertRaises(ValueError):
            mw.Model(kit.small_model(), batch=0)
        with self.assertRaisesRegex(mw.Error, "tpu"):
            mw.Model(kit.small_model(), device="tpu")
        with self.assertRaises(TypeError):
            pickle.dumps(MODEL)


class Results(unittest.TestCase):
    def test_iterator(self):
        transcription = MODEL.transcribe(kit.noise(40.0), **QUICK)
        info = transcription.info
        self.assertEqual((info.language, info.duration), ("en", 40.0))
        first = next(transcription)
        result = transcription.result()
        self.assertEqual(result.segments[0], first)
        self.assertEqual(result.text, "".join(segment.text for segment in result.segments))
        self.assertEqual(list(transcription), result.segments[1:])
        self.assertEqual(list(transcription), [])
        self.assertGreaterEqual(result.n_windows, 2)
        self.assertEqual(pickle.loads(pickle.dumps(result)), result)
        self.assertIn("segments", repr(result))
        self.assertEqual(result.as_dict()["segments"][0]["text"], first.text)

    def test_formats(self):
        """The bytes of every format are those of the command line."""
        path = os.path.join(kit.FOLDER, "formats.wav")
        with open(path, "wb") as stream:
            stream.write(wav(SOUND))
        result = MODEL.transcribe(path, word_timestamps=True, sample_len=20, no_speech_threshold=None,
                                  temperature_increment=None).result()
        words = ["--word-timestamps", "True", "--sample-len", "20", "--no-speech-threshold", "none", "--threads", "1",
                 "--temperature-increment-on-fallback", "none", "--model", kit.small_model()]
        for name in mw.formats():
            if name == "json-full":   # has times and details of its own
                continue
            done = subprocess.run([kit.command(), path, *words, "--format", name], capture_output=True, check=True)
            self.assertEqual(result.to(name).encode(), done.stdout, name)
        saved = os.path.join(kit.FOLDER, "out.srt")
        result.save(saved)
        with open(saved, encoding="utf-8") as stream:
            self.assertEqual(stream.read(), result.to("srt"))
        self.assertIn('"alternatives"', MODEL.transcribe(path, **QUICK, token_details=2).result().to("json-full"))
        with self.assertRaisesRegex(ValueError, "doc"):
            result.to("doc")
        with self.assertRaisesRegex(ValueError, "no ending"):
            result.save(os.path.join(kit.FOLDER, "out"))
        with self.assertRaisesRegex(TypeError, "did you mean 'max_line_width'"):
            result.to("srt", max_line_widht=20)

    def test_made_by_hand(self):
        result = mw.Result("", [mw.Segment(0, 0, 0.0, 1.5, " one", speaker="ann"), mw.Segment(1, 0, 1.5, 2.0, " two")])
        self.assertEqual(result.to("txt"), "[ann] one\ntwo\n")
        changed = dataclasses.replace(result.segments[0], text=" <b>&")
        html = mw.Result("", [changed])._repr_html_()
        self.assertIn("&lt;b&gt;&amp;", html)
        self.assertNotIn("<b>", html)

    def test_notebook(self):
        path = os.path.join(kit.FOLDER, "player.wav")
        with open(path, "wb") as stream:
            stream.write(wav(SOUND))
        html = MODEL.transcribe(path, **QUICK)._repr_html_()
        self.assertIn("<audio controls", html)
        self.assertIn("<table>", html)

    def test_resume(self):
        sound = kit.noise(65.0)
        records = []
        whole = MODEL.transcribe(sound, **QUICK, on_window=records.append).result()
        self.assertGreaterEqual(len(records), 3)
        again = []
        resumed = MODEL.transcribe(sound, **QUICK, on_window=again.append, resume=records[:2]).result()
        self.assertEqual(resumed.segments, whole.segments)
        with self.assertRaises(mw.Error):
            MODEL.transcribe(sound, **QUICK, on_window=again.append, resume=[b"nonsense"]).result()

    def test_progress(self):
        seen = []
        MODEL.transcribe(kit.noise(40.0), **QUICK, progress=seen.append).result()
        self.assertEqual(seen[-1].stage, "text")
        self.assertEqual((seen[-1].done, seen[-1].total), (40.0, 40.0))

        def angry(progress):
            raise ZeroDivisionError(progress.stage)
        with self.assertRaises(ZeroDivisionError):
            MODEL.transcribe(kit.noise(40.0), **QUICK, progress=angry).result()


class Life(unittest.TestCase):
    def test_closed(self):
        model = mw.Model(kit.small_model(), threads=1)
        transcription = model.transcribe(SOUND, **QUICK)
        model.close()
        self.assertTrue(model.closed)
        self.assertTrue(transcription.result().text)   # what was begun goes on
        for use in (lambda: model.transcribe(SOUND), lambda: model.encode("a"), lambda: model.graph()):
            with self.assertRaisesRegex(ValueError, "the model is closed"):
                use()
        self.assertIn("closed", repr(model))
        model.close()
        with mw.Model(kit.small_model(), threads=1) as other:
            pass
        self.assertTrue(other.closed)

    def test_transcription_closed(self):
        transcription = MODEL.transcribe(SOUND, **QUICK)
        transcription.close()
        with self.assertRaisesRegex(ValueError, "the transcription is closed"):
            next(transcription)

    def test_tokens(self):
        ids = MODEL.encode(" Hello world, naïve 東京")
        self.assertEqual(MODEL.decode(ids), " Hello world, naïve 東京")
        self.assertEqual(MODEL.decode(np.array(ids)), " Hello world, naïve 東京")
        self.assertEqual((MODEL.encode(""), MODEL.decode([])), ([], ""))
        with self.assertRaises(ValueError):
            MODEL.decode([-1])

    def test_catalog(self):
        self.assertIn("tiny.en", [entry.name for entry in mw.models()])
        self.assertEqual(mw.languages()["de"], "german")
        self.assertEqual(mw.language_code("German"), "de")
        with self.assertRaises(ValueError):
            mw.language_code("klingonese")
        self.assertEqual(mw.devices()[0].id, "cpu")
        self.assertIn("srt", mw.formats())
        with self.assertRaisesRegex(TypeError, "did you mean 'revision'"):
            mw.fetch("tiny.en", revison="main")


if __name__ == "__main__":
    kit.main("python-core")
