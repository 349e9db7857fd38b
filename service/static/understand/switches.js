// Switches: the translator without some of its heads, or without some of the words.

import { bar } from '../common/computation.js';
import { Latest, post } from '../common/api.js';
import { button, element, setText, tokenParts } from '../common/dom.js';
import { HeatMap, mapParts } from '../common/heatmap.js';
import { Notice } from '../common/notice.js';
import { speaker } from '../common/strings.js';
import { percent, rounded, spoken, tokenName } from '../common/text.js';
import { switches } from '../strings/switches.js';
import { scrolling } from './figures.js';

const say = speaker(switches);

const LITTLE = 0.05; // A head whose loss is smaller changes little.
const LEAST_SCALE = 0.2; // Loss of the darkest colour, if all are smaller.

/**
 * Returns the knock-out of some parts.
 * @param {string[]} parts Each is `kind.layer.head` or `word.number`.
 * @param {boolean} [uniform] Whether heads look at all words equally, and are not switched off.
 */
export function knockoutOf(parts, uniform = false) {
  const split = parts.map((name) => name.split('.'));
  const words = split.filter(([kind]) => kind === 'word').map(([, word]) => Number(word));
  const heads = split
    .filter(([kind]) => kind !== 'word')
    .map(([kind, layer, head]) => ({ kind, layers: [Number(layer)], heads: [Number(head)], ...(uniform ? { uniform } : {}) }));
  return {
    ...(heads.length > 0 ? { heads } : {}),
    ...(words.length > 0 ? { source_words: words } : {}),
  };
}

/** The map of all heads, in which each can be switched off, and the translation without them. */
export class Switches {
  #trial = new Latest();
  #filling = new Latest();
  /** @type {any} */
  #facts = null;
  #text = '';
  /** @type {Array<{kind: string, layer: number, heads: number}>} */
  #rows = [];
  /** @type {number[][]} Of each head, the share of the probability that is left without it. */
  #kept = [];
  #shown = '';

  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.notice = new Notice();
    this.words = element('p', { class: 'chips', role: 'group', 'aria-label': say('words') });
    const parts = mapParts('switches-map');
    this.readout = parts.readout;
    this.map = new HeatMap({
      ...parts,
      point: (row, column) => setText(this.readout, this.#described(row, column)),
      open: (row, column) => this.#toggle(this.#nameOf(row, column)),
      isDirect: true,
    });
    this.fill = button(say('fill'), () => this.#fill());
    this.story = button('', () => this.#toggle(this.#storyHead));
    this.reset = button(say('reset'), () => this.store.set({ off: null }));
    this.uniform = element('input', { type: 'checkbox', onchange: () => store.set({ uniform: this.uniform.checked }) });
    this.found = element('p', { class: 'verdict', role: 'status' });
    this.verdict = element('p', { class: 'verdict', role: 'status' });
    this.note = element('p', { class: 'hint', text: say('scale') });
    this.table = element('table');
    this.root = element(
      'section',
      { id: 'switches', 'aria-labelledby': 'switches-title', hidden: true },
      element('h2', { id: 'switches-title', text: say('title') }),
      element('p', { class: 'lead', text: say('lead') }),
      element('h3', { text: say('words') }),
      this.words,
      element('h3', { text: say('heads') }),
      element('p', { class: 'actions swaps' }, this.fill, this.story, this.reset),
      element('label', { class: 'check' }, this.uniform, ' ', say('uniform')),
      this.notice.root,
      this.found,
      this.verdict,
      ...[parts.frame, this.note, parts.readout, parts.table, this.map.saveButtons('regard-switches')],
      element('h3', { text: say('result') }),
      scrolling(say('table'), this.table),
    );
  }

  /** Takes the sentence of the story; null hides the switches. */
  follow(facts) {
    this.#facts = facts;
    this.root.hidden = facts === null;
    if (facts === null) return;
    if (facts.text !== this.#text) {
      this.#text = facts.text;
      this.#filling.cancel();
      setText(this.found, '');
      this.#rows = Object.entries(facts.model.attention).flatMap(([kind, { layers, heads }]) =>
        Array.from({ length: layers }, (_, layer) => ({ kind, layer, heads })),
      );
      this.#kept = this.#rows.map(({ heads }) => Array.from({ length: heads }, () => 1));
      this.#shown = '';
    }
    this.show(this.store.view);
  }

  /** Shows the heads and words that a view switches off. */
  show(view) {
    if (this.#facts === null) return;
    const off = this.#offOf(view);
    const { layer, head } = this.#facts;
    setText(this.story, say(off.includes(this.#storyHead) ? 'storyOn' : 'storyOff', { layer: layer + 1, head: head + 1 }));
    this.reset.disabled = off.length === 0;
    this.words.replaceChildren(...wordsOf(this.#facts).map(([word, name]) => this.#word(word, name, !off.includes(name))));
    this.#drawMap(off);
    this.uniform.checked = view.uniform;
    const key = JSON.stringify([this.#text, off, view.uniform]);
    if (key === this.#shown) return;
    this.#shown = key;
    this.#try(off);
  }

  /** Returns the heads of the model and the words of the sentence that a view switches off. */
  #offOf({ off }) {
    const heads = this.#rows.flatMap(({ kind, layer, heads }) =>
      Array.from({ length: heads }, (_, head) => `${kind}.${layer}.${head}`),
    );
    const known = new Set([...heads, ...wordsOf(this.#facts).map(([, name]) => name)]);
    return (off ?? '').split(' ').filter((name) => known.has(name));
  }

  get #storyHead() {
    const { layer, head } = this.#facts;
    return `encoder.${layer}.${head}`;
  }

  #nameOf(row, column) {
    const { kind, layer } = this.#rows[row];
    return `${kind}.${layer}.${column}`;
  }

  #toggle(name) {
    const off = this.#offOf(this.store.view);
    const rest = off.filter((other) => other !== name);
    const next = rest.length < off.length ? rest : [...off, name];
    this.store.set({ off: next.length > 0 ? next.join(' ') : null });
  }

  #word(word, name, isOn) {
    const attributes = { type: 'button', class: 'chip', 'aria-pressed': String(isOn), 'data-word': name };
    return element('button', { ...attributes, text: word, onclick: () => this.#toggle(name) });
  }

  #drawMap(off) {
    const crossed = new Set();
    this.#rows.forEach(({ heads }, row) => {
      for (let head = 0; head < heads; head += 1)
        if (off.includes(this.#nameOf(row, head))) crossed.add(`${row} ${head}`);
    });
    const count = Math.max(...this.#rows.map(({ heads }) => heads));
    const losses = this.#kept.map((row) => row.map((kept) => 1 - kept));
    const figure = {
      ...{ rows: this.#rows.map(({ kind, layer }) => say(`row_${kind}`, { layer: layer + 1 })), isWritten: losses.flat().some(Boolean) },
      ...{ columns: Array.from({ length: count }, (_, head) => String(head + 1)), isCausal: false, isSigned: true },
      ...{ values: losses, max: Math.max(LEAST_SCALE, ...losses.flat().map(Math.abs)), crossed, write: rounded },
      ...{ rowTitle: say('layer'), columnTitle: say('head') },
    };
    this.map.show(figure, say('map'));
    this.note.hidden = !figure.isWritten;
    if (this.readout.textContent === '') setText(this.readout, say('howTo'));
  }

  #described(row, column) {
    const { kind, layer } = this.#rows[row];
    const name = say(`head_${kind}`, { layer: layer + 1, head: column + 1 });
    const isOff = this.#offOf(this.store.view).includes(this.#nameOf(row, column));
    const kept = this.#kept[row][column];
    return say(isOff ? 'isOff' : 'isOn', { name }) + (kept === 1 ? '' : ` ${say('keeps', { share: percent(kept) })}`);
  }

  #body(knockouts, translate) {
    return { text: this.#text, ...this.#facts.pair, translate, knockouts };
  }

  /** Translates without the parts that are off. */
  async #try(off) {
    const body = this.#body([{}, knockoutOf(off, this.store.view.uniform)], true);
    const ask = (signal) => post('attention/knockout', body, signal);
    await this.notice.guard(this.#trial, ask, (reply) => this.#render(reply, off.length));
  }

  #render({ target, knockouts: [whole, without] }, count) {
    const [before, after] = [whole.translation.text, without.translation.text];
    const change = { count, share: percent(Math.exp(without.total_change)) };
    const name = count === 0 ? 'allOn' : before === after ? 'same' : 'other';
    const quoted = [before, after].map((text) => element('q', { lang: this.#facts.pair.target, text }));
    this.verdict.replaceChildren(say(name, change), ' ', quoted[0], ...(name === 'other' ? [' → ', quoted[1]] : []));
    // The probabilities are those of the story, and these with the change: the pass that switches parts
    // off rounds to other int8 values than the decoder, so its own probabilities differ a little.
    const logs = this.#facts.item.probabilities.log_probs;
    const changed = logs.map((log, index) => Math.min(0, log + (without.changes[index] ?? -Infinity)));
    const shares = [logs, changed].map((each) => each.map(Math.exp));
    const rows = target.tokens.map((token, index) =>
      element(
        'tr',
        { class: shares[1][index] < shares[0][index] / 2 ? 'top' : null },
        element('th', { scope: 'row' }, ...tokenParts(tokenName(token))),
        ...shares.map((share) => element('td', { class: 'share' }, bar(share[index]))),
      ),
    );
    const heads = ['token', 'before', 'after'].map((key) =>
      element('th', { scope: 'col', class: key === 'token' ? null : 'share', text: say(key) }),
    );
    this.table.replaceChildren(
      element('caption', { text: say('table') }),
      element('thead', {}, element('tr', {}, ...heads)),
      element('tbody', {}, ...rows),
    );
  }

  /** Switches off each head by itself, layer by layer, and fills the map. */
  async #fill() {
    this.fill.disabled = true;
    try {
      for (const [row, { kind, layer, heads }] of this.#rows.entries()) {
        const each = Array.from({ length: heads }, (_, head) => knockoutOf([`${kind}.${layer}.${head}`]));
        const body = this.#body(each, false);
        const reply = await this.#filling.run((signal) => post('attention/knockout', body, signal));
        if (reply === undefined) break; // Another sentence has come.
        this.#kept[row] = reply.knockouts.map(({ total_change: change }) => Math.exp(change));
        setText(this.found, say('filling', { done: row + 1, count: this.#rows.length }));
        this.#drawMap(this.#offOf(this.store.view));
        if (row === this.#rows.length - 1) this.#conclude();
      }
      this.notice.hide();
    } catch (error) {
      this.notice.show(/** @type {ApiError} */ (error), () => this.#fill());
    }
    this.fill.disabled = false;
  }

  /** Names the head that the translation needs most, and counts those that change little. */
  #conclude() {
    const all = this.#kept.flatMap((each, row) => each.map((kept, column) => ({ row, column, kept })));
    const most = all.reduce((a, b) => (b.kept < a.kept ? b : a));
    const { kind, layer } = this.#rows[most.row];
    const name = say(`head_${kind}`, { layer: layer + 1, head: most.column + 1 });
    const few = all.filter(({ kept }) => Math.abs(1 - kept) < LITTLE).length;
    setText(this.found, say('found', { few, count: all.length, little: percent(LITTLE), name, share: percent(most.kept) }));
  }
}

/** Returns the words of the sentence, and the names of their switches. */
function wordsOf({ text, item: { source, alignment } }) {
  const letters = [...text];
  return alignment.source_words.flatMap(([from, to], index) => {
    const word = letters.slice(source.offsets[from][0], source.offsets[to - 1][1]).join('').trim();
    return word === '' ? [] : [[word || spoken(source.tokens[from]), `word.${index}`]];
  });
}
