"""bench/serve/fastapi_peer.py MODEL PORT THREADS TYPE - faster-whisper behind FastAPI, as it is written, for serve.py.

One model, requests on the server's thread pool, beam 5, English, temperature 0 without fallback. Prints a line when it
is ready.
"""
import os
import sys
import tempfile

import uvicorn
from fastapi import FastAPI, Form, UploadFile
from faster_whisper import WhisperModel

MODEL = WhisperModel(sys.argv[1], device="cpu", compute_type=sys.argv[4], cpu_threads=int(sys.argv[3]), num_workers=4)
app = FastAPI()


@app.post("/v1/audio/transcriptions")
def transcribe(file: UploadFile, model: str = Form("")):
    with tempfile.NamedTemporaryFile(suffix=os.path.splitext(file.filename or "")[1]) as stream:
        stream.write(file.file.read())
        stream.flush()
        segments, _ = MODEL.transcribe(stream.name, beam_size=5, language="en", temperature=0.0)
        return {"text": "".join(segment.text for segment in segments).strip()}


if __name__ == "__main__":
    print("ready", flush=True)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
