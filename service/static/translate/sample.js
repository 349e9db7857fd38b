// The sentence of the first view, with an arc from each word to the words that it looks at.

import { post } from '../common/api.js';
import { byId, element, svg } from '../common/dom.js';
import { WordText } from './words.js';

const SENTENCE = { q: 'The kids were scared of the lions, so they left right away.', source: 'en', target: 'pt' };
const MORE_WIDTH = 3; // Pixels of an arc of 100 %, above the least width.

/** The sentence and its translation; shown while the reader has no text. */
export class Sample {
  #isAsked = false;
  /** @type {number[][]} */
  #pairs = [];

  /**
   * @param {Store} store
   * @param {Languages} languages
   */
  constructor(store, languages) {
    this.root = byId('sample');
    document.documentElement.removeAttribute('data-text'); // From now on, the view decides.
    this.isServed = languages.hasPair(SENTENCE.source, SENTENCE.target);
    const [above, below] = [SENTENCE.source, SENTENCE.target].map((lang) => element('p', { lang }));
    this.lines = [above, below].map((line) => new WordText(line, () => element('span'), ''));
    this.drawing = svg('svg', { 'aria-hidden': 'true' });
    this.drawn = element('div', { class: 'arcs' }, above, this.drawing, below);
    this.drawn.addEventListener('mouseover', (event) => this.#light(event.target));
    this.drawn.addEventListener('mouseleave', () => this.#light(null));
    new ResizeObserver(() => this.#draw()).observe(this.drawn);
    store.subscribe((view) => this.render(view));
  }

  /** Shows the sentence, if a view has no text. */
  render({ way, task, text }) {
    this.root.hidden = text !== '' || task !== 'translate' || !this.isServed;
    if (!this.root.hidden && way === 'translate' && !this.#isAsked) this.#load();
  }

  async #load() {
    this.#isAsked = true;
    const reply = await post('translate', { ...SENTENCE, return_alignment: true }).catch(() => null);
    if (reply === null) return; // It is no more than an example.
    const [{ source_words: read, target_words: written, pairs }] = reply.alignment;
    this.#pairs = pairs;
    this.lines[0].show(SENTENCE.q);
    this.lines[0].mark(read);
    this.lines[1].show(reply.translatedText);
    this.lines[1].mark(written);
    this.root.append(this.drawn);
  }

  #draw() {
    const [above, below] = this.lines.map(({ words }) => words.map(middle));
    const height = this.drawing.clientHeight;
    const arcs = this.#pairs.map(([from, to, weight]) => {
      const [x, end] = [above[from], below[to]];
      const d = `M${x} 0C${x} ${height / 2} ${end} ${height / 2} ${end} ${height}`;
      return svg('path', { d, pathLength: 1, 'stroke-width': 1 + MORE_WIDTH * weight });
    });
    this.drawing.replaceChildren(...arcs);
  }

  /** Lights the arcs of a word; null lights all. */
  #light(node) {
    const [above, below] = this.lines.map(({ words }) => words.indexOf(node));
    this.#pairs.forEach(([from, to], index) => {
      const isAway = Math.max(above, below) >= 0 && from !== above && to !== below;
      this.drawing.children[index]?.classList.toggle('away', isAway);
    });
  }
}

const middle = ({ offsetLeft, offsetWidth }) => offsetLeft + offsetWidth / 2;
