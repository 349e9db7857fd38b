// A toy: attention of three words of four numbers, computed in the browser from typed numbers.

import { element, folded, setAttribute, setText } from '../common/dom.js';
import { dot, product, softmax, transposed } from '../common/matrix.js';
import { speaker } from '../common/strings.js';
import { decimal, localized, percent } from '../common/text.js';
import { toy } from '../strings/toy.js';
import { scrolling } from './figures.js';

const say = speaker(toy);

const WORDS = ['pool', 'beats', 'badminton'];
const FIRST = [
  [0.5, 0.1, 0.1, 0.2],
  [0.1, 0.5, 0.2, 0.1],
  [0.5, 0.1, 0.2, 0.1],
];
const MOST = 10;
const SIZE = FIRST[0].length;

/** Reads a number that a reader has typed; null if it is none, or too large. */
export function numberOf(text) {
  const plain = text.trim().replace(',', '.').replace('−', '-');
  const isNumber = /^[-+]?(\d+\.?\d*|\.\d+)$/.test(plain);
  const value = Number(plain);
  return isNumber && Math.abs(value) <= MOST ? value : null;
}

/** Returns the matrix that a view holds, or the first one. */
export function matrixOf({ toy: written }) {
  const numbers = written === null ? [] : written.split(' ').map(numberOf);
  const isWhole = numbers.length === WORDS.length * SIZE && !numbers.includes(null);
  if (!isWhole) return FIRST;
  return WORDS.map((_, row) => numbers.slice(row * SIZE, (row + 1) * SIZE));
}

/** The toy, as a section of the page. */
export class Toy {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.inputs = WORDS.map((word, row) =>
      FIRST[0].map((_, column) => this.#input(word, row, column)),
    );
    this.warnings = WORDS.map((_, row) =>
      element('td', { id: `toy-warning-${row}`, class: 'warning', role: 'alert', colspan: SIZE + 1 }),
    );
    const reset = element('button', {
      ...{ type: 'button', class: 'quiet', text: say('reset') },
      onclick: () => this.#reset(),
    });
    this.scores = new Step('scores');
    this.weights = new Step('weights');
    this.output = new Step('output');
    this.fold = this.#folded(reset);
    this.root = element(
      'section',
      { id: 'toy', 'aria-labelledby': 'toy-title' },
      element('h2', { id: 'toy-title', text: say('title') }),
      element('p', { class: 'lead', text: say('lead') }),
      this.fold,
    );
  }

  #folded(reset) {
    return folded(
      say('open'),
      element('h3', { text: say('matrix') }),
      element('p', { text: say('matrixText') }),
      scrolling(say('matrix'), this.#table()),
      element('p', { class: 'actions' }, reset),
      ...[this.scores, this.weights, this.output].map(({ root }) => root),
      element('p', { text: say('rest') }),
    );
  }

  /** Shows the matrix of a view and all that follows from it. */
  show(view) {
    if (view.toy !== null) this.fold.open = true;
    const matrix = matrixOf(view);
    matrix.forEach((row, index) => row.forEach((value, column) => this.#fill(index, column, value)));
    this.#compute(matrix);
  }

  #input(word, row, column) {
    return element('input', {
      ...{ type: 'text', inputmode: 'decimal', autocomplete: 'off', size: 5 },
      'aria-label': say('cell', { word, index: column + 1 }),
      'aria-describedby': `toy-warning-${row}`,
      oninput: () => this.#read(),
    });
  }

  #table() {
    const rows = WORDS.flatMap((word, row) => {
      const cells = this.inputs[row].map((input) => element('td', {}, input));
      return [element('tr', {}, rowHead(word), ...cells), element('tr', {}, this.warnings[row])];
    });
    return element('table', { class: 'matrix' }, numbersHead(), element('tbody', {}, ...rows));
  }

  /** Writes a number into its cell, unless the cell already means it. */
  #fill(row, column, value) {
    const input = this.inputs[row][column];
    if (numberOf(input.value) === value || input.hasAttribute('aria-invalid')) return;
    input.value = localized(value);
  }

  /** Reads all cells; the toy follows them if all are numbers. */
  #read() {
    const numbers = this.inputs.map((row) => row.map(({ value }) => numberOf(value)));
    numbers.forEach((row, index) => {
      row.forEach((value, column) =>
        setAttribute(this.inputs[index][column], 'aria-invalid', value === null && 'true'),
      );
      setText(this.warnings[index], row.includes(null) ? say('invalid') : '');
    });
    if (!numbers.flat().includes(null)) this.store.set({ toy: numbers.flat().join(' ') });
  }

  #reset() {
    for (const input of this.inputs.flat()) input.removeAttribute('aria-invalid');
    for (const warning of this.warnings) setText(warning, '');
    this.store.set({ toy: null });
    this.show(this.store.view);
  }

  #compute(matrix) {
    const [pool, , badminton] = matrix;
    const scores = product(matrix, transposed(matrix));
    const weights = scores.map(softmax);
    const output = product(weights, matrix);
    const [first, secondWord, thirdWord] = WORDS;
    this.scores.show(scores, WORDS, {
      ...{ first, second: thirdWord, sum: sumOf(pool, badminton) },
      score: decimal(dot(pool, badminton), 2),
    });
    this.weights.show(weights, WORDS, {
      ...{ first, secondWord, thirdWord },
      second: percent(weights[0][1]),
      third: percent(weights[0][2]),
    });
    this.output.show(output, null, {
      ...{ first, number: say('sport') },
      before: decimal(pool[0], 2),
      after: decimal(output[0][0], 2),
    });
  }
}

/** One result of the toy: a sentence, and a matrix with a row for each word. */
class Step {
  constructor(name) {
    this.name = name;
    this.text = element('p');
    this.table = element('table', { class: 'matrix', 'data-matrix': name });
    const title = say(name);
    this.root = element(
      'div',
      {},
      element('h3', { text: title }),
      this.text,
      scrolling(title, this.table),
    );
  }

  /** Shows a matrix; the columns are words, or the numbers of a word. */
  show(matrix, columns, values) {
    setText(this.text, say(`${this.name}Text`, values));
    const head = columns ? headOf(columns) : numbersHead();
    const most = Math.max(1e-9, ...matrix.flat().map(Math.abs));
    const rows = matrix.map((row, index) =>
      element('tr', {}, rowHead(WORDS[index]), ...row.map((value) => cellOf(value, most))),
    );
    this.table.replaceChildren(head, element('tbody', {}, ...rows));
  }
}

function sumOf(a, b) {
  return a.map((value, index) => `${localized(value)} × ${localized(b[index])}`).join(' + ');
}

function cellOf(value, most) {
  const cell = element('td', { text: decimal(value, 2) });
  cell.style.setProperty('--share', String(Math.max(0, value / most)));
  return cell;
}

const rowHead = (word) => element('th', { scope: 'row', lang: 'en', text: word });

function headOf(names) {
  const heads = names.map((text) => element('th', { scope: 'col', text }));
  return element('thead', {}, element('tr', {}, element('td'), ...heads));
}

const numbersHead = () =>
  headOf(FIRST[0].map((_, index) => (index ? say('dimension', { index: index + 1 }) : say('sport'))));
