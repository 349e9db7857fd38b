// The search for a head: which head gives most weight to a pair of words?

import { LastReply, Latest } from '../common/api.js';
import { byId, element, fillMenu, setStale, setText } from '../common/dom.js';
import { HeatMap, mapParts } from '../common/heatmap.js';
import { speaker } from '../common/strings.js';
import { decimal, spoken } from '../common/text.js';
import { search } from '../strings/search.js';
import { allHeadsBody } from './attention.js';

const say = speaker(search);

/** The fold with two menus of words, and the map of all heads. */
export class SearchPanel {
  #latest = new Latest();
  #asked = new LastReply();
  /** @type {Object|null} */
  #shown = null;
  #wantsFocus = false;

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
    const parts = mapParts('search-map');
    this.found = element('div', { hidden: true }, parts.frame, parts.readout, parts.table);
    byId('search-words').after(this.found);
    this.map = new HeatMap({
      ...parts,
      point: (row, column) => setText(parts.readout, this.#named(row, column)),
      open: (layer, head) => store.set({ layer, head }),
    });
    this.root.addEventListener('toggle', () => store.set({ search: this.root.open }));
    this.found.append(this.map.saveButtons('regard-heads'));
    this.#menu('search-from', 'query', 'rows');
    this.#menu('search-to', 'key', 'columns');
  }

  /** Makes the next map of heads that is shown take the focus. */
  wantFocus() {
    this.#wantsFocus = true;
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
    const body = allHeadsBody(view, subject);
    await this.notice.guard(this.#latest, (signal) => this.#asked.post('attention', body, signal), ({ items }) => {
      setStale(this.root, false);
      this.curl.show('attention', body);
      this.#render(shown, items[0].attentions[0].data);
    });
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

  #render({ view, tables, pins }, planes) {
    const { row, column } = pins;
    this.found.hidden = row === null || column === null;
    if (this.found.hidden) {
      setText(byId('search-words'), say('choose'));
      return;
    }
    const values = planes.map((heads) => heads.map((plane) => plane[row][column]));
    const max = Math.max(1e-9, ...values.flat());
    const layer = values.findIndex((heads) => heads.includes(max));
    const words = { from: spoken(tables.rows.labels[row]), to: spoken(tables.columns.labels[column]) };
    const best = { layer: layer + 1, head: values[layer].indexOf(max) + 1, number: decimal(max, 4) };
    setText(byId('search-words'), say('numbers', { ...words, ...best }));
    this.map.show({ ...headsFigure(values), max, isWritten: true }, say('grid'));
    if (typeof view.layer === 'number') this.map.pin(view.layer, view.head === 'mean' ? null : view.head);
    if (!this.#wantsFocus) return;
    this.#wantsFocus = false;
    this.map.root.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: 'start' });
  }

  #named(row, column) {
    const number = decimal(this.map.figure?.values[row][column] ?? 0, 4);
    return say('cellNumber', { layer: row + 1, head: column + 1, number });
  }
}

/** Returns the sides of a map with a row for each layer and a column for each head. */
const headsFigure = (values) => ({
  ...{ values, rows: values.map((_, layer) => `${layer + 1}`), isCausal: false },
  ...{ columns: values[0].map((_, head) => `${head + 1}`) },
  ...{ rowTitle: say('layer'), columnTitle: say('head') },
});

function fillWords(menu, labels, chosen) {
  const entries = labels.map((text, place) => [String(place), text]);
  fillMenu(menu, [['', say('none')], ...entries], String(chosen ?? ''));
}
