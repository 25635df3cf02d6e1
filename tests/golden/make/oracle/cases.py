"""Which clips are decoded with which options. Options are openai-whisper's own, under its names.

`MODES` are the ways the whole of the speech is decoded (`words`: with word times); `OPTION_CASES` cover the other
options on a few short clips, `WORD_CASES` those that word times meet; `FALLBACK_CLIPS` are those whose decision to fall
back is recorded.
"""

MODES = {
    "greedy": {"temperature": 0.0},
    "beam5": {"temperature": 0.0, "beam_size": 5},
    "words": {"temperature": 0.0},
}

SHORT = "package:pocketsphinx-librivox-0870"  # 7 s, kept in tests/data
LONG = "package:two_cities"  # 44 s, two windows
BECKETT = "package:endgame_nagg_nell"  # 28 s, two speakers
GERMAN = "de/kerstin/de_rhasspy-0148.flac"
SPANISH = "es/fleurs/fleurs-es-000.ogg"
PROMPT = "A Tale of Two Cities, by Charles Dickens. Monsieur Defarge, Lucie Manette."

# (name, clip, options)
OPTION_CASES = {
    "tiny.en": [
        ("initial-prompt", SHORT, {"initial_prompt": "Sense and Sensibility: Mr. Dashwood"}),
        ("initial-prompt-long", LONG, {"initial_prompt": PROMPT, "beam_size": 5}),
        ("carry-initial-prompt", LONG, {"initial_prompt": PROMPT, "carry_initial_prompt": True}),
        ("prompt-overflow", LONG, {"initial_prompt": (PROMPT + " ") * 14, "carry_initial_prompt": True}),
        ("no-condition", LONG, {"condition_on_previous_text": False}),
        ("no-condition-beam", LONG, {"condition_on_previous_text": False, "beam_size": 5}),
        ("clip-one", LONG, {"clip_timestamps": "5,17"}),
        ("clip-two", LONG, {"clip_timestamps": "0,4.5,20.25,31", "beam_size": 5}),
        ("clip-open", LONG, {"clip_timestamps": "1.5,3,38"}),
        ("prefix", SHORT, {"prefix": "And Mr."}),
        ("prefix-prompt", SHORT, {"prefix": "And", "initial_prompt": "A novel.", "beam_size": 5}),
        ("without-timestamps", LONG, {"without_timestamps": True}),
        ("without-timestamps-beam", SHORT, {"without_timestamps": True, "beam_size": 5}),
        ("beam-2", BECKETT, {"beam_size": 2}),
        ("patience-2", BECKETT, {"beam_size": 3, "patience": 2.0}),
        ("patience-half", BECKETT, {"beam_size": 4, "patience": 0.5}),
        ("length-penalty-1", BECKETT, {"beam_size": 5, "length_penalty": 1.0}),
        ("length-penalty-0", BECKETT, {"beam_size": 5, "length_penalty": 0.0}),
        ("suppress-none", BECKETT, {"suppress_tokens": ""}),
        ("suppress-list", SHORT, {"suppress_tokens": "11,13,1757"}),
        ("suppress-both", BECKETT, {"suppress_tokens": "-1,13", "beam_size": 5}),
        ("blank-allowed", SHORT, {"suppress_blank": False}),
        ("initial-timestamp-none", LONG, {"max_initial_timestamp": None, "clip_timestamps": "3"}),
        ("initial-timestamp-small", LONG, {"max_initial_timestamp": 0.1, "clip_timestamps": "3"}),
        ("sample-len", BECKETT, {"sample_len": 12}),
        ("sample-len-beam", BECKETT, {"sample_len": 12, "beam_size": 5}),
        ("no-speech-low", BECKETT, {"no_speech_threshold": 0.01, "logprob_threshold": 0.0}),
        ("no-speech-off", BECKETT, {"no_speech_threshold": None}),
    ],
    "base": [
        ("language-given", SHORT, {"language": "en", "beam_size": 5}),
        ("language-wrong", SHORT, {"language": "de"}),
        ("translate-german", GERMAN, {"task": "translate", "beam_size": 5}),
        ("translate-spanish", SPANISH, {"task": "translate"}),
        ("german-prompt", GERMAN, {"initial_prompt": "Die folgenden Sätze sind gelesen.", "beam_size": 5}),
        ("german-no-timestamps", GERMAN, {"without_timestamps": True}),
        ("clip-two", LONG, {"clip_timestamps": "0,4.5,20.25,31"}),
        ("prefix", SHORT, {"prefix": "And Mr.", "beam_size": 5}),
    ],
}

GAPS = "package:pocketsphinx-numbers"  # silence around few words
HALLUCINATED = "package:beckett"

WORD_CASES = {
    "tiny.en": [
        ("beam", LONG, {"beam_size": 5}),
        ("beam-two-speakers", BECKETT, {"beam_size": 5}),
        ("threshold-2", LONG, {"hallucination_silence_threshold": 2.0}),
        ("threshold-small", HALLUCINATED, {"hallucination_silence_threshold": 0.1}),
        ("threshold-gaps", GAPS, {"hallucination_silence_threshold": 0.5}),
        ("threshold-noise", "nonspeech/sb_noise2.wav", {"hallucination_silence_threshold": 1.0}),
        ("threshold-music", "nonspeech/moh_macroform-cold_day.wav", {"hallucination_silence_threshold": 0.2}),
        ("threshold-zero", BECKETT, {"hallucination_silence_threshold": 0.0}),
        ("prompt", LONG, {"initial_prompt": PROMPT, "carry_initial_prompt": True}),
        ("clips", LONG, {"clip_timestamps": "0,4.5,20.25,31"}),
        ("clip-tiny", LONG, {"clip_timestamps": "3,3.5,20,20.06"}),
        ("no-timestamps", LONG, {"without_timestamps": True}),
        ("no-condition", LONG, {"condition_on_previous_text": False}),
        ("punctuation-none", LONG, {"prepend_punctuations": "", "append_punctuations": ""}),
        ("punctuation-other", BECKETT, {"prepend_punctuations": "\"'", "append_punctuations": ".,?"}),
        ("sample-len", BECKETT, {"sample_len": 12}),
    ],
    "base": [
        ("translate", GERMAN, {"task": "translate"}),
        ("german-beam", GERMAN, {"beam_size": 5}),
        ("wrong-language", "package:pocketsphinx-librivox-0870", {"language": "ja"}),
        ("as-thai", "package:pocketsphinx-librivox-0870", {"language": "th"}),
        ("threshold-2", LONG, {"hallucination_silence_threshold": 2.0}),
        ("threshold-small", HALLUCINATED, {"hallucination_silence_threshold": 0.1}),
        ("threshold-noise", "nonspeech/sb_noise4.wav", {"hallucination_silence_threshold": 0.2}),
    ],
}

# The default ladder on speech that fails at temperature 0 and on speech that does not.
FALLBACK_CLIPS = {
    "tiny.en": [
        "package:two_cities",
        "package:beckett",
        "package:pocketsphinx-cards-001",
        "package:pocketsphinx-numbers",
        "nonspeech/sb_noise2.wav",
        "nonspeech/sb_noise4.wav",
        "nonspeech/silence.wav",
        "nonspeech/moh_macroform-cold_day.wav",
        "cs/fillets/cabin1_k1-m-podivin.ogg",
        "cs/fillets/stairs_sch-m-spadlo.ogg",
        GERMAN,
        SPANISH,
    ],
    "base": [
        "package:two_cities",
        "package:beckett",
        "package:pocketsphinx-cards-001",
        "nonspeech/sb_noise2.wav",
        "nonspeech/sb_noise4.wav",
        "nonspeech/silence.wav",
        "cs/fillets/cabin1_k1-m-podivin.ogg",
        "cs/fillets/stairs_sch-m-spadlo.ogg",
    ],
}
