// The lower half of the page: where the model looks.

import { LastReply, Latest } from '../common/api.js';
import * as attention from './attention.js';
import { alignerWords, describe, isOneHead, isShare, readout, sidesOf } from './words.js';
import { byId, setStale, setText } from '../common/dom.js';
import { isMeaningOpen, term } from '../common/glossary.js';
import { Gaze, startsOf } from './gaze.js';
import { settled } from './models.js';
import { pinChange, pinnedPlaces } from './pins.js';
import { termsOf } from './terms.js';
import { UNPINNED, chosenFor, fromFragment } from '../common/state.js';
import { speaker } from '../common/strings.js';
import { spoken } from '../common/text.js';
import { look } from '../strings/look.js';

const say = speaker(look);

const SHOWN = ['sentence', 'kind', 'layer', 'head', 'level', 'norm', 'query', 'key', 'search', 'named', 'vectors'];

/** Reports whether nothing was translated, because both languages are the same. */
const isSame = ({ task, source, target }) => task !== 'embed' && source === target;

/** Returns the page's address; with the text only if the address already is a link to the view. */
function ownAddress() {
  const { origin, pathname, hash } = location;
  return `${origin}${pathname}${fromFragment(hash) === null ? '' : hash}`;
}

/** Requests the attention of the view and shows it. */
export class LookPanel {
  #latest = new Latest();
  #translation = null;
  #outlined = new LastReply();
  #asked = new LastReply();
  /** @type {string[]} The translations of the sentences. */
  #targets = [];
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
   * @param {SearchPanel} parts.search
   * @param {LikelyPanel} parts.likely
   * @param {WordLights} parts.lights
   * @param {Downloads} parts.downloads
   * @param {Notice} parts.notice
   * @param {CurlLine} parts.curl
   */
  constructor(parts) {
    Object.assign(this, parts);
    this.store.subscribe((view, before) => {
      if (SHOWN.some((name) => view[name] !== before[name])) this.#load();
    });
    byId('open-steps').addEventListener('click', () => {
      this.pin(this.map.place.row, this.map.place.column);
    });
    document.addEventListener('keydown', (event) => {
      const isOurs = event.key === 'Escape' && !event.defaultPrevented && !isMeaningOpen();
      if (isOurs) this.store.set(UNPINNED);
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
    setText(byId('readout'), readout(view, tables, values, row, column));
    const word = spoken(tables.rows.labels[row]);
    setText(byId('open-steps'), say(isOneHead(view) ? 'openSteps' : 'openNumber', { word }));
    byId('open-steps').hidden = false;
  }

  /** Pins a cell, and moves to its computation, or to all heads if the view merges several. */
  pin(row, column) {
    const { view, tables } = this.#shown;
    const { layer, head } = view;
    const before = this.store.view;
    const pins = { query: tables.rows.tokens[row], key: tables.columns.tokens[column] };
    const isOne = isOneHead(view);
    (isOne ? this.steps : this.search).wantFocus();
    this.store.set({ layer, head, ...pins, search: !isOne || this.store.view.search });
    if (this.store.view === before) this.#pinned(this.#shown); // It is already pinned.
  }

  /** Chooses a head of the shown layer. */
  chooseHead(head) {
    this.store.set({ layer: this.#shown.view.layer, head });
  }

  /** Names the head that aligns the words of the translation. */
  alignerWords() {
    const found = this.#translation && this.models.alignment(this.#translation);
    return found ? alignerWords(found) : '';
  }

  /** Pins or unpins a word of the page; reports whether the map has it. */
  pinWord(word, isNew) {
    const change = this.#shown && pinChange(word, isNew, this.#shown);
    if (change) this.store.set(change);
    return Boolean(change);
  }

  /** Returns the gaze of a word of the page in the map; null if the map does not have the word. */
  gazeOf(word) {
    const { gaze, view } = this.#shown ?? {};
    const found = gaze?.of(word);
    return found ? { ...found, isShare: isShare(view), by: describe(view) } : null;
  }

  /** Outlines a word of the page in the map; null outlines the pinned words. */
  outline(word) {
    if (this.#shown === null) return;
    const { gaze, pins } = this.#shown;
    const { rows, columns } = word === null ? { rows: [], columns: [] } : gaze.placesOf(word);
    const found = { row: rows[0] ?? null, column: rows.length ? null : (columns[0] ?? null) };
    const isFound = found.row !== null || found.column !== null;
    const { row, column } = isFound ? found : pins;
    this.map.outline(row, column);
  }

  /** Lights the words of a cell. */
  light(row, column) {
    const { gaze, values } = this.#shown;
    const [from, to] = [gaze.wordAt('rows', row), gaze.wordAt('columns', column)];
    const share = values[row][column] / gaze.scale;
    this.lights.show(from ? [from] : [], to ? [{ ...to, share }] : []);
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
      this.#setBusy(false);
    } catch (error) {
      this.#setBusy(false);
      setStale(byId('look'), true);
      this.#fail(error);
    }
  }

  #setBusy(isBusy) {
    byId('look').setAttribute('aria-busy', String(isBusy));
    setStale(byId('look'), isBusy);
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
    this.#shown = null;
    this.notice.hide();
    this.steps.hide();
    this.likely.hide();
  }

  async #fetch(translation, signal) {
    const model = await this.models.find(translation, signal);
    const isOpen = Object.keys(model?.attention ?? {}).length > 0;
    if (!isOpen) return { model, shape: null };
    const sentences = await this.#sentences(translation, signal);
    const view = settled(this.store.view, model, sentences.length);
    const subject = this.#subject(translation, sentences, view);
    const body = attention.attentionBody(view, subject, this.#isNarrow);
    // One request has all heads of a layer, so that another head needs no request.
    const { items: [item] } = await this.#asked.post('attention', body, signal);
    return { translation, model, shape: model.attention, sentences, view, subject, body, item };
  }

  /** Gets the sentences into which the server splits a text. */
  async #sentences({ text, source, target, sentences }, signal) {
    if (sentences.length < 2) return [text];
    const body = attention.outlineBody({ text, source, target });
    const { items } = await this.#outlined.post('attention', body, signal);
    this.#targets = items.map(({ target: { text } }) => text);
    return items.map(({ source: { text } }) => text);
  }

  #subject({ task, model, source, target }, sentences, view) {
    const text = sentences[view.sentence];
    return task === 'embed' ? { task, text, model } : { text, source, target, wanted: chosenFor(view, view.sentence) };
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
    const tables = attention.readTables(item);
    const values = attention.chosenPlane(tables, view.head);
    const pins = pinnedPlaces(view, tables);
    this.#shown = { ...found, tables, values, pins, gaze: this.#gaze(found, tables, values) };
    this.#draw(view);
    if (subject.task === 'embed') this.lights.markSource(this.#shown.gaze.rows.filter(Boolean));
    const caption = () => this.#caption(view, model, subject);
    this.downloads.offer(this.map.figure, caption, view, body);
    this.#pinned(this.#shown);
  }

  /** Relates the map to the words of the page. */
  #gaze({ translation, sentences, view, item }, tables, values) {
    const scale = isShare(view) ? 1 : attention.largest([{ values }]);
    const whole = { source: translation.text, target: translation.shown ?? '' };
    const before = this.#targets.slice(0, view.sentence);
    const targets = before.map((own, index) => chosenFor(view, index) ?? own);
    const parts = { source: sentences.slice(0, view.sentence + 1), target: [...targets, item.target?.text ?? ''] };
    const places = {};
    for (const side of ['source', 'target']) {
      places[side] = { text: parts[side].at(-1), start: startsOf(whole[side], parts[side]).at(-1) };
    }
    return new Gaze(tables, values, scale, places);
  }

  #draw(view) {
    const { tables, values } = this.#shown;
    const mean = { name: 'mean', values: attention.chosenPlane(tables, 'mean') };
    const maps = tables.planes.length > 1 ? [mean, ...tables.planes] : tables.planes;
    this.heads.show(maps, attention.largest(tables.planes), view.head);
    const max = attention.largest([{ values }]);
    const [rowTitle, columnTitle] = sidesOf(view);
    const [rows, columns] = [tables.rows.labels, tables.columns.labels];
    const figure = { rows, columns, values, max, isCausal: tables.isCausal, rowTitle, columnTitle };
    const size = { rows: rows.length, columns: columns.length };
    const names = termsOf(view, tables);
    if (byId('terms').dataset.names !== names.join()) {
      byId('terms').dataset.names = names.join();
      byId('terms-list').replaceChildren(...names.map((name) => term(name)));
    }
    setText(byId('look-title'), describe(view));
    setText(byId('readout'), say(matchMedia('(hover: none)').matches ? 'howToTouch' : 'howTo'));
    byId('open-steps').hidden = true;
    this.map.show(figure, say('size', { view: describe(view), ...size }));
  }

  #caption(view, model, { text, wanted }) {
    const target = wanted ?? this.#shown.item.target?.text;
    const shown = target === undefined ? text : `${text} → ${target}`;
    const { id, dtype, device, revision } = model;
    return {
      above: [describe(view), shown],
      below: [say('captionModel', { id, dtype, device, revision }), ownAddress()],
    };
  }

  /** Shows the pinned words in the text and in the map, and the explanations of their number. */
  #pinned({ view, subject, gaze, pins }) {
    const { row, column } = pins;
    this.map.pin(row, column);
    const words = [
      row === null ? null : gaze.wordAt('rows', row),
      column === null ? null : gaze.wordAt('columns', column),
    ];
    this.lights.setPins(words.filter(Boolean));
    this.search.show(this.#shown);
    if (row === null) this.likely.hide();
    else this.likely.show(view, subject);
    if (row !== null && isOneHead(view)) this.steps.show(view, subject);
    else this.steps.hide();
  }
}
