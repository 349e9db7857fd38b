// The search for a head: which head gives most weight to a pair of words?

import { Latest, post } from '../common/api.js';
import { byId, element, setStale, setText } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { decimal, spoken } from '../common/text.js';
import { search } from '../strings/search.js';
import { allHeadsBody, largest } from './attention.js';
import { Grid } from './grid.js';

const say = speaker(search);

const NUM_BEST = 8;

/** The fold with two menus of words, the ranked heads, and the grid of all heads. */
export class SearchPanel {
  #latest = new Latest();
  /** @type {{key: string|null, planes: number[][][][]}} */
  #asked = { key: null, planes: [] };
  /** @type {Object|null} */
  #shown = null;

  /**
   * @param {Object} parts
   * @param {Store} parts.store
   * @param {Notice} parts.notice
   * @param {CurlLine} parts.curl
   */
  constructor({ store, notice, curl }) {
    this.store = store;
    this.notice = notice;
    this.curl = curl;
    this.root = byId('search');
    this.grid = new Grid(byId('search-grid'), (layer, head) => store.set({ layer, head }));
    this.root.addEventListener('toggle', () => store.set({ search: this.root.open }));
    this.#menu('search-from', 'query', 'rows');
    this.#menu('search-to', 'key', 'columns');
  }

  /**
   * Follows the map.
   * @param {{view: Object, subject: Subject, tables: Tables, pins: Object}} shown
   */
  async show(shown) {
    this.#shown = shown;
    const { view, subject } = shown;
    this.root.open = view.search;
    if (!view.search) return;
    this.#fillMenus(shown);
    setStale(this.root, true);
    try {
      const body = allHeadsBody(view, subject);
      const planes = await this.#latest.run((signal) => this.#ask(body, signal));
      if (planes === undefined) return;
      this.notice.hide();
      setStale(this.root, false);
      this.curl.show('attention', body);
      this.#render(shown, planes);
    } catch (error) {
      this.notice.show(error, () => this.show(shown));
    }
  }

  #menu(id, name, side) {
    byId(id).addEventListener('change', ({ target }) => {
      const place = /** @type {HTMLSelectElement} */ (target).value;
      const token = place === '' ? null : this.#shown?.tables[side].tokens[place];
      this.store.set({ [name]: token });
    });
  }

  #fillMenus({ tables, pins }) {
    fillWords(byId('search-from'), tables.rows.labels, pins.row);
    fillWords(byId('search-to'), tables.columns.labels, pins.column);
  }

  async #ask(body, signal) {
    const key = JSON.stringify(body);
    if (this.#asked.key !== key) {
      const { items } = await post('attention', body, signal);
      this.#asked = { key, planes: items[0].attentions[0].data };
    }
    return this.#asked.planes;
  }

  #render({ view, tables, pins }, planes) {
    const { row, column } = pins;
    const pair = row === null || column === null ? null : { row, column };
    const heads = planes.flatMap((layer, l) => layer.map((values, h) => ({ layer: l, head: h, values })));
    const ranked = pair ? rankedHeads(heads, pair) : [];
    const max = pair ? Math.max(1e-9, ranked[0].value) : largest(heads);
    this.grid.show({ planes, pair, max, chosen: view });
    const words = pair && {
      from: spoken(tables.rows.labels[pair.row]),
      to: spoken(tables.columns.labels[pair.column]),
    };
    setText(byId('search-words'), words ? say('numbers', words) : say('smallMaps'));
    byId('search-best').hidden = pair === null;
    const best = ranked.slice(0, NUM_BEST);
    setText(byId('search-best-title'), say('best', { count: best.length, all: heads.length }));
    byId('search-ranked').replaceChildren(...best.map((head) => this.#item(head, view)));
  }

  #item({ layer, head, value }, view) {
    const names = { layer: layer + 1, head: head + 1, number: decimal(value, 4) };
    const button = element('button', {
      type: 'button',
      text: say('ranked', names),
      'aria-pressed': String(view.layer === layer && view.head === head),
      onclick: () => this.store.set({ layer, head }),
    });
    return element('li', {}, button);
  }
}

/** Returns the heads with their numbers for a pair of words, largest first. */
function rankedHeads(heads, { row, column }) {
  const found = heads.map(({ values, ...head }) => ({ ...head, value: values[row][column] }));
  return found.sort((a, b) => b.value - a.value);
}

/** Fills a menu with words, unless it has them. */
function fillWords(menu, labels, chosen) {
  const key = JSON.stringify(labels);
  if (menu.dataset.words !== key) {
    menu.dataset.words = key;
    const entry = (text, value) => element('option', { value, text });
    menu.replaceChildren(entry(say('none'), ''), ...labels.map(entry));
  }
  menu.value = chosen === null ? '' : String(chosen);
}
