"""max_whisper.openai without a real model: writers, tokenizer and normalizers against openai-whisper's own values, the
calls and their errors on a small random model."""
import contextlib
import dataclasses
import importlib
import io
import json
import os
import unittest
import warnings

import numpy as np
import python_kit as kit

import max_whisper
import max_whisper.openai as whisper
from max_whisper.openai import audio, decoding, normalizers, timing, tokenizer, utils
from max_whisper.openai.normalizers.english import EnglishNumberNormalizer, EnglishSpellingNormalizer

MODEL = whisper.load_model(kit.small_model(), device="cpu", threads=1)
SOUND = kit.noise(3.0)
QUICK = dict(temperature=0, sample_len=12, no_speech_threshold=None)


def golden(name):
    with open(os.path.join(kit.ROOT, "tests", "golden", "data", name), encoding="utf-8") as file:
        return [json.loads(line) for line in file] if name.endswith("l") else json.load(file)


def written(format, result, **options):
    """The file that a writer makes."""
    whisper_writer = utils.get_writer(format, kit.FOLDER)
    whisper_writer(result, "/somewhere/talk.show.mp3", options or None)
    with open(os.path.join(kit.FOLDER, "talk.show." + format), encoding="utf-8", newline="") as file:
        return file.read()


class Writers(unittest.TestCase):
    def test_golden_results(self):
        for case in golden("outputs.json")["results"]:
            for format in ("txt", "srt", "vtt", "tsv", "json"):
                if case[format] is not None:
                    self.assertEqual(written(format, case["result"]), case[format], (case["name"], format))

    def test_golden_subtitles(self):
        for case in golden("subtitles.jsonl"):
            result = {"text": "", "segments": case["segments"], "language": "en"}
            for format in ("srt", "vtt"):
                self.assertEqual(written(format, result, **case["options"]), case[format], case["options"])

    def test_all(self):
        folder = os.path.join(kit.FOLDER, "all")
        os.mkdir(folder)
        utils.get_writer("all", folder)({"text": "", "segments": [], "language": "en"}, "a.wav")
        self.assertEqual(sorted(os.listdir(folder)), ["a.json", "a.srt", "a.tsv", "a.txt", "a.vtt"])
        with self.assertRaises(KeyError):
            utils.get_writer("docx", folder)

    def test_helpers(self):
        self.assertEqual(utils.format_timestamp(3661.0005), "01:01:01.000")
        self.assertEqual(utils.format_timestamp(61.5, True, ","), "00:01:01,500")
        self.assertRaises(AssertionError, utils.format_timestamp, -1)
        self.assertRaises(AssertionError, utils.exact_div, 7, 2)
        self.assertEqual(utils.exact_div(6, 2), 3)
        self.assertGreater(utils.compression_ratio("la " * 100), 10)
        self.assertTrue(utils.str2bool("True"))
        self.assertRaises(ValueError, utils.str2bool, "yes")
        self.assertIsNone(utils.optional_int("None"))
        self.assertEqual(utils.optional_float("0.5"), 0.5)


class Tokenizers(unittest.TestCase):
    def test_golden(self):
        values = golden("tokenizer.json")
        self.assertEqual(list(tokenizer.LANGUAGES.items()), [tuple(pair) for pair in values["languages"]])
        self.assertEqual(list(tokenizer.TO_LANGUAGE_CODE.items()), [tuple(pair) for pair in values["aliases"]])
        for want in values["vocabularies"]:
            made = whisper.tokenizer.get_tokenizer(want["multilingual"], num_languages=want["num_languages"])
            for name, token in want["special"].items():
                self.assertEqual(getattr(made, name), token, name)
            for ours, theirs in (("all_language_tokens", "language_tokens"), ("all_language_codes", "language_codes"),
                                 *((name, name) for name in ("sot_sequence", "non_speech_tokens",
                                                             "sot_sequence_including_notimestamps"))):
                self.assertEqual(list(getattr(made, ours)), want[theirs], ours)
            for case in want.get("encode", ()):
                self.assertEqual(made.encode(case["text"]), case["ids"], case["text"])
            for text in want.get("refused", ()):
                self.assertRaises(ValueError, made.encode, text)
            for case in want.get("decode", ()):
                self.assertEqual(made.decode(case["ids"]), case["text"])
                self.assertEqual(made.decode_with_timestamps(case["ids"]), case["with_timestamps"])

    def test_words(self):
        made = tokenizer.get_tokenizer(True, language="French")
        words, groups = made.split_tokens_on_unicode([8404, 871, 287, 6, 246, 526, 3210, 20378])
        self.assertEqual(words, [" elle", " est", " l", "'", "\ufffd", "é", "rit", "oire"])
        words, groups = made.split_to_word_tokens(made.encode(" Bonjour, le monde entier!") + [made.eot])
        self.assertEqual(words, [" Bonjour", ",", " le", " monde", " entier", "!", "<|endoftext|>"])
        self.assertEqual(sum(groups, [])[-1], made.eot)
        japanese = tokenizer.get_tokenizer(True, language="ja")
        self.assertEqual("".join(japanese.split_to_word_tokens(japanese.encode("今日は"))[0]), "今日は")

    def test_special(self):
        made = tokenizer.get_tokenizer(True, num_languages=100, language="yue", task="translate")
        self.assertEqual(made.sot_sequence, (made.sot, made.to_language_token("yue"), made.translate))
        self.assertEqual(made.encoding.encode("<|en|>a", allowed_special="all"), [50259, *made.encode("a")])
        self.assertEqual(made.encoding.encode_single_token("<|endoftext|>"), made.eot)
        self.assertRaises(KeyError, made.to_language_token, "xx")
        self.assertRaises(KeyError, made.encoding.decode, [99999])
        self.assertRaises(ValueError, tokenizer.get_tokenizer, True, language="klingonese")
        self.assertRaises(ValueError, tokenizer.get_tokenizer, True, num_languages=7)
        with self.assertRaises(ValueError):
            tokenizer.get_tokenizer(False).language_token


class Normalizers(unittest.TestCase):
    def test_golden(self):
        kinds = {"numbers": EnglishNumberNormalizer(), "english": normalizers.EnglishTextNormalizer(),
                 "basic": normalizers.BasicTextNormalizer(),
                 "basic-diacritics": normalizers.BasicTextNormalizer(remove_diacritics=True),
                 "basic-letters": normalizers.BasicTextNormalizer(split_letters=True),
                 "basic-both": normalizers.BasicTextNormalizer(True, True)}
        for kind, text, want in golden("normalizers.jsonl"):
            self.assertEqual(kinds[kind](text), want, (kind, text))

    def test_spelling(self):
        self.assertEqual(EnglishSpellingNormalizer()("mobilisation of colours"), "mobilization of colors")


class Arrays(unittest.TestCase):
    def test_pad_or_trim(self):
        self.assertEqual(audio.pad_or_trim(SOUND).shape, (480000,))
        mel = whisper.log_mel_spectrogram(SOUND, padding=audio.N_SAMPLES)
        self.assertEqual(mel.shape, (80, 3300))
        self.assertEqual(whisper.pad_or_trim(mel, 3000).shape, (80, 3000))
        self.assertEqual(whisper.pad_or_trim(mel, 81, axis=0).shape, (81, 3300))
        self.assertTrue((whisper.pad_or_trim(np.ones((2, 3)), 5) == [[1, 1, 1, 0, 0]] * 2).all())

    def test_mel(self):
        mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(SOUND)).to(MODEL.device)
        self.assertIsInstance(mel, np.ndarray)
        self.assertLessEqual(mel.max() - mel.min(), 2.0)
        self.assertEqual(audio.mel_filters("cpu", 128).shape, (128, 201))
        self.assertRaises(AssertionError, whisper.log_mel_spectrogram, SOUND, 81)
        self.assertRaises(ValueError, whisper.load_audio, "x.wav", 8000)
        with self.assertRaisesRegex(RuntimeError, "Failed to load audio: .*nothere.wav"):
            whisper.load_audio("/nothere.wav")

    def test_timing(self):
        generator = np.random.default_rng(1)
        values = generator.standard_normal((4, 5, 34)).astype(np.float32)
        padded = np.pad(values, [(0, 0), (0, 0), (2, 2)], mode="reflect")
        want = np.stack([np.median(padded[..., i:i + 5], axis=-1) for i in range(34)], axis=-1)
        self.assertTrue(np.allclose(timing.median_filter(values, 5), want))
        costs = generator.random((12, 30)).astype(np.float32)
        path = [(min(i // 2, 11), i) for i in range(30)]
        for i, j in path:
            costs[i, j] -= 2
        self.assertEqual(timing.dtw_cpu(costs).T.tolist(), [list(step) for step in path])
        words = [timing.WordTiming(word, [i], i, i + 1, 1.0) for i, word in enumerate([' "', "Yes", ",", ' "', "no"])]
        timing.merge_punctuations(words, "\"'", ",")
        self.assertEqual([word.word for word in words], ["", ' "Yes,', "", "", ' "no'])


class Calls(unittest.TestCase):
    def test_model(self):
        self.assertEqual(MODEL.dims.n_mels, 80)
        self.assertEqual((MODEL.device, MODEL.is_multilingual, MODEL.num_languages), ("cpu", False, 99))
        self.assertIs(MODEL.to("cpu"), MODEL)
        self.assertEqual(len(whisper.available_models()), 14)
        for call in (lambda: MODEL.logits([1], None), lambda: MODEL.decoder, lambda: MODEL.alignment_heads):
            self.assertRaises(NotImplementedError, call)
        with self.assertRaisesRegex(RuntimeError, "Model huge not found; available models = "):
            whisper.load_model("huge")
        self.assertRaises(TypeError, MODEL.to, 1.5)

    def test_transcribe(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = MODEL.transcribe(SOUND, verbose=True, **QUICK)
        self.assertEqual(list(result), ["text", "segments", "language"])
        self.assertEqual(result["language"], "en")
        segment = result["segments"][0]
        self.assertEqual(list(segment)[:10], ["id", "seek", "start", "end", "text", "tokens", "temperature",
                                              "avg_logprob", "compression_ratio", "no_speech_prob"])
        self.assertEqual(len(out.getvalue().splitlines()), len(result["segments"]))
        self.assertTrue(out.getvalue().startswith(f"[{utils.format_timestamp(segment['start'])} --> "))
        self.assertEqual(whisper.transcribe(MODEL, SOUND, **QUICK), result)
        json.dumps(result)
        own = MODEL.model.transcribe(SOUND, beam_size=None, temperature_increment=None, sample_len=12,
                                     no_speech_threshold=None).result()
        self.assertEqual(result["text"], own.text)
        self.assertTrue(MODEL.transcribe(SOUND, **{**QUICK, "temperature": (0, 0.9)}, language="English")["text"])

    def test_decode(self):
        mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(SOUND))
        options = whisper.DecodingOptions(sample_len=12)
        one = whisper.decode(MODEL, mel, options)
        first = MODEL.transcribe(whisper.pad_or_trim(SOUND), **QUICK)["segments"][0]
        self.assertEqual(one.tokens[:len(first["tokens"])], first["tokens"])
        self.assertAlmostEqual(one.avg_logprob, first["avg_logprob"], 6)
        self.assertEqual(one.audio_features.shape, (MODEL.dims.n_audio_ctx, MODEL.dims.n_audio_state))
        self.assertEqual(one.text, tokenizer.get_tokenizer(False).decode(one.tokens).strip())
        several = MODEL.decode(np.stack([mel, mel]), options)
        self.assertEqual([made.tokens for made in several], [one.tokens] * 2)
        self.assertEqual(MODEL.decode(MODEL.embed_audio(mel), options).tokens, one.tokens)
        self.assertEqual(MODEL.decode(one.audio_features, options, sample_len=3).tokens, one.tokens[:3])
        self.assertNotEqual(MODEL.decode(mel, options, prompt="Something else entirely").tokens, [])
        self.assertEqual(MODEL.encoder(mel[None]).shape, (1, *one.audio_features.shape))

    def test_errors(self):
        mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(SOUND))
        for options in (dict(beam_size=2, best_of=2, temperature=0.5), dict(best_of=3), dict(patience=1.0),
                        dict(length_penalty=2.0), dict(task="sing"), dict(language="klingonese"),
                        dict(prefix=[50363, 11]), dict(task="lang_id")):
            self.assertRaises(ValueError, MODEL.decode, mel, **options)
        self.assertRaises(TypeError, MODEL.decode, mel, beams=5)
        self.assertRaises(ValueError, MODEL.decode, mel[:, :100])
        self.assertRaises(ValueError, MODEL.detect_language, mel)
        with self.assertRaises(dataclasses.FrozenInstanceError):
            whisper.DecodingOptions().task = "translate"
        with self.assertRaisesRegex(TypeError, "did you mean 'beam_size'"):
            MODEL.transcribe(SOUND, beamsize=5)
        for options in (dict(prompt="text"), dict(patience=2.0), dict(task="lang_id"), dict(language="klingonese")):
            self.assertRaises(ValueError, MODEL.transcribe, SOUND, **options)
        with self.assertRaisesRegex(RuntimeError, "Failed to load audio"):
            MODEL.transcribe("/nothere.wav")

    def test_warnings(self):
        for options, part in ((dict(fp16=True), "FP16"), (dict(language="de"), "English-only"),
                              (dict(hallucination_silence_threshold=2.0), "word_timestamps")):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                MODEL.transcribe(SOUND, **QUICK, **options)
            self.assertIn(part, " ".join(str(item.message) for item in caught))

    def test_options(self):
        made = decoding.session_options(whisper.DecodingOptions(
            suppress_tokens=[-1, 13], max_initial_timestamp=0.0, prefix=tokenizer.get_tokenizer(False).encode(" And")),
            tokenizer.get_tokenizer(False))
        self.assertEqual((made["suppress_tokens"], made["max_initial_timestamp"], made["prefix"], made["beam_size"],
                          made["best_of"]), ("-1,13", None, " And", 0, 1))


class Install(unittest.TestCase):
    def test_install(self):
        self.assertIs(max_whisper.install_as("whisper"), whisper)
        self.assertIs(importlib.import_module("whisper").load_model, whisper.load_model)
        self.assertIs(importlib.import_module("whisper.tokenizer"), tokenizer)
        self.assertIs(importlib.import_module("whisper.transcribe").transcribe, whisper.transcribe)
        self.assertIs(importlib.import_module("whisper.normalizers.english").EnglishNumberNormalizer,
                      EnglishNumberNormalizer)
        self.assertRaises(ValueError, max_whisper.install_as, "torch")


if __name__ == "__main__":
    kit.main("python-openai")
