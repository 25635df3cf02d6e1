"""bench/mixed/mixed_text.py - transcripts in several languages: errors by block, and whether one was translated.

In: what is truly said in each block of a recording, and the text of the whole recording. Out, for each block: errors,
tokens, and the tokens that were heard there.
Invariants: one normaliser for all languages, that of Whisper's for languages other than English, without diacritics
and with simplified Chinese characters; a token is a word, or a character where words are not divided (Chinese,
Japanese). The text is divided among blocks by the alignment with the fewest errors: no system's time stamps are needed,
and none can gain by them.
"""
import re
import unicodedata

# Letters that keep their form under decomposition, as Whisper's normaliser has them
LETTERS = str.maketrans({"œ": "oe", "æ": "ae", "ø": "o", "ß": "ss", "đ": "d", "ð": "d", "þ": "th", "ł": "l"})
# Traditional characters, each before the simplified one: which of them Whisper writes is chance. Those of the clips.
PAIRS = ("個个產产僅仅偉伟體体餘余淨净準准減减製制動动勢势後后聽听員员國国備备對对歲岁並并開开張张數数時时術术標标棟栋橋桥"
         "樓楼沒没現现納纳職职節节設设該该說说調调購购趨趋車车這这裡里裏里銳锐間间項项條条規规歸归見见於于")
SIMPLIFIED = str.maketrans({PAIRS[i]: PAIRS[i + 1] for i in range(0, len(PAIRS), 2)})
# Scripts in which a character is a token
UNDIVIDED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
SCRIPTS = {"latin": re.compile("[a-z]"), "cyrillic": re.compile("[\u0400-\u04ff]"), "han": UNDIVIDED}
SCRIPT_OF = dict({language: "latin" for language in ("cs", "de", "en", "es", "fr", "nl", "pt")}, ru="cyrillic",
                 uk="cyrillic", zh="han", ja="han")
# Frequent words of each language that are not frequent in the others
FUNCTION_WORDS = {
    "cs": "je se na to ze ten tak jsem byl ale jako jen uz nebo jeho bych kdyz tohle nam",
    "de": "der die und das ist nicht ein eine zu mit den von auf sich auch im dem wurde",
    "en": "the and of to is that it was for you with this are have be not he his they",
    "es": "el los las y un una por con para es del lo su como pero mas esta usted",
    "fr": "le les et des un une du pour dans est que il ne pas au sur ce qui avec",
    "nl": "het een van en niet dat ik je zijn maar aan voor ook er nog om wat mee",
    "pt": "o os um uma com nao para do da em mais foi ele ao dos se seu como",
}
FUNCTION_WORDS = {language: set(words.split()) for language, words in FUNCTION_WORDS.items()}
ONLY = {"uk": re.compile("[іїєґ]"), "ru": re.compile("[ыэёъ]")}   # letters that the other one has not


def lower(text):
    return re.sub(r"\[[^\]]*\]|<[^>]*>|\([^)]*\)", " ", text.lower())


def normalise(text):
    """A list of tokens"""
    text = unicodedata.normalize("NFKD", lower(text).translate(LETTERS).translate(SIMPLIFIED))
    text = "".join("" if unicodedata.category(c) == "Mn" else " " if unicodedata.category(c)[0] in "MSP" else c
                   for c in text)
    return UNDIVIDED.sub(lambda match: f" {match.group()} ", text).split()


def align(truth, heard):
    """The edits of the alignment with the fewest errors, in order: (index in truth or None, index in heard or None)"""
    rows = [list(range(len(heard) + 1))]
    for i, token in enumerate(truth, 1):
        last, row = rows[-1], [i]
        for j, other in enumerate(heard, 1):
            row.append(min(last[j - 1] + (token != other), last[j] + 1, row[j - 1] + 1))
        rows.append(row)
    edits, i, j = [], len(truth), len(heard)
    while i or j:
        here = rows[i][j]
        if i and j and here == rows[i - 1][j - 1] + (truth[i - 1] != heard[j - 1]):
            i, j = i - 1, j - 1
            edits.append((i, j))
        elif i and here == rows[i - 1][j] + 1:
            i -= 1
            edits.append((i, None))
        else:
            j -= 1
            edits.append((None, j))
    return edits[::-1]


def by_block(truths, text):
    """[(errors, tokens, tokens heard)] of each block; what was added between two blocks counts for the first"""
    blocks = [normalise(truth) for truth in truths]
    truth = [token for block in blocks for token in block]
    owner = [number for number, block in enumerate(blocks) for _ in block]
    heard = normalise(text)
    found = [[0, len(block), []] for block in blocks]
    current = 0
    for i, j in align(truth, heard):
        current = owner[i] if i is not None else current
        found[current][0] += i is None or j is None or truth[i] != heard[j]
        if j is not None:
            found[current][2].append(heard[j])
    return [tuple(block) for block in found]


def is_translated(language, heard, errors, tokens):
    """Whether a block came out in another language than it was spoken in: more than half of its letters are in another
    script; or at least half of its words are wrong and another language's function words, at least three, are more
    than twice as many as its own (Russian and Ukrainian: at least two letters that only the other has, and more than
    own)."""
    text = "".join(heard)
    if len(text) < 4:
        return False
    letters = {script: len(pattern.findall(text)) for script, pattern in SCRIPTS.items()}
    if 2 * letters[SCRIPT_OF[language]] < sum(letters.values()):
        return True
    if 2 * errors < tokens:
        return False
    if language in ONLY:
        other = "ru" if language == "uk" else "uk"
        foreign = len(ONLY[other].findall(text))
        return foreign >= 2 and foreign > len(ONLY[language].findall(text))
    if language not in FUNCTION_WORDS:
        return False
    own = sum(word in FUNCTION_WORDS[language] for word in heard)
    return any(sum(word in words for word in heard) >= max(3, 2 * own + 1)
               for other, words in FUNCTION_WORDS.items() if other != language)
