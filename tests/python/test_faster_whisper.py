"""The drop-in for faster-whisper on small random models: its loop gives what the library's gives; names, defaults,
quirks, refusals. What the real one says to the same calls: tests/python/peers."""
import dataclasses
import inspect
import subprocess
import sys
import unittest
import warnings
from unittest import mock

import numpy as np
import python_kit as kit

import max_whisper as mw
from max_whisper import faster_whisper as fw
from max_whisper.faster_whisper import tokenizer, transcribe, utils, vad
from max_whisper.faster_whisper.feature_extractor import FeatureExtractor

MODEL = fw.WhisperModel(kit.small_model(), cpu_threads=1)
QUICK = dict(beam_size=1, temperature=0.0, no_speech_threshold=None, max_new_tokens=12)
SOUND = kit.noise(40.0)


def texts(segments):
    return [segment.text for segment in segments]


class Loop(unittest.TestCase):
    """WhisperModel.transcribe is the library's own transcription, segment by segment."""

    def check(self, ours, theirs, sound=SOUND, model=MODEL):
        segments, _ = model.transcribe(sound, **{**QUICK, **ours})
        plain = mw.Model(kit.small_model(), threads=1).transcribe(
            sound, **{"beam_size": None, "temperature_increment": None, "no_speech_threshold": None, "sample_len": 12,
                      **theirs}).result()
        want = [one for one in plain.segments if one.text.strip() and one.start != one.end]
        got = list(segments)
        self.assertTrue(want)
        self.assertEqual([one.tokens for one in got], [one.tokens for one in want])
        self.assertEqual(texts(got), texts(want))
        np.testing.assert_allclose([(one.start, one.end) for one in got], [(one.start, one.end) for one in want],
                                   atol=1e-6)
        np.testing.assert_allclose([one.avg_logprob for one in got], [one.avg_logprob for one in want], atol=1e-6)
        self.assertEqual([one.id for one in got], list(range(1, len(got) + 1)))
        for one, other in zip(got, want):
            self.assertEqual([word.word for word in one.words or ()], [word.word for word in other.words or ()])
            np.testing.assert_allclose([(word.start, word.end, word.probability) for word in one.words or ()],
                                       [(word.start, word.end, word.probability) for word in other.words or ()],
                                       atol=1e-5)

    def test_plain(self):
        self.check({}, {})

    def test_words(self):
        self.check({"word_timestamps": True}, {"word_timestamps": True})

    def test_options(self):
        for options in (dict(without_timestamps=True), dict(condition_on_previous_text=False),
                        dict(initial_prompt="Alpha, beta"), dict(clip_timestamps="5,20"),
                        dict(suppress_tokens=[1, 2, 50]), dict(suppress_blank=False, max_initial_timestamp=3.0)):
            with self.subTest(**options):
                self.check(options, options, SOUND[:25 * 16000])
        self.check({"suppress_tokens": []}, {"suppress_tokens": ""}, SOUND[:160000])
        self.check({"beam_size": 2, "patience": 2}, {"beam_size": 2, "patience": 2}, SOUND[:80000])

    def check_hotwords(self, hotwords, **options):
        return MODEL.transcribe(SOUND[:160000], **QUICK, hotwords=hotwords, **options)

    def test_prompts(self):
        hinted = self.check_hotwords("Alpha beta")[0]
        carried = mw.Model(kit.small_model(), threads=1).transcribe(
            SOUND[:160000], beam_size=None, temperature_increment=None, no_speech_threshold=None, sample_len=12,
            initial_prompt="Alpha beta", carry_initial_prompt=True).result()
        self.assertEqual([one.tokens for one in hinted], [one.tokens for one in carried.segments if one.text.strip()])
        ids = MODEL.hf_tokenizer.encode(" Alpha beta", add_special_tokens=False).ids
        self.assertEqual(texts(MODEL.transcribe(SOUND[:160000], **QUICK, initial_prompt=ids)[0]),
                         texts(MODEL.transcribe(SOUND[:160000], **QUICK, initial_prompt="Alpha beta")[0]))

    def test_prefix(self):
        first = next(iter(MODEL.transcribe(SOUND[:160000], **QUICK, prefix="Alpha beta")[0]))
        self.assertTrue(first.text.startswith(" Alpha beta"), first.text)
        self.assertEqual(first.start, 0)

    def test_fallback(self):
        always = dict(beam_size=1, best_of=1, temperature=[0.0, 0.5, 1.0], log_prob_threshold=5.0, max_new_tokens=8,
                      no_speech_threshold=None, compression_ratio_threshold=None)
        sound = SOUND[:80000]
        last = list(MODEL.transcribe(sound, **always)[0])
        MODEL.compatibility = "faster-whisper"
        try:
            best = list(MODEL.transcribe(sound, **always)[0])
        finally:
            MODEL.compatibility = "openai"
        self.assertEqual({one.temperature for one in last + best}, {1.0})
        self.assertGreaterEqual(best[0].avg_logprob, last[0].avg_logprob)
        cold = list(MODEL.transcribe(sound, **{**always, "temperature": 0.0})[0])
        self.assertEqual(best[0].tokens, cold[0].tokens)

    def test_lazy(self):
        segments, info = MODEL.transcribe(SOUND, **QUICK)
        self.assertTrue(inspect.isgenerator(segments))
        self.assertEqual((info.language, info.language_probability, info.duration), ("en", 1, 40.0))
        self.assertEqual(MODEL.model.num_active_batches, 0)
        next(segments)
        segments.close()
        self.assertEqual(list(segments), [])

    def test_empty(self):
        empty = np.zeros(0, np.float32)
        self.assertEqual(list(MODEL.transcribe(empty)[0]), [])
        self.assertEqual(list(fw.BatchedInferencePipeline(MODEL).transcribe(empty, vad_filter=False)[0]), [])


class Batched(unittest.TestCase):
    def test_clips(self):
        pipeline = fw.BatchedInferencePipeline(MODEL)
        clips = [{"start": 1.0, "end": 5.0}, {"start": 7.5, "end": 20.25}, {"start": 21.0, "end": 24.0}]
        options = {**QUICK, "suppress_tokens": [-1, *range(50363, 51864)]}   # a random model says timestamps anyway
        made = [list(pipeline.transcribe(SOUND, **options, clip_timestamps=clips, batch_size=n)[0]) for n in (1, 3)]
        self.assertEqual(made[0], made[1])
        self.assertEqual([(one.start, one.end) for one in made[0]], [(one["start"], one["end"]) for one in clips])
        self.assertEqual([one.seek for one in made[0]], [100, 750, 2100])
        alone = list(MODEL.transcribe(SOUND[16000:80000], **options, without_timestamps=True)[0])
        self.assertEqual(made[0][0].tokens, alone[0].tokens)
        words = list(pipeline.transcribe(SOUND, **options, clip_timestamps=clips, word_timestamps=True)[0])
        self.assertTrue(all(one.words for one in words))

    def test_signature(self):
        names = [set(inspect.signature(kind.transcribe).parameters)
                 for kind in (fw.WhisperModel, fw.BatchedInferencePipeline)]
        self.assertEqual(names[1] - names[0], {"batch_size"})
        with self.assertRaisesRegex(RuntimeError, "No clip timestamps found"):
            fw.BatchedInferencePipeline(MODEL).transcribe(SOUND, vad_filter=False)


class Decoding(unittest.TestCase):
    def test_compute_type(self):
        for compute_type in ("int8", "int8_float32", "int8_float16", "int8_bfloat16"):
            with self.assertNoLogs("faster_whisper", "WARNING"):
                model = fw.WhisperModel(kit.small_model(), device="cpu", compute_type=compute_type, cpu_threads=1)
            self.assertEqual((model.model.compute_type, model.model._model.info["precision"]), ("int8_float32", "int8"))
        self.assertTrue(list(model.transcribe(SOUND)[0]))

    def test_compute_type_of_gpu(self):
        """Of GPUs only those of compute capability 9.0 multiply in 8 bits; the device of each is that of its number"""
        cpu = mw.devices()[0]
        gpus = [cpu._replace(id=f"cuda:{i}", kind="cuda", usable=True, features=f"sm_{arch}, driver CUDA 13.0")
                for i, arch in enumerate((90, 80))]
        cases = {"int8": ("int8", "exact"), "int8_float32": ("int8", "exact"), "int8_float16": ("int8", "f16"),
                 "int8_bfloat16": ("int8", "f16"), "float16": ("f16", "f16"), "float32": ("exact", "exact")}
        with mock.patch.object(transcribe, "devices", lambda: [cpu, *gpus]):
            for compute_type, wanted in cases.items():
                for device, precision in (("auto", wanted[0]), ("cuda", wanted[0]), ("cuda:0", wanted[0]),
                                          ("cuda:1", wanted[1])):
                    quiet = precision != "exact" or compute_type == "float32"
                    with (self.assertNoLogs if quiet else self.assertLogs)("faster_whisper", "WARNING"):
                        self.assertEqual(MODEL._precision(compute_type, device), precision)
            self.assertEqual(MODEL._precision("int8", "cpu"), "int8")
        self.assertEqual([MODEL._compute_type("int8", device) for device in ("cpu", "cuda:0")],
                         ["int8_float32", "int8_float16"])

    def test_repetition(self):
        plain = dict(beam_size=1, temperature=0.0, without_timestamps=True, max_new_tokens=40)

        def tokens(model, **options):
            return [segment.tokens for segment in model.transcribe(SOUND, **plain, **options)[0]]
        free = tokens(MODEL)
        self.assertTrue(any(len(set(one)) < len(one) for one in free), "the model repeats itself")
        self.assertEqual(tokens(MODEL, repetition_penalty=1.0, no_repeat_ngram_size=0), free)
        for one in tokens(MODEL, no_repeat_ngram_size=1):
            self.assertEqual(len(set(one)), len(one))
        for one in tokens(MODEL, no_repeat_ngram_size=2):
            pairs = list(zip(one, one[1:]))
            self.assertEqual(len(set(pairs)), len(pairs))
        self.assertNotEqual(tokens(MODEL, repetition_penalty=1.5), free)
        batched = fw.BatchedInferencePipeline(MODEL)
        clips = dict(vad_filter=False, clip_timestamps=[{"start": 0.0, "end": 5.0}])
        for segment in batched.transcribe(SOUND, **plain, **clips, no_repeat_ngram_size=1)[0]:
            self.assertEqual(len(set(segment.tokens)), len(segment.tokens))


class Refusals(unittest.TestCase):
    def test_options(self):
        multilingual = fw.WhisperModel(kit.small_model("tiny"), cpu_threads=1)
        for options, kind, part in (
                (dict(repetition_penalty=-1), ValueError, "repetition_penalty"),
                (dict(chunk_length=40), ValueError, "chunk_length"), (dict(beam_size=0), ValueError, "beam_size"),
                (dict(beam_size=1, patience=2), ValueError, "patience"),
                (dict(hallucination_silence_threshold=2), ValueError, "word_timestamps"),
                (dict(language="xx"), ValueError, "'xx' is not a valid language code"),
                (dict(task="sing", language="en"), ValueError, "'sing' is not a valid task"),
                (dict(vad_filter=True, vad_parameters={"treshold": 1}), TypeError, "treshold")):
            with self.assertRaisesRegex(kind, part, msg=str(options)):
                multilingual.transcribe(SOUND, **options)
        with self.assertRaisesRegex(ValueError, "task: translate needs a multilingual model"):
            MODEL.transcribe(SOUND, task="translate")
        with self.assertRaisesRegex(ValueError, "max_new_tokens"):
            list(MODEL.transcribe(SOUND, max_new_tokens=448)[0])
        with self.assertRaises(NotImplementedError):
            fw.BatchedInferencePipeline(MODEL).transcribe(SOUND, hallucination_silence_threshold=2)
        with self.assertLogs("faster_whisper", "WARNING"):
            self.assertEqual(MODEL.transcribe(SOUND, language="de")[1].language, "en")

    def test_models(self):
        with self.assertRaisesRegex(ValueError, "Invalid model size 'huge', expected one of: tiny.en, tiny"):
            fw.WhisperModel("huge")
        for options, kind in ((dict(device_index=[0, 1]), NotImplementedError), (dict(compute_type="f4"), ValueError),
                              (dict(flash_attention=True), NotImplementedError), (dict(colour=1), TypeError),
                              (dict(compatibility="mine"), ValueError)):
            with self.assertRaises(kind, msg=str(options)):
                fw.WhisperModel(kit.small_model(), **options)
        for compute_type in ("float16", "bfloat16", "int16"):
            with self.assertLogs("faster_whisper", "WARNING") as logs:
                model = fw.WhisperModel(kit.small_model(), device="cpu", compute_type=compute_type)
            self.assertIn(compute_type, logs.output[0])
            self.assertEqual(model.model.compute_type, "float32")
        with self.assertRaises(FileNotFoundError):
            MODEL.transcribe("missing.wav")


class Surface(unittest.TestCase):
    def test_attributes(self):
        self.assertEqual((MODEL.input_stride, MODEL.num_samples_per_token, MODEL.frames_per_second,
                          MODEL.tokens_per_second, MODEL.time_precision, MODEL.max_length, MODEL.supported_languages),
                         (2, 320, 100, 50, 0.02, 448, ["en"]))
        self.assertEqual((MODEL.model.is_multilingual, MODEL.model.n_mels, MODEL.model.device), (False, 80, "cpu"))
        self.assertEqual(fw.__version__, "1.2.1")
        self.assertEqual(len(fw.available_models()), 19)

    def test_types(self):
        word = transcribe.Word(0.0, 1.0, " a", 0.5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(word._asdict(), {"start": 0.0, "end": 1.0, "word": " a", "probability": 0.5})
        self.assertIs(caught[0].category, DeprecationWarning)
        self.assertEqual(len(dataclasses.fields(transcribe.TranscriptionOptions)), 26)
        self.assertEqual(vad.VadOptions(), vad.VadOptions(0.5, None, 0, float("inf"), 2000, 400))

    def test_tokenizer(self):
        made = tokenizer.Tokenizer(MODEL.hf_tokenizer, False)
        found = transcribe.get_suppressed_tokens(made, [-1])
        self.assertEqual((len(found), found[0], found[-6:]), (90, 1, (50257, 50357, 50358, 50359, 50360, 50361)))
        self.assertEqual(transcribe.get_suppressed_tokens(made, [13]), (13, 50257, 50357, 50358, 50359, 50360, 50361))
        self.assertEqual((made.eot, made.sot_sequence, made.timestamp_begin), (50256, [50257], 50363))
        self.assertEqual(made.decode_with_timestamps([50363, *made.encode(" Hello"), 50413]), "<|0.00|> Hello<|1.00|>")
        words, ids = made.split_to_word_tokens(made.encode(" Hello, naïve world") + [made.eot])
        self.assertEqual(words[:-1], [" Hello", ",", " naïve", " world"])
        self.assertEqual(sum(ids, []), made.encode(" Hello, naïve world") + [made.eot])
        many = tokenizer.Tokenizer(fw.WhisperModel(kit.small_model("tiny"), cpu_threads=1).hf_tokenizer, True,
                                   task="translate", language="de")
        self.assertEqual(many.sot_sequence, [50258, 50261, 50358])
        self.assertEqual((many.no_speech, many.no_timestamps), (50362, 50363))

    def test_engine(self):
        mel = MODEL.feature_extractor(SOUND[:160000])
        self.assertEqual(mel.shape, (80, 1001))
        encoded = MODEL.encode(mel)
        self.assertEqual(list(np.asarray(encoded).shape), encoded.shape)
        made = tokenizer.Tokenizer(MODEL.hf_tokenizer, False)
        prompt = MODEL.get_prompt(made, [], without_timestamps=True)
        self.assertEqual(prompt, [50257, 50362])
        one = MODEL.model.generate(encoded, [prompt], beam_size=1, max_length=24)[0]
        two = MODEL.model.generate(np.asarray(encoded), [["<|startoftranscript|>", "<|notimestamps|>"]], beam_size=1,
                                   max_length=24)[0]
        self.assertEqual(one, two)
        self.assertLessEqual(len(one.sequences_ids[0]), 12)
        aligned = MODEL.model.align(encoded, made.sot_sequence, [one.sequences_ids[0]], 1000)[0]
        self.assertEqual(len(aligned.text_token_probs), len(one.sequences_ids[0]))
        with self.assertRaises(NotImplementedError):
            MODEL.model.generate(encoded, [prompt], num_hypotheses=2)
        with self.assertRaisesRegex(ValueError, "shape"):
            MODEL.encode(np.zeros((81, 3000), np.float32))

    def test_features(self):
        extractor = FeatureExtractor(128)
        self.assertEqual((extractor.n_samples, extractor.nb_max_frames, extractor.mel_filters.shape),
                         (480000, 3000, (128, 201)))
        self.assertEqual(extractor(np.zeros(0, np.float32)).shape, (128, 1))
        with self.assertRaises(NotImplementedError):
            FeatureExtractor(hop_length=80)

    def test_small_functions(self):
        self.assertEqual((fw.format_timestamp(3661.5), fw.format_timestamp(1.0005, True, ",")),
                         ("01:01:01.500", "00:00:01,000"))
        with self.assertRaises(AssertionError):
            fw.format_timestamp(-1)
        self.assertEqual(utils.get_end([]), None)
        chunks = [{"start": 16000, "end": 32000}, {"start": 64000, "end": 80000}, {"start": 96000, "end": 112000}]
        arrays, about = vad.collect_chunks(SOUND, chunks, max_duration=2.5)
        self.assertEqual([len(array) for array in arrays], [32000, 16000])
        self.assertEqual([(one["offset"], one["duration"]) for one in about], [(0.0, 2.0), (2.0, 1.0)])
        times = vad.SpeechTimestampsMap(chunks, 16000)
        self.assertEqual([times.get_original_time(t) for t in (0.5, 1.0, 2.5)], [1.5, 4.0, 6.5])
        self.assertEqual(times.get_original_time(1.0, is_end=True), 2.0)

    def test_install(self):
        code = ("import max_whisper, sys; max_whisper.install_as('faster_whisper', compatibility='faster-whisper')\n"
                "import faster_whisper as f\n"
                "from faster_whisper.transcribe import WhisperModel, Segment\n"
                "import faster_whisper.audio, faster_whisper.tokenizer, faster_whisper.utils, faster_whisper.vad\n"
                "import faster_whisper.feature_extractor, faster_whisper.version, faster_whisper.assets\n"
                "print(f.WhisperModel.__module__, Segment.__module__, faster_whisper.vad.VadOptions.__module__,\n"
                "      f.transcribe.default_compatibility)")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["faster_whisper.transcribe", "faster_whisper.transcribe",
                                               "faster_whisper.vad", "faster-whisper"])
        with self.assertRaisesRegex(ValueError, "not one of"):
            mw.install_as("slower_whisper")


if __name__ == "__main__":
    kit.main("python-faster-whisper")
