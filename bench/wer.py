"""bench/wer.py - how far a transcript is from the truth: word error rate after normalising both in Whisper's way.

In: two English texts. Out: words that had to be changed, added or left out, over the words of the truth.
Invariants: case, punctuation, hesitation, contractions, titles, British endings and ways to write a number do not
count; everything else does. Command line: wer.py TRUTH.txt HEARD.txt
"""
import re
import sys
import unicodedata

HESITATION = {"hmm", "mm", "mhm", "mmm", "uh", "um", "erm"}

# A word, or what follows an apostrophe, and what it stands for.
WHOLE = {"won't": "will not", "can't": "can not", "cannot": "can not", "let's": "let us", "ain't": "aint",
         "y'all": "you all", "ma'am": "madam", "wanna": "want to", "gonna": "going to", "gotta": "got to"}
TITLES = {"mr": "mister", "mrs": "missus", "dr": "doctor", "st": "saint", "prof": "professor", "capt": "captain",
          "lt": "lieutenant", "col": "colonel", "gen": "general", "sen": "senator", "rev": "reverend", "jr": "junior",
          "sr": "senior"}
ENDINGS = {"'re": "are", "'s": "is", "'d": "would", "'ll": "will", "'ve": "have", "'m": "am"}

# British spellings by ending, longest first; only words of some length, so that "our" and "tour" stay as they are.
SPELLINGS = [("isation", "ization"), ("ising", "izing"), ("ised", "ized"), ("ise", "ize"), ("ours", "ors"),
             ("oured", "ored"), ("ouring", "oring"), ("our", "or"), ("lled", "led"), ("lling", "ling")]
SPELLED_ALIKE = {"grey": "gray", "cheque": "check", "centre": "center", "theatre": "theater", "programme": "program",
                 "defence": "defense", "phantasies": "fantasies", "phantasy": "fantasy"}
# Their British-looking ending is the only spelling there is.
KEPT = {"otherwise", "likewise", "exercise", "promise", "premise", "surprise", "advise", "revise", "comprise", "raise",
        "praise", "noise", "precise", "concise", "franchise", "enterprise", "promised", "raised", "surprised", "called",
        "calling", "filled", "filling", "pulled", "pulling", "killed", "killing", "rolled", "rolling", "willing",
        "telling", "selling", "falling", "billing", "hour", "hours", "four", "your", "yours", "pour", "tour"}

UNITS = {word: value for value, word in enumerate(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen".split())}
TENS = {word: 10 * (value + 2) for value, word in enumerate(
    "twenty thirty forty fifty sixty seventy eighty ninety".split())}
SCALES = {"thousand": 1000, "million": 10 ** 6, "billion": 10 ** 9}


def plain(text):
    """Lower case, no accents, no brackets with what is in them, one kind of apostrophe."""
    text = re.sub(r"\[[^\]]*\]|<[^>]*>|\([^)]*\)", " ", text.lower())
    text = re.sub("[’‘`´]", "'", text)
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def expand(word):
    """Contractions and titles written out: a list of words"""
    if word in WHOLE:
        return WHOLE[word].split()
    if word in TITLES:
        return [TITLES[word]]
    if word.endswith("n't"):
        return [word[:-3], "not"]
    for ending, meaning in ENDINGS.items():
        if word.endswith(ending) and len(word) > len(ending):
            return [word[:-len(ending)], meaning]
    return [word.replace("'", "")]


def spell(word):
    if word in SPELLED_ALIKE:
        return SPELLED_ALIKE[word]
    if word in KEPT or len(word) < 6:
        return word
    for british, american in SPELLINGS:
        if word.endswith(british):
            return word[:-len(british)] + american
    return word


def is_number_word(word):
    return word in UNITS or word in TENS or word.isdigit()


def read_number(words, i):
    """The number that starts at words[i], and where it ends: "one hundred and five" is 105, "two four" is 24."""
    if words[i].isdigit() and not (i + 1 < len(words) and (words[i + 1] == "hundred" or words[i + 1] in SCALES)):
        return join_digits(words, i)
    if words[i] in UNITS and UNITS[words[i]] < 10 and i + 1 < len(words) and UNITS.get(words[i + 1], 10) < 10:
        return join_digits(words, i)
    total, group, start = 0, 0, i
    last = None   # what came before decides what may follow: "twenty five" is one number, "five twenty" is two
    while i < len(words):
        word = words[i]
        if word.isdigit() and last is None:
            group, last = int(word), "unit"
        elif word in TENS and last in (None, "hundred", "scale"):
            group, last = group + TENS[word], "ten"
        elif word in UNITS and (last in (None, "hundred", "scale") or (last == "ten" and 0 < UNITS[word] < 10)):
            group, last = group + UNITS[word], "unit"
        elif word == "hundred" and last in ("unit", "ten"):
            group, last = group * 100, "hundred"
        elif word in SCALES and last in ("unit", "ten", "hundred"):
            total, group, last = total + group * SCALES[word], 0, "scale"
        elif not (word == "and" and last in ("hundred", "scale") and i + 1 < len(words) and
                  (words[i + 1] in UNITS or words[i + 1] in TENS)):
            break
        i += 1
    return str(total + group), max(i, start + 1)


def join_digits(words, i):
    """Digits said one after another are one string of them."""
    digits = ""
    while i < len(words) and (words[i].isdigit() or UNITS.get(words[i], 10) < 10):
        single = words[i] if words[i].isdigit() else str(UNITS[words[i]])
        if digits and len(single) > 1:
            break
        digits += single
        i += 1
        if len(single) > 1:
            break
    return digits, i


def normalise(text):
    """A list of words"""
    text = re.sub(r"(\d),(?=\d)", r"\1", plain(text))
    text = re.sub(r"(?<=\d)(?=[a-z])|(?<=[a-z])(?=\d)", " ", text)
    words = []
    for word in re.findall(r"[^\W_]+(?:'[^\W_]+)*|[%$]", text):
        words += [w for w in expand(word) if w and w not in HESITATION]
    out, i = [], 0
    while i < len(words):
        if is_number_word(words[i]):
            number, i = read_number(words, i)
            out.append(number)
        else:
            out.append(spell(words[i]))
            i += 1
    return out


def distance(truth, heard):
    """The fewest words to change, add or leave out (Levenshtein). A column of the table is two numbers, whose bits say
    where it rises and falls (Myers, 1999), so that an hour of words takes a second."""
    if not truth:
        return len(heard)
    everything, last = (1 << len(truth)) - 1, 1 << (len(truth) - 1)
    places = {}
    for i, word in enumerate(truth):
        places[word] = places.get(word, 0) | 1 << i
    rises, falls, score = everything, 0, len(truth)
    for word in heard:
        equal = places.get(word, 0)
        vertical = equal | falls
        horizontal = (((equal & rises) + rises) ^ rises) | equal
        up = falls | (~(horizontal | rises) & everything)
        down = rises & horizontal
        score += bool(up & last) - bool(down & last)
        up = (up << 1 | 1) & everything
        down = down << 1 & everything
        rises = down | (~(vertical | up) & everything)
        falls = up & vertical
    return score


def word_error_rate(truth, heard):
    """0.0 for the same words; above 1.0 if more was made up than said. No truth: 0 if nothing was heard, else 1."""
    truth, heard = normalise(truth), normalise(heard)
    if not truth:
        return 1.0 if heard else 0.0
    return distance(truth, heard) / len(truth)


def main(arguments):
    if len(arguments) != 2:
        print("usage: bench/wer.py TRUTH.txt HEARD.txt", file=sys.stderr)
        return 2
    texts = []
    for path in arguments:
        with open(path, encoding="utf-8") as stream:
            texts.append(stream.read())
    print(f"{100 * word_error_rate(*texts):.2f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
