// The chapters of the story: one is shown at a time, by the drawing, by a link, by buttons or by keys.

import { makeCopy } from '../common/copy.js';
import { button, element, setAttribute, setText } from '../common/dom.js';
import { saveButtons } from '../common/export.js';
import { pictureOf } from '../common/picture.js';
import { speaker } from '../common/strings.js';
import { spoken } from '../common/text.js';
import { story } from '../strings/story.js';
import * as decoder from './chapters/decoder.js';
import * as encoder from './chapters/encoder.js';
import * as head from './chapters/head.js';

const say = speaker(story);

const OWN_KEYS = 'input, textarea, select, [role="application"], .scroll, .sentence';

/**
 * A chapter: its name in links, and its content.
 * @typedef {Object} Chapter
 * @property {string} name
 * @property {boolean} [isMain] Whether it is among the main steps, through which the keys go.
 * @property {function(Object): Array<Node>} content
 */

/** @type {Chapter[]} */
const ALL = [
  { name: 'tokens', isMain: true, content: encoder.tokens },
  { name: 'position', isMain: true, content: encoder.position },
  { name: 'roles', isMain: true, content: head.roles },
  { name: 'scores', isMain: true, content: head.scores },
  { name: 'scale', content: head.scale },
  { name: 'mask', content: decoder.mask },
  { name: 'softmax', isMain: true, content: head.weights },
  { name: 'values', content: head.values },
  { name: 'sum', isMain: true, content: head.sum },
  { name: 'heads', isMain: true, content: encoder.heads },
  { name: 'concat', content: encoder.concat },
  { name: 'norm', content: encoder.norm },
  { name: 'forward', content: encoder.forward },
  { name: 'encoder', content: encoder.encoder },
  { name: 'decoder', isMain: true, content: decoder.decoder },
  { name: 'words', isMain: true, content: decoder.words },
  { name: 'pool', isMain: true, content: decoder.pool },
];

/** Reading time of the main steps, in minutes. A test computes it too. */
export const MINUTES = 6;

/** Returns the chapters for which there are numbers. */
export const chaptersOf = (facts) => ALL.filter(({ name }) => name !== 'pool' || facts.pool);

/** Returns the title of a chapter. */
export function titleOf(name, facts) {
  const written = facts.pool ? spoken(facts.pool.written) : '';
  const values = { size: facts.steps.head_dim, layers: facts.encoder.length, written };
  return say(`${name}_title`, values);
}

/** The shown chapter, and buttons to the previous and the next main step. */
export class Chapters {
  /** @type {Chapter[]} */
  #chapters = [];
  #current = ALL[0].name;
  /** @type {any} */
  #facts = null;

  /**
   * @param {import('./drawing.js').Drawing} drawing Stands above the chapter, and stays in view.
   * @param {function(string): void} reached Called when the reader goes to another chapter.
   * @param {function(): string} link Returns a link to the current chapter.
   */
  constructor(drawing, reached, link) {
    this.reached = reached;
    this.list = element('div', { class: 'chapters' });
    this.before = button('←', () => this.#go(-1));
    this.after = button('→', () => this.#go(1));
    setAttribute(this.before, 'aria-label', say('before'));
    setAttribute(this.after, 'aria-label', say('after'));
    this.progress = element('p');
    this.bar = element('progress', { 'aria-hidden': 'true' });
    const copy = element('button', { type: 'button', class: 'quiet', text: say('link') });
    makeCopy(copy, link);
    const pager = element('div', { class: 'pager' }, this.bar, this.before, this.progress, this.after);
    this.root = element('div', { class: 'story', hidden: true }, drawing.root, this.list, this.#saveButtons(), drawing.saveButtons(), copy, pager);
    document.addEventListener('keydown', (event) => this.#press(event));
    document.addEventListener('themechange', () => this.#facts && this.show(this.#facts));
  }

  /** Shows the chapters of a token; the folds that the reader has opened stay open. */
  show(facts) {
    this.#facts = facts;
    this.#chapters = chaptersOf(facts);
    const open = [...this.list.querySelectorAll('details')].map((fold) => fold.open);
    const focused = this.list.contains(document.activeElement);
    this.list.replaceChildren(...this.#chapters.map((chapter) => articleOf(chapter, facts)));
    this.list.querySelectorAll('details').forEach((fold, index) => (fold.open = open[index] ?? false));
    this.root.hidden = false;
    this.#mark();
    if (focused) this.#heading?.focus({ preventScroll: true });
  }

  /** Hides the story. */
  hide() {
    this.root.hidden = true;
    this.#facts = null;
    this.#chapters = [];
  }

  /** Shows a chapter, and moves the focus to it; null is the first one, as at the start. */
  goTo(name) {
    const isNew = (name ?? ALL[0].name) !== this.#current;
    this.#current = name ?? ALL[0].name;
    if (!isNew || this.#chapters.length === 0) return;
    this.#mark();
    if (name === null) return;
    this.enter();
  }

  /** Moves the focus and the window to the shown chapter. */
  enter() {
    this.#heading?.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: 'start', behavior: 'instant' });
  }

  /** Returns the buttons that save the shown step as a picture. */
  #saveButtons() {
    const draw = () => pictureOf(this.list.querySelector('article:not([hidden])'));
    return saveButtons(() => `regard-${this.#current}`, draw, say('saveStep'));
  }

  get #heading() {
    return /** @type {HTMLElement|null} */ (this.list.querySelector('article:not([hidden]) h3'));
  }

  #go(by) {
    const next = this.#neighbour(by);
    if (next) this.reached(next.name);
  }

  /** Returns the main step before or after the current chapter. */
  #neighbour(by) {
    const place = this.#chapters.findIndex(({ name }) => name === this.#current);
    const isMain = ({ isMain = false }) => isMain;
    if (by < 0) return this.#chapters.slice(0, Math.max(0, place)).findLast(isMain);
    return this.#chapters.slice(place + 1).find(isMain);
  }

  #press(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const isOurs = this.root.offsetParent !== null && !event.target.closest?.(OWN_KEYS);
    if (!by || !isOurs || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.#go(by);
  }

  #mark() {
    for (const article of this.list.children)
      /** @type {HTMLElement} */ (article).hidden = article.getAttribute('data-chapter') !== this.#current;
    this.before.disabled = !this.#neighbour(-1);
    this.after.disabled = !this.#neighbour(1);
    const main = this.#chapters.filter(({ isMain }) => isMain).map(({ name }) => name);
    const number = main.indexOf(this.#current) + 1;
    const values = { number, count: main.length, title: this.#heading?.textContent ?? '' };
    setText(this.progress, say(number ? 'progress' : 'progressBeside', values));
    Object.assign(this.bar, { max: Math.max(1, main.length), value: number });
  }
}

function articleOf({ name, content }, facts) {
  const id = `step-${name}`;
  return element(
    'article',
    { class: 'chapter', 'data-chapter': name, 'aria-labelledby': id },
    element('h3', { id, tabindex: -1, text: titleOf(name, facts) }),
    element('div', { class: 'content' }, ...content(facts)),
  );
}
