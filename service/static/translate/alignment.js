// The alignment of the words of a text and its translation, and the highlights that show it.

import { element, setText } from '../common/dom.js';
import { chosenFor } from '../common/state.js';
import { speaker } from '../common/strings.js';
import { decimal, listed, percent, unitOffsets } from '../common/text.js';
import { translate } from '../strings/translate.js';
import { WordText } from './words.js';

const say = speaker(translate);

const LETTERS = /[\p{L}\p{N}]/u; // The caret behind a full stop is in no word.

/**
 * The words of both sides as spans of UTF-16 units, and their pairs.
 * @typedef {{source: number[][], target: number[][], pairs: number[][]}} Alignment
 */

const SAID_WORDS = 3; // The readout names this many words.

const NO_WORDS = { source_words: [], target_words: [], pairs: [] };

/** @returns {Alignment} */
const unaligned = () => ({ source: [], target: [], pairs: [] });

/**
 * Adds the alignments of sentences to the alignment of the sentences before them.
 * @param {Alignment} known It is extended.
 * @param {number[][]} offsets Offsets of both texts, from `unitOffsets`.
 * @param {AlignedSentence[]} sentences Sentences of POST /translate, with spans of code points.
 */
function extend(known, [from, to], sentences) {
  for (const { source_words: read, target_words: written, pairs } of sentences) {
    const [firstSource, firstTarget] = [known.source.length, known.target.length];
    known.source.push(...read.map(([start, end]) => [from[start], from[end]]));
    known.target.push(...written.map(([start, end]) => [to[start], to[end]]));
    known.pairs.push(...pairs.map(([s, t, weight]) => [s + firstSource, t + firstTarget, weight]));
  }
}

/** Converts an item of POST /attention, by word, to a sentence of POST /translate. */
function sentenceOf({ source, target, alignment: { pairs } }) {
  const words = ({ offsets, special }) => offsets.filter((_, index) => !special[index]);
  return { source_words: words(source), target_words: words(target), pairs };
}

const moved = ({ source_words: read, target_words: written, pairs }, from, to) => ({
  source_words: read.map(([start, end]) => [start + from, end + from]),
  target_words: written.map(([start, end]) => [start + to, end + to]),
  pairs,
});

/**
 * Returns a translation with the sentences that the reader chose, and the words of all sentences.
 * @param {Translation} translation
 * @param {View} view
 * @param {Object<number, Json>} items Items of POST /attention for chosen sentences; a sentence
 *     without one has no words.
 */
export function withChosen({ own, sentences }, view, items) {
  if (sentences.length === 0) return { shown: chosenFor(view, 0) ?? own, words: [] };
  const letters = [...own];
  let [shown, done, shift] = ['', 0, 0];
  const words = sentences.map((sentence, index) => {
    const text = chosenFor(view, index);
    if (text === null) return moved(sentence, 0, shift);
    const { source_words: read, target_words: written } = sentence;
    const [start, end] = [written[0][0], written[written.length - 1][1]];
    const [from, to] = [read[0][0], start + shift];
    shown += letters.slice(done, start).join('') + text;
    done = end;
    shift += [...text].length - (end - start);
    return moved(index in items ? sentenceOf(items[index]) : NO_WORDS, from, to);
  });
  return { shown: shown + letters.slice(done).join(''), words };
}

/** Lists the words that a word is aligned with, and their weights, largest first. */
export function partners({ pairs }, side, index) {
  const [here, there] = side === 'source' ? [0, 1] : [1, 0];
  return pairs
    .filter((pair) => pair[here] === index)
    .map((pair) => ({ index: pair[there], weight: pair[2] }))
    .sort((a, b) => b.weight - a.weight);
}

/**
 * Highlights words in the text field and in the translation: the words that a word looks at.
 *
 * While the map shows a word, the numbers are those of the map. Else they are those of the head that
 * aligns words, and the readout says so. A text field has no elements for its words. So a mirror
 * behind it shows the same letters in the same places, with a span for each word, and the pointer is
 * looked up there. The words of the translation are buttons that share one tab stop.
 */
export class WordLights {
  #alignment = unaligned();
  #offsets = [[0], [0]];
  /** @type {Word[]} */
  #pins = [];
  /**
   * For each word, its sentence and its index in the sentence.
   * @type {Object<string, Array<{sentence: number, index: number}>>}
   */
  #owners = { source: [], target: [] };
  #numSentences = 0;

  /** Returns the gaze of a word in the map; null if the map does not show the word. */
  gaze = (_word) => null;
  /** Names the head that aligns words. */
  aligner = () => '';
  /** Called with the word that is pointed at, or null. */
  pointed = (_word) => {};
  /** Called when the reader pins or unpins a word; returns whether the map follows. */
  pinned = (_word, _isNew) => false;
  /**
   * Called with the word that the reader pins, and its place in its sentence, or with null.
   * @type {function({side: string, node: HTMLElement, sentence: number, index: number}|null): void}
   */
  chosen = () => {};

  /**
   * @param {HTMLTextAreaElement} field
   * @param {HTMLElement} mirror
   * @param {HTMLElement} output
   * @param {HTMLElement} readout Element that names the words.
   */
  constructor(field, mirror, output, readout) {
    this.field = field;
    this.mirror = mirror;
    this.output = output;
    this.readout = readout;
    this.source = new WordText(mirror, () => element('span'), '\n');
    this.target = new WordText(output, wordButton, '');
    field.addEventListener('mousemove', (event) => this.#point('source', wordBelow(event, mirror)));
    field.addEventListener('mouseleave', () => this.rest());
    field.addEventListener('click', (event) => this.#pinBelow(event));
    document.addEventListener(
      'selectionchange',
      () => document.activeElement === field && this.rest(),
    );
    output.addEventListener('mouseover', (event) => this.#point('target', event.target));
    output.addEventListener('mouseleave', () => this.rest());
    output.addEventListener('focusin', (event) => this.#focus(event.target));
    output.addEventListener('focusout', () => this.rest());
    output.addEventListener('keydown', (event) => this.#move(event));
    output.addEventListener('click', (event) => this.#pin('target', event.target));
  }

  /** Shows a text without highlights, while it is typed. The mirror also sets the field's height. */
  showText(text) {
    this.#alignment = unaligned();
    this.#owners = { source: [], target: [] };
    this.#numSentences = 0;
    this.#pins = [];
    this.chosen(null);
    this.source.show(text);
    this.target.words = [];
    setText(this.readout, '');
  }

  /** Begins to show a text whose translation comes in parts. */
  begin(text) {
    this.showText(text);
    this.target.show('');
    this.#offsets = [unitOffsets(text), [0]];
  }

  /**
   * Shows the next part of the translation.
   * @param {string} translated
   * @param {AlignedSentence[]} sentences Sentences of POST /translate, with spans of code points.
   */
  add(translated, sentences) {
    const { source, target } = this.#alignment;
    const [numSource, numTarget] = [source.length, target.length];
    unitOffsets(translated, this.#offsets[1]);
    extend(this.#alignment, this.#offsets, sentences);
    this.#own(sentences);
    this.target.append(translated);
    this.source.mark(source.slice(numSource));
    this.target.mark(target.slice(numTarget));
    if (numTarget === 0) this.target.words[0]?.setAttribute('tabindex', '0');
    this.#followCaret();
  }

  /** Notes the sentences of new words. */
  #own(sentences) {
    for (const { source_words: read, target_words: written } of sentences) {
      const sentence = this.#numSentences;
      this.#owners.source.push(...read.map((_, index) => ({ sentence, index })));
      this.#owners.target.push(...written.map((_, index) => ({ sentence, index })));
      this.#numSentences += 1;
    }
  }

  /** Makes words of a text that has no translation, such as a text to embed. */
  markSource(spans) {
    if (this.#alignment.source.length > 0) return;
    this.#alignment.source = spans;
    this.source.mark(spans);
  }

  /** Pins words, and no others. */
  setPins(words) {
    this.#pins = words;
    for (const side of ['source', 'target']) this.#markPins(side, words);
    this.rest();
  }

  #markPins(side, words) {
    const isPinned = (span) => words.some((word) => word.side === side && overlap(word.span, span));
    this[side].words.forEach((node, index) => {
      const isHere = isPinned(this.#alignment[side][index]);
      node.classList.toggle('pinned', isHere);
      if (side === 'target') node.setAttribute('aria-pressed', String(isHere));
    });
  }

  /** Highlights a word of the map and the words that it looks at. */
  show(here, lit) {
    this.#mark(here, lit);
    setText(this.readout, '');
  }

  #text(side, index) {
    const [start, end] = this.#alignment[side][index];
    return this[side].text.slice(start, end);
  }

  #point(side, node) {
    const index = this[side].words.indexOf(node);
    if (index >= 0) this.#light(side, index);
    else this.rest();
  }

  #focus(node) {
    const words = this.target.words;
    for (const word of words) word.setAttribute('tabindex', word === node ? '0' : '-1');
    this.#point('target', node);
  }

  #move(event) {
    const words = this.target.words;
    const last = words.length - 1;
    const index = words.indexOf(event.target);
    const steps = { ArrowRight: index + 1, ArrowDown: index + 1, ArrowLeft: index - 1 };
    const places = { ...steps, ArrowUp: index - 1, Home: 0, End: last };
    if (['Enter', ' '].includes(event.key)) this.#pin('target', event.target);
    else if (event.key === 'Escape') this.unpin();
    else if (event.key in places) words[Math.min(last, Math.max(0, places[event.key]))].focus();
    else return;
    event.preventDefault();
  }

  /** Pins the word below a click in the field, unless the click selects text. */
  #pinBelow(event) {
    if (this.field.selectionStart !== this.field.selectionEnd) return;
    this.#pin('source', wordBelow(event, this.mirror));
  }

  #pin(side, node) {
    const index = this[side].words.indexOf(node);
    if (index < 0) return;
    const word = { side, span: this.#alignment[side][index] };
    const isNew = !node.classList.contains('pinned');
    const owner = this.#owners[side][index];
    if (!this.pinned(word, isNew)) this.setPins(isNew ? [word] : []);
    this.chosen(isNew && owner ? { side, node, ...owner } : null);
  }

  /** Unpins all words, and closes the list of a word. */
  unpin() {
    for (const word of this.#pins) this.pinned(word, false);
    this.setPins([]);
    this.chosen(null);
  }

  /** Highlights the pinned word, or else the word in focus or at the caret, or else none. */
  rest() {
    const pinned = this.#pins.map(({ side, span }) => [side, this.#indexOf(side, span)]);
    const focused = this.target.words.findIndex((word) => word === document.activeElement);
    if (pinned.length > 0 && pinned[0][1] >= 0) {
      this.#light(...pinned[0]);
      this.pointed(null); // The map outlines all pinned words.
    } else if (focused >= 0) this.#light('target', focused);
    else if (!this.#followCaret()) this.#clear();
  }

  #indexOf(side, span) {
    return this.#alignment[side].findIndex((other) => overlap(other, span));
  }

  #followCaret() {
    const { selectionStart: caret, selectionEnd: end } = this.field;
    if (document.activeElement !== this.field || caret !== end) return false;
    const text = this.field.value;
    const index = this.#alignment.source.findIndex(
      ([from, to]) => from <= caret && caret <= to && LETTERS.test(text.slice(from, to)),
    );
    if (index < 0) return false;
    this.#light('source', index);
    return true;
  }

  #light(side, index) {
    const word = { side, span: this.#alignment[side][index] };
    const gaze = this.gaze(word) ?? this.#aligned(side, index);
    this.#mark([word], gaze.lit);
    setText(this.readout, this.#said(this.#text(side, index), gaze));
    this.pointed(word);
  }

  /** Returns the gaze of a word in the alignment. */
  #aligned(side, index) {
    const other = side === 'source' ? 'target' : 'source';
    const lit = partners(this.#alignment, side, index).map(({ index: partner, weight }) => {
      return { side: other, span: this.#alignment[other][partner], weight, share: weight };
    });
    return { isLooking: side === 'target', isShare: true, lit, by: this.aligner() };
  }

  #mark(here, lit) {
    this.#unlight();
    for (const { side, span } of here) {
      for (const node of this.#nodes(side, span)) node.classList.add('here');
    }
    const shares = new Map();
    for (const { side, span, share } of lit) {
      for (const node of this.#nodes(side, span)) shares.set(node, (shares.get(node) ?? 0) + share);
    }
    for (const [node, share] of shares) {
      node.classList.add('lit');
      node.style.setProperty('--weight', Math.min(1, share).toFixed(3));
    }
  }

  #nodes(side, span) {
    const spans = this.#alignment[side];
    return this[side].words.filter((_, index) => overlap(spans[index], span));
  }

  #said(word, { isLooking, isShare, lit, by }) {
    const names = lit.slice(0, SAID_WORDS).map(({ side, span, weight }) => {
      const share = isShare ? percent(weight) : decimal(weight, 2);
      return say('partner', { word: this[side].text.slice(...span), share });
    });
    const words = names.length ? listed(names) : say('noWord');
    const said = say(isLooking ? 'looksAt' : 'isLookedAtBy', { word, words });
    return by ? say('by', { said, by }) : said;
  }

  #unlight() {
    for (const word of [...this.source.words, ...this.target.words]) {
      word.classList.remove('here', 'lit');
    }
  }

  #clear() {
    this.#unlight();
    setText(this.readout, '');
    this.pointed(null);
  }
}

const overlap = ([start, end], [first, last]) => start < last && first < end;

function wordButton() {
  return element('span', {
    class: 'word',
    role: 'button',
    tabindex: '-1',
    'aria-pressed': 'false',
  });
}

/** Returns the word of the mirror below the pointer, through the field above it. */
function wordBelow({ clientX, clientY }, mirror) {
  return document.elementsFromPoint(clientX, clientY).find((node) => node.parentNode === mirror);
}
