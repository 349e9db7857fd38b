// The computation of one token in one head: softmax(QKᵀ/√d)V with its numbers, column by column.

import { Latest, post } from '../common/api.js';
import { stepsBody } from './attention.js';
import { byId, element, setStale, setText, tokenParts } from '../common/dom.js';
import { isMeaningOpen, term, withTerms } from '../common/glossary.js';
import { scaleOf, strip } from '../common/strip.js';
import { speaker } from '../common/strings.js';
import { decimal, percent, spoken, tokenName } from '../common/text.js';
import { steps } from '../strings/steps.js';

const say = speaker(steps);

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
    setText(byId('steps-title'), say('title', { word: asking(this.#reply) }));
    const place = say('place', { name: say(`name_${kind}`), layer: layer + 1, head: head + 1 });
    setText(byId('steps-place'), place + putIn(this.#reply));
    byId('steps-before').disabled = query.index === 0;
    byId('steps-after').disabled = query.index === count - 1;
    byId('plain').replaceChildren(...plainWords(this.#reply));
    renderTable(byId('steps-table'), this.#reply);
    byId('steps-output').replaceChildren(...outputStrips(this.#reply));
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

/** Returns the token that the axis shows: the generated one, or the one read. */
function asking({ kind, query }) {
  return spoken(kind === 'cross' ? (query.predicted ?? query.token) : query.token);
}

function putIn({ kind, query }) {
  return kind === 'cross' ? say('putIn', { word: spoken(query.token) }) : '';
}

function best(rows) {
  return rows.reduce((a, b) => (b.weight > a.weight ? b : a));
}

/** Explains each column with the numbers of this table. */
function plainWords(reply) {
  const { rows, head_dim: size } = reply;
  const top = best(rows);
  const [word, most] = [asking(reply), spoken(top.token)];
  const root = decimal(Math.sqrt(size), 2);
  return [
    [
      'q · k',
      say('plainProduct', { word, most, score: decimal(top.score, 2) }),
    ],
    [`÷ √${size}`, say('plainRoot', { size, root })],
    ...(hasBias(reply) ? [[say('distance'), say('plainDistance')]] : []),
    [say('softmax'), say('plainSoftmax', { most, share: percent(top.weight) })],
    ['× v', say('plainValues')],
    [say('sum'), say('plainSum', { word })],
  ].map(([name, words]) => element('li', {}, element('b', { text: name }), ' ', ...withTerms(words)));
}

/** Reports whether the model adds a bias for the distance of two tokens, as MPNet does. */
const hasBias = ({ rows }) => rows[0].bias !== undefined;

function renderTable(table, reply) {
  const { rows, vectors = null, head_dim: size, z } = reply;
  const scale = scaleOf([...rows.map(({ value }) => value), z]);
  const shown = rows[0].value.length;
  const own = vectors ? ['q', 'k', 'v'] : [];
  const heads = [
    ...own,
    say('columnProduct'),
    say('columnRoot', { size }),
    ...(hasBias(reply) ? [say('distance')] : []),
    say('columnSoftmax'),
    say('columnValues', { shown, size }),
    say('columnLength'),
  ];
  const numbers = {
    vectors,
    scale,
    top: best(rows),
    keys: vectors && scaleOf([vectors.q, ...vectors.k]),
  };
  numbers.values = vectors && scaleOf(vectors.v);
  table.tHead.replaceChildren(headRow([say('token'), ...heads]));
  table.tBodies[0].replaceChildren(...rows.map((row, index) => bodyRow(row, index, numbers)));
  table.tFoot.replaceChildren(footRow(reply, scale, own.length + (hasBias(reply) ? 1 : 0)));
}

function headRow(names) {
  const heads = names.map((text) => {
    const isShare = text === say('columnSoftmax');
    return element('th', { scope: 'col', class: isShare ? 'share' : null, text });
  });
  return element('tr', {}, ...heads);
}

function cell(content, name = null) {
  return element('td', { class: name }, content);
}

function bodyRow(row, index, { vectors, scale, top, keys, values }) {
  const name = tokenName(row.token);
  const own = vectors
    ? [
        cell(index === 0 ? strip(vectors.q, keys, 'q') : ''),
        cell(strip(vectors.k[index], keys, say('keyOf', { token: name }))),
        cell(strip(vectors.v[index], values, say('valueOf', { token: name }))),
      ]
    : [];
  return element(
    'tr',
    { class: row === top ? 'top' : null },
    element('th', { scope: 'row' }, ...tokenParts(name)),
    ...own,
    cell(decimal(row.score, 2)),
    cell(decimal(row.scaled, 2)),
    ...(row.bias === undefined ? [] : [cell(decimal(row.bias, 2))]),
    cell(bar(row.weight), 'share'),
    cell(strip(row.value, scale, say('weightedOf', { token: name }))),
    cell(decimal(row.value_norm)),
  );
}

function bar(weight) {
  const filled = element('i');
  filled.style.setProperty('--share', weight);
  return element('span', { class: 'bar' }, decimal(weight), element('span', {}, filled));
}

function footRow({ rows, z }, scale, moreColumns) {
  const total = rows.reduce((sum, { weight }) => sum + weight, 0);
  const blanks = Array.from({ length: moreColumns + 2 }, () => cell(''));
  const head = z.slice(0, rows[0].value.length);
  return element(
    'tr',
    {},
    element('th', { scope: 'row', text: say('rowSum') }),
    ...blanks,
    cell(element('span', { class: 'bar' }, decimal(total), element('span')), 'share'),
    cell(strip(head, scale, say('firstZ'))),
    cell('= z'),
  );
}

/** Shows the z of all heads side by side, and their product with W_O. */
function outputStrips({ output, head, head_dim: size, z }) {
  const zStrip = element('p', {}, element('b', { text: 'z' }), strip(z, scaleOf([z]), 'z'));
  if (!output) return [zStrip];
  const { concatenated, result } = output;
  const scale = scaleOf([concatenated]);
  const heads = Array.from({ length: concatenated.length / size }, (_, index) => {
    const part = strip(
      concatenated.slice(index * size, (index + 1) * size),
      scale,
      say('zOfHead', { head: index + 1 }),
    );
    part.classList.toggle('here', index === head);
    return part;
  });
  return [
    element('p', { class: 'heads' }, element('b', { text: say('allZ') }), ...heads),
    element(
      'p',
      {},
      element('b', {}, '× ', term('output', 'Wᴼ'), ' + b'),
      strip(result, scaleOf([result]), say('result')),
    ),
  ];
}
