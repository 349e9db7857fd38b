// The alignment of the words of a text and its translation, and the highlights that show it.

import { element, setText } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { listed, percent, unitOffsets } from '../common/text.js';
import { translate } from '../strings/translate.js';

const say = speaker(translate);

/**
 * The words of both sides as spans of UTF-16 units, and their pairs.
 * @typedef {{source: number[][], target: number[][], pairs: number[][]}} Alignment
 */

/** @returns {Alignment} */
const unaligned = () => ({ source: [], target: [], pairs: [] });

/**
 * Adds the alignments of sentences to the alignment of the sentences before them.
 * @param {Alignment} known It is extended.
 * @param {number[][]} offsets Of both texts, from `unitOffsets`.
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

/**
 * Converts an item of POST /attention to a sentence of POST /translate.
 * Its words are spans of tokens, or, at level `word`, all words that are not special.
 */
export function sentenceOf({ source, target, alignment }, level) {
  const spans = ({ offsets, special }, words) =>
    level === 'word'
      ? offsets.filter((_, index) => !special[index])
      : words.map(([first, end]) => [offsets[first][0], offsets[end - 1][1]]);
  return {
    source_words: spans(source, alignment.source_words),
    target_words: spans(target, alignment.target_words),
    pairs: alignment.pairs,
  };
}

/** Lists the words that a word is aligned with, and their weights, largest first. */
export function partners({ pairs }, side, index) {
  const [here, there] = side === 'source' ? [0, 1] : [1, 0];
  return pairs
    .filter((pair) => pair[here] === index)
    .map((pair) => ({ index: pair[there], weight: pair[2] }))
    .sort((a, b) => b.weight - a.weight);
}

/** A text in an element, in which words become elements of their own, from first to last. */
class WordText {
  text = '';
  /** @type {HTMLElement[]} */
  words = [];
  rest = new Text();
  #done = 0;

  /**
   * @param {HTMLElement} root
   * @param {function(): HTMLElement} make Makes the element of a word.
   * @param {string} tail Text after the text.
   */
  constructor(root, make, tail) {
    this.root = root;
    this.make = make;
    this.tail = tail;
  }

  /** Shows a text without words. */
  show(text) {
    this.text = text;
    this.words = [];
    this.#done = 0;
    this.rest = new Text(text + this.tail);
    this.root.replaceChildren(this.rest);
  }

  /** Continues the text. */
  append(text) {
    this.text += text;
    this.mark([]);
  }

  /** Makes elements of words that follow all words so far. */
  mark(spans) {
    for (const [start, end] of spans) {
      const word = this.make();
      word.textContent = this.text.slice(start, end);
      this.rest.before(this.text.slice(this.#done, start), word);
      this.words.push(word);
      this.#done = end;
    }
    this.rest.data = this.text.slice(this.#done) + this.tail;
  }
}

/**
 * Highlights aligned words in the text field and in the translation.
 *
 * A text field has no elements for its words. So a mirror behind it shows the same letters in the
 * same places, with a span for each word, and the pointer is looked up there. The words of the
 * translation are buttons that share one tab stop.
 */
export class WordLights {
  #alignment = unaligned();
  #offsets = [[0], [0]];
  /** @type {number|null} */
  #pinned = null;

  /**
   * @param {HTMLTextAreaElement} field
   * @param {HTMLElement} mirror
   * @param {HTMLElement} output
   * @param {HTMLElement} readout Element that names the aligned words.
   */
  constructor(field, mirror, output, readout) {
    this.field = field;
    this.output = output;
    this.readout = readout;
    this.source = new WordText(mirror, () => element('span'), '\n');
    this.target = new WordText(output, wordButton, '');
    field.addEventListener('mousemove', (event) => this.#point('source', wordBelow(event, mirror)));
    field.addEventListener('mouseleave', () => this.#rest());
    document.addEventListener(
      'selectionchange',
      () => document.activeElement === field && this.#rest(),
    );
    output.addEventListener('mouseover', (event) => this.#point('target', event.target));
    output.addEventListener('mouseleave', () => this.#rest());
    output.addEventListener('focusin', (event) => this.#focus(event.target));
    output.addEventListener('focusout', () => this.#rest());
    output.addEventListener('keydown', (event) => this.#move(event));
    output.addEventListener('click', (event) => this.#pin(event.target));
  }

  /** Shows a text without highlights, while it is typed. The mirror also sets the field's height. */
  showText(text) {
    this.#alignment = unaligned();
    this.#pinned = null;
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
    this.target.append(translated);
    this.source.mark(source.slice(numSource));
    this.target.mark(target.slice(numTarget));
    if (numTarget === 0) this.target.words[0]?.setAttribute('tabindex', '0');
    this.#followCaret();
  }

  #text(side, index) {
    const [start, end] = this.#alignment[side][index];
    return this[side].text.slice(start, end);
  }

  #point(side, node) {
    const index = this[side].words.indexOf(node);
    if (index >= 0) this.#light(side, index);
    else this.#rest();
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
    if (['Enter', ' '].includes(event.key)) this.#pin(event.target);
    else if (event.key === 'Escape') this.#unpin();
    else if (event.key in places) words[Math.min(last, Math.max(0, places[event.key]))].focus();
    else return;
    event.preventDefault();
  }

  #pin(node) {
    const index = this.target.words.indexOf(node);
    const isNew = index >= 0 && index !== this.#pinned;
    this.#unpin();
    if (!isNew) return;
    this.#pinned = index;
    node.setAttribute('aria-pressed', 'true');
    this.#light('target', index);
  }

  #unpin() {
    if (this.#pinned !== null)
      this.target.words[this.#pinned].setAttribute('aria-pressed', 'false');
    this.#pinned = null;
    this.#rest();
  }

  /** Highlights the pinned word, or else the word at the caret, or else none. */
  #rest() {
    if (this.#pinned !== null) this.#light('target', this.#pinned);
    else if (this.output.contains(document.activeElement)) {
      const focused = this.target.words.findIndex((word) => word === document.activeElement);
      if (focused >= 0) this.#light('target', focused);
    } else if (!this.#followCaret()) this.#clear();
  }

  #followCaret() {
    const { selectionStart: caret, selectionEnd: end } = this.field;
    if (document.activeElement !== this.field || caret !== end) return false;
    const index = this.#alignment.source.findIndex(([from, to]) => from <= caret && caret <= to);
    if (index < 0) return false;
    this.#light('source', index);
    return true;
  }

  #light(side, index) {
    const other = side === 'source' ? 'target' : 'source';
    const lit = partners(this.#alignment, side, index);
    this.#clear();
    this[side].words[index].classList.add('here');
    for (const { index: partner, weight } of lit) {
      this[other].words[partner].classList.add('lit');
      this[other].words[partner].style.setProperty('--weight', weight.toFixed(3));
    }
    const names = lit.map(({ index: i, weight }) =>
      say('partner', { word: this.#text(other, i), share: percent(weight) }),
    );
    const words = names.length ? listed(names) : say('noWord');
    const said = side === 'source' ? 'isLookedAtBy' : 'looksAt';
    setText(this.readout, say(said, { word: this.#text(side, index), words }));
  }

  #clear() {
    for (const word of [...this.source.words, ...this.target.words]) {
      word.classList.remove('here', 'lit');
    }
    setText(this.readout, '');
  }
}

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
