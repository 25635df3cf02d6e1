"""A program that nobody here wrote, on a clip: run with the real faster-whisper, or with MXW_PEER=ours in its place.

    run_program.py PROGRAM MODEL-FOLDER CLIP OUT.json     PROGRAM: whisper-ctranslate2, stable-ts or whisperx

Out: {"text": …, "segments": [[start, end], …]}.
"""
import json
import os
import sys
import tempfile

if os.environ.get("MXW_PEER") == "ours":
    import max_whisper
    max_whisper.install_as("faster_whisper", compatibility=os.environ.get("MXW_PEER_COMPATIBILITY"))


def whisper_ctranslate2(model, clip):
    """Its command, in this process."""
    from whisper_ctranslate2.whisper_ctranslate2 import main
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["whisper-ctranslate2", "--model_directory", model, "--device", "cpu", "--compute_type", "float32",
                    "--threads", "2", "--language", "en", "--word_timestamps", "True", "--output_format", "json",
                    "--output_dir", folder, clip]
        main()
        name = os.path.splitext(os.path.basename(clip))[0] + ".json"
        with open(os.path.join(folder, name), encoding="utf-8") as stream:
            made = json.load(stream)
    return made["text"], [[one["start"], one["end"]] for one in made["segments"]]


def stable_ts(model, clip):
    """Its faster-whisper half: load_faster_whisper and transcribe, with words that it moves to where sound is."""
    import stable_whisper
    made = stable_whisper.load_faster_whisper(model, device="cpu", compute_type="float32", cpu_threads=2).transcribe(
        clip, language="en", verbose=None)
    return made.text, [[one.start, one.end] for one in made.segments]


def whisperx(model, clip):
    """Its transcription half, with its own detector, whose weights are in its package; alignment and speakers are
    models of their own."""
    import whisperx as program
    pipeline = program.load_model(model, "cpu", compute_type="float32", language="en", threads=2)
    made = pipeline.transcribe(program.load_audio(clip), batch_size=2)
    return "".join(one["text"] for one in made["segments"]), [[one["start"], one["end"]] for one in made["segments"]]


def main():
    program, model, clip, out = sys.argv[1:5]
    text, segments = {"whisper-ctranslate2": whisper_ctranslate2, "stable-ts": stable_ts,
                      "whisperx": whisperx}[program](model, clip)
    with open(out, "w", encoding="utf-8") as stream:
        json.dump({"text": text.strip(), "segments": segments}, stream, ensure_ascii=False)


if __name__ == "__main__":
    main()
