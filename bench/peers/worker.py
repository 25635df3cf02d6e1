"""bench/peers/worker.py CONFIG - one peer as a process that keeps its model open, inside that peer's own environment.

In: CONFIG, a JSON object (peer, model, threads, and what the peer needs), then a line for each run on standard input:
the path of a 16 kHz mono 16-bit WAV. Out, one JSON object a line: first "ready" with versions and the time to load,
then the text, time and memory of each run, or "error".
Invariants: a run is timed from samples in memory to the last segment; options are those of the comparison: English,
beam 5, temperature 0 without fallback, everything else by default. Nothing but these lines reaches standard output.
"""
import importlib.metadata
import json
import os
import sys
import time
import wave

import numpy


def versions(*packages):
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)


def peak_kib():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def read_samples(path):
    with wave.open(path, "rb") as recording:
        if (recording.getframerate(), recording.getnchannels(), recording.getsampwidth()) != (16000, 1, 2):
            raise ValueError(f"{path} is not 16 kHz mono 16-bit")
        raw = recording.readframes(recording.getnframes())
    return numpy.frombuffer(raw, "<i2").astype(numpy.float32) / 32768


# ---- the peers: each returns (what it is, transcribe(samples) -> text) --------------------------------------------

def openai_whisper(config):
    import torch
    import whisper
    torch.set_num_threads(config["threads"])
    if config["model"].endswith(".npz"):
        model = model_from_npz(config["model"], torch, whisper)
    else:
        model = whisper.load_model(config["model"], device="cpu")

    def transcribe(samples):
        return whisper.transcribe(model, samples, language="en", beam_size=5, temperature=0.0, fp16=False)["text"]
    return versions("openai-whisper", "torch"), transcribe


def model_from_npz(path, torch, whisper):
    """A checkpoint that we exported: the same weights for a reader of state dicts."""
    with numpy.load(path) as npz:
        fields = whisper.ModelDimensions.__dataclass_fields__
        model = whisper.Whisper(whisper.ModelDimensions(**{name: int(npz["dims." + name]) for name in fields}))
        tensors = {name: torch.from_numpy(npz[name].astype(numpy.float32)) for name in npz.files
                   if not name.startswith("dims.") and name != "alignment_heads"}
    model.load_state_dict(tensors)
    return model


def faster_whisper(config):
    from faster_whisper import BatchedInferencePipeline, WhisperModel
    model = WhisperModel(config["model"], device="cpu", compute_type=config["compute"], cpu_threads=config["threads"],
                         num_workers=1, local_files_only=True)
    options = {"language": "en", "beam_size": 5, "temperature": 0.0}
    runner = model
    if config.get("batch"):
        runner = BatchedInferencePipeline(model)
        options["batch_size"] = config["batch"]

    def transcribe(samples):
        segments, _ = runner.transcribe(samples, **options)
        return "".join(segment.text for segment in segments)
    return versions("faster-whisper", "ctranslate2"), transcribe


def whisper_cpp(config):
    from pywhispercpp.model import Model
    model = Model(config["model"], params_sampling_strategy=1, redirect_whispercpp_logs_to=None,
                  n_threads=config["threads"], language="en", beam_search={"beam_size": 5, "patience": -1.0},
                  temperature=0.0, temperature_inc=0.0, print_progress=False)
    built_for = [part.split()[0] for part in Model.system_info().split("|") if "= 1" in part and "AVX" in part]

    def transcribe(samples):
        return " ".join(segment.text for segment in model.transcribe(samples))
    return versions("pywhispercpp") + f" (built for {' '.join(built_for) or 'no AVX'})", transcribe


def is_multilingual(folder):
    """Of a Hugging Face model: one that is English-only must not be told a language."""
    with open(os.path.join(folder, "generation_config.json"), encoding="utf-8") as stream:
        return json.load(stream)["is_multilingual"]


def openvino(config):
    import openvino_genai
    pipeline = openvino_genai.WhisperPipeline(config["model"], "CPU", INFERENCE_NUM_THREADS=config["threads"],
                                              **config["properties"])
    options = {"num_beams": 5, "return_timestamps": True}
    if is_multilingual(config["model"]):
        options.update(language="<|en|>", task="transcribe")

    def transcribe(samples):
        return pipeline.generate(samples, **options).texts[0]
    return versions("openvino-genai", "openvino", "optimum-intel"), transcribe


def onnxruntime(config):
    import onnxruntime as runtime
    from optimum.onnxruntime import ORTModelForSpeechSeq2Seq
    from transformers import WhisperProcessor
    suffix = config.get("suffix", "")
    session = runtime.SessionOptions()
    session.intra_op_num_threads = config["threads"]
    model = ORTModelForSpeechSeq2Seq.from_pretrained(
        config["model"], use_merged=False, session_options=session, encoder_file_name=f"encoder_model{suffix}.onnx",
        decoder_file_name=f"decoder_model{suffix}.onnx",
        decoder_with_past_file_name=f"decoder_with_past_model{suffix}.onnx")
    processor = WhisperProcessor.from_pretrained(config["model"])
    options = {"num_beams": 5, "return_timestamps": True}
    if is_multilingual(config["model"]):
        options.update(language="en", task="transcribe")

    def transcribe(samples):
        long = {"truncation": False, "padding": "longest"} if len(samples) > 30 * 16000 else {}
        inputs = processor(samples, sampling_rate=16000, return_tensors="pt", return_attention_mask=True, **long)
        return processor.batch_decode(model.generate(**inputs, **options), skip_special_tokens=True)[0]
    return versions("onnxruntime", "optimum-onnx", "transformers"), transcribe


PEERS = {"openai-whisper": openai_whisper, "faster-whisper": faster_whisper, "whisper.cpp": whisper_cpp,
         "whisper.cpp-native": whisper_cpp, "openvino": openvino, "onnxruntime": onnxruntime}


# ---- the lines ----------------------------------------------------------------------------------------------------

def private_output():
    """Standard output for our lines alone: what the peer prints goes to standard error."""
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours


def run_once(transcribe, path):
    samples = read_samples(path)
    start = time.monotonic()
    text = transcribe(samples)
    return {"seconds": time.monotonic() - start, "text": text, "peak_kib": peak_kib()}


def main():
    config = json.loads(sys.argv[1])
    lines = private_output()

    def say(record):
        print(json.dumps(record), file=lines, flush=True)

    start = time.monotonic()
    try:
        version, transcribe = PEERS[config["peer"]](config)
    except Exception as error:  # whatever a foreign package throws is the answer
        say({"error": f"{type(error).__name__}: {error}"})
        return 1
    say({"ready": True, "load_s": time.monotonic() - start, "version": version})
    for line in sys.stdin:
        try:
            say(run_once(transcribe, line.rstrip("\n")))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})
    return 0


sys.exit(main())
