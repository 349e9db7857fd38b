// The chapters on the page: one is the current one, by scrolling, by a link or by keys.

import { makeCopy } from '../common/copy.js';
import { element, setAttribute, setText } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { story } from '../strings/story.js';

const say = speaker(story);

// The current chapter lies under a line across the window, a little above its middle.
const LINE_SHARE = 0.42;
const OWN_KEYS = 'input, textarea, select, [role="application"], .scroll, .sentence';

/**
 * A chapter as it is shown.
 * @typedef {{name: string, group: string, title: string, content: Node[]}} Shown
 */

/** A list of chapters with a table of contents, and buttons to the previous and the next one. */
export class Chapters {
  #names = [];
  #current = null;
  #wanted = null;
  #top = null; // Place of the current chapter in the document.
  #nodes = new Map();
  #minutes = 0;

  /**
   * @param {function(string|null): void} reached Called when another chapter is current.
   * @param {function(): string} link Returns a link to the current chapter.
   */
  constructor(reached, link) {
    this.reached = reached;
    this.contents = element('nav', { class: 'contents', 'aria-label': say('steps') });
    this.list = element('div', { class: 'chapters', onclick: (event) => this.#touch(event) });
    this.before = element('button', { type: 'button', onclick: () => this.#go(-1) }, '←');
    this.after = element('button', { type: 'button', onclick: () => this.#go(1) }, '→');
    setAttribute(this.before, 'aria-label', say('before'));
    setAttribute(this.after, 'aria-label', say('after'));
    this.progress = element('p');
    this.bar = element('progress', { 'aria-hidden': 'true' });
    const copy = element('button', { type: 'button', class: 'quiet', text: say('link') });
    makeCopy(copy, link);
    const parts = [this.bar, this.before, this.progress, copy, this.after];
    const pager = element('div', { class: 'pager' }, ...parts);
    this.root = element('div', { class: 'story', hidden: true }, this.contents, this.list, pager);
    new ResizeObserver(() => this.#keepPlace()).observe(document.body);
    document.addEventListener('keydown', (event) => this.#press(event));
    addEventListener('scroll', () => this.#follow(), { passive: true });
    addEventListener('scrollend', () => this.#arrive());
    for (const name of ['wheel', 'touchmove', 'pointerdown', 'keydown'])
      addEventListener(name, (event) => this.#interrupt(event), { passive: true, capture: true });
  }

  /**
   * Shows chapters. The current one keeps its place in the window, and the focus.
   * @param {Shown[]} chapters
   * @param {number} minutes Time that they take to read.
   */
  show(chapters, minutes = 0) {
    this.#minutes = minutes;
    const names = chapters.map(({ name }) => name);
    const before = this.#topOf(this.#current);
    this.root.hidden = chapters.length === 0;
    if (names.join() !== this.#names.join()) this.#build(chapters, names);
    for (const { name, title, content } of chapters) {
      const node = this.#nodes.get(name);
      setText(node.querySelector('h3'), title);
      setText(this.contents.querySelector(`[data-step="${name}"]`), title);
      replaceContent(node.querySelector('.content'), content);
    }
    this.#mark();
    if (this.#nodes.has(this.#current)) this.#restore(before);
  }

  /** Makes a chapter the current one; null is the place before the first. */
  goTo(name) {
    if (name === this.#current) return;
    if (name !== null && !this.#nodes.has(name)) return; // The chapters come with the numbers.
    this.#setCurrent(name);
    if (name === null) return;
    this.#wanted = name;
    this.#nodes.get(name).querySelector('h3').focus({ preventScroll: true });
    this.#scrollTo(name);
  }

  #build(chapters, names) {
    this.#names = names;
    this.#nodes = new Map(chapters.map((chapter) => [chapter.name, chapterNode(chapter)]));
    this.list.replaceChildren(...this.#nodes.values());
    const groups = [...new Set(chapters.map(({ group }) => group))];
    this.contents.replaceChildren(
      ...groups.map((group) => this.#group(group, chapters.filter((c) => c.group === group))),
    );
  }

  #group(group, chapters) {
    const items = chapters.map(({ name }) =>
      element(
        'li',
        {},
        element('button', { type: 'button', 'data-step': name, onclick: () => this.#choose(name) }),
      ),
    );
    return element('div', {}, element('b', { text: group }), element('ol', {}, ...items));
  }

  #choose(name) {
    if (name === this.#current) this.#scrollTo(name);
    else this.goTo(name);
    this.reached(name);
  }

  #go(by) {
    const next = this.#names[this.#names.indexOf(this.#current) + by];
    if (next) this.#choose(next);
  }

  /** Makes the chapter of a click the current one, so that a fold in it opens without a jump. */
  #touch({ target }) {
    const chapter = target.closest('.chapter');
    this.#wanted = null;
    if (chapter) this.#enter(chapter.dataset.chapter);
  }

  #press(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const isOurs = this.root.offsetParent !== null && !event.target.closest?.(OWN_KEYS);
    if (!by || !isOurs || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.#go(by);
  }

  /**
   * Makes the chapter under the line the current one. A jump of the page can pass any number of
   * chapters between two frames, so the place decides, not what has entered the window.
   */
  #follow() {
    if (this.root.offsetParent === null) return;
    // What is above may have grown since; the event of the scroll comes before that of the growth.
    if (this.#top !== null && this.#wanted === null) this.#restore(this.#top - scrollY);
    const line = innerHeight * LINE_SHARE;
    this.#enter(this.#names.findLast((name) => this.#topOf(name) <= line) ?? null);
  }

  /** Keeps the current chapter where it is in the window, when something above it has changed. */
  #keepPlace() {
    if (this.#top === null) this.#follow();
    else this.#restore(this.#top - scrollY);
  }

  /** Brings the current chapter back to a place in the window. */
  #restore(top) {
    if (this.#wanted !== null) this.#scrollTo(this.#wanted, 'instant');
    else {
      const moved = this.#topOf(this.#current) - top;
      if (Math.abs(moved) >= 1) scrollBy({ top: moved, behavior: 'instant' });
    }
    this.#top = this.#topOf(this.#current) + scrollY;
  }

  #setCurrent(name) {
    this.#current = name;
    this.#top = name === null ? null : this.#topOf(name) + scrollY;
    this.#mark();
  }

  #topOf(name) {
    return this.#nodes.get(name)?.getBoundingClientRect().top ?? 0;
  }

  /**
   * Ends the wait for a chapter, when the page has scrolled to it. Until then, the chapter keeps its
   * place at the top even if it becomes shorter.
   */
  #arrive() {
    const top = this.#topOf(this.#wanted);
    if (top >= -1 && top < (innerHeight * LINE_SHARE) / 2) this.#wanted = null;
  }

  /**
   * Ends the wait for a chapter when the reader scrolls. A press on a button of the story does not:
   * the page may scroll between the press and the click, which goes on from the wanted chapter.
   * @param {any} event A scroll, a press or a key.
   */
  #interrupt(event) {
    const isPress = event.type === 'pointerdown' || [' ', 'Enter'].includes(event.key);
    if (!isPress || !event.target.closest?.('.pager, .contents')) this.#wanted = null;
  }

  #enter(name) {
    if (this.#wanted !== null && name !== this.#wanted) return;
    if (!('onscrollend' in window)) this.#wanted = null;
    if (name === this.#current) return;
    this.#setCurrent(name);
    this.reached(name);
  }

  #mark() {
    const index = this.#names.indexOf(this.#current);
    for (const [name, node] of this.#nodes) {
      node.classList.toggle('current', name === this.#current);
      const link = this.contents.querySelector(`[data-step="${name}"]`);
      setAttribute(link, 'aria-current', name === this.#current && 'step');
    }
    this.before.disabled = index <= 0;
    this.after.disabled = index === this.#names.length - 1;
    const title = this.#nodes.get(this.#current)?.querySelector('h3').textContent;
    const count = this.#names.length;
    const values = { number: index + 1, count, title, minutes: this.#minutes };
    setText(this.progress, say(title ? 'progress' : 'progressNone', values));
    Object.assign(this.bar, { max: Math.max(1, count), value: index + 1 });
  }

  #scrollTo(name, behavior = isCalm() ? 'auto' : 'smooth') {
    this.#nodes.get(name).scrollIntoView({ block: 'start', behavior });
  }
}

const isCalm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

function chapterNode({ name }) {
  const id = `step-${name}`;
  return element(
    'article',
    { class: 'chapter', 'data-chapter': name, 'aria-labelledby': id },
    element('h3', { id, tabindex: -1 }),
    element('div', { class: 'content' }),
  );
}

/** Replaces the content; the folds that the reader has opened in it stay open. */
function replaceContent(node, content) {
  const open = [...node.querySelectorAll('details')].map((fold) => fold.open);
  node.replaceChildren(...content);
  node.querySelectorAll('details').forEach((fold, index) => (fold.open = open[index] ?? false));
}
