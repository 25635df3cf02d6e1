"""Tokenizer goldens: ids of varied strings, decoding of incomplete UTF-8, special ids, suppressed symbols.

Out: one JSON file. Every id comes from tiktoken through whisper.tokenizer; strings that carry unpaired bytes cannot
exist in Python text, so incomplete UTF-8 is shown by cutting token lists, as a transcript does.
"""

import json
import os
import random
import unicodedata

from .common import versions, whisper_library

# lint: table
# fmt: off
SENTENCES = [
    "", " ", "  ", "a", " a", "a ", " a ", "Hello world", " Hello, world!", "hello  world", "hello   world   ",
    "The quick brown fox jumps over the lazy dog.", " I'm sure they've said we'll go; he'd've known it's John's.",
    "I'M SURE THEY'VE SAID WE'LL GO", "don't can't won't 's 't 're 've 'm 'll 'd", "'S'T'RE'VE'M'LL'D", "''''s", "rock 'n' roll",
    "1", "12", "123", "1234567890", "3.14159", "1,000,000", "10 000", "a1b2c3", "1st 2nd 3rd", "$5.99", "100%", "20°C", "½ ¾ ² ³ Ⅷ ٣ ३ 五",
    "\n", "\n\n", "\t", "\r\n", " \n ", "a\nb", "a\n\nb", "a \n b", "a\tb\t\tc", "a\u00a0b", "a\u2003b\u2003\u2003c", "\u3000全角\u3000空白",
    "\u0085", "\u2028\u2029", "\u200b\u200c\u200d\ufeff", "x\u001cy\u001dz\u001e\u001f", "\u0000", "a\u0000b", "\u0001\u0007\u001b[31m\u007f",
    "...", "…", "?!", "!!!", "--", "---", "—", "–", "(a)", "[music]", "♪ la la ♪", "♪♪♪", "♩♫♬♭♮♯", "« Bonjour »", "“quoted”", "‘x’", "¿Qué? ¡Sí!",
    "#hashtag @user user@example.com https://example.com/?q=a&b=c#d", "C:\\dir\\file.txt", "/usr/bin/env", "x = y * (z + 1) / 2;", "{\"a\": [1, 2]}",
    "<html>&amp;</html>", "a_b__c", "snake_case camelCase PascalCase SCREAMING_CASE", "supercalifragilisticexpialidocious",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ab" * 40, " " * 17, "a" + " " * 9 + "b", "-" * 33,
    "naïve café résumé", "nai\u0308ve cafe\u0301", "Ångström", "A\u030angstro\u0308m", "Größe Straße ÄÖÜ ß ẞ", "œuvre Œuvre ça été où",
    "El niño comió piñas. ¿Cómo estás?", "Não há ação sem emoção.", "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Zażółć gęślą jaźń",
    "De oude vĳf kĳkers zijn één.", "Pchnąć w tę łódź jeża lub ośm skrzyń fig", "Árvíztűrő tükörfúrógép", "Iyi günler İstanbul ığüşöç",
    "Съешь же ещё этих мягких французских булок да выпей чаю.", "Їжак, ґанок і під'їзд — Україна.", "Здравей свят", "Ѓорѓи",
    "Γαζέες καὶ μυρτιὲς δὲν θὰ βρῶ πιὰ στὸ χρυσαφὶ ξέφωτο", "Բարեւ աշխարհ", "გამარჯობა მსოფლიო", "שלום עולם", "שָׁלוֹם", "مرحبا بالعالم", "السَّلامُ عَلَيْكُم",
    "سلام دنیا ۱۲۳", "नमस्ते दुनिया", "क्षत्रिय", "হ্যালো বিশ্ব", "ਸਤ ਸ੍ਰੀ ਅਕਾਲ", "હેલો", "வணக்கம் உலகம்", "హలో ప్రపంచం", "ನಮಸ್ಕಾರ", "ഹലോ", "ආයුබෝවන්",
    "สวัสดีชาวโลก", "ສະບາຍດີ", "မင်္ဂလာပါ", "សួស្តី", "བཀྲ་ཤིས་བདེ་ལེགས", "ሰላም ልዑል", "ᏣᎳᎩ", "ᠮᠣᠩᠭᠣᠯ", "Xin chào thế giới", "Tiếng Việt đầy đủ dấu",
    "你好，世界！", "今天天气真好。", "繁體中文與简体中文", "こんにちは世界", "カタカナとひらがな、漢字。", "ﾊﾝｶｸ", "안녕하세요 세계", "한글\u1112\u1161\u11ab", "「引用」『二重』", "𠮷野家 𩸽",
    "😀", "😀😃😄", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪🇫🇷", "❤️", "☎️ ☃ ♥", "1️⃣2️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "text 😂 more", "a😀b", "\U0001f9d1\u200d\U0001f680",
    "𝕳𝖊𝖑𝖑𝖔", "𝟏𝟐𝟑", "ⅣⅫ", "①②③", "ﬁ ﬂ", "Ａ Ｂ １２", "a\u0300\u0301\u0302\u0303\u0304", "\u0301abc", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢", "ı İ ſ K Å",
    "\ufffd", "\uffff", "\U0010ffff", "\ue000", "\u0378", "end of text", "startoftranscript", "<|en", "|>", "< |endoftext| >",
    " Mr. Quilter is the apostle of the middle classes, and we are glad to welcome his gospel.",
    " And so, my fellow Americans, ask not what your country can do for you, ask what you can do for your country.",
]
# fmt: on
# lint: end
REFUSED = ["<|endoftext|>", "a <|startoftranscript|> b", "<|en|>", "<|0.00|>", "x<|nospeech|>"]
FIXED_UNICODE = (14, 0, 0)  # code points assigned after this are left out: regex libraries disagree about them


def random_strings(count, seed):
    """Strings over assigned code points of many scripts, mixed with spaces, digits and apostrophes."""
    rng = random.Random(seed)
    blocks = {}
    for code in range(1, 0x20000):
        category = unicodedata.category(chr(code))
        if category in ("Cn", "Cs", "Co"):
            continue
        blocks.setdefault(code >> 7, []).append(chr(code))
    keys = sorted(blocks)
    glue = [" ", " ", "  ", "'s", "'", "1", "23", "\n", ".", ",", "-", "\u00a0", "a", " the"]
    result = []
    for index in range(count):
        block = blocks[keys[index % len(keys)]]
        other = blocks[rng.choice(keys)]
        parts = []
        for _ in range(rng.randint(4, 14)):
            parts.append(rng.choice(block if rng.random() < 0.7 else other if rng.random() < 0.5 else glue))
        result.append("".join(parts))
    return result


def decode_cases(tokenizer, rng):
    """Token lists whose bytes break off inside a character, hold stray bytes, specials or timestamps."""
    eot, start = tokenizer.eot, tokenizer.timestamp_begin
    lists = []
    for text in ["😀😃", "日本語のテスト", "🏳️‍🌈 ok", "naïve", "안녕", "𠮷", "Привет", "नमस्ते", " 你好", "ẞß€"]:
        ids = tokenizer.encode(text)
        lists += [ids, ids[:-1], ids[1:], ids[::-1], ids[:1] + ids[:1]]
    for _ in range(120):
        lists.append([rng.randrange(256) for _ in range(rng.randint(1, 8))])
        lists.append([rng.randrange(eot) for _ in range(rng.randint(1, 12))])
    lists += [
        [],
        [eot],
        [start],
        [start, *tokenizer.encode(" Hello"), start + 100, start + 100, *tokenizer.encode(" world."), start + 1500],
        [tokenizer.sot, tokenizer.no_timestamps, *tokenizer.encode(" x"), eot],
    ]
    return [
        {"ids": ids, "text": tokenizer.decode(ids), "with_timestamps": tokenizer.decode_with_timestamps(ids)}
        for ids in lists
    ]


def refused(tokenizer, text):
    try:
        tokenizer.encode(text)
    except ValueError:
        return True
    return False


def vocabulary(name, multilingual, num_languages, strings, library):
    tokenizer = library.get_tokenizer(
        multilingual,
        num_languages=num_languages,
        language="en" if multilingual else None,
        task="transcribe" if multilingual else None,
    )
    special = {
        key: getattr(tokenizer, key)
        for key in (
            "eot",
            "sot",
            "translate",
            "transcribe",
            "sot_lm",
            "sot_prev",
            "no_speech",
            "no_timestamps",
            "timestamp_begin",
        )
    }
    # the library keeps its specials in a set, whose order changes from run to run: sorted here
    languages = sorted(zip(tokenizer.all_language_tokens, tokenizer.all_language_codes))
    entry = {
        "name": name,
        "multilingual": multilingual,
        "num_languages": num_languages,
        "n_vocab": tokenizer.encoding.n_vocab,
        "special": special,
        "language_tokens": [token for token, _ in languages],
        "language_codes": [code for _, code in languages],
        "sot_sequence": list(tokenizer.sot_sequence),
        "sot_sequence_including_notimestamps": list(tokenizer.sot_sequence_including_notimestamps),
        "non_speech_tokens": list(tokenizer.non_speech_tokens),
    }
    if num_languages == 99:
        entry["encode"] = [{"text": text, "ids": tokenizer.encode(text)} for text in strings]
        entry["refused"] = [text for text in REFUSED if refused(tokenizer, text)]
        entry["decode"] = decode_cases(tokenizer, random.Random(7))
    return entry


def write(path):
    whisper_library()
    from whisper import tokenizer as library

    if unicodedata.unidata_version.split(".")[0] != str(FIXED_UNICODE[0]):
        raise SystemExit(
            f"tokenizer goldens want a Python whose unicodedata is version {FIXED_UNICODE[0]} (Python 3.11), "
            f"this one has {unicodedata.unidata_version}"
        )
    strings = SENTENCES + random_strings(600, seed=42)
    value = {
        "made_by": "tests/golden/make/reference.py tokenizer",
        "versions": versions(),
        "languages": [[code, name] for code, name in library.LANGUAGES.items()],
        "aliases": [[name, code] for name, code in library.TO_LANGUAGE_CODE.items()],
        "vocabularies": [
            vocabulary("gpt2", False, 99, strings, library),
            vocabulary("multilingual", True, 99, strings, library),
            vocabulary("multilingual", True, 100, strings, library),
        ],
    }
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=True, separators=(",", ":"))
        out.write("\n")
