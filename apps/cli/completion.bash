# completion.bash - what bash completes after max-whisper. tests/cli/test_docs.py holds it against --help.

_max_whisper_languages="english chinese german spanish russian korean french japanese portuguese turkish polish \
catalan dutch arabic swedish italian indonesian hindi finnish vietnamese hebrew ukrainian greek malay czech romanian \
danish hungarian tamil norwegian thai urdu croatian bulgarian lithuanian latin maori malayalam welsh slovak telugu \
persian latvian bengali serbian azerbaijani slovenian kannada estonian macedonian breton basque icelandic armenian \
nepali mongolian bosnian kazakh albanian swahili galician marathi punjabi sinhala khmer shona yoruba somali afrikaans \
occitan georgian belarusian tajik sindhi gujarati amharic yiddish lao uzbek faroese pashto turkmen nynorsk maltese \
sanskrit luxembourgish myanmar tibetan tagalog malagasy assamese tatar hawaiian lingala hausa bashkir javanese \
sundanese cantonese none auto"

_max_whisper_models="tiny.en tiny base.en base small.en small medium.en medium large-v1 large-v2 large-v3 \
large-v3-turbo distil-small.en distil-medium.en distil-large-v2 distil-large-v3 distil-large-v3.5"

_max_whisper_messages="--quiet --log-level --log-format --help"

# The options of a subcommand.
_max_whisper_options() {
    case $1 in
        "model fetch") echo "--format --hub --revision --again --stall --model-dir" ;;
        "model list") echo "--model-dir --json" ;;
        "model inspect") echo "--model-dir --json --tensors" ;;
        "model export") echo "--format --type --model-dir" ;;
        "graph dump") echo "--model --model-dir --engine --device --threads --precision" ;;
        "verify") echo "--all --ops-only --json --inject --model --model-dir --engine --device --threads --precision" ;;
        "features extract") echo "--output --json --like --fused --start --inject --model --model-dir --engine \
--device --threads --precision" ;;
        "features compare" | "features diverge") echo "--json --fused --start --inject --model --model-dir --engine \
--device --threads --precision" ;;
        "features decode") echo "--json --model --model-dir --engine --device --threads --precision" ;;
        "graph test") echo "--engine --device --threads --precision --json" ;;
        "bench") echo "--runs --warm-up --starts --batch --json --save --plot --baseline --tolerance --language \
--beam-size --model --model-dir --engine --device --threads --precision" ;;
        "report") echo "--output --runs --warm-up --language --beam-size --model --model-dir --threads --precision" ;;
        "demo") echo "--engines --plain --timeout --language --beam-size --model --model-dir --device --threads" ;;
        "devices" | "version") echo "--json" ;;
        "gpu-check") echo "--device --json" ;;
        "help") ;;
        *) echo "--model --model-dir --engine --device --threads --precision --encode-engine --decode-engine --batch \
--format --output-format \
--output-dir --output-name --alternatives --verbose --stats --trace --recursive --skip-existing --resume \
--channel --audio-track --language --task --clip-timestamps --without-timestamps \
--mel-reference --beam-size --greedy --patience \
--length-penalty --temperature --best-of --seed --sample-len --suppress-tokens --suppress-blank \
--max-initial-timestamp --initial-prompt --carry-initial-prompt --condition-on-previous-text --prefix \
--temperature-increment-on-fallback --compression-ratio-threshold --logprob-threshold --no-speech-threshold --fp16 \
--word-timestamps --highlight-words --max-line-width --max-line-count --max-words-per-line \
--hallucination-silence-threshold --prepend-punctuations --append-punctuations" ;;
    esac
    echo "$_max_whisper_messages"
}

# The values of an option of a subcommand; nothing for one that takes any text.
_max_whisper_values() {
    case "$2 $1" in
        "model fetch --format" | "model fetch -f") echo "safetensors ct2"; return ;;
        "verify --engine") echo "cpu gpu max all"; return ;;
        "model export --format" | "model export -f") echo "npz ggml"; return ;;
    esac
    case $1 in
        --model | -m) echo "$_max_whisper_models" ;;
        --engine) echo "cpu gpu max" ;;
        --encode-engine | --decode-engine) echo "same cpu gpu max" ;;
        --inject) echo "db-mel no-ln-post averaged-conv conv-stride tanh-gelu wrong-scale scaled-features \
transposed-weight random-weight first-window-only" ;;
        --device) echo "auto cpu cuda cuda:0" ;;
        --precision) echo "exact f16" ;;
        --format | --output-format | -f) echo "txt srt vtt tsv json csv lrc ass jsonl json-full all" ;;
        --language | -l) echo "$_max_whisper_languages" ;;
        --type) echo "auto f16 f32" ;;
        --channel) echo "all left right split 1 2" ;;
        --task) echo "transcribe translate" ;;
        --mel-reference) echo "file running" ;;
        --log-level) echo "error warn info debug" ;;
        --log-format) echo "human json" ;;
        --verbose) echo "True False None" ;;
        --suppress-blank | --condition-on-previous-text | --carry-initial-prompt | --fp16 | --word-timestamps | \
            --highlight-words) echo "True False" ;;
        --temperature-increment-on-fallback) echo "0.2 none" ;;
        --max-line-width) echo "42 none" ;;
        --max-line-count) echo "2 none" ;;
        --output-name) echo "{stem}.{format}" ;;
    esac
}

# The subcommand on the line so far: one word, or two.
_max_whisper_subcommand() {
    case ${COMP_WORDS[1]} in
        model | graph | features) echo "${COMP_WORDS[1]} ${COMP_WORDS[2]}" ;;
        transcribe | bench | demo | report | verify | devices | gpu-check | version | help) echo "${COMP_WORDS[1]}" ;;
    esac
}

_max_whisper() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words
    # bash splits at '=': "--model=ba" is three words.
    if [[ $word == "=" ]]; then
        word=""
    elif [[ $before == "=" ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    before=${before//_/-}
    words=$(_max_whisper_values "$before" "$(_max_whisper_subcommand)")
    case $before in
        --trace) COMPREPLY=($(compgen -f -- "$word")); compopt -o filenames 2>/dev/null; return ;;
        --model-dir | --output-dir | -o) COMPREPLY=($(compgen -d -- "$word")); compopt -o filenames 2>/dev/null; return ;;
        --model | -m) COMPREPLY=($(compgen -W "$words" -f -- "$word")); return ;;
    esac
    if [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(_max_whisper_options "$(_max_whisper_subcommand)")" -- "$word"))
    elif [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W "transcribe bench demo report model verify features devices gpu-check graph version help" -- "$word") $(compgen -f -- "$word"))
    elif [[ $COMP_CWORD == 2 && ${COMP_WORDS[1]} == model ]]; then
        COMPREPLY=($(compgen -W "list fetch inspect export" -- "$word"))
    elif [[ $COMP_CWORD == 2 && ${COMP_WORDS[1]} == graph ]]; then
        COMPREPLY=($(compgen -W "dump test" -- "$word"))
    elif [[ $COMP_CWORD == 2 && ${COMP_WORDS[1]} == features ]]; then
        COMPREPLY=($(compgen -W "extract compare diverge decode" -- "$word"))
    elif [[ $COMP_CWORD == 2 && ${COMP_WORDS[1]} == help ]]; then
        COMPREPLY=($(compgen -W "transcribe bench demo report model verify features devices gpu-check graph version help" -- "$word"))
    elif [[ $COMP_CWORD == 3 && ${COMP_WORDS[1]} == model ]]; then
        COMPREPLY=($(compgen -W "$_max_whisper_models" -- "$word") $(compgen -f -- "$word"))
    elif [[ $COMP_CWORD == 3 && ${COMP_WORDS[1]} == graph ]]; then
        COMPREPLY=($(compgen -W "encoder cross decoder force" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}

complete -o filenames -o bashdefault -F _max_whisper max-whisper
