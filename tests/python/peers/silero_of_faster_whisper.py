"""Silero's weights as faster-whisper carries them, in the file form of max-whisper, to tell what of a difference in
speech detection between the two is the weights.

    silero_of_faster_whisper.py OUT.safetensors     in an environment that has faster-whisper and onnx

In: assets/silero_vad_v6.onnx of the installed faster-whisper. Out: the tensors of silero_vad_16k.safetensors. ONNX has
the gates of an LSTM in another order (i o f c) than PyTorch (i f c o), and both biases in one row.
"""
import json
import os
import struct
import sys

NAMES = {"stft_conv.weight": "encoder.feature_extractor.forward_basis_buffer",
         **{f"conv{i + 1}.{part}": f"encoder.conv_layers.{i}.{part}" for i in range(4) for part in ("weight", "bias")},
         "final_conv.weight": "decoder.conv1d.weight", "final_conv.bias": "decoder.conv1d.bias"}


def tensors(path):
    """Name to array, under max-whisper's names."""
    import numpy as np
    import onnx
    from onnx import numpy_helper
    graph = onnx.load(path).graph
    found = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    made = {name: found[theirs] for name, theirs in NAMES.items()}
    lstm = next(node for node in graph.node if node.op_type == "LSTM")

    def gates(rows):
        i, o, f, c = np.split(rows, 4)
        return np.concatenate([i, f, c, o])
    biases = np.split(found[lstm.input[3]][0], 2)
    made["lstm_cell.weight_ih"], made["lstm_cell.weight_hh"] = (gates(found[lstm.input[at]][0]) for at in (1, 2))
    made["lstm_cell.bias_ih"], made["lstm_cell.bias_hh"] = map(gates, biases)
    return {name: np.ascontiguousarray(one, np.float32) for name, one in made.items()}


def main():
    import faster_whisper
    made = tensors(os.path.join(os.path.dirname(faster_whisper.__file__), "assets", "silero_vad_v6.onnx"))
    header, at = {}, 0
    for name, one in made.items():
        header[name] = {"dtype": "F32", "shape": list(one.shape), "data_offsets": [at, at + one.nbytes]}
        at += one.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[1], "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(one.tobytes() for one in made.values()))


if __name__ == "__main__":
    main()
