// The computation of one token in one head: softmax(QKᵀ/√d)V with its numbers, column by column.

import { Latest, post } from '../common/api.js';
import { stepsBody } from './attention.js';
import { byId, element, setText, tokenParts } from '../common/dom.js';
import { scaleOf, strip } from '../common/strip.js';
import { decimal, percent, spoken, tokenName } from '../common/text.js';

const KINDS = { cross: 'Cross-attention', encoder: 'Encoder', decoder: 'Decoder' };

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
    byId('steps-close').addEventListener('click', () => this.#close());
    byId('steps-before').addEventListener('click', () => this.#go(-1));
    byId('steps-after').addEventListener('click', () => this.#go(1));
    byId('vectors').addEventListener('change', (event) => {
      this.store.set({ vectors: event.target.checked });
    });
    this.root.addEventListener('keydown', (event) => event.key === 'Escape' && this.#close());
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
      this.reveal();
      return;
    }
    this.#asked = key;
    byId('vectors').checked = view.vectors;
    try {
      const reply = await this.#latest.run((signal) => post('attention/steps', body, signal));
      if (reply === undefined) return;
      this.#reply = reply;
      this.notice.hide();
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

  #close() {
    this.store.set({ query: null });
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
    setText(byId('steps-title'), `Step by step: “${asking(this.#reply)}”`);
    setText(
      byId('steps-place'),
      `${KINDS[kind]}, layer ${layer}, head ${head}${putIn(this.#reply)}`,
    );
    byId('steps-before').disabled = query.index === 0;
    byId('steps-after').disabled = query.index === count - 1;
    byId('plain').replaceChildren(...plainWords(this.#reply));
    renderTable(byId('steps-table'), this.#reply);
    byId('steps-output').replaceChildren(...outputStrips(this.#reply));
  }
}

/** Returns the token that the axis shows: the generated one, or the one read. */
function asking({ kind, query }) {
  return spoken(kind === 'cross' ? (query.predicted ?? query.token) : query.token);
}

function putIn({ kind, query }) {
  return kind === 'cross' ? `. The query is made after reading “${spoken(query.token)}”.` : '';
}

function best(rows) {
  return rows.reduce((a, b) => (b.weight > a.weight ? b : a));
}

/** Explains each column with the numbers of this table. */
function plainWords(reply) {
  const { rows, head_dim: size } = reply;
  const top = best(rows);
  const [word, most] = [asking(reply), spoken(top.token)];
  const root = Math.sqrt(size).toFixed(2);
  return [
    [
      'q · k',
      `“${word}” asks with a query q, every token answers with a key k. The better they match, the larger the product: “${most}” has ${decimal(top.score, 2)}.`,
    ],
    [
      `÷ √${size}`,
      `Products of ${size} numbers grow with their count. Dividing by √${size} = ${root} keeps them in range.`,
    ],
    ...(hasBias(reply)
      ? [['+ distance', 'This head adds a number for the distance of the two tokens.']]
      : []),
    ['softmax', `Scores become shares of one whole. “${most}” gets ${percent(top.weight)}.`],
    ['× v', 'The value v of every token is multiplied by its share.'],
    ['sum', `The sum of all these is z, the output of this head for “${word}”.`],
  ].map(([name, words]) => element('li', {}, element('b', { text: name }), ` ${words}`));
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
    '1 q · k',
    `2 ÷ √${size}`,
    ...(hasBias(reply) ? ['+ distance'] : []),
    '3 softmax',
    `4 × v (${shown} of ${size})`,
    'its length',
  ];
  const numbers = {
    vectors,
    scale,
    top: best(rows),
    keys: vectors && scaleOf([vectors.q, ...vectors.k]),
  };
  numbers.values = vectors && scaleOf(vectors.v);
  table.tHead.replaceChildren(headRow(['Token', ...heads]));
  table.tBodies[0].replaceChildren(...rows.map((row, index) => bodyRow(row, index, numbers)));
  table.tFoot.replaceChildren(footRow(reply, scale, own.length + (hasBias(reply) ? 1 : 0)));
}

function headRow(names) {
  const heads = names.map((text) => {
    const isShare = text.endsWith('softmax');
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
        cell(strip(vectors.k[index], keys, `k of ${name}`)),
        cell(strip(vectors.v[index], values, `v of ${name}`)),
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
    cell(strip(row.value, scale, `weight × v of ${name}`)),
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
    element('th', { scope: 'row', text: '5 sum' }),
    ...blanks,
    cell(element('span', { class: 'bar' }, decimal(total), element('span')), 'share'),
    cell(strip(head, scale, 'z, its first numbers')),
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
      `z of head ${index}`,
    );
    part.classList.toggle('here', index === head);
    return part;
  });
  return [
    element('p', { class: 'heads' }, element('b', { text: 'z of all heads' }), ...heads),
    element(
      'p',
      {},
      element('b', { text: '× Wᴼ + b' }),
      strip(result, scaleOf([result]), 'the result'),
    ),
  ];
}
