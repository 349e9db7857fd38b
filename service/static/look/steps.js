// The computation of one token in one head: softmax(QKᵀ/√d)V with its numbers, column by column.

import { Latest, post } from '../common/api.js';
import { askingOf, hasBias, stepParts, topOf } from '../common/computation.js';
import { stepsBody } from './attention.js';
import { byId, element, setStale, setText } from '../common/dom.js';
import { isMeaningOpen, withTerms } from '../common/glossary.js';
import { speaker } from '../common/strings.js';
import { decimal, percent, spoken } from '../common/text.js';
import { steps } from '../strings/steps.js';

const say = speaker(steps);

const COLUMNS = ['product', 'root', 'distance', 'softmax', 'strip', 'length'];

/** The part of the page that opens below the heat map. */
export class StepsPanel {
  #latest = new Latest();
  #reply = null;
  #asked = null;
  #wantsFocus = false;

  /**
   * @param {Object} parts
   * @param {Store} parts.store
   * @param {Notice} parts.notice
   * @param {CurlLine} parts.curl
   * @param {function(): void} parts.closed Called when the reader closes it.
   */
  constructor(parts) {
    Object.assign(this, parts, { root: byId('steps') });
    byId('steps-close').addEventListener('click', () => this.closed());
    byId('steps-before').addEventListener('click', () => this.#go(-1));
    byId('steps-after').addEventListener('click', () => this.#go(1));
    byId('vectors').addEventListener('change', (event) => {
      this.store.set({ vectors: event.target.checked });
    });
    this.root.addEventListener('keydown', (event) => this.#press(event));
    document.addEventListener('themechange', () => this.#reply && this.#render());
  }

  /** Makes the next computation that is shown take the focus. */
  wantFocus() {
    this.#wantsFocus = true;
  }

  /**
   * Shows the computation that is open in a view, if any.
   * @param {Object} view A view whose layer is a number.
   * @param {Subject} subject
   */
  async show(view, subject) {
    const body = stepsBody(view, subject);
    const key = JSON.stringify(body);
    if (key === this.#asked) {
      this.#markKey();
      this.reveal();
      return;
    }
    this.#asked = key;
    byId('vectors').checked = view.vectors;
    setStale(this.root, true);
    try {
      const reply = await this.#latest.run((signal) => post('attention/steps', body, signal));
      if (reply === undefined) return;
      this.#reply = reply;
      this.notice.hide();
      setStale(this.root, false);
      this.curl.show('attention/steps', body);
      this.#render();
    } catch (error) {
      this.#asked = null;
      this.notice.show(error, () => this.show(view, subject));
    }
    this.reveal();
  }

  /** Hides the computation. */
  hide() {
    this.#latest.cancel();
    this.#asked = null;
    this.root.hidden = true;
  }

  #press(event) {
    if (event.key !== 'Escape' || event.defaultPrevented || isMeaningOpen()) return;
    event.preventDefault();
    this.closed();
  }

  #go(by) {
    if (!this.#reply) return;
    this.store.set({ query: this.#reply.query.index + by });
  }

  /** Scrolls to the computation and moves the focus to it, if it was just opened. */
  reveal() {
    this.root.hidden = false;
    if (!this.#wantsFocus) return;
    this.#wantsFocus = false;
    byId('steps-title').focus({ preventScroll: true });
    const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.root.scrollIntoView({ block: 'start', behavior: isCalm ? 'auto' : 'smooth' });
  }

  #render() {
    const { kind, layer, head, query, source, target } = this.#reply;
    const count = (kind === 'encoder' ? source : target).tokens.length;
    setText(byId('steps-title'), say('title', { word: askingOf(this.#reply) }));
    const place = say('place', { name: say(`name_${kind}`), layer: layer + 1, head: head + 1 });
    setText(byId('steps-place'), place + putIn(this.#reply));
    byId('steps-before').disabled = query.index === 0;
    byId('steps-after').disabled = query.index === count - 1;
    byId('plain').replaceChildren(...plainWords(this.#reply));
    const own = this.#reply.vectors ? ['q', 'k', 'v'] : [];
    byId('steps-table').replaceChildren(...stepParts(this.#reply, [...own, ...COLUMNS]));
    this.#markKey();
  }

  /** Marks the row of the pinned token that is looked at. */
  #markKey() {
    const { key } = this.store.view;
    const rows = byId('steps-table').tBodies[0].rows;
    this.#reply?.rows.forEach((row, index) => {
      rows[index]?.classList.toggle('pinned-row', row.key === key);
    });
  }
}

function putIn({ kind, query }) {
  return kind === 'cross' ? say('putIn', { word: spoken(query.token) }) : '';
}

/** Explains each column with the numbers of this table. */
function plainWords(reply) {
  const { head_dim: size } = reply;
  const top = topOf(reply);
  const [word, most] = [askingOf(reply), spoken(top.token)];
  const root = decimal(Math.sqrt(size), 2);
  return [
    ['q · k', say('plainProduct', { word, most, score: decimal(top.score, 2) })],
    [`÷ √${size}`, say('plainRoot', { size, root })],
    ...(hasBias(reply) ? [[say('distance'), say('plainDistance')]] : []),
    [say('softmax'), say('plainSoftmax', { most, share: percent(top.weight) })],
    ['× v', say('plainValues')],
    [say('sum'), say('plainSum', { word })],
  ].map(([name, words]) => element('li', {}, element('b', { text: name }), ' ', ...withTerms(words)));
}
