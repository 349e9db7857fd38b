// The figures of the story: vectors that can be read, tables of shares, and paragraphs.

import { bar, firstNumbers, stepParts } from '../common/computation.js';
import { element, folded, tokenParts } from '../common/dom.js';
import { withTerms } from '../common/glossary.js';
import { speaker } from '../common/strings.js';
import { scaleOf, strip } from '../common/strip.js';
import { tokenName } from '../common/text.js';
import { story } from '../strings/story.js';

const say = speaker(story);

/** Puts a table into a frame that scrolls, so that the page does not scroll sideways. */
export function scrolling(name, table) {
  return element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name }, table);
}

/**
 * Shows named vectors below each other: three numbers of each, and all of them as colours.
 * @param {Array<[string, number[]]>} vectors
 */
export function vectorRows(vectors) {
  const scale = scaleOf(vectors.map(([, vector]) => vector));
  const rows = vectors.map(([name, vector]) => {
    const numbers = firstNumbers(vector);
    numbers.append(element('small', { text: say('more', { count: vector.length }) }));
    return element('div', { class: 'vector' }, element('b', { text: name }), numbers, strip(vector, scale, name));
  });
  return element('div', { class: 'vectors' }, ...rows);
}

/** Shows some columns of the table of a token's computation. */
export const computation = (title, reply, columns) =>
  scrolling(title, element('table', {}, ...stepParts(reply, columns)));

/**
 * Shows a table with a row for each of several looks: a name, a token if any, and its share as a bar.
 * @param {string} title
 * @param {string[]} names Titles of the columns.
 * @param {Array<{name: string, token?: string, share: number}>} looks
 * @param {number} chosen Row that is emphasised; -1 for none.
 */
export function lookTable(title, names, looks, chosen = -1) {
  const rows = looks.map(({ name, token, share }, index) =>
    element(
      'tr',
      { class: index === chosen ? 'top' : null },
      element('th', { scope: 'row' }, ...tokenParts(tokenName(name))),
      ...(token === undefined ? [] : [element('td', {}, ...tokenParts(tokenName(token)))]),
      element('td', { class: 'share' }, bar(share)),
    ),
  );
  const heads = names.map((text) => element('th', { scope: 'col', text }));
  const blanks = looks[0].token === undefined ? [] : [element('td')];
  const head = element('thead', {}, element('tr', {}, ...heads, ...blanks));
  head.rows[0].lastElementChild?.classList.add('share');
  return scrolling(title, element('table', { class: 'looks' }, head, element('tbody', {}, ...rows)));
}

/** Shows paragraphs of text with their terms; empty ones are left out. */
export const paragraphs = (...texts) =>
  texts.filter(Boolean).map((text) => element('p', {}, ...withTerms(text)));

/** Shows the details of a step in a fold. */
export const more = (...texts) => folded(say('about'), ...paragraphs(...texts));
