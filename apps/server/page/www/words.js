/* words.js - segments with the times of their words, and what editing does to them.
 *
 * A segment is {start, end, text, words: [{word, start, end, …}], …}; times are seconds; its words, joined, are its
 * text. After an edit words that are still there keep their times; new ones share the time of those they replace. Pure
 * functions: nothing here changes its arguments. */

/* Scripts that put no blanks between words: there a letter is a word. */
const UNSPACED = new RegExp('[' + ['Han', 'Hiragana', 'Katakana', 'Thai', 'Lao', 'Khmer', 'Myanmar']
  .map((script) => `\\p{Script=${script}}`).join('') + ']', 'u');
const letters = typeof Intl !== 'undefined' && Intl.Segmenter ? new Intl.Segmenter() : null;
const LARGEST_TABLE = 4e6;   // cells of the comparison; beyond that everything between the ends counts as replaced

/* Words of a text, each with the blanks before it: " It was" gives " It", " was". */
export function tokens(text) {
  const found = [];
  for (const token of text.match(/\s*\S+/g) || []) {
    if (!UNSPACED.test(token)) {
      found.push(token);
      continue;
    }
    const blanks = token.length - token.trimStart().length;
    const parts = letters ? Array.from(letters.segment(token.slice(blanks)), (part) => part.segment)
      : Array.from(token.slice(blanks));
    parts[0] = token.slice(0, blanks) + parts[0];
    found.push(...parts);
  }
  return found;
}

/* Texts over a stretch of time, each as long as it has letters. */
function spread(texts, start, end) {
  const lengths = texts.map((text) => Math.max(1, text.trim().length));
  const all = lengths.reduce((sum, length) => sum + length, 0);
  let at = 0;
  return texts.map((word, i) => {
    const from = at;
    at += lengths[i];
    return { word, start: start + (end - start) * from / all, end: start + (end - start) * at / all };
  });
}

/* One word for each token; a word that has several shares its time among them. */
function divided(words) {
  return words.flatMap((word) => {
    const parts = tokens(word.word);
    return parts.length < 2 ? [word] : spread(parts, word.start, word.end).map((part) => ({ ...word, ...part }));
  });
}

/* Pairs [i, j] of equal texts, the longest common subsequence. */
function common(old, now) {
  let head = 0, tail = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  while (tail < old.length - head && tail < now.length - head &&
         old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const rows = old.length - head - tail, columns = now.length - head - tail;
  const pairs = Array.from({ length: head }, (_, i) => [i, i]);
  if (rows * columns <= LARGEST_TABLE) {
    const width = columns + 1, best = new Uint16Array((rows + 1) * width);
    for (let i = rows - 1; i >= 0; i--)
      for (let j = columns - 1; j >= 0; j--)
        best[i * width + j] = old[head + i] === now[head + j] ? best[(i + 1) * width + j + 1] + 1
          : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    for (let i = 0, j = 0; i < rows && j < columns;) {
      if (old[head + i] === now[head + j]) pairs.push([head + i++, head + j++]);
      else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
      else j++;
    }
  }
  for (let i = tail; i > 0; i--) pairs.push([old.length - i, now.length - i]);
  return pairs;
}

/* The words of a segment whose text has become another. */
export function aligned(segment, text) {
  const now = tokens(text), old = divided(segment.words || []);
  if (!old.length) return spread(now, segment.start, segment.end);
  const pairs = common(old.map((word) => word.word.trim()), now.map((word) => word.trim()));
  const words = [];
  let i = 0, j = 0;
  for (const [nextI, nextJ] of [...pairs, [old.length, now.length]]) {
    let shared = false;
    if (nextJ > j) {
      let from = i < nextI ? old[i].start : i > 0 ? old[i - 1].end : segment.start;
      let to = i < nextI ? old[nextI - 1].end : nextI < old.length ? old[nextI].start : segment.end;
      const added = now.slice(j, nextJ);
      // No time between two words: what was put there shares the time of the word before it, or of the one after.
      if (to - from < 0.02 * added.length) {
        if (words.length) {
          const before = words.pop();
          from = before.start;
          added.unshift(before.word);
        } else if (nextJ < now.length) {
          to = old[nextI].end;
          added.push(now[nextJ]);
          shared = true;
        }
      }
      words.push(...spread(added, from, Math.max(from, to)));
    }
    if (nextJ < now.length && !shared) words.push({ ...old[nextI], word: now[nextJ] });
    i = nextI + 1;
    j = nextJ + 1;
  }
  return words;
}

/* A segment with another text: what is typed has no blank before it, what is decoded usually has one. */
export function retold(segment, typed) {
  const blank = /^\s/.test(segment.text) ? ' ' : '';
  const text = typed.trim() ? blank + typed.trim().replace(/\s*\n\s*/g, ' ') : '';
  return text === segment.text ? segment : { ...segment, text, words: aligned(segment, text), edited: true };
}

/* Two segments of one, cut before the given letter of its trimmed text; null if one of them would be empty. */
export function cut(segment, letter) {
  const blanks = segment.text.length - segment.text.trimStart().length;
  const at = blanks + letter, left = [], right = [];
  let place = 0;
  for (const word of segment.words) {
    const from = place;
    place += word.word.length;
    if (place <= at) left.push(word);
    else if (from >= at || !word.word.slice(0, at - from).trim()) right.push(word);
    else {
      const [a, b] = spread([word.word.slice(0, at - from), word.word.slice(at - from)], word.start, word.end);
      left.push({ ...word, ...a });
      right.push({ ...word, ...b });
    }
  }
  if (!left.length || !right.length) return null;
  const text = (words) => words.map((word) => word.word).join('');
  const blank = /^\s/.test(segment.text) && !/^\s/.test(right[0].word) ? ' ' : '';
  right[0] = { ...right[0], word: blank + right[0].word };
  return [
    { ...segment, text: text(left).trimEnd(), words: left, end: left[left.length - 1].end, edited: true },
    { ...segment, text: text(right), words: right, start: right[0].start, edited: true },
  ];
}

/* One segment of two that follow each other. */
export function joined(a, b) {
  const words = [...a.words, ...b.words];
  const blank = a.text && b.text && !/\s$/.test(a.text) && !/^\s/.test(b.text) && !UNSPACED.test(b.text[0]) ? ' ' : '';
  if (blank && b.words.length) words[a.words.length] = { ...b.words[0], word: blank + b.words[0].word };
  return { ...a, end: b.end, text: a.text + blank + b.text, words, edited: true };
}

const PART_S = 4, LONGEST_S = 12;   // of a passage: a sentence may end it from here on, any word from there

/* A long segment as several: at ends of sentences, at commas, at last anywhere. */
export function divide(segment) {
  const parts = [];
  let words = [];
  segment.words.forEach((one, i) => {
    words.push(one);
    const seconds = one.end - words[0].start, rest = segment.words.length - 1 - i;
    const ends = seconds >= LONGEST_S || (seconds >= PART_S && /[.?!。？！]$/.test(one.word)) ||
      (seconds >= 2 * PART_S && /[,;:，；、]$/.test(one.word));
    if (rest && !ends) return;
    const text = words.map((part) => part.word).join('');
    parts.push({ ...segment, start: words[0].start, end: one.end, words, text });
    words = [];
  });
  if (parts.length < 2) return [segment];
  parts[0].start = segment.start;
  parts[parts.length - 1].end = Math.max(segment.end, parts[parts.length - 1].end);
  return parts;
}

/* The segments of an answer (verbose_json): words inside of segments, or at the top by OpenAI's custom. */
export function segmentsOf(result) {
  const segments = (result.segments || []).map((segment) => ({ ...segment }));
  const loose = result.words || [];
  let at = 0;
  for (const segment of segments) {
    if (!segment.words) {
      const from = at;
      let wanted = segment.text.replace(/\s/g, '').length;
      while (at < loose.length && wanted > 0) wanted -= loose[at++].word.replace(/\s/g, '').length;
      segment.words = loose.slice(from, at);
    }
    segment.words = withBlanks(segment);
  }
  return segments;
}

/* Words as they stand in the text of their segment: with the blanks before them, and none missing. */
function withBlanks(segment) {
  let at = 0;
  const words = [];
  for (const word of segment.words) {
    const bare = word.word.trim(), found = segment.text.indexOf(bare, at);
    if (!bare) continue;
    if (found < 0 || segment.text.slice(at, found).trim()) return aligned(segment, segment.text);
    words.push({ ...word, word: segment.text.slice(at, found + bare.length) });
    at = found + bare.length;
  }
  if (segment.text.slice(at).trim() || !words.length) return aligned({ ...segment, words }, segment.text);
  return words;
}

/* The index of the last word that starts at or before a time, -1 before the first; starts ascend. */
export function indexAt(starts, time) {
  let low = 0, high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
