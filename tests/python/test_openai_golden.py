"""max_whisper.openai against openai-whisper's own tokens: a few clips of the package speech, tiny.en, as programs call
it. The C tests compare every clip, and explain a difference; here every token of these must be the same."""
import json
import os
import unittest

import numpy as np
import python_kit as kit

import max_whisper.openai as whisper

MODEL = None


def setUpModule():
    global MODEL
    MODEL = whisper.load_model(kit.released("tiny.en"), device="cpu")


def rows(name):
    with open(os.path.join(kit.ROOT, "tests", "golden", "data", "tiny.en", name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def clip(row):
    return kit.speech(row["clip"].removeprefix("package:") + ".wav")


class Golden(unittest.TestCase):
    def check(self, row, **options):
        result = MODEL.transcribe(clip(row), temperature=0, **options)
        self.assertEqual([segment["tokens"] for segment in result["segments"]],
                         [segment["tokens"] for segment in row["segments"]], row["clip"])
        self.assertEqual(result["text"], row["text"])
        for segment, want in zip(result["segments"], row["segments"]):
            self.assertEqual((segment["seek"], segment["start"], segment["end"], segment["text"]),
                             (want["seek"], want["start"], want["end"], want["text"]))
        return result

    def test_greedy(self):
        wanted = ("package:two_cities", "package:pocketsphinx-cards-005", "package:pocketsphinx-librivox-0880")
        for row in rows("greedy.jsonl"):
            if row["clip"] in wanted:
                result = self.check(row)
                window = row["windows"][0]
                self.assertAlmostEqual(result["segments"][0]["avg_logprob"], window["avg_logprob"], 3)
                self.assertAlmostEqual(result["segments"][0]["no_speech_prob"], window["no_speech_prob"], 3)

    def test_options(self):
        for row in rows("options.jsonl"):
            if row["clip"] == "package:pocketsphinx-librivox-0870":
                self.check(row, **row["options"])

    def test_words(self):
        for row in rows("words.jsonl"):
            if row["clip"] == "package:pocketsphinx-librivox-0880":
                result = MODEL.transcribe(clip(row), temperature=0, word_timestamps=True)
                for segment, want in zip(result["segments"], row["segments"]):
                    self.assertEqual([[word["word"], word["start"], word["end"]] for word in segment["words"]],
                                     [word[:3] for word in want["words"]])
                    self.assertEqual(list(segment["words"][0]), ["word", "start", "end", "probability"])

    def test_decode(self):
        """One window by hand, padded as transcribe() does it; and what its words are aligned to."""
        row = next(row for row in rows("words.jsonl") if row["clip"] == "package:pocketsphinx-librivox-0880")
        window = row["windows"][0]
        sound = whisper.load_audio(clip(row))
        mel = whisper.log_mel_spectrogram(sound, MODEL.dims.n_mels, padding=whisper.audio.N_SAMPLES).to(MODEL.device)
        mel = whisper.pad_or_trim(mel[:, :window["size"]], whisper.audio.N_FRAMES)
        result = whisper.decode(MODEL, mel, whisper.DecodingOptions(language="en", fp16=False))
        self.assertEqual(result.tokens, sum((segment["tokens"] for segment in row["segments"]), []))
        tokenizer = whisper.tokenizer.get_tokenizer(False)
        words = whisper.timing.find_alignment(MODEL, tokenizer, window["tokens"], mel, window["size"])
        self.assertEqual([len(word.tokens) for word in words], window["words"])
        frames = [round(50 * word.start) for word in words] + [round(50 * words[-1].end)]
        self.assertEqual(frames, window["frames"])
        self.assertTrue(np.allclose([word.probability for word in words], window["probabilities"], atol=1e-3))

    def test_torch(self):
        """Tensors in, tensors out, in a program that has torch: the same tokens."""
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        row = next(row for row in rows("greedy.jsonl") if row["clip"] == "package:pocketsphinx-librivox-0880")
        sound = torch.from_numpy(whisper.load_audio(clip(row)))
        result = MODEL.transcribe(sound, temperature=0)
        self.assertEqual(result["text"], row["text"])
        padded = whisper.pad_or_trim(sound)
        mel = whisper.log_mel_spectrogram(padded)
        self.assertIsInstance(padded, torch.Tensor)
        self.assertIsInstance(mel, torch.Tensor)
        with_arrays = whisper.log_mel_spectrogram(padded.numpy())
        self.assertTrue(np.array_equal(mel.numpy(), np.asarray(with_arrays)))
        options = whisper.DecodingOptions(language="en", fp16=False)
        self.assertEqual(whisper.decode(MODEL, mel, options).tokens, whisper.decode(MODEL, with_arrays, options).tokens)


if __name__ == "__main__":
    kit.main("python-openai-golden")
