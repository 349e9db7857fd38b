// The alignment of the words of a text and its translation, and the highlights that show it.

import { element, setText } from './dom.js';
import { listed, percent, unitOffsets } from './text.js';

/**
 * The words of both sides as spans of UTF-16 units, and their pairs.
 * @typedef {{source: number[][], target: number[][], pairs: number[][]}} Alignment
 */

/** An alignment without words. */
export const UNALIGNED = Object.freeze({ source: [], target: [], pairs: [] });

/**
 * Joins the alignments of sentences into the alignment of their text.
 * @param {string} text
 * @param {string} translated
 * @param {Array} sentences Sentences of POST /translate, with spans of code points.
 * @returns {Alignment}
 */
export function readAlignment(text, translated, sentences) {
  const [from, to] = [unitOffsets(text), unitOffsets(translated)];
  const [source, target, pairs] = [[], [], []];
  for (const sentence of sentences) {
    const [firstSource, firstTarget] = [source.length, target.length];
    source.push(...sentence.source_words.map(([start, end]) => [from[start], from[end]]));
    target.push(...sentence.target_words.map(([start, end]) => [to[start], to[end]]));
    const shifted = sentence.pairs.map(([s, t, weight]) => [
      s + firstSource,
      t + firstTarget,
      weight,
    ]);
    pairs.push(...shifted);
  }
  return { source, target, pairs };
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

/**
 * Highlights aligned words in the text field and in the translation.
 *
 * A text field has no elements for its words. So a mirror behind it shows the same letters in the
 * same places, with a span for each word, and the pointer is looked up there. The words of the
 * translation are buttons that share one tab stop.
 */
export class WordLights {
  #alignment = UNALIGNED;
  #texts = { source: '', target: '' };
  #words = { source: [], target: [] };
  #pinned = null;

  /**
   * @param {HTMLTextAreaElement} field
   * @param {HTMLElement} mirror
   * @param {HTMLElement} output
   * @param {HTMLElement} readout Element that names the aligned words.
   */
  constructor(field, mirror, output, readout) {
    Object.assign(this, { field, mirror, output, readout });
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
    this.#alignment = UNALIGNED;
    this.#words = { source: [], target: [] };
    this.#pinned = null;
    this.mirror.replaceChildren(`${text}\n`);
    setText(this.readout, '');
  }

  /**
   * Shows a text with its translation.
   * @param {string} text
   * @param {string} translated
   * @param {Alignment} alignment
   */
  show(text, translated, alignment) {
    this.showText(text);
    this.#alignment = alignment;
    this.#texts = { source: text, target: translated };
    this.#words.source = alignment.source.map(() => element('span'));
    this.#words.target = alignment.target.map(() => wordButton());
    fill(this.mirror, text, alignment.source, this.#words.source, '\n');
    fill(this.output, translated, alignment.target, this.#words.target, '');
    this.#words.target[0]?.setAttribute('tabindex', '0');
    this.#followCaret();
  }

  #text(side, index) {
    const [start, end] = this.#alignment[side][index];
    return this.#texts[side].slice(start, end);
  }

  #point(side, node) {
    const index = this.#words[side].indexOf(node);
    if (index >= 0) this.#light(side, index);
    else this.#rest();
  }

  #focus(node) {
    const words = this.#words.target;
    for (const word of words) word.setAttribute('tabindex', word === node ? '0' : '-1');
    this.#point('target', node);
  }

  #move(event) {
    const words = this.#words.target;
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
    const index = this.#words.target.indexOf(node);
    const isNew = index >= 0 && index !== this.#pinned;
    this.#unpin();
    if (!isNew) return;
    this.#pinned = index;
    node.setAttribute('aria-pressed', 'true');
    this.#light('target', index);
  }

  #unpin() {
    if (this.#pinned !== null)
      this.#words.target[this.#pinned].setAttribute('aria-pressed', 'false');
    this.#pinned = null;
    this.#rest();
  }

  /** Highlights the pinned word, or else the word at the caret, or else none. */
  #rest() {
    if (this.#pinned !== null) this.#light('target', this.#pinned);
    else if (this.output.contains(document.activeElement)) {
      const focused = this.#words.target.indexOf(document.activeElement);
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
    this.#words[side][index].classList.add('here');
    for (const { index: partner, weight } of lit) {
      this.#words[other][partner].classList.add('lit');
      this.#words[other][partner].style.setProperty('--weight', weight.toFixed(3));
    }
    const names = lit.map(({ index: i, weight }) => `“${this.#text(other, i)}” ${percent(weight)}`);
    const verb = side === 'source' ? 'is looked at by' : 'looks at';
    const said = names.length ? listed(names) : 'no word';
    setText(this.readout, `“${this.#text(side, index)}” ${verb} ${said}`);
  }

  #clear() {
    for (const word of [...this.#words.source, ...this.#words.target]) {
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

/** Fills an element with a text; makes an element for each word's span. */
function fill(root, text, spans, words, tail) {
  const parts = [];
  let done = 0;
  spans.forEach(([start, end], index) => {
    words[index].textContent = text.slice(start, end);
    parts.push(text.slice(done, start), words[index]);
    done = end;
  });
  root.replaceChildren(...parts, text.slice(done) + tail);
}

/** Returns the word of the mirror below the pointer, through the field above it. */
function wordBelow({ clientX, clientY }, mirror) {
  return document.elementsFromPoint(clientX, clientY).find((node) => node.parentNode === mirror);
}
