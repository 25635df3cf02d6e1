"""Word error rate and its normalisation: what must not count does not, what must count does."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import wer  # noqa: E402


class NormaliseTest(unittest.TestCase):
    def same(self, one, other):
        self.assertEqual(wer.normalise(one), wer.normalise(other), f"{one!r} and {other!r}")

    def test_case_and_marks(self):
        self.same("Ever tried? Ever failed.", "ever tried ever failed")
        self.same("well-known, café “here”", "well known cafe here")
        self.same("the [beep] tone (laughs) ends", "the tone ends")
        self.same("Um, yes, uh, it is", "yes it is")

    def test_contractions_and_titles(self):
        self.same("Mr. Dashwood can't; it's Mrs. Smith's", "mister dashwood can not it is missus smith is")
        self.same("don’t won't they've I'm", "do not will not they have i am")

    def test_numbers(self):
        self.assertEqual(wer.normalise("press one, or 2"), ["press", "1", "or", "2"])
        self.assertEqual(wer.normalise("twenty-five and 25"), ["25", "and", "25"])
        self.assertEqual(wer.normalise("one hundred and five dollars"), ["105", "dollars"])
        self.assertEqual(wer.normalise("two thousand and one"), ["2001"])
        self.assertEqual(wer.normalise("3 million"), ["3000000"])
        self.assertEqual(wer.normalise("four zero six"), ["406"])
        self.assertEqual(wer.normalise("4 0 6"), ["406"])
        self.assertEqual(wer.normalise("1,234 items"), ["1234", "items"])
        self.assertEqual(wer.normalise("five twenty"), ["5", "20"])
        self.assertEqual(wer.normalise("fifteen sixteen"), ["15", "16"])
        self.assertEqual(wer.normalise("twelve and six"), ["12", "and", "6"])
        self.assertEqual(wer.normalise("nineteen hundred"), ["1900"])
        self.assertEqual(wer.normalise("24 kHz, 5pm"), ["24", "khz", "5", "pm"])

    def test_numbers_do_not_swallow_words(self):
        self.assertEqual(wer.normalise("a hundred thousand and"), ["a", "hundred", "thousand", "and"])
        self.assertEqual(wer.normalise("one and"), ["1", "and"])
        self.assertEqual(wer.normalise("one hundred and beyond"), ["100", "and", "beyond"])

    def test_spelling(self):
        self.same("honour and idealisation organised", "honor and idealization organized")
        self.same("the programme was cancelled", "the program was canceled")
        self.assertEqual(wer.normalise("your hours otherwise promised"), ["your", "hours", "otherwise", "promised"])


class RateTest(unittest.TestCase):
    def test_none(self):
        self.assertEqual(wer.word_error_rate("It was the best of times.", "it was the best of times"), 0)
        self.assertEqual(wer.word_error_rate("", ""), 0)
        self.assertEqual(wer.word_error_rate("", "thank you"), 1)

    def test_each_kind(self):
        self.assertAlmostEqual(wer.word_error_rate("a b c d", "a x c d"), 0.25)
        self.assertAlmostEqual(wer.word_error_rate("a b c d", "a c d"), 0.25)
        self.assertAlmostEqual(wer.word_error_rate("a b c d", "a b c c d"), 0.25)
        self.assertEqual(wer.word_error_rate("a b c d", ""), 1)
        self.assertEqual(wer.word_error_rate("word", "quite other things said"), 4)

    def test_distance_is_the_least(self):
        self.assertEqual(wer.distance("k i t t e n".split(), "s i t t i n g".split()), 3)
        self.assertEqual(wer.distance([], ["a", "b"]), 2)
        self.assertEqual(wer.distance(["a", "b"], []), 2)


if __name__ == "__main__":
    unittest.main()
