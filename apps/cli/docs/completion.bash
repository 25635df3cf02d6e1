# bash completion of max-whisper. The tables are made from the program's own (apps/cli/docs/completion.c):
# @COMPLETION@

# The subcommand on the line so far: one word, or two; transcribe is implied.
_max_whisper_subcommand() {
    local first=${COMP_WORDS[1]}
    if [[ -n $(_max_whisper_seconds "$first") ]]; then
        echo "$first ${COMP_WORDS[2]}"
    elif [[ " $_max_whisper_subcommands " == *" $first "* && $COMP_CWORD -gt 1 ]]; then
        echo "$first"
    else
        echo "transcribe"
    fi
}

_max_whisper() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} subcommand words kind
    # bash splits at '=': "--model=ba" is three words.
    if [[ $word == "=" ]]; then
        word=""
    elif [[ $before == "=" ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    before=${before//_/-}
    subcommand=$(_max_whisper_subcommand)
    words=$(_max_whisper_values "$subcommand $before")
    kind=$(_max_whisper_kind "$subcommand $before")
    if [[ $kind == folders ]]; then
        COMPREPLY=($(compgen -d -- "$word"))
        compopt -o filenames 2>/dev/null
    elif [[ $kind == files ]]; then
        COMPREPLY=($(compgen -W "$words" -f -- "$word"))
        compopt -o filenames 2>/dev/null
    elif [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(_max_whisper_options "$subcommand")" -- "$word"))
    elif [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W "$_max_whisper_subcommands" -- "$word") $(compgen -f -- "$word"))
    elif [[ $COMP_CWORD == 2 && -n $(_max_whisper_seconds "${COMP_WORDS[1]}") ]]; then
        COMPREPLY=($(compgen -W "$(_max_whisper_seconds "${COMP_WORDS[1]}")" -- "$word"))
    else
        COMPREPLY=($(compgen -W "$(_max_whisper_words "$subcommand")" -- "$word") $(compgen -f -- "$word"))
    fi
}

complete -o filenames -o bashdefault -F _max_whisper max-whisper
