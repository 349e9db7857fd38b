// The lower half of the page: where the model looks.

import { Latest, post } from '../common/api.js';
import * as attention from './attention.js';
import { describe, sidesOf } from './controls.js';
import { byId, setText } from '../common/dom.js';
import { settled } from './models.js';
import { speaker } from '../common/strings.js';
import { decimal, spoken } from '../common/text.js';
import { look } from '../strings/look.js';

const say = speaker(look);

const SHOWN = ['sentence', 'kind', 'layer', 'head', 'level', 'norm', 'query', 'vectors'];

/** Reports whether nothing was translated, because both languages are the same. */
const isSame = ({ task, source, target }) => task !== 'embed' && source === target;

/** Requests the attention of the view and shows it. */
export class LookPanel {
  #latest = new Latest();
  #translation = null;
  #outline = { key: null, sentences: [] };
  #asked = { key: null, reply: null };
  #isNarrow = false;
  #shown = null;

  /**
   * @param {Object} parts
   * @param {Store} parts.store
   * @param {Models} parts.models
   * @param {Controls} parts.controls
   * @param {HeatMap} parts.map
   * @param {Heads} parts.heads
   * @param {StepsPanel} parts.steps
   * @param {Downloads} parts.downloads
   * @param {Notice} parts.notice
   * @param {CurlLine} parts.curl
   * @param {function(Object, string): void} parts.aligned Called with each item and its level.
   */
  constructor(parts) {
    Object.assign(this, parts);
    this.store.subscribe((view, before) => {
      if (SHOWN.some((name) => view[name] !== before[name])) this.#load();
    });
    byId('open-steps').addEventListener('click', () => {
      this.openSteps(this.map.place.row, this.map.place.column);
    });
  }

  /** Shows the attention of a new translation or of a text to embed; null shows none. */
  follow(translation) {
    this.#translation = translation;
    this.#load();
  }

  /** Describes the cell under the cursor. */
  point(row, column) {
    const { view, tables, values } = this.#shown;
    const [from, to] = [spoken(tables.rows.labels[row]), spoken(tables.columns.labels[column])];
    const input = spoken(tables.inputs.labels[row] ?? '');
    const isAfter = view.kind === 'cross' && row > 0;
    const weight = decimal(values[row][column], 4);
    const said = say(isAfter ? 'looksAtAfter' : 'looksAt', { from, input, to, weight });
    setText(byId('readout'), said);
    setText(byId('open-steps'), say('openSteps', { word: from }));
    byId('open-steps').hidden = false;
  }

  /** Opens the computation of a row, in the shown head or the one with most weight in the cell. */
  openSteps(row, column) {
    const { view, tables, shape } = this.#shown;
    const layer = attention.isMerged(view.layer) ? shape[view.kind].layers - 1 : view.layer;
    const head = view.head === 'mean' ? attention.strongestHead(tables, row, column) : view.head;
    const before = this.store.view;
    this.steps.wantFocus();
    this.store.set({ layer, head, query: tables.rows.tokens[row] });
    if (this.store.view === before) this.steps.reveal(); // It is already open.
  }

  async #load() {
    const translation = this.#translation;
    if (translation === null || isSame(translation)) {
      this.#latest.cancel();
      this.#setBusy(false);
      this.#empty(translation);
      return;
    }
    this.#setBusy(true);
    try {
      const found = await this.#latest.run((signal) => this.#fetch(translation, signal));
      if (found === undefined) return;
      this.notice.hide();
      this.#show(found);
    } catch (error) {
      this.#fail(error);
    }
    this.#setBusy(false);
  }

  #setBusy(isBusy) {
    byId('look').setAttribute('aria-busy', String(isBusy));
  }

  #fail(error) {
    const { layer } = this.store.view;
    const canNarrow = error.status === 413 && !this.#isNarrow && !attention.isMerged(layer);
    const act = () => {
      this.#isNarrow = true;
      this.#load();
    };
    const way = canNarrow ? { label: say('oneHead'), act } : null;
    this.notice.show(error, () => this.#load(), way);
  }

  #empty(translation) {
    setText(byId('look-empty'), say(translation === null ? 'empty' : 'untranslated'));
    byId('look-empty').hidden = false;
    byId('look-body').hidden = true;
    this.notice.hide();
    this.steps.hide();
  }

  async #fetch(translation, signal) {
    const model = await this.models.find(translation, signal);
    const isOpen = Object.keys(model?.attention ?? {}).length > 0;
    if (!isOpen) return { model, shape: null };
    const sentences = await this.#sentences(translation, signal);
    const view = settled(this.store.view, model.attention, sentences.length);
    const subject = this.#subject(translation, sentences, view);
    const body = attention.attentionBody(view, subject, this.#isNarrow);
    const reply = await this.#ask(body, signal);
    return { model, shape: model.attention, sentences, view, subject, body, item: reply.items[0] };
  }

  /** Requests all heads of a layer at once, so that another head needs no request. */
  async #ask(body, signal) {
    const key = JSON.stringify(body);
    if (this.#asked.key !== key)
      this.#asked = { key, reply: await post('attention', body, signal) };
    return this.#asked.reply;
  }

  /** Gets the sentences into which the server splits a text. */
  async #sentences({ text, source, target, sentences }, signal) {
    if (sentences.length < 2) return [text];
    const body = attention.outlineBody({ text, source, target });
    const key = JSON.stringify(body);
    if (this.#outline.key !== key) {
      const { items } = await post('attention', body, signal);
      this.#outline = { key, sentences: items.map((item) => item.source.text) };
    }
    return this.#outline.sentences;
  }

  #subject({ task, model, source, target }, sentences, { sentence, wanted }) {
    if (task === 'embed') return { task, text: sentences[sentence], model };
    return {
      text: sentences[sentence],
      source,
      target,
      wanted: sentences.length > 1 ? null : wanted,
    };
  }

  #show(found) {
    const { model, shape, sentences, view, subject, body, item } = found;
    if (shape === null) {
      this.#empty(null);
      setText(byId('look-empty'), say(model === undefined ? 'pivot' : 'closed'));
      return;
    }
    byId('look-empty').hidden = true;
    byId('look-body').hidden = false;
    this.curl.show('attention', body);
    const { id, dtype, device, revision } = model;
    setText(byId('model'), say('model', { id, dtype, device, revision }));
    this.controls.render(view, shape, sentences);
    this.#shown = { ...found, tables: attention.readTables(item) };
    this.#draw(view);
    this.downloads.offer(this.map.figure, this.#caption(view, model, subject), view, body);
    this.aligned(item, view.level);
    this.#showSteps(view, subject);
  }

  #draw(view) {
    const { tables } = this.#shown;
    const values = attention.chosenPlane(tables, view.head);
    this.#shown.values = values;
    const mean = { name: 'mean', values: attention.chosenPlane(tables, 'mean') };
    const maps = tables.planes.length > 1 ? [mean, ...tables.planes] : tables.planes;
    this.heads.show(maps, attention.largest(tables.planes), view.head);
    const max = attention.largest([{ values }]);
    const [rowTitle, columnTitle] = sidesOf(view);
    const [rows, columns] = [tables.rows.labels, tables.columns.labels];
    const figure = { rows, columns, values, max, isCausal: tables.isCausal, rowTitle, columnTitle };
    const size = { rows: rows.length, columns: columns.length };
    setText(byId('max'), decimal(max, 2));
    setText(byId('look-title'), describe(view));
    setText(byId('readout'), say('howTo'));
    byId('open-steps').hidden = true;
    this.map.show(figure, say('size', { view: describe(view), ...size }));
  }

  #caption(view, model, { text, wanted }) {
    const target = wanted ?? this.#shown.item.target?.text;
    const shown = target === undefined ? text : `${text} → ${target}`;
    return [describe(view), shown, say('captionModel', { id: model.id, revision: model.revision })];
  }

  #showSteps(view, subject) {
    if (view.query === null) {
      this.steps.hide();
      return;
    }
    const row = attention.placeOf(this.#shown.tables.rows, view.query);
    if (row !== this.map.place.row) this.map.toRow(row);
    this.steps.show(view, subject);
  }
}
