// Offsets of the API count code points; strings here count UTF-16 units.

import { common } from '../strings/common.js';
import { pageLanguage, speaker } from './strings.js';

const say = speaker(common);

/** The decimal sign of each language. */
const POINTS = { en: '.', pt: ',' };

/**
 * Returns the index in UTF-16 units of every code point of a text, and of its end.
 * @param {string} text
 * @param {number[]} offsets Those of the text before it, which are extended.
 */
export function unitOffsets(text, offsets = [0]) {
  let last = offsets[offsets.length - 1];
  for (const character of text) offsets.push((last += character.length));
  return offsets;
}

/** Returns the part of a text from its first word to its last; spans count code points. */
export function cutOut(text, spans) {
  const offsets = unitOffsets(text);
  return text.slice(offsets[spans[0][0]], offsets[spans[spans.length - 1][1]]);
}

/** Formats a share as a percentage: 62 %, below 1 %. */
export function percent(share) {
  const value = share * 100;
  if (value > 0 && value < 1) return say('belowOne');
  return rounded(share, 0);
}

/** Writes a share as a percentage with some decimals; a share below 0 has a minus sign. */
export const rounded = (share, digits) => `${decimal(100 * share, digits)} %`;

/** Formats a number with a number of decimals and a real minus sign; a number near 0 has no sign. */
export function decimal(value, digits = 3) {
  return localized(value.toFixed(digits).replace(/^-(?=[0.]+$)/, ''));
}

/** Writes a number with the decimal sign of the page's language and a real minus sign. */
export function localized(number) {
  return String(number).replace('-', '\u2212').replace('.', POINTS[pageLanguage()]);
}

/** Returns a token for display; a token without text gets a name. */
export function tokenName(token) {
  if (token === '') return say('start');
  return token === '</s>' ? say('end') : token;
}

/** Splits a token into the mark that begins a word, if any, and the rest. */
export function splitMark(name) {
  return /^[▁Ġ]/.test(name) ? [name[0], name.slice(1)] : ['', name];
}

/** Returns a token without that mark, for use within a sentence. */
export function spoken(token) {
  const [mark, rest] = splitMark(tokenName(token));
  return rest || mark;
}

/** Joins a list for reading: "a, b and c". */
export function listed(words) {
  if (words.length < 2) return words.join('');
  return say('listed', { most: words.slice(0, -1).join(', '), last: words[words.length - 1] });
}
