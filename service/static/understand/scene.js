// A sentence with one arc from a word to the word at which it looks most.

import { element, setAttribute, svg } from '../common/dom.js';
import { percent } from '../common/text.js';
import { piecesOf } from './kids.js';

const HALF_LABEL = 24; // Pixels; half of the widest label, “100 %”.
const LIFT = 46; // Height of the arc above the words, in pixels.
const MIN_WIDTH = 1.5;
const MORE_WIDTH = 5; // Width of an arc of 100 %, above the least width.
const LOOP = 40; // Half the width of an arc from a word to itself, in pixels.
const ASIDE = 26; // How far words pass above or below the others, in pixels.
const MOVE = { duration: 600, easing: 'cubic-bezier(0.3, 0, 0.2, 1)' };

const isCalm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/**
 * The arc of a scene: the numbers of the words at its ends, and its share.
 * @typedef {{from: number, to: number, share: number}} Arc
 */

/** Draws a sentence of words that can be chosen, and the arc that starts at one of them. */
export class Scene {
  /** @type {Arc|null} */
  #arc = null;
  #from = 0;

  /**
   * @param {string} name Name of the sentence for tests and styles.
   * @param {boolean} isFirst Whether the words are reached by the keyboard.
   * @param {function(number): void} choose Called with the number of a word that is clicked.
   */
  constructor(name, isFirst, choose) {
    this.isFirst = isFirst;
    this.choose = choose;
    this.words = element('p', { class: 'sentence', lang: 'en' });
    this.drawing = svg('svg', { 'aria-hidden': 'true' });
    this.root = element('div', { class: 'scene', 'data-scene': name }, this.words, this.drawing);
    new ResizeObserver(() => this.#draw(false)).observe(this.root);
  }

  /**
   * Shows a sentence without an arc; words that it shares with the one before move.
   * @param {string} text
   * @param {number} from The number of the chosen word.
   */
  read(text, from) {
    this.#from = from;
    if (this.words.textContent === text) {
      this.#mark();
      return;
    }
    const before = new Map([...this.#nouns()].map((node) => [node.textContent, placeOf(node)]));
    let index = -1;
    this.words.replaceChildren(
      ...piecesOf(text).map((piece) => {
        if (piece.trim() !== '') index += 1;
        if (/\w/.test(piece)) return this.#button(piece, index);
        return piece.trim() === '' ? piece : element('span', { 'data-index': index, text: piece });
      }),
    );
    this.#arc = null;
    this.#draw(false);
    if (isCalm()) return;
    for (const node of this.#nouns()) move(node, before.get(node.textContent));
  }

  /**
   * Draws an arc, as wide as its share is large.
   * @param {Arc} arc
   */
  point(arc) {
    const isSame = JSON.stringify(arc) === JSON.stringify(this.#arc);
    this.#arc = arc;
    if (!isSame) this.#draw(true);
  }

  #button(word, index) {
    return element('button', {
      ...{ type: 'button', class: 'word', text: word, onclick: () => this.choose(index) },
      ...{ 'data-word': word.toLowerCase(), 'data-index': index },
      tabindex: this.isFirst ? null : -1,
    });
  }

  /** Marks the chosen word. */
  #mark() {
    for (const node of this.words.querySelectorAll('.word')) {
      const isChosen = node === this.#word(this.#from);
      setAttribute(node, 'aria-pressed', String(isChosen));
    }
  }

  #nouns() {
    return this.words.querySelectorAll('[data-word="kids"], [data-word="lions"]');
  }

  /** @returns {HTMLElement|null} */
  #word(index) {
    return this.words.querySelector(`[data-index="${index}"]`);
  }

  #draw(isNew) {
    this.#mark();
    for (const node of this.words.querySelectorAll('.seen')) node.classList.remove('seen');
    const arc = this.#arc;
    const to = arc && this.#word(arc.to);
    const from = arc && this.#word(arc.from);
    if (!arc || !to || !from) {
      this.drawing.replaceChildren();
      return;
    }
    to.classList.add('seen');
    const frame = this.root.getBoundingClientRect();
    this.drawing.setAttribute('viewBox', `0 0 ${frame.width} ${frame.height}`);
    this.drawing.classList.toggle('new', isNew);
    const [start, end] = [from, to].map(boxIn);
    const curve = end.bottom < start.top ? betweenLines(start, end) : aboveLine(start, end);
    curve.label.x = Math.min(curve.label.x, frame.width - HALF_LABEL);
    this.drawing.replaceChildren(...arcParts(curve, arc.share));
  }
}

function placeOf(node) {
  const { left, top } = node.getBoundingClientRect();
  return { left: left + scrollX, top: top + scrollY };
}

function move(node, from) {
  if (!from) return;
  const to = placeOf(node);
  const [x, y] = [from.left - to.left, from.top - to.top];
  if (x === 0 && y === 0) return;
  const aside = { translate: `${x / 2}px ${y / 2 - Math.sign(x) * ASIDE}px` };
  node.animate([{ translate: `${x}px ${y}px` }, aside, { translate: '0' }], MOVE);
}

/** Returns the middle, the top and the bottom of a word in the drawing, also while it moves. */
function boxIn({ offsetLeft, offsetWidth, offsetTop, offsetHeight }) {
  return { x: offsetLeft + offsetWidth / 2, top: offsetTop, bottom: offsetTop + offsetHeight };
}

/** Returns the arc to a word of the same line, or of a line below. */
function aboveLine(start, end) {
  const crest = Math.min(start.top, end.top) - LIFT;
  const aside = start.x === end.x ? LOOP : 0;
  const middle = `${start.x - aside} ${crest} ${end.x + aside} ${crest}`;
  return {
    path: `M${start.x} ${start.top} C${middle} ${end.x} ${end.top - 7}`,
    tip: `M${end.x - 7} ${end.top - 10}h14l-7 10z`,
    label: { x: (start.x + end.x) / 2, y: crest + LIFT / 4 - 10 },
  };
}

/** Returns the curve to a word of a line above, through the space between the lines. */
function betweenLines(start, end) {
  const middle = (start.top + end.bottom) / 2;
  const isRight = start.x > end.x;
  return {
    path: `M${start.x} ${start.top} C${start.x} ${middle} ${end.x} ${middle} ${end.x} ${end.bottom + 9}`,
    tip: `M${end.x - 7} ${end.bottom + 12}h14l-7 -10z`,
    label: { x: Math.max(start.x, end.x) + (isRight ? 32 : 36), y: middle + 6 },
  };
}

/** Returns the line, its arrow head and its number. */
function arcParts({ path, tip, label }, share) {
  const line = svg('path', { d: path, pathLength: 1, class: 'arc' });
  line.style.setProperty('stroke-width', `${MIN_WIDTH + MORE_WIDTH * share}px`);
  return [line, svg('path', { d: tip, class: 'tip' }), svg('text', label, percent(share))];
}
